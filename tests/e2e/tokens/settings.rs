//! The table `narrows_token_issuers`: its layers, and what is wrong with rows.

use std::time::Duration;

use super::Stand;

fn warnings(stand: &Stand, statements: &[&str]) -> String {
    let mut admin = stand.narrows.admin();
    for statement in statements {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
    format!("{:?}", admin.query("SHOW WARNINGS").text_rows())
}

#[test]
fn issuers_are_loaded_and_saved_with_the_accounts() {
    let mut stand = Stand::of("tok_layers");
    let count = |stand: &Stand, table: &str| {
        stand.narrows.admin().query(format!("SELECT COUNT(*) FROM {table}")).cell().expect("a number")
    };
    let counts = |stand: &Stand| {
        ["narrows_token_issuers", "runtime_narrows_token_issuers", "disk.narrows_token_issuers"]
            .map(|table| count(stand, table))
    };
    let token = stand.good("tok_layers");
    stand.log_in("tok_layers", &token).expect("a good token");
    warnings(&stand, &["DELETE FROM narrows_token_issuers", "LOAD MYSQL USER tok_layers TO RUNTIME"]);
    assert_eq!(counts(&stand), ["0", "1", "1"], "one account is no issuer");
    stand.log_in("tok_layers", &token).expect("a good token");
    let said = warnings(&stand, &["LOAD MYSQL USERS TO RUNTIME"]);
    assert!(said.contains("no active row of that name"), "{said}");
    assert_eq!(counts(&stand), ["0", "0", "1"]);
    assert_eq!(stand.refused("tok_layers", &token).code, 1045);
    warnings(&stand, &["LOAD MYSQL USERS FROM DISK", "LOAD MYSQL USERS TO RUNTIME"]);
    stand.log_in("tok_layers", &token).expect("a good token");
    warnings(
        &stand,
        &["DELETE FROM narrows_token_issuers", "SAVE MYSQL USERS FROM RUNTIME", "SAVE MYSQL USERS TO DISK"],
    );
    assert_eq!(counts(&stand), ["1", "1", "1"]);
    stand.narrows.process().stop(Duration::from_secs(10));
    stand.narrows.start_alone_again(env!("CARGO_BIN_EXE_narrows"));
    stand.log_in("tok_layers", &token).expect("the keys are fetched at the start");
}

#[test]
fn rows_and_attributes_that_cannot_be_used_say_so() {
    let stand = Stand::of("tok_rows");
    let insert = "INSERT INTO narrows_token_issuers (name, issuer, jwks, audience, attributes) VALUES ";
    for (row, why) in [
        ("('a', '', 'https://idp', 'n', '')", "issuer is empty"),
        ("('a', 'i', 'https://idp', '', '')", "audience is empty"),
        ("('a', 'i', 'idp', 'n', '')", "expected https://"),
        ("('a', 'i', 'http://idp.test/keys', 'n', '')", "is not encrypted"),
        ("('a', 'i', 'https://user:pass@idp', 'n', '')", "is no address"),
        ("('a', 'i', 'http://127.0.0.1:1/keys', 'n', '')", "without encryption, from this machine"),
        ("('a', 'i', 'https://idp', 'n', '{\"leeway_s\":100000}')", "from 0 to 600"),
        ("('a', 'i', 'https://idp', 'n', '{\"algorithms\":[\"HS256\"]}')", "expected a list of RS256"),
    ] {
        let said = warnings(
            &stand,
            &[
                "DELETE FROM narrows_token_issuers WHERE name = 'a'",
                &format!("{insert}{row}"),
                "LOAD MYSQL USERS TO RUNTIME",
            ],
        );
        assert!(said.contains(why), "{row}: {said}");
    }
    for (json, why) in [
        (r#"{"token":"idp"}"#, "expected an object with issuer"),
        (r#"{"token":{"issuer":"idp","claim":{}}}"#, "expected issuer, claims and until_expiry"),
        (r#"{"token":{"issuer":"idp","claims":{"groups":["a"]}}}"#, "expected an object of 1 to 20"),
        (r#"{"token":{"issuer":"other"}}"#, "no active row of that name"),
        (r#"{"token":{"issuer":"idp"},"token_only":"yes"}"#, "expected true or false"),
    ] {
        let update = format!("UPDATE mysql_users SET attributes = '{json}'");
        let said = warnings(&stand, &[&update, "LOAD MYSQL USERS TO RUNTIME"]);
        assert!(said.contains(why), "{json}: {said}");
        // In doubt, an account without a password lets nobody in.
        assert_eq!(stand.refused("tok_rows", "").code, 1045, "{json}");
    }
}

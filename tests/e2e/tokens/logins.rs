//! Who can log in with a token, over which connections, and what becomes of the others.

use std::time::Duration;

use narrows_testkit::{Login, RawClient, TokenKey, seconds_from_now, wait_until};

use super::{Stand, claims, configured, user_at};

const PLUGINS: [&str; 3] = ["mysql_native_password", "caching_sha2_password", "mysql_clear_password"];

#[test]
fn a_token_lets_a_client_in_over_tls_and_a_unix_socket_and_not_over_tcp() {
    let stand = Stand::of("tok_channels");
    let (tls, token) = (stand.tls(), stand.good("tok_channels"));
    for plugin in PLUGINS {
        let login = Login::new("tok_channels", &token).plugin(plugin);
        let mut client = RawClient::open_tls(&stand.narrows.endpoint(), &tls, &login);
        assert_eq!(user_at(&mut client), "tok_channels@%", "{plugin}");
        let mut client = RawClient::open(&stand.socket(), &login);
        assert_eq!(user_at(&mut client), "tok_channels@%", "{plugin}");
        let mut client = RawClient::connect(&stand.narrows.endpoint());
        let error = client.login(&login).expect_err("over TCP");
        assert_eq!(error.code, 1045, "{plugin}: {error:?}");
        assert!(error.message.contains("sent over TLS or a Unix socket only"), "{}", error.message);
        // Who does not exist gets the same error.
        let mut client = RawClient::connect(&stand.narrows.endpoint());
        let nobody = Login::new("tok_nobody", &token).plugin(plugin);
        let other = client.login(&nobody).expect_err("over TCP");
        assert_eq!(other.message, error.message.replace("tok_channels", "tok_nobody"));
        for shown in ["", "a password"] {
            let error = stand.refused("tok_channels", shown);
            assert_eq!(error.code, 1045, "{plugin} {shown:?}: {error:?}");
        }
    }
    assert_eq!(stand.issuer.requests(), 1);
}

#[test]
fn a_change_of_the_user_takes_a_token_too() {
    let stand = configured(("tok_change", ""), "", "", |config| config.user("tok_other", "secret", ""));
    super::account("tok_other", "secret");
    let mut client = stand.log_in("tok_other", "secret").expect("a password");
    for plugin in PLUGINS.iter().filter(|plugin| **plugin != "mysql_clear_password") {
        let to = Login::new("tok_change", &stand.good("tok_change")).plugin(plugin);
        client.change_user(&to).expect("a good token");
        assert_eq!(user_at(&mut client), "tok_change@%");
    }
    let bad = stand.key.token(&claims("tok_other", ""));
    let error = client.change_user(&Login::new("tok_change", &bad)).expect_err("a token of somebody else");
    assert_eq!(error.code, 1045);
}

#[test]
fn what_is_refused_has_its_reason_in_the_logs_and_its_token_nowhere() {
    let stand = configured(("tok_refused", ""), "", "", |config| {
        config.variable("auditlog_filename", "audit").environment("NARROWS_LOG", "trace")
    });
    let (user, rsa) = ("tok_refused", TokenKey::rsa("one"));
    let with = |more: &str| stand.key.token(&claims(user, more));
    let (past, future) = (seconds_from_now(-500), seconds_from_now(500));
    let long = "x".repeat(20_000);
    let bad = [
        (with(&format!(r#""exp":{past}"#)), "it has expired 50"),
        (with(&format!(r#""nbf":{future}"#)), "it is not yet valid, for another "),
        (with(r#""aud":"another""#), "wrong audience: "),
        (with(r#""iss":"https://another""#), "wrong issuer: "),
        (with(r#""sub":"root""#), "a claim does not match: "),
        (with(&format!(r#""long":"{long}""#)), "longer than 16384 bytes"),
        (TokenKey::p256("two").token(&claims(user, "")), "unknown key: "),
        (TokenKey::p256("one").token(&claims(user, "")), "the signature is not that of a key"),
        (rsa.token(&claims(user, "")), "the signature is not that of a key"),
        (rsa.confused(&claims(user, "")), r#"signed with "HS256""#),
        (format!("{}.", rsa.unsigned("none", &claims(user, ""))), r#"signed with "none""#),
        ("qX9-a-password".to_owned(), "it is no token: "),
    ];
    let errors = bad.iter().map(|(token, _)| stand.refused(user, token)).collect::<Vec<_>>();
    let log = stand.narrows.log();
    let audit = || std::fs::read_to_string(stand.narrows.folder().join("audit.00000001")).unwrap_or_default();
    wait_until("the audit log is written", || audit().matches("Connect_ERR").count() >= bad.len());
    for (number, ((token, reason), error)) in bad.iter().zip(&errors).enumerate() {
        assert_eq!(error.code, 1045, "{reason}");
        let more = match number {
            0 => ". The token has expired",
            1 => ". The token is not yet valid",
            _ => "",
        };
        let expected = format!("Access denied for user '{user}'@'localhost' (using password: YES){more}");
        assert_eq!(error.message, expected, "{reason}");
        assert!(audit().replace("\\\"", "\"").contains(reason), "{reason}: {}", audit());
        let signature = token.rsplit('.').next().unwrap_or_default();
        if signature.len() > 10 {
            assert!(!log.contains(signature) && !audit().contains(signature), "{reason}");
        }
    }
    assert!(log.contains("The token is refused: "), "{log}");
    assert!(!log.contains("qX9-a-password") && !audit().contains("qX9-a-password"));
    assert_eq!(stand.figure("refused"), "7", "those that are from this issuer, by what they say");
}

#[test]
fn wrong_tokens_lock_an_address_out_and_expired_ones_do_not() {
    let lockout = r#","failed_login_attempts":3"#;
    let stand = configured(("tok_locked", ""), lockout, "", |config| config);
    let old = stand.key.token(&claims("tok_locked", &format!(r#""exp":{}"#, seconds_from_now(-500))));
    (0..5).for_each(|_| assert_eq!(stand.refused("tok_locked", &old).code, 1045));
    stand.log_in("tok_locked", &stand.good("tok_locked")).expect("not locked out");
    let forged = TokenKey::p256("one").token(&claims("tok_locked", ""));
    (0..3).for_each(|_| assert_eq!(stand.refused("tok_locked", &forged).code, 1045));
    assert_eq!(stand.refused("tok_locked", &stand.good("tok_locked")).code, 3955);
    assert!(stand.narrows.log().contains("an address is locked out"));
}

#[test]
fn an_account_with_a_password_takes_both_unless_that_is_for_servers_only() {
    let stand = configured(("tok_both", "secret"), "", "", |config| config);
    for shown in ["secret", &stand.good("tok_both")] {
        let mut client = stand.log_in("tok_both", shown).expect("one of both");
        assert_eq!(user_at(&mut client), "tok_both@%");
    }
    let mut over_tcp = RawClient::connect(&stand.narrows.endpoint());
    over_tcp.login(&Login::new("tok_both", "secret")).expect("a password as ever");
    assert_eq!(stand.refused("tok_both", "other").code, 1045);
    assert_eq!(stand.refused("tok_both", "").code, 1045);
    let used = "SELECT clients_password FROM stats_narrows_passwords WHERE username = 'tok_both'";
    assert_eq!(stand.narrows.admin().query(used).cell().as_deref(), Some("2"), "tokens are no passwords");
    let stand = configured(("tok_only", "secret"), r#","token_only":true"#, "", |config| config);
    assert_eq!(stand.refused("tok_only", "secret").code, 1045);
    let mut client = stand.log_in("tok_only", &stand.good("tok_only")).expect("a token");
    assert_eq!(user_at(&mut client), "tok_only@%", "the server wants the password");
}

#[test]
fn a_session_ends_with_its_token_if_the_account_says_so() {
    let stand = Stand::of("tok_ends");
    let mut admin = stand.narrows.admin();
    let json = r#"{"token":{"issuer":"idp","claims":{"sub":"tok_ends"},"until_expiry":true}}"#;
    for statement in
        [format!("UPDATE mysql_users SET attributes = '{json}'"), "LOAD MYSQL USERS TO RUNTIME".into()]
    {
        assert_eq!(admin.query(statement).error(), None);
    }
    let short = stand.key.token(&claims("tok_ends", &format!(r#""exp":{}"#, seconds_from_now(2))));
    let mut client = stand.log_in("tok_ends", &short).expect("not yet");
    assert_eq!(user_at(&mut client), "tok_ends@%");
    let mut other = stand.log_in("tok_ends", &stand.good("tok_ends")).expect("for ten minutes");
    assert!(client.is_closed_within(Duration::from_secs(60)), "the session ends");
    assert_eq!(user_at(&mut other), "tok_ends@%");
}

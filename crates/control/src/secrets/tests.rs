//! References of all kinds, and what accounts become by them.

use std::fs;

use narrows_proxy::snapshot::UserRow;

use super::*;
use crate::config::tables::USERS;
use crate::variables::{Values, Variable};

fn user(username: &str, password: &str, attributes: &str) -> UserRow {
    UserRow {
        username: username.to_owned(),
        password: password.to_owned(),
        attributes: attributes.into(),
        active: true,
        ..(USERS.blank)()
    }
}

fn found(reference: &str) -> Result<String, String> {
    read(reference).map(|value| value.to_string())
}

#[test]
fn passwords_of_every_kind_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    for (content, value) in [("one", "one"), ("one\n", "one"), ("one\r\n", "one"), (" a b \n\n", " a b \n")] {
        fs::write(&path, content).unwrap();
        assert_eq!(found(&format!("file:{}", path.display())).unwrap(), value, "{content:?}");
    }
    assert_eq!(found("env:PATH").unwrap(), std::env::var("PATH").unwrap());
    assert_eq!(found("exec:/bin/echo a  b").unwrap(), "a b");
    assert_eq!(found("exec:/bin/echo $(id)").unwrap(), "$(id)", "there is no shell");
}

#[test]
fn what_cannot_be_looked_up_says_why_and_shows_no_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let file = format!("file:{}", path.display());
    assert!(found(&file).unwrap_err().ends_with("password is not there"));
    let of_content = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        found(&file).unwrap_err()
    };
    assert!(of_content(b"\n").ends_with("is empty"));
    assert!(of_content(b"s3cret\xFF").ends_with("has something else than UTF-8"));
    assert!(of_content(&[b'x'; MOST_BYTES + 1]).ends_with("has more than 8192 bytes"));
    for (reference, why) in [
        ("env:NARROWS_NO_SUCH", "the environment variable NARROWS_NO_SUCH is not set"),
        ("file:/", "the file / is no file"),
        ("exec:/bin/false s3cret", "the program /bin/false has failed: exit status 1"),
        ("exec:/no/such s3cret", "the program /no/such is not there"),
        ("exec:/usr/bin/yes s3cret", "the program /usr/bin/yes has written more than 8192 bytes"),
        ("exec:/bin/true", "the program /bin/true has written nothing"),
    ] {
        assert_eq!(found(reference).unwrap_err(), why);
    }
    for text in ["env:", "env:A=s3cret", "file:s3cret", "exec:s3cret"] {
        let why = found(text).unwrap_err();
        assert!(why.contains("write plain: before") && !why.contains("s3cret"), "{why}");
    }
}

#[test]
fn programs_run_side_by_side_and_are_ended_at_their_limit() {
    let texts: Vec<String> =
        (0..MOST_TESTED).map(|number| format!("exec:/bin/sleep {}", 600 + number)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let results = read::all(&texts);
    assert!(results.iter().all(|it| it.as_ref().is_err_and(|why| why.ends_with("has not ended within 5 s"))));
}

const MOST_TESTED: usize = 4;

#[test]
fn a_text_is_its_own_value_and_plain_allows_any() {
    let secrets = Secrets::default();
    for (text, value) in [
        ("", Some("")),
        ("secret", Some("secret")),
        ("environment:x", Some("environment:x")),
        ("plain:env:x", Some("env:x")),
        ("plain:plain:x", Some("plain:x")),
        ("env:x", None),
        ("file:x", None),
    ] {
        assert_eq!(secrets.value(text), value, "{text}");
    }
}

#[test]
fn accounts_get_their_passwords_and_those_without_are_not_active() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    fs::write(&path, "quote\" and \\").unwrap();
    let file = format!("file:{}", path.display());
    let attributes = |text: &str| format!("{{\"additional_password\":\"{text}\",\"spiffe_id\":\"a:b\"}}");
    let users = vec![
        user("a", "clear", &attributes(&file)),
        user("b", &file, &attributes("env:NARROWS_NO_SUCH")),
        user("c", "env:NARROWS_NO_SUCH", ""),
        user("d", "plain:file:/x", "no JSON"),
    ];
    let mut secrets = Secrets::default();
    let faults = secrets.fetch(&in_users(&users));
    assert_eq!(
        faults,
        [
            "mysql_users username='b': additional_password: the environment variable NARROWS_NO_SUCH is not set",
            "mysql_users username='c': password: the environment variable NARROWS_NO_SUCH is not set",
        ]
    );
    let mut rows = Rows { users, ..Rows::default() };
    rows.variables.auth_query_password = "plain:file:/x".to_owned();
    secrets.resolve(&mut rows);
    assert_eq!(rows.variables.auth_query_password, "file:/x");
    let users = rows.users;
    let shown: Vec<(&str, bool)> = users.iter().map(|user| (user.password.as_str(), user.active)).collect();
    assert_eq!(shown, [("clear", true), ("quote\" and \\", true), ("", false), ("file:/x", true)]);
    assert_eq!(users[0].attributes.get("additional_password").unwrap(), "quote\" and \\");
    assert_eq!(users[1].attributes.text(), r#"{"spiffe_id":"a:b"}"#);
    assert_eq!(users[3].attributes.text(), "no JSON");
}

#[test]
fn variables_with_passwords_are_found_by_their_form() {
    let mut values = Values::default();
    let variable = Variable::named("admin-admin_credentials").unwrap();
    values.put(variable, crate::variables::Value::Text("a:file:/x;b:c".to_owned()));
    let of_admin: Vec<String> = in_variables(&values, "admin-")
        .into_iter()
        .map(|place| format!("{} {}", place.name, place.text))
        .collect();
    assert!(of_admin.contains(&"admin-admin_credentials of 'a' file:/x".to_owned()), "{of_admin:?}");
    assert!(of_admin.contains(&"admin-admin_credentials of 'b' c".to_owned()), "{of_admin:?}");
    let of_mysql = in_variables(&values, "mysql-");
    assert!(of_mysql.iter().any(|place| place.name == "mysql-monitor_password"));
    assert!(of_mysql.iter().any(|place| place.name == "mysql-switchover_replication_password"));
}

#[test]
fn every_variable_with_a_password_in_its_name_has_the_form_of_one() {
    for variable in crate::variables::VARIABLES.iter() {
        let name = variable.name;
        let looks_so = ["password", "credentials", "passphrase"].iter().any(|word| name.ends_with(word));
        let is_text = matches!(variable.kind, crate::variables::Kind::Text { .. });
        assert!(!(looks_so && is_text) || variable.is_secret(), "{name}");
    }
}

#[test]
fn a_program_is_looked_at_and_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let of = |text: String| obstacle(&SecretPlace { name: String::new(), text });
    assert_eq!(of(format!("exec:/usr/bin/touch {}", trace.display())), None);
    assert!(!trace.exists());
    assert_eq!(
        of("exec:/no/such".to_owned()).unwrap(),
        "the program /no/such cannot be run: it is not there"
    );
    assert_eq!(of("env:NO_SUCH".to_owned()).unwrap(), "the environment variable NO_SUCH is not set");
    assert_eq!(of("secret".to_owned()), None);
}

#[test]
fn tokens_take_the_place_of_two_passwords_and_of_no_other() {
    let place = |name: &str, text: &str| SecretPlace { name: name.to_owned(), text: text.to_owned() };
    let faults = |name: &str, text: &str| Secrets::default().fetch(&[place(name, text)]);
    for name in ["mysql-monitor_password", "mysql-auth_query_password"] {
        for (text, region) in [("aws-iam:", None), ("aws-iam:eu-west-1", Some("eu-west-1".to_owned()))] {
            assert_eq!(faults(name, text), Vec::<String>::new());
            assert_eq!(obstacle(&place(name, text)), None);
            assert_eq!(tokens(text).unwrap().region, region);
        }
        assert!(faults(name, "aws-iam:EU")[0].contains("names no region of AWS; write plain: before"));
        assert_eq!(tokens("plain:aws-iam:"), None);
    }
    for name in
        ["mysql-switchover_replication_password", "fleet.password", "mysql_users username='a': password"]
    {
        let why = faults(name, "aws-iam:").remove(0);
        assert!(why.starts_with(&format!("{name}: aws-iam: is for mysql-monitor_password and")), "{why}");
        assert!(obstacle(&place(name, "aws-iam:")).is_some());
    }
    let mut rows = Rows::default();
    rows.variables.auth_query_password = "aws-iam:eu-west-1".to_owned();
    Secrets::default().resolve(&mut rows);
    assert_eq!(rows.variables.auth_query_password, "");
    assert_eq!(rows.auth_query_tokens.unwrap().region.as_deref(), Some("eu-west-1"));
}

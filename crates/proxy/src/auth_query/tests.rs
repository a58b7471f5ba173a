//! What rows say about accounts.

use super::*;
use crate::rows::user;
use crate::snapshot::{Rows, Snapshot};

fn template() -> Arc<Account> {
    let rows = Rows { users: vec![user("template", "")], ..Rows::default() };
    Arc::clone(&Snapshot::compile(rows, 1, None).unwrap().users[&b"template"[..]])
}

/// Puts rows of columns and values.
fn put(found: &QueriedAccounts, rows: &[&[(&str, &str)]]) {
    let cell = |row: &[(&str, &str)]| {
        let row: Vec<(String, String)> =
            row.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        move |column: &str| row.iter().find(|(name, _)| name == column).map(|(_, value)| value.clone())
    };
    let cells: Vec<_> = rows.iter().map(|row| cell(row)).collect();
    let cells: Vec<&Cell<'_>> = cells.iter().map(|cell| cell as &Cell<'_>).collect();
    found.put("app", &template(), &cells);
}

fn shown(found: &QueriedAccounts, client: &str) -> String {
    match found.known("app", client) {
        Some((Queried::Account(account, hindrance), _)) => {
            let form = account.credentials[0].stored().form();
            format!("{form:?} {} {hindrance:?}", account.row.default_hostgroup)
        }
        Some((Queried::Plugin(plugin), _)) => plugin.to_string(),
        Some((Queried::Unreadable(why), _)) => why.to_string(),
        Some((Queried::Elsewhere, _)) => "elsewhere".to_owned(),
        Some((Queried::Nobody, _)) => "nobody".to_owned(),
        None => "unknown".to_owned(),
    }
}

const NATIVE: &str = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
const SHA2: &str = "$A$005$narrowsnarrowsnarrowHnFFdbbRY7cNOXHEUEDfTIxhepdyvocc5jnQAKLTUr2";
const KEY: &str = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";

#[test]
fn each_plugin_has_its_form() {
    let found = QueriedAccounts::default();
    for (plugin, text, expected) in [
        ("mysql_native_password", NATIVE, "Native 0 None"),
        ("", NATIVE, "Native 0 None"),
        ("caching_sha2_password", SHA2, "CachingSha2 { rounds: 5000 } 0 None"),
        ("ed25519", KEY, "Ed25519 0 None"),
        ("caching_sha2_password", "", "Clear 0 None"),
        ("mysql_native_password", "in clear text", "mysql_native_password"),
        ("auth_socket", "", "auth_socket"),
        ("sha256_password", "$5$x", "sha256_password"),
    ] {
        put(&found, &[&[("plugin", plugin), ("authentication_string", text)]]);
        assert_eq!(shown(&found, "10.0.0.1"), expected, "{plugin} {text}");
    }
    assert_eq!(found.forms().len(), 4, "unknown names imitate each");
}

#[test]
fn columns_set_hosts_settings_and_what_is_against_an_account() {
    let found = QueriedAccounts::default();
    assert_eq!(shown(&found, "10.0.0.1"), "unknown");
    put(
        &found,
        &[
            &[("host", "%"), ("password", NATIVE), ("account_locked", "Y")],
            &[
                ("host", "10.0.0.%"),
                ("password", NATIVE),
                ("default_hostgroup", "7"),
                ("account_locked", "N"),
            ],
            &[("host", "10.0.0.9"), ("password", NATIVE), ("password_expired", "1")],
        ],
    );
    assert_eq!(shown(&found, "192.168.0.1"), "Native 0 Some(Locked)");
    assert_eq!(shown(&found, "10.0.0.1"), "Native 7 None");
    assert_eq!(shown(&found, "10.0.0.9"), "Native 0 Some(Expired)");
    put(&found, &[&[("host", "10.0.0.%"), ("password", NATIVE)]]);
    assert_eq!(shown(&found, "192.168.0.1"), "elsewhere");
    put(&found, &[]);
    assert_eq!((shown(&found, "10.0.0.1"), found.list().len()), ("nobody".to_owned(), 0));
}

#[test]
fn a_row_that_cannot_be_read_lets_nobody_in() {
    let found = QueriedAccounts::default();
    for (column, value, expected) in [
        ("account_locked", "maybe", "its account_locked cannot be read: 'maybe'"),
        ("account_locked", "2", "its account_locked cannot be read: '2'"),
        ("password_expired", "", "Native 0 None"),
        ("default_hostgroup", "-1", "its default_hostgroup cannot be read: '-1'"),
        ("max_connections", "many", "its max_connections cannot be read: 'many'"),
        ("attributes", "", "Native 0 None"),
        ("attributes", "{\"networks\":[\"10.0.0.0/8\"]}", "Native 0 None"),
    ] {
        put(&found, &[&[("password", NATIVE), (column, value)]]);
        assert_eq!(shown(&found, "10.0.0.1"), expected, "{column} {value}");
    }
    for attributes in ["{", "[]", "{\"networks\":[\"10.0.0.0/99\"]}"] {
        put(&found, &[&[("password", NATIVE), ("attributes", attributes)]]);
        assert!(shown(&found, "10.0.0.1").starts_with("its attributes"), "{attributes}");
    }
    put(&found, &[&[("plugin", "caching_sha2_password")]]);
    assert_eq!(shown(&found, "10.0.0.1"), "its authentication_string is NULL");
    put(&found, &[&[("host", ""), ("password", ""), ("plugin", "")]]);
    assert_eq!(shown(&found, "10.0.0.1"), "it has neither a host nor a password, as a role");
}

#[test]
fn what_is_known_of_a_password_stays_while_it_is_the_same() {
    let found = QueriedAccounts::default();
    let credentials = || match found.known("app", "a") {
        Some((Queried::Account(account, _), _)) => Arc::clone(&account.credentials),
        other => panic!("{other:?}"),
    };
    let row = |text| [("plugin", "caching_sha2_password"), ("authentication_string", text)];
    put(&found, &[&row(SHA2)]);
    let first = credentials();
    put(&found, &[&row(SHA2)]);
    assert!(Arc::ptr_eq(&first, &credentials()));
    put(&found, &[&row(&SHA2.replace("Hn", "Nh"))]);
    assert!(!Arc::ptr_eq(&first, &credentials()));
}

#[test]
fn after_a_wrong_password_it_is_asked_again_once_a_second() {
    let found = QueriedAccounts::default();
    let before = Instant::now();
    put(&found, &[&[("password", NATIVE)]]);
    assert!(!found.may_ask_again("app", before), "it was asked since");
    let began = Instant::now();
    assert!(found.may_ask_again("app", began));
    put(&found, &[&[("password", NATIVE)]]);
    assert!(!found.may_ask_again("app", Instant::now()));
}

#[test]
fn attributes_are_those_of_an_account() {
    let found = QueriedAccounts::default();
    let account = || match found.known("app", "a") {
        Some((Queried::Account(account, _), _)) => account,
        other => panic!("{other:?}"),
    };
    let attributes = r#"{"transaction_replay":true,"causal_reads":"session","max_connection_age_s":7,"additional_password":"two"}"#;
    put(&found, &[&[("password", NATIVE), ("attributes", attributes)]]);
    let first = account();
    assert_eq!(first.transaction_replay, Some(true));
    assert!(first.causal_reads.is_some());
    assert_eq!(first.login.max_age, Some(Duration::from_secs(7)));
    assert_eq!(first.credentials.len(), 2);
    put(&found, &[&[("password", NATIVE), ("attributes", attributes)]]);
    assert!(Arc::ptr_eq(&first.credentials, &account().credentials), "they are the same passwords");
    put(&found, &[&[("password", NATIVE)]]);
    assert_eq!(account().credentials.len(), 1);
}

#[test]
fn attributes_are_news_once() {
    let found = QueriedAccounts::default();
    let news = |attributes: &str| {
        let row = [("password", NATIVE), ("attributes", attributes)];
        let cell =
            |column: &str| row.iter().find(|(name, _)| *name == column).map(|(_, text)| (*text).to_owned());
        found.put("app", &template(), &[&cell as &Cell<'_>]).len()
    };
    assert_eq!([news("{}"), news("{}"), news(r#"{"a":1}"#), news(r#"{"a":1}"#), news("{}")], [1, 0, 1, 0, 1]);
}

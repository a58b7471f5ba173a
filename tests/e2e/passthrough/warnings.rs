//! Settings with which nobody can log in, or that nothing reads.

use narrows_testkit::NarrowsConfig;

use crate::support::start;

#[test]
fn settings_without_effect_are_warned_of() {
    let narrows = start(&NarrowsConfig::new().server(0, 1, "").user("app", "app", ""));
    let mut admin = narrows.admin();
    let on = "SET mysql-passthrough_auth_enabled = 'true'";
    let open = "SET mysql-passthrough_auth_unknown_users = 'true'";
    let statement = "SET mysql-auth_query = 'SELECT 1 FROM t WHERE a = ?'";
    let service = "SET mysql-auth_query_username = 'x'";
    for (changes, expected) in [
        (
            &[open][..],
            Some(
                "mysql-passthrough_auth_unknown_users has no effect: mysql-passthrough_auth_enabled is false",
            ),
        ),
        (
            &["SET mysql-passthrough_auth_username_pattern = 'a'"],
            Some("mysql-passthrough_auth_username_pattern has no effect"),
        ),
        (&["SET mysql-passthrough_default_hg = 1"], Some("mysql-passthrough_default_hg has no effect")),
        (
            &[on],
            Some(
                "mysql-passthrough_auth_enabled has no effect: no account of mysql_users has an empty password",
            ),
        ),
        (&[on, open], None),
        (
            &[on, open, "SET mysql-passthrough_default_hg = 1"],
            Some("mysql-passthrough_default_hg has no effect: its hostgroup"),
        ),
        (&[statement], Some("mysql-auth_query has no effect: mysql-auth_query_username is empty")),
        (&[service], Some("mysql-auth_query_username has no effect: mysql-auth_query is empty")),
        (
            &[service, "SET mysql-auth_query = 'SELECT 1'"],
            Some("mysql-auth_query has no effect: it has not exactly one `?`"),
        ),
        (
            &[service, statement, "SET mysql-auth_query_hostgroup = 9"],
            Some("mysql-auth_query has no effect: the hostgroup"),
        ),
        (&[service, statement], None),
    ] {
        for change in changes {
            assert!(admin.query(change).error().is_none(), "{change}");
        }
        let loaded = admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
        assert!(loaded.error().is_none(), "{changes:?}");
        let found = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
        match expected {
            Some(expected) => assert!(found.contains(expected), "{changes:?}: {found}"),
            None => assert_eq!(found, "[]", "{changes:?}"),
        }
        for name in ["passthrough_auth_enabled", "passthrough_auth_unknown_users"] {
            admin.query(format!("SET mysql-{name} = 'false'"));
        }
        for name in ["passthrough_auth_username_pattern", "auth_query", "auth_query_username"] {
            admin.query(format!("SET mysql-{name} = ''"));
        }
        for name in ["passthrough_default_hg", "auth_query_hostgroup"] {
            admin.query(format!("SET mysql-{name} = 0"));
        }
    }
    admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
    admin.query("UPDATE mysql_users SET attributes = '{\"usernames_like\":\"a%\"}'");
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let found = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    assert!(found.contains("attributes `usernames_like` has no effect"), "{found}");
    assert!(found.contains("password has no effect: the row is the template"), "{found}");
}

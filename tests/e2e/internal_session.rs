//! `PROXYSQL INTERNAL SESSION`, which ProxySQL's test suites and support staff read.

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RawClient, RealServer};
use serde_json::Value;

fn start(server: &RealServer) -> Narrows {
    crate::support::start(&NarrowsConfig::in_front_of(server.port()))
}

fn session(client: &mut RawClient) -> Value {
    let text = client.query("proxysql internal SESSION").cell().expect("a text");
    assert!(text.starts_with("{\n    \"active_transactions\": "), "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn has_the_keys_of_proxysql() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(server);
    let mut client = narrows.client();
    let of_session = [
        "active_transactions",
        "address",
        "age_ms",
        "autocommit",
        "autocommit_on_hostgroup",
        "client",
        "conn",
        "current_hostgroup",
        "default_hostgroup",
        "default_schema",
        "gtid",
        "last_HG_affected_rows",
        "last_insert_id",
        "locked_on_hostgroup",
        "qpo",
        "status",
        "thread",
        "thread_session_id",
        "transaction_persistent",
        "transaction_time_ms",
        "user_attributes",
        "warning_in_hg",
    ];
    let fresh = session(&mut client);
    assert_eq!(keys(&fresh), of_session, "no backend has been used");
    assert_eq!(
        keys(&fresh["client"]),
        [
            "DSS",
            "client_addr",
            "encrypted",
            "prot",
            "proxy_addr",
            "stream",
            "switching_auth_sent",
            "switching_auth_type",
            "userinfo"
        ]
    );
    for key in [
        "autocommit",
        "character_set_client",
        "client_flag",
        "collation_connection",
        "no_backslash_escapes",
        "ps",
        "status",
    ] {
        assert!(!fresh["conn"][key].is_null(), "conn.{key}");
    }
    assert_eq!(fresh["client"]["userinfo"]["username"], "sbtest");
    assert_eq!(
        fresh["thread_session_id"].to_string(),
        client.query("SELECT CONNECTION_ID()").cell().expect("an id")
    );
    assert_eq!(fresh["qpo"]["destination_hostgroup"], -1);
    assert_eq!(client.query("PROXYSQL INTERNAL FOO").error().expect("refused").code, 1064);
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn shows_the_backend_connection_that_a_session_is_tied_to() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(server);
    let mut client = narrows.client();
    client.query("SET SESSION sort_buffer_size = 300000");
    client.query("SELECT 1");
    let free = session(&mut client);
    assert_eq!(free["backends"][0]["hostgroup_id"], 0);
    assert!(free["backends"][0]["conn"].is_null(), "the connection was given back");
    assert_eq!(free["conn"]["sort_buffer_size"], "300000");

    client.query("BEGIN");
    let thread = client.query("SELECT @@pseudo_thread_id").cell().expect("a number");
    let in_transaction = session(&mut client);
    let conn = &in_transaction["backends"][0]["conn"];
    assert_eq!(in_transaction["active_transactions"], 1);
    assert_eq!((&conn["MultiplexDisabled"], &conn["MultiplexDisabled_ext"]), (&false.into(), &true.into()));
    assert_eq!(conn["mysql"]["thread_id"].to_string(), thread);
    assert_eq!(conn["mysql"]["port"], server.port());
    client.query("COMMIT");
    assert!(session(&mut client)["backends"][0]["conn"].is_null());

    client.query("CREATE TEMPORARY TABLE sbtest.internal_session (id INT)");
    client.query("SELECT GET_LOCK('internal_session', 1)");
    let tied = session(&mut client);
    let conn = &tied["backends"][0]["conn"];
    assert_eq!(conn["MultiplexDisabled"], true);
    for (key, wanted) in
        [("temporary_table", true), ("get_lock", true), ("lock_tables", false), ("prepared_statement", false)]
    {
        assert_eq!(conn["status"][key], wanted, "{key}");
    }
    assert_eq!(conn["sort_buffer_size"], "300000");
}

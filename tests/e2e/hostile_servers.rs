//! Compromised servers: what they send to Narrows must not become what Narrows sends to others.

use narrows_testkit::{Conversation, FakeMysql, Login, Move, NarrowsConfig, RawClient, capability, writer};

use crate::support::start;

/// Invalid names and values of session variables that a server may report.
const REPORTS: &[(&str, &str)] = &[
    ("sql_mode='', @@global.general_log", "1"),
    ("global.general_log", "1"),
    ("@@global.general_log", "1"),
    ("x`, @@global.general_log", "1"),
    ("x/*", "*/, @@global.general_log=1"),
    ("character_set_results", "latin1, @@global.general_log=1"),
    ("character_set_results", "latin1 COLLATE x, @@global.general_log=1"),
    ("collation_connection", "latin1_bin', @@global.general_log=1, @x='"),
    ("collation_connection", "x 'a', @@global.general_log=1, @y = _latin1"),
    ("default_collation_for_utf8mb4", "x, @@global.general_log=1"),
    ("sql_mode", "\\', @@global.general_log=1 -- "),
    ("sql_mode", "', @@global.general_log=1 -- "),
    ("max_error_count", "1, @@global.general_log=1"),
];

#[test]
fn a_report_of_one_server_is_no_statement_for_another() {
    for (name, value) in REPORTS {
        let report = [writer::lenenc_bytes(name.as_bytes()), writer::lenenc_bytes(value.as_bytes())].concat();
        let changes = [&[0][..], &writer::lenenc_bytes(&report)].concat();
        // OK: no rows, no id, autocommit and SERVER_SESSION_STATE_CHANGED, no warnings, no text, what has changed.
        let ok = [&[0, 0, 0, 2, 0x40, 0, 0, 0][..], &writer::lenenc_bytes(&changes)].concat();
        let taken_over = FakeMysql::start(
            Conversation::new()
                .offering(capability::SESSION_TRACK)
                .on("SELECT 'report'", &[Move::Reply(vec![ok])]),
        );
        let other = FakeMysql::start(Conversation::new().offering(capability::SESSION_TRACK));
        let config = NarrowsConfig::new()
            .server(0, taken_over.port(), "")
            .server(1, other.port(), "")
            .rule(r#"rule_id=1 active=1 match_digest="other" destination_hostgroup=1 apply=1"#)
            .user("sbtest", "sbtest", "");
        let narrows = start(&config);
        let login = Login::new("sbtest", "sbtest");
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        client.query("SELECT 'report'");
        client.query("SET @a = 'text'");
        client.query("SELECT @a AS other");
        RawClient::open(&narrows.endpoint(), &login).query("SELECT 1 AS other");
        assert!(!other.received().is_empty(), "{name}: {value}");
        for received in taken_over.received().into_iter().chain(other.received()) {
            let bare = without_literals(&received.body);
            assert!(!bare.contains("general_log"), "{name}: {value}: {received:?}");
        }
    }
}

/// A statement without what is between single quotes.
fn without_literals(text: &str) -> String {
    text.split('\'').step_by(2).collect()
}

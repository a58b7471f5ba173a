//! Several pairs of hostgroups: what is not known of one is not taken for known because another was asked.

use narrows_testkit::{FakeMysql, Move};

use super::scripted::{READ, WRITE, uuid, write_without_gtid};
use super::{run, split, value};
use crate::support::start;

/// For the second pair.
const OTHER_READ: &str = "SELECT 'who of the others'";
const OTHER_WRITE: &str = "INSERT INTO u VALUES (1)";

/// A server that gives its writes no GTIDs that it reports.
fn server(name: &str) -> FakeMysql {
    let wrote = Move::Reply(vec![narrows_testkit::writer::ok(1, 0, 2, 0)]);
    let conversation = write_without_gtid(name, Some(&uuid("1-5")));
    FakeMysql::start(conversation.on(OTHER_WRITE, &[wrote]).on(OTHER_READ, &[Move::rows("who", &[name])]))
}

#[test]
fn a_writer_that_was_asked_says_nothing_about_another_one() {
    let servers = ["writer", "reader", "other writer", "other reader"].map(server);
    let mut config = split().user("sbtest", "sbtest", "").variable("causal_reads", "session");
    config = config.row("mysql_replication_hostgroups", "writer_hostgroup=10 reader_hostgroup=11");
    // Before the rule for all reads, which has the id 5.
    for (text, columns) in [
        (OTHER_READ, "rule_id=1 destination_hostgroup=11 apply=1"),
        (OTHER_WRITE, "rule_id=3 destination_hostgroup=10 apply=1"),
    ] {
        let pattern = text.replace(['(', ')'], ".");
        config = config.rule(&format!("match_pattern=\"^{pattern}\" {columns}"));
    }
    for (server, hostgroup) in servers.iter().zip([0, 1, 10, 11]) {
        config = config.server(hostgroup, server.port(), "");
    }
    let narrows = start(&config);
    let mut session = narrows.client();
    run(&mut session, WRITE);
    run(&mut session, OTHER_WRITE);
    assert_eq!(value(&mut session, READ), "writer");
    assert_eq!(value(&mut session, OTHER_READ), "other writer");
}

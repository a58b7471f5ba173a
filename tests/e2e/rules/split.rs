//! `mysql-auto_read_write_split`: where statements go with no rules at all.

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, NarrowsConfig, RawClient, ServerOptions,
};

use super::{Pair, heard, start};

fn split(pair: &Pair) -> NarrowsConfig {
    pair.config()
        .variable("auto_read_write_split", "true")
        .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
}

#[test]
fn reads_go_to_replicas_and_everything_else_to_the_writer() {
    let pair = Pair::start();
    let narrows = start(&split(&pair).variable("auto_read_write_split_functions", "harmless"));
    let mut client = narrows.client();
    let reads = ["SELECT who", "SELECT a FROM t WHERE id = 5", "SELECT harmless(1)", "SELECT 'FOR UPDATE'"];
    let writes = [
        "INSERT INTO t VALUES (1)",
        "SELECT a FROM t FOR UPDATE",
        "SELECT stored(1)",
        "SELECT @x := 1",
        "SELECT @@server_id",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT 'a\\'b'; DELETE FROM t",
    ];

    for statement in reads.iter().chain(&writes) {
        let error = client.query(statement).error();
        assert_eq!(error, None, "{statement}");
    }

    assert_eq!(heard(&pair.reader, &reads), reads);
    assert_eq!(heard(&pair.writer, &writes).len(), writes.len());
    assert!(heard(&pair.reader, &writes).is_empty());
}

#[test]
fn a_transaction_stays_where_it_may_write() {
    let server = ServerOptions::new(Flavour::MariaDb).account("sbtest", "sbtest").start();
    let replica = FakeMysql::start(Conversation::new().on("SELECT 1", &[Move::rows("who", &["replica"])]));
    let config = NarrowsConfig::in_front_of(server.port())
        .server(1, replica.port(), "")
        .variable("auto_read_write_split", "true")
        .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    let who = |client: &mut RawClient| client.query("SELECT 1").cell().expect("a row");

    assert_eq!(who(&mut client), "replica");
    client.query("BEGIN");
    assert_eq!(who(&mut client), "1");
    client.query("COMMIT");
    assert_eq!(who(&mut client), "replica");
    client.query("SET autocommit=0");
    assert_eq!(who(&mut client), "1");
    client.query("COMMIT");
    client.query("SET autocommit=1");
    assert_eq!(who(&mut client), "replica");
    client.query("SET sql_mode='NO_BACKSLASH_ESCAPES'");
    client.query("SELECT 'a\\'");
    assert!(heard(&replica, &["SELECT 'a\\'"]).is_empty(), "the string ends elsewhere");
}

#[test]
fn a_read_that_a_replica_refuses_runs_on_the_writer() {
    let read = "SELECT a FROM t";
    let pair = Pair::start();
    for code in [1290, 1836] {
        pair.reader.say(Conversation::new().on(read, &[Move::error(code, "HY000", "read only")]));
        pair.writer.say(Conversation::new().on(read, &[Move::rows("a", &["from the writer"])]));
        let narrows = start(&split(&pair));
        let mut client = narrows.client();

        assert_eq!(client.query(read).cell().as_deref(), Some("from the writer"), "{code}");
        assert_eq!(client.query(read).cell().as_deref(), Some("from the writer"), "{code}");
    }
    pair.reader.say(Conversation::new().on(read, &[Move::error(1146, "42S02", "no such table")]));
    let narrows = start(&split(&pair));
    assert_eq!(narrows.client().query(read).error().expect("the replica's own").code, 1146);
}

#[test]
fn accounts_go_before_the_variable_and_rules_before_both() {
    let pair = Pair::start();
    let config = split(&pair)
        .user("whole", "x", "attributes=\"{\\\"auto_read_write_split\\\":false}\"")
        .user("ruled", "x", "")
        .rule("rule_id=1 username=\"ruled\" destination_hostgroup=0 apply=1");
    let narrows = start(&config);
    let who = |user: &str, password: &str| {
        RawClient::open(&narrows.endpoint(), &Login::new(user, password)).query("SELECT who").cell()
    };
    assert_eq!(who("sbtest", "sbtest").as_deref(), Some("reader"));
    assert_eq!(who("whole", "x").as_deref(), Some("writer"));
    assert_eq!(who("ruled", "x").as_deref(), Some("writer"));

    let config = pair.config().user(
        "split",
        "x",
        "attributes=\"{\\\"auto_read_write_split\\\":true,\\\"reader_hostgroup\\\":1}\"",
    );
    let narrows = start(&config);
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("split", "x"));
    assert_eq!(client.query("SELECT who").cell().as_deref(), Some("reader"));
}

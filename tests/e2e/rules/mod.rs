//! What query rules, annotations and the firewall do to a statement, as seen by the client and the servers.

mod dry_run;
mod split;

use std::time::{Duration, Instant};

use crate::prepared::Statement;
use crate::support::start;
use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, NarrowsConfig, RawClient, RealServer, ServerOptions,
    TempFolder, command, wait_until,
};

/// Two servers that answer `SELECT who` with their name, in hostgroups 0 and 1.
struct Pair {
    writer: FakeMysql,
    reader: FakeMysql,
}

impl Pair {
    fn start() -> Pair {
        let named =
            |name| FakeMysql::start(Conversation::new().on("SELECT who", &[Move::rows("who", &[name])]));
        Pair { writer: named("writer"), reader: named("reader") }
    }

    fn config(&self) -> NarrowsConfig {
        NarrowsConfig::in_front_of(self.writer.port())
            .server(1, self.reader.port(), "")
            .variable("connect_timeout_server_max", "2000")
    }
}

/// The statements that reached a server, without those of Narrows itself.
fn heard(server: &FakeMysql, among: &[&str]) -> Vec<String> {
    let received = server.received().into_iter().map(|received| received.body);
    received.filter(|body| among.contains(&body.as_str())).collect()
}

#[test]
fn rules_answer_refuse_and_route() {
    let pair = Pair::start();
    let config = pair
        .config()
        .rule("rule_id=1 match_pattern=\"BLOCKME\" error_msg=\"this is blocked\" apply=1")
        .rule("rule_id=2 match_pattern=\"OKME\" OK_msg=\"all fine\" apply=1")
        .rule("rule_id=3 match_digest=\"^SELECT who\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();

    let refused = client.query("SELECT 'blockme'").error().expect("refused");
    assert_eq!((refused.code, refused.message.as_str()), (1148, "this is blocked"));
    let ok = client.query("SELECT 'OKME'").ok().expect("answered");
    assert!(ok.rest.ends_with(b"all fine"), "{ok:?}");
    assert_eq!(client.query("SELECT who").cell().as_deref(), Some("reader"));
    assert!(heard(&pair.writer, &["SELECT 'blockme'", "SELECT 'OKME'"]).is_empty());
}

#[test]
fn statements_are_rewritten_before_they_are_sent() {
    let pair = Pair::start();
    let config = pair
        .config()
        .rule("rule_id=1 match_pattern=\"^SELECT (.*) FROM old_(\\w+)\" replace_pattern=\"SELECT \\\\1 FROM new_\\\\2\"")
        .rule("rule_id=2 match_pattern=\"FROM new_\" destination_hostgroup=1 apply=1")
        .rule("rule_id=3 match_pattern=\"a\" replace_pattern=\"bb\" re_modifiers=\"GLOBAL\" apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();

    client.query("select a, b FROM old_orders WHERE id = 5");
    client.query("DO a, a");

    assert_eq!(heard(&pair.reader, &["SELECT a, b FROM new_orders WHERE id = 5"]).len(), 1);
    assert_eq!(heard(&pair.writer, &["DO bb, bb"]).len(), 1);
    client.query("DO 1");
    assert_eq!(heard(&pair.writer, &["DO 1"]).len(), 1, "what follows is untouched");
}

#[test]
fn chains_fast_routing_and_the_chain_of_the_next_statement() {
    let pair = Pair::start();
    let config = pair
        .config()
        .rule("rule_id=1 match_pattern=\"^DO 'chain'\" flagOUT=7 next_query_flagIN=9")
        .rule("rule_id=2 flagIN=7 destination_hostgroup=1 apply=1")
        .rule("rule_id=3 flagIN=9 error_msg=\"the next one\" apply=1")
        .rule("rule_id=4 flagIN=0 match_pattern=\"never\" apply=0")
        .row(
            "mysql_query_rules_fast_routing",
            "username=\"sbtest\" schemaname=\"shop\" destination_hostgroup=1",
        );
    let narrows = start(&config);
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("shop"));

    client.query("DO 'chain'");
    assert_eq!(heard(&pair.reader, &["DO 'chain'"]).len(), 1);
    assert_eq!(client.query("DO 1").error().expect("refused").message, "the next one");
    assert_eq!(client.query("SELECT who").cell().as_deref(), Some("reader"), "by user and schema");
    let mut other = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("blog"));
    assert_eq!(other.query("SELECT who").cell().as_deref(), Some("writer"));
}

#[test]
fn the_chain_of_the_next_statement_may_begin_with_an_execution() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port())
        .rule("rule_id=1 match_pattern=\"^DO 'chain'\" next_query_flagIN=9 apply=1")
        .rule("rule_id=2 flagIN=9 error_msg=\"the next one\" apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    let chain = Statement::prepare(&mut client, "DO 'chain'");
    let select = Statement::prepare(&mut client, "SELECT 7");

    assert_eq!(select.execute(&mut client, &[]).error(), None, "nothing was executed before");
    for _ in 0..2 {
        assert_eq!(chain.execute(&mut client, &[]).error(), None);
        let refused = select.execute(&mut client, &[]).error().expect("the chain refuses it");
        assert_eq!(refused.message, "the next one");
    }
    assert_eq!(select.execute(&mut client, &[]).error(), None, "the chain was for one statement");
}

#[test]
fn rules_with_negative_ids_run_before_the_others() {
    let pair = Pair::start();
    let config = pair
        .config()
        .rule("rule_id=-7 match_digest=\"^SELECT who\" destination_hostgroup=1 apply=1")
        .rule("rule_id=1 match_digest=\"^SELECT who\" destination_hostgroup=0 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    assert_eq!(client.query("SELECT who").cell().as_deref(), Some("reader"), "from the file");

    let mut admin = narrows.admin();
    let insert = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, error_msg, apply)
        VALUES (-8, 1, '^SELECT who', 'the first one', 1)";
    assert_eq!(admin.query(insert).error(), None);
    assert_eq!(admin.query("LOAD MYSQL QUERY RULES TO RUNTIME").error(), None);
    assert_eq!(client.query("SELECT who").error().expect("refused").message, "the first one");
    let ids = admin.query("SELECT rule_id FROM runtime_mysql_query_rules ORDER BY rule_id").text_rows();
    assert_eq!(ids, ["-8", "-7", "1"].map(|id| vec![Some(id.to_owned())]));
    let hits = "SELECT hits FROM stats_mysql_query_rules WHERE rule_id = -8";
    assert_eq!(admin.query(hits).cell().as_deref(), Some("1"));
}

#[test]
fn comments_go_before_rules() {
    let pair = Pair::start();
    let who = "/* hostgroup=1 */ SELECT who";
    let conversation = Conversation::new().on(who, &[Move::rows("who", &["reader"])]);
    pair.reader.say(conversation);
    let config = pair.config().rule("rule_id=1 match_digest=\"^SELECT\" destination_hostgroup=0 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();

    assert_eq!(client.query(who).cell().as_deref(), Some("reader"));
    let began = Instant::now();
    client.query("/* query_delay=300 */ DO 1");
    assert!(began.elapsed() >= Duration::from_millis(300));
    let elsewhere = client.query("/* hostgroup=99 */ DO 1").error().expect("no such hostgroup");
    assert_eq!(elsewhere.code, 9001);
}

#[test]
fn hints_are_read_as_proxysql_reads_them() {
    let pair = Pair::start();
    let to_reader = ["/* HostGroup=1, trace=77 */ SELECT who", "/* trace=7;hostgroup==1x */ SELECT who"];
    let to_writer = ["/* query_timeout=0 */ SELECT who", "/* hostgroup=-1 */ SELECT who"];
    let answers = |statements: [&str; 2], name: &str| {
        statements.iter().fold(Conversation::new(), |said, one| said.on(one, &[Move::rows("who", &[name])]))
    };
    pair.reader.say(answers(to_reader, "reader"));
    pair.writer.say(answers(to_writer, "writer"));
    let narrows = start(&pair.config());
    let mut client = narrows.client();

    for statement in to_reader {
        assert_eq!(client.query(statement).cell().as_deref(), Some("reader"), "{statement}");
    }
    for statement in to_writer {
        assert_eq!(client.query(statement).cell().as_deref(), Some("writer"), "{statement}");
    }
}

#[test]
fn a_hint_has_a_connection_opened_for_a_statement() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut client = narrows.client();
    let mut thread = |statement: &str| client.query(statement).cell().expect("a number");
    let variable = "@@pseudo_thread_id";
    let first = thread(&format!("SELECT {variable}"));
    assert_eq!(thread(&format!("SELECT {variable}")), first, "the connection of the pool");
    let opened = thread(&format!("/* create_new_connection=1 */ SELECT {variable}"));
    assert_ne!(opened, first);
    let again = thread(&format!("/* create_new_connection=1 */ SELECT {variable}"));
    assert!(again != first && again != opened, "each statement opens one");
}

#[test]
fn a_hint_for_a_new_connection_replaces_an_idle_one_where_there_is_no_room() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config =
        NarrowsConfig::new().server(0, server.port(), "max_connections=1").user("sbtest", "sbtest", "");
    let narrows = start(&config);
    let mut client = narrows.client();
    let first = client.query("SELECT @@pseudo_thread_id").cell();
    let opened = client.query("/* create_new_connection=1 */ SELECT @@pseudo_thread_id").cell();
    assert_ne!(opened, first);
    assert_eq!(client.query("SELECT @@pseudo_thread_id").cell(), opened, "the first one is closed");
}

#[test]
fn hints_without_effect_are_counted_logged_and_explained() {
    let pair = Pair::start();
    let narrows = start(&pair.config());
    let mut client = narrows.client();
    client.query("/* max_lag_ms=700000; framework=django; query_retries=x */ DO 1");
    client.query("/* min_epoch_ms=100 */ DO 1");
    let logged = narrows.wait_for_log(0, |log| log.contains("hint ignored"));
    assert_eq!(logged.matches("hint ignored").count(), 1, "one line a minute: {logged}");

    let mut admin = narrows.admin();
    let status = admin.query("SHOW NARROWS STATUS").text_rows();
    let counted = ["Narrows_hints_ignored", "3"].map(|cell| Some(cell.to_owned())).to_vec();
    assert!(status.contains(&counted), "{status:?}");
    let explain = "EXPLAIN ROUTE '/* hostgroup=1; max_lag_ms=700000; framework=django */ DO 1'";
    let rows = admin.query(explain).text_rows();
    let of = |what: &str| {
        let fits = |row: &&Vec<Option<String>>| row.get(1).and_then(Option::as_deref) == Some(what);
        rows.iter().filter(fits).filter_map(|row| row.get(2).cloned().flatten()).collect::<Vec<String>>()
    };
    assert_eq!(of("hint"), ["hostgroup=1"]);
    assert_eq!(of("hint ignored"), ["max_lag_ms=700000", "framework=django"]);
    assert_eq!(of("hostgroup"), ["1"]);
}

#[test]
fn a_statement_waits_for_its_delay() {
    let pair = Pair::start();
    let narrows = start(&pair.config().rule("rule_id=1 match_pattern=\"DLY\" delay=400 apply=1"));
    let mut client = narrows.client();
    client.query("DO 1");

    let began = Instant::now();
    client.query("DO 'DLY'");

    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_statement_that_takes_longer_than_its_rule_allows_is_killed() {
    let endless = "SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b, \
                   information_schema.columns c, information_schema.columns d";
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let config = NarrowsConfig::in_front_of(server.port())
            .rule("rule_id=1 match_digest=\"information_schema.columns d\" timeout=300 apply=1");
        let narrows = start(&config);
        let mut client = narrows.client();

        let error = client.query(endless).error().expect("killed");

        assert_eq!(error.code, 1907, "{error:?}");
        assert!(error.message.contains("query_timeout exceeded"), "{error:?}");
        assert_eq!(client.query("SELECT 7").cell().as_deref(), Some("7"), "the session continues");
    }
}

#[test]
fn a_rule_turns_multiplexing_off_and_on_again() {
    let pair = Pair::start();
    let config = pair
        .config()
        .variable("threads", "1")
        .rule("rule_id=1 match_pattern=\"'off'\" multiplex=0 apply=1")
        .rule("rule_id=2 match_pattern=\"'on'\" multiplex=1 apply=1");
    let narrows = start(&config);
    let (mut one, mut other) = (narrows.client(), narrows.client());
    let connection = |statement: &str| {
        let received = pair.writer.received();
        received.iter().rev().find(|received| received.body == statement).expect("it was sent").connection
    };

    one.query("DO 'off'");
    other.query("DO 1");
    assert_ne!(connection("DO 1"), connection("DO 'off'"), "the connection is not shared");
    one.query("DO 'on'");
    other.query("BEGIN");
    one.query("DO 2");
    other.query("DO 3");
    assert_eq!(connection("DO 'off'"), connection("DO 'on'"));
}

#[test]
fn a_write_goes_to_the_writer_whatever_it_asks_about_the_read_before() {
    let server = || ServerOptions::new(Flavour::MariaDb).start();
    let (writer, reader) = (server(), server());
    writer.execute(&["CREATE DATABASE asks", "CREATE TABLE asks.t (n INT)"]);
    let config = NarrowsConfig::in_front_of(writer.port())
        .server(1, reader.port(), "")
        .rule("rule_id=1 active=1 match_digest=\"^(SELECT|SHOW)\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();

    for (read, write) in [
        ("SHOW SESSION VARIABLES LIKE 'time_zone'", "INSERT INTO asks.t VALUES (LAST_INSERT_ID())"),
        ("SELECT LAST_INSERT_ID(4)", "INSERT INTO asks.t VALUES (LAST_INSERT_ID())"),
        ("SELECT 1 UNION ALL SELECT 2", "INSERT INTO asks.t VALUES (FOUND_ROWS())"),
        (
            "SELECT SQL_CALC_FOUND_ROWS seq FROM mysql.seq_1_to_7 LIMIT 1",
            "INSERT INTO asks.t VALUES (FOUND_ROWS())",
        ),
        ("SELECT 1", "INSERT INTO asks.t VALUES (ROW_COUNT())"),
        ("SELECT CAST('x' AS SIGNED)", "INSERT INTO asks.t VALUES (@@warning_count)"),
        ("SELECT 1 UNION ALL SELECT 2", "SET @found = FOUND_ROWS()"),
    ] {
        assert_eq!(client.query(read).error(), None, "{read}");
        assert_eq!(client.query(write).error(), None, "{read}; {write}");
    }
    assert_eq!(client.query("INSERT INTO asks.t VALUES (@found)").error(), None);

    let numbers = writer.rows("SELECT GROUP_CONCAT(n SEPARATOR ' ') FROM asks.t");
    assert_eq!(numbers[0][0].as_deref(), Some("0 4 2 7 -1 1 2"));
}

#[test]
fn a_text_that_begins_with_a_read_goes_where_its_first_write_goes() {
    let pair = Pair::start();
    let shard = FakeMysql::start(Conversation::new());
    let config = pair
        .config()
        .server(5, shard.port(), "")
        .rule("rule_id=1 active=1 schemaname=\"shard\" destination_hostgroup=5 apply=1")
        .rule("rule_id=2 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let reads = ["SELECT 1; SELECT 2", "SELECT 1; SHOW TABLES; EXPLAIN SELECT 1"];
    let writes = [
        "SELECT 1; INSERT INTO t VALUES (1)",
        "SELECT 1; CALL p(1)",
        "SELECT 1; LOAD DATA INFILE 'x' INTO TABLE t",
        "SELECT 1; EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)'",
        "SELECT 1; PREPARE p FROM 'INSERT INTO t VALUES (1)'; EXECUTE p",
        "SELECT 1; DO f(1)",
        "SELECT 1; CREATE TABLE t (a INT)",
        "SELECT 1; WITH c AS (SELECT 1) DELETE FROM t",
    ];
    for statement in reads.iter().chain(&writes) {
        assert_eq!(narrows.client().query(statement).error(), None, "{statement}");
        let mut sharded =
            RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("shard"));
        assert_eq!(sharded.query(statement).error(), None, "{statement}");
    }

    assert_eq!(heard(&pair.reader, &reads), reads);
    assert_eq!(heard(&pair.writer, &writes), writes);
    assert!(heard(&pair.reader, &writes).is_empty());
    // The rule for a schema applies to every part.
    assert_eq!(heard(&shard, &writes), writes);
    let lock = "SELECT 1; SELECT GET_LOCK('x', 0)";
    assert_eq!(narrows.client().query(lock).error(), None);
    assert_eq!(heard(&pair.writer, &[lock]), [lock]);
    let mut admin = narrows.admin();
    let route = admin.query("EXPLAIN ROUTE 'SELECT 1; CALL p(1)' AS sbtest");
    assert!(format!("{:?}", route.text_rows()).contains("its first statement that is no read"), "{route:?}");
}

#[test]
fn a_statement_is_repeated_as_often_as_its_rule_says() {
    let lost = "SELECT lost";
    let pair = Pair::start();
    pair.writer.say(Conversation::new().on(lost, &[Move::Close]));
    let config = pair.config().rule("rule_id=1 match_digest=\"lost\" retries=3 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();

    assert_eq!(client.query(lost).error().expect("lost").code, 2013);
    assert_eq!(heard(&pair.writer, &[lost]).len(), 4);

    let narrows = start(&pair.config().variable("query_retries_on_failure", "0"));
    assert_eq!(narrows.client().query(lost).error().expect("lost").code, 2013);
    assert_eq!(heard(&pair.writer, &[lost]).len(), 5);
}

#[test]
fn copies_run_elsewhere_and_never_hold_up_the_original() {
    let pair = Pair::start();
    let slow = FakeMysql::start(Conversation::new().on("DO 'slow'", &[Move::Wait]));
    let config = pair
        .config()
        .server(2, slow.port(), "")
        .variable("threads", "1")
        .variable("mirror_max_concurrency", "1")
        .variable("mirror_max_queue_length", "2")
        .rule("rule_id=1 match_pattern=\"'slow'\" mirror_hostgroup=2 apply=1")
        .rule("rule_id=2 match_pattern=\"'chain'\" mirror_flagOUT=5 apply=1")
        .rule("rule_id=3 flagIN=5 match_pattern=\"'chain'\" replace_pattern=\"'copy'\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();

    client.query("DO 'chain'");
    pair.reader.wait_for("DO 'copy'");
    assert_eq!(heard(&pair.writer, &["DO 'chain'"]).len(), 1);

    for _ in 0..10 {
        client.query("DO 'slow'");
    }
    slow.wait_for("DO 'slow'");
    assert_eq!(heard(&pair.writer, &["DO 'slow'"]).len(), 10, "the originals did not wait");
    assert!(heard(&slow, &["DO 'slow'"]).len() == 1, "one copy at a time");
    assert!(heard(&pair.reader, &["DO 'chain'"]).is_empty());
    slow.say(Conversation::new());
    slow.release();
}

#[test]
fn statements_are_logged_as_their_rules_say() {
    let pair = Pair::start();
    let folder = TempFolder::new("query-log");
    let name = folder.file("queries");
    let config = pair
        .config()
        .variable("eventslog_filename", name.to_str().expect("a path in UTF-8"))
        .variable("eventslog_default_log", "1")
        .rule("rule_id=1 match_pattern=\"'secret'\" log=0 apply=1")
        .rule("rule_id=2 match_digest=\"^SELECT who\" destination_hostgroup=1 apply=1")
        .rule("rule_id=3 match_pattern=\"'blocked'\" error_msg=\"no\" apply=1");
    let narrows = start(&config);
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("shop"));
    client.query("SELECT who");
    client.query("DO 'secret'");
    client.query("DO 1");
    client.query("DO 'blocked'");
    // It keeps its connection, whatever the rules say.
    client.query("LOCK TABLES t WRITE");
    client.query("SELECT who");
    let mut elsewhere = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("shop"));
    elsewhere.query("/* hostgroup=99 */ DO 1");

    let log = folder.file("queries.00000001");
    let deadline = Instant::now() + Duration::from_secs(20);
    let lines: Vec<serde_json::Value> = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        if lines.len() >= 6 || Instant::now() > deadline {
            break lines;
        }
        std::thread::sleep(Duration::from_millis(20));
    };

    assert_eq!(lines.len(), 6, "{lines:?}");
    let first = &lines[0];
    assert_eq!(first["query"], "SELECT who");
    assert_eq!((&first["username"], &first["schemaname"]), (&"sbtest".into(), &"shop".into()));
    assert_eq!((&first["hostgroup_id"], &first["rows_sent"]), (&1.into(), &1.into()));
    assert_eq!(first["server"], format!("127.0.0.1:{}", pair.reader.port()));
    assert!(first["bytes_sent"].as_u64() > Some(20) && first["duration_us"].is_u64(), "{first}");
    assert!(first["digest"].as_str().is_some_and(|digest| digest.starts_with("0x")), "{first}");
    assert_eq!((&lines[1]["query"], &lines[1]["event"]), (&"DO 1".into(), &"COM_QUERY".into()));
    let blocked = &lines[2];
    assert_eq!((&blocked["query"], &blocked["error"]), (&"DO 'blocked'".into(), &1148.into()), "{blocked}");
    let kept = &lines[4];
    assert_eq!((&kept["query"], &kept["hostgroup_id"]), (&"SELECT who".into(), &0.into()), "{kept}");
    assert_eq!(kept["server"], format!("127.0.0.1:{}", pair.writer.port()));
    let nowhere = &lines[5];
    assert_eq!((&nowhere["hostgroup_id"], &nowhere["error"]), (&(-1).into(), &9001.into()), "{nowhere}");
}

#[test]
fn statements_that_never_reach_a_server_are_logged_too() {
    let pair = Pair::start();
    let folder = TempFolder::new("query-log");
    let name = folder.file("queries");
    let config = pair
        .config()
        .variable("eventslog_filename", name.to_str().expect("a path in UTF-8"))
        .variable("eventslog_default_log", "1")
        .rule("rule_id=1 match_pattern=\"'late'\" delay=60000 apply=1")
        .rule("rule_id=2 match_pattern=\"'blocked'\" error_msg=\"no\" apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    assert_eq!(Statement::try_prepare(&mut client, "DO 'blocked'").expect_err("refused").code, 1148);
    let log = || std::fs::read_to_string(folder.file("queries.00000001")).unwrap_or_default();
    let mut admin = narrows.admin();
    for (number, kill) in (1..).zip(["KILL QUERY", "KILL CONNECTION"]) {
        let mut client = narrows.client();
        client.send_command(command::QUERY, b"DO 'late'").expect("it is sent");
        wait_until("it waits and is killed", || {
            let waiting = "SELECT SessionID FROM stats_mysql_processlist WHERE info LIKE '%late%'";
            if let Some(Some(id)) = admin.query(waiting).text_rows().into_iter().flatten().next() {
                admin.query(format!("{kill} {id}"));
            }
            log().matches("late").count() == number
        });
        let digests = "SELECT SUM(count_star) FROM stats_mysql_query_digest WHERE digest_text = 'DO ?'";
        assert_eq!(admin.query(digests).cell(), Some(number.to_string()), "{kill}");
    }
    let text = log();
    let line = |part: &str| -> serde_json::Value {
        let line = text.lines().find(|line| line.contains(part)).expect("it is logged");
        serde_json::from_str(line).expect("JSON")
    };
    let blocked = line("blocked");
    assert_eq!(
        (&blocked["event"], &blocked["error"]),
        (&"COM_STMT_PREPARE".into(), &1148.into()),
        "{blocked}"
    );
    for line in text.lines().filter(|line| line.contains("late")) {
        let late: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&late["hostgroup_id"], &late["error"]), (&(-1).into(), &1317.into()), "{late}");
    }
}

#[test]
fn the_firewall_asks_about_executions_too() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(
        &NarrowsConfig::in_front_of(server.port())
            .variable("firewall_whitelist_enabled", "true")
            .row(
                "mysql_firewall_whitelist_users",
                "username=\"sbtest\" client_address=\"\" mode=\"PROTECTING\"",
            )
            .row(
                "mysql_firewall_whitelist_rules",
                "username=\"sbtest\" client_address=\"\" schemaname=\"information_schema\" \
                 digest=\"0x1C46AE529DD5A40E\"",
            ),
    );
    let login = Login::new("sbtest", "sbtest").schema("information_schema");
    let mut client = RawClient::open(&narrows.endpoint(), &login);

    assert_eq!(Statement::try_prepare(&mut client, "SELECT 1, 2").expect_err("refused").code, 1148);
    let listed = Statement::prepare(&mut client, "SELECT 7");
    assert_eq!(listed.execute(&mut client, &[]).error(), None);
    // Whitelist entries are for that schema only.
    assert_eq!(client.query("USE mysql").error(), None);
    assert_eq!(listed.execute(&mut client, &[]).error().expect("refused").code, 1148);
}

#[test]
fn the_firewall_lets_through_what_is_listed() {
    let pair = Pair::start();
    let allowed = "0x1C46AE529DD5A40E"; // SELECT ?
    let rule = |username: &str| {
        format!("username=\"{username}\" client_address=\"\" schemaname=\"shop\" digest=\"{allowed}\"")
    };
    let config = pair
        .config()
        .variable("firewall_whitelist_enabled", "true")
        .user("watched", "x", "")
        .user("free", "x", "")
        .row("mysql_firewall_whitelist_users", "username=\"sbtest\" client_address=\"\" mode=\"PROTECTING\"")
        .row("mysql_firewall_whitelist_users", "username=\"watched\" client_address=\"\" mode=\"DETECTING\"")
        .row("mysql_firewall_whitelist_users", "username=\"free\" client_address=\"127.0.0.1\" mode=\"OFF\"")
        .row("mysql_firewall_whitelist_rules", &rule("sbtest"))
        .row("mysql_firewall_whitelist_rules", &rule("watched"))
        .user("unlisted", "x", "");
    let narrows = start(&config);
    let open = |user: &str, password: &str| {
        RawClient::open(&narrows.endpoint(), &Login::new(user, password).schema("shop"))
    };

    let mut protected = open("sbtest", "sbtest");
    assert!(protected.query("SELECT 1").error().is_none());
    let refused = protected.query("SELECT 1, 2").error().expect("refused");
    assert_eq!((refused.code, refused.message.as_str()), (1148, "Firewall blocked this query"));
    assert!(protected.query("BEGIN").error().is_some());
    for housekeeping in ["SET NAMES utf8mb4", "SET autocommit=1", "COMMIT", "USE shop"] {
        assert!(protected.query(housekeeping).error().is_none(), "{housekeeping}");
    }
    assert!(open("watched", "x").query("SELECT 1, 2").error().is_none());
    narrows.wait_for_log(0, |line| line.contains("not in the whitelist") && line.contains("watched"));
    assert!(open("free", "x").query("SELECT 1, 2").error().is_none());
    assert!(open("unlisted", "x").query("SELECT 1").error().is_some());
    assert_eq!(heard(&pair.writer, &["SELECT 1, 2"]).len(), 2);
}

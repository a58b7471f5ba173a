//! Transactions that are run again after their server was lost, in front of scripted servers, which die at any step.

use std::sync::atomic::{AtomicBool, Ordering};

use narrows_testkit::{
    Conversation, ErrorPacket, FakeMysql, Move, Narrows, NarrowsConfig, RawClient, Received, command,
    wait_until, writer,
};

use crate::support::start;

/// A transaction, and how often each statement changes a row.
const STEPS: [&str; 5] =
    ["BEGIN", "INSERT INTO t VALUES (1)", "SELECT a FROM t FOR UPDATE", "UPDATE t SET a = 2", "COMMIT"];

/// OK with an open transaction: rows changed, and an id.
fn changed(rows: u64, id: u64) -> Move {
    Move::Reply(vec![writer::ok(rows, id, 3, 0)])
}

/// Rows with an open transaction.
fn rows(cells: &[&str]) -> Move {
    let mut packets = vec![vec![1], writer::column("a"), writer::eof(3, 0)];
    packets.extend(cells.iter().map(|cell| writer::row(&[Some(cell)])));
    packets.push(writer::eof(3, 0));
    Move::Reply(packets)
}

/// A server that runs the transaction.
fn healthy() -> Conversation {
    complete(Conversation::new())
}

/// The same, but for this statement.
fn healthy_but(statement: &str, moves: &[Move]) -> Conversation {
    complete(Conversation::new().on(statement, moves))
}

/// A server that dies at a step.
fn dying_at(step: usize) -> Conversation {
    healthy_but(STEPS[step], &[Move::Close])
}

/// A server that dies at a step the first time.
fn dying_once_at(step: usize) -> Conversation {
    let has_died = AtomicBool::new(false);
    healthy().deciding(move |received| {
        let dies = received.body == STEPS[step] && !has_died.swap(true, Ordering::SeqCst);
        dies.then(|| vec![Move::Close])
    })
}

/// What is said already comes before what a healthy server says.
fn complete(conversation: Conversation) -> Conversation {
    conversation
        .on(STEPS[0], &[changed(0, 0)])
        .on(STEPS[1], &[changed(1, 7)])
        .on(STEPS[2], &[rows(&["1", "2"])])
        .on(STEPS[3], &[changed(1, 0)])
        .on(STEPS[4], &[Move::ok()])
        .on("SELECT 1", &[Move::rows("1", &["1"])])
}

/// The server that gets nearly all new work, the other one, and Narrows in front of them.
fn pair(old: Conversation, next: Conversation, on: bool) -> (FakeMysql, FakeMysql, Narrows) {
    pair_with(old, next, |config| config.variable("transaction_replay", if on { "true" } else { "false" }))
}

fn pair_with(
    old: Conversation,
    next: Conversation,
    change: impl FnOnce(NarrowsConfig) -> NarrowsConfig,
) -> (FakeMysql, FakeMysql, Narrows) {
    let (old, next) = (FakeMysql::start(old), FakeMysql::start(next));
    let config = NarrowsConfig::new()
        .user("sbtest", "sbtest", "")
        .server(0, old.port(), "weight=10000000")
        .server(0, next.port(), "weight=1");
    let narrows = start(&change(config));
    (old, next, narrows)
}

/// The statements of the transaction that a server has received.
fn seen(server: &FakeMysql) -> Vec<String> {
    let is_own = |it: &Received| {
        it.code == command::QUERY
            && !it.body.starts_with("SET ")
            && !it.body.starts_with("SELECT LAST_INSERT_ID")
    };
    server.received().into_iter().filter(is_own).map(|it| it.body).collect()
}

fn run(client: &mut RawClient, statements: &[&str]) {
    for statement in statements {
        let error = client.query(statement).error();
        assert_eq!(error, None, "{statement}");
    }
}

fn outcomes(narrows: &Narrows) -> Vec<(String, String)> {
    let rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    let cells = rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>());
    let of = |row: Vec<String>| {
        let name = row[0].strip_prefix("Narrows_transaction_replays_")?.to_owned();
        Some((name, row[1].clone()))
    };
    cells.filter_map(of).collect()
}

fn once(outcome: &str) -> Vec<(String, String)> {
    vec![(outcome.to_owned(), "1".to_owned())]
}

/// The client gets the error that its transaction was rolled back, and continues without one.
fn is_told(client: &mut RawClient, error: &ErrorPacket, expected: &str) {
    assert_eq!((error.code, error.state.as_str()), (1213, "40001"), "{}", error.message);
    assert!(
        error.message.starts_with("The transaction was rolled back: its server was lost ("),
        "{}",
        error.message
    );
    assert!(error.message.contains(expected), "{}", error.message);
    assert!(error.message.ends_with("; try restarting transaction"), "{}", error.message);
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn a_transaction_goes_on_wherever_in_it_its_server_dies() {
    for at in 0..4 {
        let (old, next, narrows) = pair(dying_at(at), healthy(), true);
        let mut client = narrows.client();
        run(&mut client, &STEPS);
        assert_eq!(seen(&next), STEPS, "died at {}", STEPS[at]);
        assert_eq!(seen(&old), STEPS[..=at], "died at {}", STEPS[at]);
        // A BEGIN alone is no transaction yet.
        let expected = if at == 0 { Vec::new() } else { once("replayed") };
        assert_eq!(outcomes(&narrows), expected, "died at {}", STEPS[at]);
    }
}

#[test]
fn a_transaction_goes_on_after_its_server_has_died_between_two_statements() {
    // A COMMIT that was not sent is run like any other statement.
    for at in 1..5 {
        let (old, next, narrows) = pair(healthy(), healthy(), true);
        let mut client = narrows.client();
        run(&mut client, &STEPS[..at]);
        old.hang_up();
        old.wait_for_open(0);
        run(&mut client, &STEPS[at..]);
        assert_eq!(
            (seen(&old), seen(&next)),
            (STEPS[..at].iter().map(|it| (*it).to_owned()).collect(), STEPS.map(str::to_owned).to_vec())
        );
        assert_eq!(outcomes(&narrows), once("replayed"), "{}", narrows.log());
        let log = narrows.wait_for_log(0, |log| log.contains("a transaction was run again"));
        assert!(log.contains(&format!("statements={at}")), "{log}");
    }
}

#[test]
fn nothing_is_run_again_after_the_commit_was_sent() {
    let (_old, next, narrows) = pair(dying_at(4), healthy(), true);
    let mut client = narrows.client();
    run(&mut client, &STEPS[..4]);
    let error = client.query(STEPS[4]).error().expect("nobody knows");
    assert_eq!(error.code, 2013);
    assert!(error.message.ends_with("It may have run."), "{}", error.message);
    assert_eq!(seen(&next), Vec::<String>::new());
    assert_eq!(outcomes(&narrows), once("not_possible"));
}

#[test]
fn it_is_off_unless_somebody_says_otherwise() {
    let (_old, next, narrows) = pair_with(dying_at(3), healthy(), |it| it);
    let mut client = narrows.client();
    run(&mut client, &STEPS[..3]);
    let error = client.query(STEPS[3]).error().expect("it is lost");
    assert_eq!(error.code, 2013);
    assert!(error.message.contains("its transaction was not committed"), "{}", error.message);
    assert_eq!((seen(&next), outcomes(&narrows)), (Vec::new(), Vec::new()));
}

#[test]
fn accounts_and_rules_decide_and_explain_route_says_so() {
    let of_account = r#"attributes="{\"transaction_replay\":true}""#;
    let of_rule = |on: bool| {
        format!(
            "rule_id=1 active=1 match_pattern=\"^BEGIN\" attributes=\"{{\\\"transaction_replay\\\":{on}}}\""
        )
    };
    for (rule, is_on, who) in [
        (None, true, "the account"),
        (Some(of_rule(false)), false, "a rule"),
        (Some(of_rule(true)), true, "a rule"),
    ] {
        let (_old, _next, narrows) = pair_with(dying_at(3), healthy(), |config| {
            let config = config.user("app", "sbtest", of_account);
            rule.iter().fold(config, |config, rule| config.rule(rule))
        });
        let plan = narrows.admin().query("EXPLAIN ROUTE 'BEGIN' AS app").text_rows();
        let line =
            plan.iter().find(|row| row[1].as_deref() == Some("transaction_replay")).expect("it says so");
        let (value, why) = (line[2].clone().unwrap(), line[3].clone().unwrap());
        assert_eq!((value.as_str(), why.starts_with(who)), (if is_on { "on" } else { "off" }, true), "{why}");
        let login = narrows_testkit::Login::new("app", "sbtest");
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        run(&mut client, &STEPS[..3]);
        assert_eq!(client.query(STEPS[3]).error().is_none(), is_on, "{who}");
    }
}

#[test]
fn a_rule_for_a_later_statement_can_only_switch_it_off() {
    let rule = r#"rule_id=1 active=1 match_pattern="^INSERT" attributes="{\"transaction_replay\":false}""#;
    let (_old, _next, narrows) =
        pair_with(dying_at(3), healthy(), |config| config.variable("transaction_replay", "true").rule(rule));
    let mut client = narrows.client();
    run(&mut client, &STEPS[..3]);
    let error = client.query(STEPS[3]).error().expect("it is lost");
    let why = "its transaction is not run again: transaction_replay is off for one of its statements";
    assert!(error.code == 2013 && error.message.contains(why), "{}", error.message);
}

#[test]
fn a_difference_rolls_back_and_tells_which_statement_it_was() {
    let duplicate = Move::error(1062, "23000", "Duplicate entry '1' for key 'PRIMARY'");
    let deadlock = Move::error(1213, "40001", "Deadlock found when trying to get lock");
    let cases: [(usize, Move, &str); 5] = [
        (1, changed(1, 8), "statement 2 of 3 (INSERT INTO t VALUES (1)) on 127.0.0.1:"),
        (1, changed(1, 8), "its id is 8, and was 7"),
        (1, duplicate, "it fails with error 1062"),
        (1, deadlock, "it fails with error 1213"),
        (2, rows(&["1", "3"]), "statement 3 of 3 (SELECT a FROM t FOR UPDATE)"),
    ];
    for (at, other, expected) in cases {
        let next = healthy_but(STEPS[at], &[other]);
        let (_old, next, narrows) = pair(dying_at(3), next, true);
        let mut client = narrows.client();
        run(&mut client, &STEPS[..3]);
        let error = client.query(STEPS[3]).error().expect("it differs");
        is_told(&mut client, &error, expected);
        let expected: Vec<&str> = STEPS[..=at].iter().copied().chain(["ROLLBACK"]).collect();
        assert_eq!(seen(&next)[..expected.len()], expected);
        assert_eq!(outcomes(&narrows), once("differed"));
        // The next transaction has nothing of this one.
        run(&mut client, &["SELECT 1"]);
    }
}

#[test]
fn errors_that_the_client_has_received_must_come_again() {
    let duplicate = || Move::error(1062, "23000", "Duplicate entry '1' for key 'PRIMARY'");
    for (again, outcome) in [(true, "replayed"), (false, "differed")] {
        let old = complete(Conversation::new().on(STEPS[1], &[duplicate()]).on(STEPS[3], &[Move::Close]));
        let next = if again { healthy_but(STEPS[1], &[duplicate()]) } else { healthy() };
        let (_old, _next, narrows) = pair(old, next, true);
        let mut client = narrows.client();
        run(&mut client, &STEPS[..1]);
        assert_eq!(client.query(STEPS[1]).error().map(|error| error.code), Some(1062));
        run(&mut client, &STEPS[2..3]);
        assert_eq!(client.query(STEPS[3]).error().is_none(), again);
        assert_eq!(outcomes(&narrows), once(outcome));
    }
}

#[test]
fn after_an_error_that_may_have_ended_the_transaction_it_is_not_run_again() {
    let deadlock = Move::error(1213, "40001", "Deadlock found when trying to get lock");
    let old = complete(Conversation::new().on(STEPS[1], &[deadlock]).on(STEPS[3], &[Move::Close]));
    let (_old, next, narrows) = pair(old, healthy(), true);
    let mut client = narrows.client();
    run(&mut client, &STEPS[..1]);
    assert_eq!(client.query(STEPS[1]).error().map(|error| error.code), Some(1213));
    let error = client.query(STEPS[3]).error().expect("it is lost");
    assert!(error.code == 2013 && error.message.contains("an error may have ended it"), "{}", error.message);
    assert_eq!((seen(&next), outcomes(&narrows)), (Vec::new(), once("not_possible")));
}

#[test]
fn a_transaction_that_is_too_large_is_not_kept() {
    let long = format!("INSERT INTO t VALUES ('{}')", "x".repeat(2000));
    let old = dying_at(3).on(&long, &[changed(1, 0)]);
    let (_old, next, narrows) = pair_with(old, healthy(), |config| {
        config.variable("transaction_replay", "true").variable("transaction_replay_max_size", "2000")
    });
    let mut client = narrows.client();
    run(&mut client, &[STEPS[0], &long]);
    let error = client.query(STEPS[3]).error().expect("it is lost");
    let why = "its transaction is not run again: it is larger than mysql-transaction_replay_max_size";
    assert!(error.code == 2013 && error.message.contains(why), "{}", error.message);
    assert_eq!((seen(&next), outcomes(&narrows)), (Vec::new(), once("too_large")));
}

#[test]
fn what_leaves_more_than_a_value_on_the_connection_is_not_run_again() {
    for (statement, why) in [
        ("CREATE TEMPORARY TABLE x (a INT)", "temporary_table"),
        ("SELECT GET_LOCK('a', 1)", "user_lock"),
        ("SELECT @x := 1", "user_variable"),
        ("CALL p()", "routine"),
        ("SELECT f(1)", "routine"),
        ("PREPARE s FROM 'SELECT 1'", "text_prepared_statement"),
        ("LOCK TABLES t READ", "lock_tables"),
        ("ANALYZE TABLE t", "a statement that may commit"),
        ("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", "several statements in one text"),
        ("SET GLOBAL sort_buffer_size = 1", "not the session's own"),
        ("COMMIT AND CHAIN", "it is one of several in a chain"),
    ] {
        let old = dying_at(3).on(statement, &[changed(0, 0)]);
        let (_old, next, narrows) = pair(old, healthy(), true);
        let mut client = narrows.client();
        run(&mut client, &[STEPS[0], statement]);
        let error = client.query(STEPS[3]).error().expect("it is lost");
        assert_eq!(error.code, 2013, "{statement}: {}", error.message);
        assert!(
            error.message.contains("is not run again: ") && error.message.contains(why),
            "{statement}: {}",
            error.message
        );
        assert_eq!((seen(&next), outcomes(&narrows)), (Vec::new(), once("not_possible")), "{statement}");
    }
}

#[test]
fn state_that_is_a_value_is_at_each_statement_what_it_was() {
    let first = [("SET @x = 1", "INSERT INTO t VALUES (@x)"), ("SET @x = 2", "UPDATE t SET a = @x")];
    let mut old = healthy_but("DELETE FROM t", &[Move::Close]);
    let mut next = healthy_but("DELETE FROM t", &[changed(1, 0)]);
    for (set, uses) in first {
        (old, next) = (old.on(set, &[changed(0, 0)]), next.on(set, &[changed(0, 0)]));
        (old, next) = (old.on(uses, &[changed(1, 0)]), next.on(uses, &[changed(1, 0)]));
    }
    let (_old, next, narrows) = pair(old, next, true);
    let mut client = narrows.client();
    run(&mut client, &["SET @x = 0", "BEGIN"]);
    first.iter().for_each(|(set, uses)| run(&mut client, &[set, uses]));
    run(&mut client, &["DELETE FROM t", "COMMIT"]);
    let is_own = |it: &Received| it.code == command::QUERY && !it.body.contains("session_track");
    let received: Vec<String> = next.received().into_iter().filter(is_own).map(|it| it.body).collect();
    let at = received.iter().position(|it| it == "BEGIN").unwrap_or_else(|| panic!("{received:?}"));
    let expected = ["BEGIN", first[0].0, first[0].1, first[1].0, first[1].1, "DELETE FROM t", "COMMIT"];
    assert_eq!(received[at..], expected, "{received:?}");
    let before =
        next.received().into_iter().map(|it| it.body).find(|it| it.contains("@`x`") || it.contains("@x"));
    assert!(before.is_some_and(|set| set.starts_with("SET ") && set.contains('0')), "{:?}", next.received());
}

#[test]
fn autocommit_off_and_set_transaction_begin_one_too() {
    let off = ["SET autocommit = 0", STEPS[1], STEPS[2], STEPS[3], STEPS[4]];
    let once_only = ["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", STEPS[1], STEPS[3], STEPS[4]];
    for (steps, first) in [(off, 1), (once_only, 0)] {
        for at in first.max(1)..4 {
            let of = |conversation: Conversation| {
                let off = Move::Reply(vec![writer::ok(0, 0, 0, 0)]);
                let said = if first == 1 { off.clone() } else { Move::ok() };
                let conversation = conversation.on(steps[0], &[said]);
                complete(if first == 1 { conversation.on(STEPS[4], &[off]) } else { conversation })
            };
            let dying = Conversation::new().on(steps[at], &[Move::Close]);
            let (_old, next, narrows) = pair(of(dying), of(Conversation::new()), true);
            let mut client = narrows.client();
            run(&mut client, &steps);
            let received: Vec<String> = next.received().into_iter().map(|it| it.body).collect();
            let mut rest = received.iter();
            for step in &steps[first..] {
                assert!(rest.any(|it| it == step), "died at {}: {step} is not in {received:?}", steps[at]);
            }
        }
    }
}

#[test]
fn a_server_that_has_another_role_is_left_with_the_transaction() {
    for refusal in [1290, 1836, 1053, 1047, 3032, 4094] {
        for at in [3, 4] {
            // Only a refusal as read only proves that nothing was committed.
            if at == 4 && refusal != 1290 && refusal != 1836 {
                continue;
            }
            let refused = Move::error(refusal, "HY000", "it has another role now");
            let (_old, next, narrows) = pair_with(healthy_but(STEPS[at], &[refused]), healthy(), |config| {
                config
                    .variable("transaction_replay", "true")
                    .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
            });
            let mut client = narrows.client();
            run(&mut client, &STEPS);
            assert_eq!(seen(&next), STEPS, "{refusal} at {}", STEPS[at]);
            assert_eq!(outcomes(&narrows), once("replayed"), "{refusal}");
        }
    }
}

#[test]
fn a_server_that_fails_while_the_transaction_is_run_again_is_left_too() {
    for moves in
        [Move::Close, Move::error(1290, "HY000", "it is read-only"), Move::error(1053, "08S01", "shutdown")]
    {
        let next = healthy_but(STEPS[1], &[moves]);
        let (_old, next, narrows) = pair(dying_once_at(3), next, true);
        let mut client = narrows.client();
        run(&mut client, &STEPS[..3]);
        client.send_command(command::QUERY, STEPS[3].as_bytes()).expect("it is sent");
        next.wait_for(STEPS[1]);
        next.say(healthy());
        assert_eq!(client.answer(command::QUERY).error(), None);
        run(&mut client, &STEPS[4..]);
        assert_eq!(outcomes(&narrows), once("replayed"));
    }
}

#[test]
fn servers_that_fail_again_and_again_are_not_tried_for_ever() {
    let dying = || dying_at(3);
    let (old, next, narrows) = pair(dying(), dying(), true);
    let mut client = narrows.client();
    run(&mut client, &STEPS[..3]);
    let error = client.query(STEPS[3]).error().expect("it runs nowhere");
    is_told(&mut client, &error, "it could not be run again");
    let tries = seen(&old).iter().chain(&seen(&next)).filter(|it| *it == STEPS[3]).count();
    assert!((2..=9).contains(&tries), "{tries}");
}

#[test]
fn without_a_server_the_client_is_told_after_the_usual_time() {
    let (old, next, narrows) = pair_with(healthy(), healthy(), |config| {
        config.variable("transaction_replay", "true").variable("connect_timeout_server_max", "500")
    });
    let mut client = narrows.client();
    run(&mut client, &STEPS[..3]);
    let mut admin = narrows.admin();
    for statement in ["UPDATE mysql_servers SET status = 'OFFLINE_HARD'", "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None);
    }
    old.wait_for_open(0);
    let error = client.query(STEPS[3]).error().expect("there is no server");
    assert_eq!((error.code, error.state.as_str()), (1213, "40001"), "{}", error.message);
    assert!(error.message.contains("Max connect timeout reached"), "{}", error.message);
    assert_eq!((seen(&next), outcomes(&narrows)), (Vec::new(), once("failed")));
    for statement in ["UPDATE mysql_servers SET status = 'ONLINE'", "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None);
    }
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn a_kill_while_the_transaction_is_run_again_ends_the_statement() {
    let next = healthy_but(STEPS[2], &[Move::Hang]);
    let (_old, next, narrows) = pair(dying_at(3), next, true);
    let mut client = narrows.client();
    run(&mut client, &STEPS[..3]);
    client.send_command(command::QUERY, STEPS[3].as_bytes()).expect("it is sent");
    next.wait_for(STEPS[2]);
    let list = "SELECT SessionID FROM stats_mysql_processlist WHERE command = 'Replay'";
    let mut admin = narrows.admin();
    let mut session = None;
    wait_until("the process list shows it", || {
        session = admin.query(list).cell();
        session.is_some()
    });
    let kill = format!("KILL QUERY {}", session.unwrap_or_default());
    assert_eq!(admin.query(&kill).error(), None);
    let error = client.answer(command::QUERY).error().expect("it was killed");
    assert_eq!(error.code, 1317, "{}", error.message);
    assert!(error.message.starts_with("The transaction was rolled back"), "{}", error.message);
    next.say(healthy());
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn an_insert_id_of_before_the_transaction_is_not_taken_for_another_one() {
    let ask = "INSERT INTO u VALUES (LAST_INSERT_ID())";
    let next = healthy_but("SELECT LAST_INSERT_ID() LIMIT 1", &[Move::rows("id", &["0"])]);
    let old = dying_at(3).on(ask, &[changed(1, 0)]);
    let (_old, next, narrows) = pair(old, next.on(ask, &[changed(1, 0)]), true);
    let mut client = narrows.client();
    run(&mut client, &["BEGIN", ask]);
    let error = client.query(STEPS[3]).error().expect("the id is not known there");
    is_told(&mut client, &error, "it asks for LAST_INSERT_ID() of before the transaction");
    assert!(!seen(&next).iter().any(|it| it == ask));
}

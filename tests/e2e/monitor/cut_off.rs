//! Statements in progress on a server that is taken out of service.

use narrows_testkit::{Conversation, FakeMysql, Move, NarrowsConfig, RawClient};

use super::{start, wait_for_rows, watched};

const READ: &str = "SELECT slow";
const WRITE: &str = "INSERT INTO slow";

fn answers() -> Conversation {
    Conversation::new().on(READ, &[Move::rows("slow", &["done"])])
}

/// A server that accepts a statement and never answers it.
fn hangs() -> Conversation {
    Conversation::new().on(READ, &[Move::Hang]).on(WRITE, &[Move::Hang])
}

/// Two servers, of which the first gets everything until it is taken out of service.
fn with_a_spare(first: &FakeMysql, spare: &FakeMysql) -> NarrowsConfig {
    watched().server(0, first.port(), "max_replication_lag=10 weight=10000000").server(
        0,
        spare.port(),
        "weight=1",
    )
}

fn out(admin: &mut RawClient, server: &FakeMysql, status: &str) {
    admin.query(format!("UPDATE mysql_servers SET status = '{status}' WHERE port = {}", server.port()));
    assert_eq!(admin.query("LOAD MYSQL SERVERS TO RUNTIME").error(), None);
}

/// Sends a statement, and returns when `server` has it.
fn begin(client: &mut RawClient, server: &FakeMysql, statement: &str) {
    client.send_command(narrows_testkit::command::QUERY, statement.as_bytes()).unwrap();
    server.wait_for(statement);
}

#[test]
fn a_read_on_a_server_that_answers_no_pings_is_run_elsewhere() {
    let (first, spare) = (FakeMysql::start(hangs()), FakeMysql::start(answers()));
    let narrows = start(&with_a_spare(&first, &spare));
    let mut client = narrows.client();
    begin(&mut client, &first, READ);
    first.say(hangs().at_connect(&[Move::Hang]).on_ping(&[Move::Hang]));
    let answer = client.answer(narrows_testkit::command::QUERY);
    assert_eq!(answer.error(), None);
    assert_eq!(answer.cell().as_deref(), Some("done"));
}

#[test]
fn a_read_whose_server_is_lost_is_run_on_another_even_if_that_one_still_takes_connections() {
    let shuts_down = Move::error(1053, "08S01", "Server shutdown in progress");
    for end in [Move::Close, Move::Reset, shuts_down] {
        let first = FakeMysql::start(Conversation::new().on(READ, std::slice::from_ref(&end)));
        let spare = FakeMysql::start(answers());
        let narrows = start(&with_a_spare(&first, &spare));
        let answer = narrows.client().query(READ);
        assert_eq!(answer.error(), None, "{end:?}");
        assert_eq!(answer.cell().as_deref(), Some("done"));
        assert_eq!(first.received().iter().filter(|received| received.body == READ).count(), 1, "{end:?}");
    }
}

#[test]
fn a_set_of_the_session_whose_server_is_lost_is_run_on_another_and_no_other_set() {
    let (session, unknown) = ("SET @a = 5, time_zone = '+02:00'", "SET @a = f()");
    let lost = Conversation::new().on(session, &[Move::Close]).on(unknown, &[Move::Close]);
    let (first, spare) = (FakeMysql::start(lost), FakeMysql::start(answers()));
    let narrows = start(&with_a_spare(&first, &spare));
    assert_eq!(narrows.client().query(session).error(), None);
    assert!(spare.received().iter().any(|received| received.body == session));
    let error = narrows.client().query(unknown).error().expect("it may have run");
    assert_eq!(error.code, 2013, "{error:?}");
}

#[test]
fn a_read_on_a_server_that_is_offline_hard_is_run_elsewhere() {
    let (first, spare) = (FakeMysql::start(hangs()), FakeMysql::start(answers()));
    let narrows = start(&with_a_spare(&first, &spare));
    let mut client = narrows.client();
    begin(&mut client, &first, READ);
    out(&mut narrows.admin(), &first, "OFFLINE_HARD");
    assert_eq!(client.answer(narrows_testkit::command::QUERY).cell().as_deref(), Some("done"));
}

#[test]
fn a_server_that_goes_out_while_it_is_connected_to_gets_no_work() {
    for status in ["OFFLINE_HARD", "OFFLINE_SOFT"] {
        let (first, spare) =
            (FakeMysql::start(hangs().at_login(&[Move::Wait, Move::ok()])), FakeMysql::start(answers()));
        let narrows = start(&with_a_spare(&first, &spare).variable("monitor_enabled", "false"));
        let mut client = narrows.client();
        client.send_command(narrows_testkit::command::QUERY, READ.as_bytes()).unwrap();
        first.wait_for_open(1);
        out(&mut narrows.admin(), &first, status);
        first.release();
        assert_eq!(
            client.answer(narrows_testkit::command::QUERY).cell().as_deref(),
            Some("done"),
            "{status}"
        );
        assert!(first.received().iter().all(|received| received.body != READ), "{status}");
    }
}

#[test]
fn offline_hard_ends_a_write_and_says_that_it_may_have_run() {
    let (first, spare) = (FakeMysql::start(hangs()), FakeMysql::start(answers()));
    let narrows = start(&with_a_spare(&first, &spare));
    let mut client = narrows.client();
    begin(&mut client, &first, WRITE);
    out(&mut narrows.admin(), &first, "OFFLINE_HARD");
    let error = client.answer(narrows_testkit::command::QUERY).error().unwrap();
    assert_eq!(error.code, 2013);
    let parts =
        [format!("127.0.0.1:{} after ", first.port()), " ms: OFFLINE_HARD). It may have run.".to_owned()];
    assert!(parts.iter().all(|part| error.message.contains(part)), "{error:?}");
    assert_eq!(client.query(READ).cell().as_deref(), Some("done"), "the session continues");
}

#[test]
fn offline_hard_ends_a_transaction_and_says_that_the_statement_has_not_run() {
    let in_transaction = Move::Reply(vec![narrows_testkit::writer::ok(0, 0, 3, 0)]);
    let first = FakeMysql::start(Conversation::new().on("BEGIN", std::slice::from_ref(&in_transaction)));
    let spare = FakeMysql::start(answers());
    let narrows = start(&with_a_spare(&first, &spare).variable("monitor_enabled", "false"));
    let mut client = narrows.client();
    client.query("BEGIN");
    first.wait_for("BEGIN");
    out(&mut narrows.admin(), &first, "OFFLINE_HARD");
    // What was sent before may have reached it.
    first.wait_for_open(0);
    let error = client.query(WRITE).error().unwrap();
    assert_eq!(error.code, 2013);
    assert!(error.message.contains("OFFLINE_HARD). It has not run."), "{error:?}");
    assert_eq!(
        client.query("DO 1").error().unwrap().code,
        2013,
        "the transaction is lost, and the session with it"
    );
    assert!(spare.received().iter().all(|received| received.body != WRITE));
}

#[test]
fn offline_soft_lets_a_transaction_end() {
    let in_transaction = Move::Reply(vec![narrows_testkit::writer::ok(0, 0, 3, 0)]);
    let first = FakeMysql::start(
        Conversation::new()
            .on("BEGIN", std::slice::from_ref(&in_transaction))
            .on(WRITE, std::slice::from_ref(&in_transaction)),
    );
    let spare = FakeMysql::start(answers());
    let narrows = start(&with_a_spare(&first, &spare));
    let mut client = narrows.client();
    client.query("BEGIN");
    out(&mut narrows.admin(), &first, "OFFLINE_SOFT");
    assert_eq!(client.query(WRITE).error(), None);
    assert_eq!(client.query("COMMIT").error(), None);
    assert_eq!(client.query(READ).cell().as_deref(), Some("done"));
    for statement in [WRITE, "COMMIT"] {
        first.wait_for(statement);
    }
}

#[test]
fn a_transaction_on_a_server_that_is_offline_soft_ends_when_its_time_is_over() {
    let in_transaction = Move::Reply(vec![narrows_testkit::writer::ok(0, 0, 3, 0)]);
    let first = FakeMysql::start(Conversation::new().on("BEGIN", std::slice::from_ref(&in_transaction)));
    let spare = FakeMysql::start(answers());
    let config = with_a_spare(&first, &spare).variable("monitor_enabled", "false");
    let narrows = start(&config.variable("offline_soft_timeout", "1"));
    let mut client = narrows.client();
    client.query("BEGIN");
    first.wait_for("BEGIN");
    let begun = std::time::Instant::now();
    out(&mut narrows.admin(), &first, "OFFLINE_SOFT");
    first.wait_for_open(0);
    assert!(begun.elapsed() >= std::time::Duration::from_secs(1), "{:?}", begun.elapsed());
    let error = client.query(WRITE).error().unwrap();
    let cause = "OFFLINE_SOFT: offline_soft_timeout has passed). It has not run.";
    assert!(error.code == 2013 && error.message.contains(cause), "{error:?}");
}

#[test]
fn lag_ends_a_transaction_and_lets_a_read_end() {
    let late = "SHOW REPLICA STATUS";
    let in_transaction = Move::Reply(vec![narrows_testkit::writer::ok(0, 0, 3, 0)]);
    let fine = Conversation::new()
        .on("BEGIN", std::slice::from_ref(&in_transaction))
        .on(READ, &[Move::Wait, Move::rows("slow", &["at last"])]);
    let first = FakeMysql::start(fine.clone());
    let spare = FakeMysql::start(answers());
    let narrows = start(&with_a_spare(&first, &spare));
    let (mut reader, mut writer) = (narrows.client(), narrows.client());
    writer.query("BEGIN");
    begin(&mut reader, &first, READ);
    first.say(fine.on(late, &[Move::rows("Seconds_Behind_Source", &["11"])]));
    let states = format!("SELECT status FROM stats_mysql_connection_pool WHERE srv_port = {}", first.port());
    wait_for_rows(&mut narrows.admin(), &states, &["SHUNNED_REPLICATION_LAG"]);
    let error = writer.query(WRITE).error().unwrap();
    assert!(error.message.contains("SHUNNED_REPLICATION_LAG: it lags). It has not run."), "{error:?}");
    first.release();
    let answer = reader.answer(narrows_testkit::command::QUERY);
    assert_eq!(answer.cell().as_deref(), Some("at last"));
}

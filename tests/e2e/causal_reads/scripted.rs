//! Servers that follow a script: how many questions a read costs, and what becomes of it if the answer is useless.

use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig, capability, writer as packets};

use super::{figure, run, split, token, value};
use crate::support::start;

/// A statement that writes.
pub const WRITE: &str = "INSERT INTO t VALUES (1)";

/// A statement that goes to replicas, and says who has answered.
pub const READ: &str = "SELECT 'who'";

const WRITER_ASKED: &str =
    "SELECT IF(@@GLOBAL.gtid_mode = 'ON' AND @@GLOBAL.log_bin, @@GLOBAL.gtid_executed, NULL)";

/// GTIDs of one source.
pub fn uuid(numbers: &str) -> String {
    format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{numbers}")
}

/// A server that says its name, and reports these GTIDs for a write.
fn server(name: &str, gtids: &str) -> FakeMysql {
    FakeMysql::start(named(name).on(WRITE, &[reported(gtids)]))
}

/// What a writer says that gives its writes no GTIDs, or does not report them; `executed`: what it says that it has executed.
pub fn write_without_gtid(name: &str, executed: Option<&str>) -> Conversation {
    let wrote = Move::Reply(vec![packets::ok(1, 0, 2, 0)]);
    named(name).on(WRITE, &[wrote]).on(WRITER_ASKED, &[one_row(&[executed])])
}

fn named(name: &str) -> Conversation {
    let conversation = Conversation::new().offering(capability::SESSION_TRACK);
    let role = "SELECT @@global.read_only read_only";
    conversation.on(READ, &[Move::rows("who", &[name])]).on(role, &[Move::rows("read_only", &["0"])])
}

/// The question whether a replica has these GTIDs.
fn question(gtids: &str) -> String {
    format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', 0.1), @@GLOBAL.gtid_executed")
}

/// The OK for a row that was written, which reports GTIDs (manual: "OK_Packet", SESSION_TRACK_GTIDS).
fn reported(gtids: &str) -> Move {
    let data = [vec![0], packets::lenenc_bytes(gtids.as_bytes())].concat();
    let changes = [vec![3], packets::lenenc_bytes(&data)].concat();
    let mut payload = packets::ok(1, 0, 2 | 0x4000, 0);
    payload.extend(packets::lenenc_bytes(b""));
    payload.extend(packets::lenenc_bytes(&changes));
    Move::Reply(vec![payload])
}

/// A result set of one row.
fn one_row(cells: &[Option<&str>]) -> Move {
    let mut payloads = vec![vec![cells.len() as u8]];
    payloads.extend(cells.iter().map(|_| packets::column("c")));
    payloads.extend([packets::eof(2, 0), packets::row(cells), packets::eof(2, 0)]);
    Move::Reply(payloads)
}

struct Scene {
    writer: FakeMysql,
    replica: FakeMysql,
    narrows: Narrows,
}

impl Scene {
    fn start(replica: Conversation, more: impl Fn(NarrowsConfig) -> NarrowsConfig) -> Scene {
        let (writer, replica) = (server("writer", &uuid("1")), FakeMysql::start(replica));
        let config = split().server(0, writer.port(), "").server(1, replica.port(), "");
        let config = config.user("sbtest", "sbtest", "").variable("causal_reads", "session");
        let narrows = start(&more(config.variable("threads", "1")));
        Scene { writer, replica, narrows }
    }
}

/// A replica that has these after a wait.
fn has(gtids: &str) -> Conversation {
    named("replica").on(&question(gtids), &[one_row(&[Some("0"), Some(gtids)])])
}

#[test]
fn one_question_teaches_what_a_replica_has_and_then_there_is_none() {
    let scene = Scene::start(has(&uuid("1")), |config| config);
    let mut session = scene.narrows.client();
    // The connection is brought into the session's state.
    assert_eq!(value(&mut session, READ), "replica");
    run(&mut session, WRITE);
    let received = || scene.replica.received().len();
    let before = received();
    assert_eq!(value(&mut session, READ), "replica");
    assert_eq!(received() - before, 2, "the question and the statement: {:?}", scene.replica.received());
    assert_eq!(scene.replica.received()[before].body, question(&uuid("1")));
    for _ in 0..20 {
        let before = received();
        assert_eq!(value(&mut session, READ), "replica");
        assert_eq!(received() - before, 1, "the statement alone");
    }
    // Another session has the same to see, and its connection needs nothing either.
    let mut other = scene.narrows.client();
    run(&mut other, WRITE);
    value(&mut other, READ);
    let before = received();
    assert_eq!(value(&mut other, READ), "replica");
    assert_eq!(received() - before, 1);
    // The next write costs one question again.
    scene.writer.say(named("writer").on(WRITE, &[reported(&uuid("2"))]));
    scene.replica.say(has(&uuid("1-2")));
    run(&mut session, WRITE);
    let before = received();
    assert_eq!(value(&mut session, READ), "replica");
    assert_eq!(received() - before, 2);
    assert_eq!(token(&mut session), format!("0/{}", uuid("1-2")));
    assert_eq!(figure(&scene.narrows, "Narrows_causal_reads_waited"), 2);
    assert_eq!(figure(&scene.narrows, "Narrows_causal_reads_on_writer"), 0);
}

#[test]
fn a_replica_that_was_waited_for_in_vain_is_not_asked_again_at_once() {
    let late = || named("replica").on(&question(&uuid("1")), &[one_row(&[Some("1"), Some("")])]);
    let scene = Scene::start(late(), |config| config);
    let mut session = scene.narrows.client();
    run(&mut session, WRITE);
    let began = Instant::now();
    for _ in 0..50 {
        assert_eq!(value(&mut session, READ), "writer");
    }
    let asked = scene.replica.received().iter().filter(|it| it.body == question(&uuid("1"))).count() as u64;
    // It is left alone for 100 ms at first, and for longer each time.
    let most = 1 + began.elapsed().as_millis() as u64 / 100;
    assert!((1..=most).contains(&asked), "asked {asked} times in {:?}", began.elapsed());
    let writer = scene.writer.received();
    assert!(writer.iter().all(|it| it.body != WRITER_ASKED), "it is known what the writer has: {writer:?}");
    // A statement that has nothing to see is not kept from it.
    assert_eq!(value(&mut scene.narrows.client(), READ), "replica");
    scene.replica.say(has(&uuid("1")));
    narrows_testkit::wait_until("it is asked again", || value(&mut session, READ) == "replica");
}

#[test]
fn useless_answers_of_a_replica_send_reads_to_the_writer() {
    let cases: Vec<(&str, Vec<Move>)> = vec![
        ("NULL", vec![one_row(&[None, None])]),
        ("text", vec![one_row(&[Some("yes"), Some("yes")])]),
        ("an error", vec![Move::error(1305, "42000", "FUNCTION WAIT_FOR_EXECUTED_GTID_SET does not exist")]),
        ("GTID_MODE is OFF", vec![Move::error(3158, "HY000", "cannot be used: GTID_MODE is OFF")]),
        ("OK without rows", vec![Move::ok()]),
        ("one column", vec![Move::rows("c", &["1"])]),
        ("no row", vec![Move::rows("c", &[])]),
        ("no packets", vec![Move::Bytes(b"\x01\0\0\x09x".to_vec())]),
        ("a closed connection", vec![Move::Close]),
        ("a reset", vec![Move::Reset]),
        ("silence", vec![Move::Hang]),
        ("half a row", vec![Move::beginning_of_rows("c"), Move::Hang]),
        ("rows without end", vec![Move::beginning_of_rows("c"), Move::Endless(packets::row(&[Some("x")]))]),
    ];
    for (what, moves) in cases {
        let replica = named("replica").on(&question(&uuid("1")), &moves);
        let scene = Scene::start(replica, |config| config.variable("connect_timeout_server", "1000"));
        let mut session = scene.narrows.client();
        session.set_patience(Duration::from_secs(30));
        run(&mut session, WRITE);
        let (began, mut told) = (Instant::now(), Vec::new());
        for _ in 0..4 {
            let answer = session.query(READ);
            match answer.error() {
                Some(error) => told.push(format!("{} {}", error.code, error.message)),
                None => assert_eq!(answer.cell().as_deref(), Some("writer"), "{what}"),
            }
        }
        println!("{what}: four reads in {:?}, {told:?}", began.elapsed());
        // The replica may be lost with the question, as with any statement.
        assert!(
            told.len() <= 1 && told.iter().all(|text| text.ends_with("It has not run.")),
            "{what}: {told:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", began.elapsed());
    }
}

#[test]
fn a_writer_is_asked_once_what_it_has_written_without_a_report() {
    let scene = Scene::start(has(&uuid("1-5")), |config| config);
    scene.writer.say(write_without_gtid("writer", Some(&uuid("1-5"))));
    let mut session = scene.narrows.client();
    run(&mut session, WRITE);
    assert_eq!(token(&mut session), "unknown");
    assert_eq!(value(&mut session, READ), "writer");
    for _ in 0..5 {
        assert_eq!(value(&mut session, READ), "replica");
    }
    let asked = |text: &str| scene.writer.received().iter().filter(|it| it.body == text).count();
    assert_eq!((asked(WRITER_ASKED), asked(READ)), (1, 1));
    assert_eq!(token(&mut session), format!("0/{}", uuid("1-5")));
}

#[test]
fn useless_answers_of_a_writer_leave_reads_there() {
    let cases: Vec<(&str, Vec<Move>)> = vec![
        ("no GTIDs", vec![one_row(&[None])]),
        ("nonsense", vec![one_row(&[Some("nonsense")])]),
        ("an error", vec![Move::error(1193, "HY000", "Unknown system variable 'gtid_mode'")]),
        ("OK without rows", vec![Move::ok()]),
        ("no row", vec![Move::rows("c", &[])]),
    ];
    for (what, moves) in cases {
        let scene = Scene::start(named("replica"), |config| config);
        let wrote = Move::Reply(vec![packets::ok(1, 0, 2, 0)]);
        scene.writer.say(named("writer").on(WRITE, &[wrote]).on(WRITER_ASKED, &moves));
        let mut session = scene.narrows.client();
        run(&mut session, WRITE);
        for _ in 0..10 {
            assert_eq!(value(&mut session, READ), "writer", "{what}");
        }
        let asked = scene.writer.received().iter().filter(|it| it.body == WRITER_ASKED).count();
        println!("{what}: asked {asked} times for 10 reads");
    }
}

#[test]
fn a_writer_that_does_not_answer_is_given_up_in_time() {
    for moves in [vec![Move::Hang], vec![Move::Close]] {
        let more = |config: NarrowsConfig| {
            let config = config.variable("connect_timeout_server", "500");
            config.variable("connect_timeout_server_max", "2000")
        };
        let scene = Scene::start(named("replica"), more);
        let wrote = Move::Reply(vec![packets::ok(1, 0, 2, 0)]);
        scene.writer.say(named("writer").on(WRITE, &[wrote]).on(WRITER_ASKED, &moves));
        let mut session = scene.narrows.client();
        run(&mut session, WRITE);
        let began = Instant::now();
        let answer = session.query(READ);
        let told = answer.error().map(|error| format!("{} {}", error.code, error.message));
        println!("{moves:?}: {told:?} after {:?}", began.elapsed());
        assert!(
            told.is_none_or(|told| !told.starts_with("2013 Lost connection to server")),
            "the session continues"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        scene.writer.say(write_without_gtid("writer", Some(&uuid("1-5"))));
        narrows_testkit::wait_until("the writer has returned", || {
            let answer = session.query(READ);
            answer.error().is_none() && answer.cell().as_deref() == Some("writer")
        });
    }
}

#[test]
fn a_client_that_switches_reports_off_keeps_them_for_its_reads() {
    let scene = Scene::start(has(&uuid("1")), |config| config);
    let told = "SELECT CAST(CONVERT(@@session.session_track_gtids USING utf8mb4) AS BINARY) LIMIT 1";
    let writer = named("writer").on(WRITE, &[reported(&uuid("1"))]);
    scene.writer.say(writer.on(told, &[one_row(&[Some("OFF")])]));
    let mut session = scene.narrows.client();
    run(&mut session, "SET session_track_gtids = OFF");
    run(&mut session, WRITE);
    let received = scene.writer.received();
    let sent: Vec<&str> =
        received.iter().map(|it| &*it.body).filter(|it| !it.contains("autocommit,")).collect();
    let place = |wanted: &str| received.iter().rposition(|it| it.body.contains(wanted));
    assert!(place("OWN_GTID") > place("session_track_gtids = OFF"), "reports are on again: {sent:?}");
    assert_eq!(value(&mut session, READ), "replica");
}

#[test]
fn a_read_after_a_write_whose_outcome_is_not_known_goes_to_the_writer() {
    let scene = Scene::start(has(&uuid("1-5")), |config| config);
    scene.writer.say(named("writer").on(WRITE, &[Move::Close]));
    let mut session = scene.narrows.client();
    let error = session.query(WRITE).error().expect("its server is lost");
    assert!(!error.message.ends_with("It has not run."), "it may have run: {error:?}");
    scene.writer.say(write_without_gtid("writer", Some(&uuid("1-5"))));
    assert_eq!(value(&mut session, READ), "writer");
    assert_eq!(value(&mut session, READ), "replica");
}

#[test]
fn a_client_that_keeps_its_connections_reads_from_the_writer_while_its_replica_is_behind() {
    let late = || named("replica").on(&question(&uuid("1")), &[one_row(&[Some("1"), Some("")])]);
    for (what, off) in [("the variable", true), ("a rule", false)] {
        let scene = Scene::start(late(), |config| match off {
            true => config.variable("multiplexing", "false"),
            false => {
                config.rule("rule_id=1 match_digest=\"^DO\" destination_hostgroup=1 multiplex=0 apply=1")
            }
        });
        let mut session = scene.narrows.client();
        run(&mut session, "DO 1");
        assert_eq!(value(&mut session, READ), "replica", "{what}");
        run(&mut session, WRITE);
        for _ in 0..5 {
            assert_eq!(value(&mut session, READ), "writer", "{what}");
        }
        scene.replica.say(has(&uuid("1")));
        narrows_testkit::wait_until("the replica is read from again", || {
            value(&mut session, READ) == "replica"
        });
    }
}

#[test]
fn a_client_whose_connection_to_a_replica_has_a_lock_is_told_that_it_is_behind() {
    let late = named("replica").on(&question(&uuid("1")), &[one_row(&[Some("1"), Some("")])]);
    let scene = Scene::start(late, |config| {
        config.rule("rule_id=1 match_digest=\"^DO\" destination_hostgroup=1 apply=1")
    });
    let mut session = scene.narrows.client();
    run(&mut session, "DO GET_LOCK('a', 1)");
    let token = format!("SET @narrows_causal_token = '0/{}'", uuid("1"));
    run(&mut session, &token);
    let error = session.query(READ).error().expect("the replica is behind");
    assert_eq!(error.code, 9001);
    assert!(error.message.ends_with("(causal_reads). It has not run."), "{}", error.message);
}

#[test]
fn a_token_of_what_the_writer_lost_keeps_reads_there_for_ten_seconds() {
    let scene = Scene::start(has(&uuid("1-3")), |config| config);
    scene.writer.say(write_without_gtid("writer", Some(&uuid("1-3"))));
    let mut session = scene.narrows.client();
    run(&mut session, &format!("SET @narrows_causal_token = '0/{}'", uuid("1-5")));
    let began = Instant::now();
    let asked = |text: &str| scene.replica.received().iter().filter(|it| it.body == text).count();
    for _ in 0..20 {
        assert_eq!(value(&mut session, READ), "writer");
    }
    assert_eq!(asked(&question(&uuid("1-5"))), 1, "a replica is asked once");
    narrows_testkit::wait_until("what the writer lacks counts as lost", || {
        value(&mut session, READ) == "replica"
    });
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
    // The writer may still get what another token names.
    run(&mut session, &format!("SET @narrows_causal_token = '0/{}'", uuid("1-6")));
    assert_eq!(value(&mut session, READ), "writer");
}

#[test]
fn a_replica_that_says_that_it_has_less_than_before_is_asked_again() {
    let scene = Scene::start(has(&uuid("1-5")), |config| config);
    let mut session = scene.narrows.client();
    let ask = |session: &mut narrows_testkit::RawClient, numbers: &str| {
        run(session, &format!("SET @narrows_causal_token = '0/{}'", uuid(numbers)));
        value(session, READ)
    };
    assert_eq!(ask(&mut session, "1-5"), "replica");
    assert_eq!(ask(&mut session, "1-3"), "replica", "this takes no question");
    // It was filled with older data, and its connections have stayed open.
    let late = |wanted: &str| (question(&uuid(wanted)), [one_row(&[Some("1"), Some(&uuid("1-2"))])]);
    let (six, three) = (late("1-6"), late("1-3"));
    scene.replica.say(named("replica").on(&six.0, &six.1).on(&three.0, &three.1));
    scene.writer.say(write_without_gtid("writer", Some(&uuid("1-6"))));
    assert_eq!(ask(&mut session, "1-6"), "writer");
    assert_eq!(ask(&mut session, "1-3"), "writer");
    scene.narrows.wait_for_log(0, |log| log.contains("a server lacks transactions that it had before"));
}

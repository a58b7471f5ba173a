//! Many connections to the admin port at once: whatever they run, an administrator can log in and
//! gets an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_testkit::{ErrorPacket, Login, RawClient, command};

use super::{narrows, refusal, rows};

const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT MAX(i) FROM n";

/// About 100 MiB.
const BIG: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 100000) \
                   SELECT i, printf('%1000d', i) FROM n";

#[test]
fn an_administrator_gets_in_while_a_thousand_others_do_not_log_in() {
    let (_server, narrows) = narrows();
    let endpoint = narrows.admin_endpoint();
    let silent: Vec<RawClient> = (0..1_100).map(|_| RawClient::connect(&endpoint)).collect();
    for _ in 0..3 {
        assert_eq!(narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
    }
    drop(silent);
}

#[test]
fn an_administrator_gets_in_when_clients_have_all_descriptors() {
    let (_server, mut narrows) = narrows();
    narrows.process().limit_open_files(256);
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..400 {
        let mut client = RawClient::connect(&narrows.endpoint());
        match client.login(&Login::new("sbtest", "sbtest")) {
            Ok(_) => held.push(client),
            Err(error) => {
                assert_eq!(error.code, 1040, "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(held.len() > 50 && refused > 100, "{} held, {refused} refused", held.len());
    let mut admin = narrows.admin();
    assert_eq!(rows(&mut admin, "SELECT COUNT(*) > 50 FROM stats_mysql_processlist"), [["1"]]);
    assert!(admin.query("SAVE MYSQL USERS TO DISK").error().is_none());
    // Existing sessions are served.
    assert!(held[0].query("DO 1").error().is_none());
}

#[test]
fn users_of_statistics_leave_places_for_administrators() {
    let (_server, narrows) = narrows();
    let mut held = Vec::new();
    let refused: ErrorPacket = loop {
        let mut client = RawClient::connect(&narrows.admin_endpoint());
        match client.login(&Login::new("stats", "stats")) {
            Ok(_) => held.push(client),
            Err(error) => break error,
        }
        assert!(held.len() < 1_000, "one account has all connections");
    };
    assert_eq!((refused.code, refused.message.as_str()), (1040, "Too many connections"));
    assert_eq!(narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn statements_without_end_of_users_of_statistics_keep_no_administrator_waiting() {
    let (_server, narrows) = narrows();
    let mut slow: Vec<RawClient> = (0..20).map(|_| narrows.stats()).collect();
    let mut admin = narrows.admin();
    for client in &mut slow {
        client.send_command(command::QUERY, ENDLESS.as_bytes()).expect("it reads");
    }
    let began = Instant::now();
    assert_eq!(admin.query("SELECT 1").cell().as_deref(), Some("1"));
    // One of them may be running; all of them would take 40 s.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let (code, text) = refusal(&slow[0].answer(command::QUERY));
    assert_eq!(code, 1045);
    assert!(text.contains("longer than 2 seconds"), "{text}");
}

/// Each of them is, or was, a few steps of SQLite's virtual machine that take minutes.
const HOSTILE: &[&str] = &[
    "SELECT instr(zeroblob(20000000), zeroblob(10000000)||x'01')",
    "SELECT instr(zeroblob(2000000), zeroblob(1000000)||x'01')",
    "SELECT replace(zeroblob(2000000), zeroblob(1000000)||x'01', 'x')",
    "SELECT sum(length(hex(randomblob(20000000)))) FROM stats_mysql_global",
    "SELECT sum(length(hex(randomblob(500000)))) FROM stats_mysql_global a, stats_mysql_global b",
    "SELECT length(trim(printf('%1000000d', 1), hex(randomblob(400000))||' '))",
    "SELECT printf('%1000000d', 1) LIKE '%' || printf('%4000d', 2)",
    "SELECT printf('%1000000d', 1) GLOB '*' || printf('%4000d', 2)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT group_concat(hex(zeroblob(400000))) FROM n",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 150000), o(t) AS \
     (SELECT '{' || group_concat('\"' || i || '\":1') || '}' FROM n) SELECT length(json_patch(t, t)) FROM o",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT random() FROM n ORDER BY 1",
    ENDLESS,
];

#[test]
fn no_statement_of_a_user_of_statistics_keeps_anybody_waiting() {
    let (_server, narrows) = narrows();
    let mut admin = narrows.admin();
    for statement in HOSTILE {
        let mut hostile = narrows.stats();
        hostile.send_command(command::QUERY, statement.as_bytes()).expect("it reads");
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(admin.query("SELECT 1").cell().as_deref(), Some("1"));
        }
        let took = began.elapsed();
        println!("{took:?} for administrators beside {statement}");
        // Each took minutes; other load on the machine does not cause that.
        assert!(took < Duration::from_secs(20), "{took:?}: {statement}");
        let (code, text) = match hostile.answer(command::QUERY).error() {
            Some(error) => (error.code, error.message),
            None => (1045, String::new()),
        };
        println!("{:?}: {text}", began.elapsed());
        assert_eq!(code, 1045, "{statement}: {text}");
        // The next user of statistics does not wait for long either.
        assert_eq!(narrows.stats().query("SELECT 2").cell().as_deref(), Some("2"), "{statement}");
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}: {statement}", began.elapsed());
    }
}

#[test]
fn statements_of_administrators_run_beside_those_of_users_of_statistics() {
    let (_server, narrows) = narrows();
    let (mut slow, mut admin) = (narrows.stats(), narrows.admin());
    let ask = "SELECT COUNT(*) > 0 FROM stats_mysql_global";
    // How many are answered while one runs that ends after 2 s; if they took turns, only those before it would be.
    let mut beside = |slow: &mut RawClient| {
        slow.send_command(command::QUERY, ENDLESS.as_bytes()).expect("it reads");
        let is_over = AtomicBool::new(false);
        let mut answered = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (_, text) = refusal(&slow.answer(command::QUERY));
                assert!(text.contains("longer than 2 seconds"), "{text}");
                is_over.store(true, Ordering::SeqCst);
            });
            while !is_over.load(Ordering::SeqCst) {
                assert_eq!(admin.query(ask).cell().as_deref(), Some("1"));
                answered += 1;
            }
        });
        answered
    };
    let most = (0..5).map(|_| beside(&mut slow)).find(|answered| *answered > 20);
    assert!(most.is_some(), "administrators waited for a user of statistics each time");
}

#[test]
fn a_statement_of_a_user_of_statistics_who_has_left_ends() {
    let (_server, narrows) = narrows();
    for _ in 0..20 {
        let mut leaves = narrows.stats();
        leaves.send_command(command::QUERY, ENDLESS.as_bytes()).expect("it reads");
        drop(leaves);
    }
    let began = Instant::now();
    assert_eq!(narrows.stats().query("SELECT 1").cell().as_deref(), Some("1"));
    // All of them would take 40 s.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn answers_that_nobody_takes_have_one_bound() {
    let (_server, mut narrows) = narrows();
    let before = narrows.resident_bytes();
    let mut slow: Vec<RawClient> = (0..12).map(|_| narrows.stats()).collect();
    for client in &mut slow {
        client.send_command(command::QUERY, BIG.as_bytes()).expect("it reads");
    }
    let is_refused = |client: &mut RawClient| {
        let first = client.read().expect("an answer");
        ErrorPacket::decode(&first.payload).is_some_and(|error| {
            assert!(error.message.contains("no room for an answer"), "{error:?}");
            true
        })
    };
    let refused = slow.iter_mut().map(is_refused).filter(|refused| *refused).count();
    assert_eq!(refused, 11, "there is room for one of them");
    let grown = narrows.process().peak_resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 600, "{grown} MiB for twelve slow readers");
    // Administrators have their own quota.
    let mut admin = narrows.admin();
    assert_eq!(admin.query(BIG).text_rows().len(), 100_000);
    // What is no longer used is available to others.
    drop(slow);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut stats = narrows.stats();
    while stats.query(BIG).error().is_some() {
        assert!(Instant::now() < deadline, "the memory is not released");
    }
}

#[test]
fn a_packet_that_is_announced_and_does_not_come_takes_no_memory() {
    let (_server, narrows) = narrows();
    let before = narrows.resident_bytes();
    let mut sessions: Vec<RawClient> = (0..50).map(|_| narrows.admin()).collect();
    for session in &mut sessions {
        session.send_bytes(&[0xFF, 0xFF, 0xFE, 0, command::QUERY]).expect("it reads");
    }
    // An answer on another session shows that those have been read.
    assert_eq!(narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
    let grown = narrows.resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 100, "{grown} MiB for 50 sessions that have sent five bytes");
}

#[test]
fn failed_logins_are_counted_in_the_log_and_not_told_one_by_one() {
    let (_server, narrows) = narrows();
    let skipped = narrows.log().len();
    for endpoint in [narrows.endpoint(), narrows.admin_endpoint()] {
        for _ in 0..200 {
            assert!(RawClient::connect(&endpoint).login(&Login::new("nobody", "x")).is_err());
        }
    }
    for what in ["more logins have failed", "more admin logins have failed"] {
        let line = narrows.wait_for_log(skipped, |line| line.contains(what));
        assert!(line.contains("suppressed="), "{line}");
    }
    let log = narrows.log();
    let lines = log[skipped..].lines().filter(|line| line.contains("login failed")).count();
    assert!(lines < 200, "{lines} lines for 400 failed logins");
}

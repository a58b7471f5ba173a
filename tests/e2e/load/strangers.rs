//! A hundred thousand logins with a wrong password: how long clients wait beside them, and what the log has of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, wait_until};

use crate::alone;

const LOGINS: usize = 100_000;

/// Logs in with a wrong password.
fn knock(narrows: &Narrows, times: usize) {
    let login = Login::new("sbtest", "wrong");
    for _ in 0..times {
        let refused = RawClient::connect(&narrows.endpoint()).login(&login);
        assert_eq!(refused.expect_err("the password is wrong").code, 1045);
    }
}

/// Runs statements until `is_over`; returns how long each took, the shortest first.
fn waits(narrows: &Narrows, is_over: &AtomicBool) -> Vec<Duration> {
    let mut client = narrows.client();
    let mut waits = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        assert_eq!(client.query("DO 1").error(), None);
        waits.push(begun.elapsed());
    }
    waits.sort_unstable();
    waits
}

/// The number that follows `key` in the lines of a log, in all.
fn sum(log: &str, key: &str) -> usize {
    let counts = log.lines().filter_map(|line| line.split(key).nth(1));
    counts.filter_map(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).sum()
}

#[test]
fn failing_logins_fill_no_log_and_delay_nobody() {
    let _alone = alone();
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &NarrowsConfig::in_front_of(server.port()));
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    let waits = std::thread::scope(|scope| {
        let client = scope.spawn(|| waits(&narrows, &is_over));
        let strangers: Vec<_> = (0..4).map(|_| scope.spawn(|| knock(&narrows, LOGINS / 4))).collect();
        strangers.into_iter().for_each(|stranger| stranger.join().expect("all are refused"));
        is_over.store(true, Ordering::Relaxed);
        client.join().expect("the client is served")
    });
    let seconds = begun.elapsed().as_secs_f64();
    let at = |permille: usize| waits[(waits.len() - 1) * permille / 1000];
    println!(
        "{LOGINS} failing logins in {seconds:.1} s; beside them {} statements of a client: median {:.0?}, p99 {:.0?}, longest {:.0?}",
        waits.len(),
        at(500),
        at(990),
        at(1000)
    );
    let counted =
        "SELECT variable_value FROM stats_mysql_global WHERE variable_name = 'Access_Denied_Wrong_Password'";
    assert_eq!(narrows.admin().query(counted).cell(), Some(LOGINS.to_string()));
    let failed = |log: &str| log.lines().filter(|line| line.contains("login failed")).count();
    wait_until("the rest is counted", || {
        let log = narrows.log();
        failed(&log) + sum(&log, "suppressed=") >= LOGINS
    });
    let log = narrows.log();
    assert_eq!(failed(&log) + sum(&log, "suppressed="), LOGINS);
    println!("{} lines in the log", log.lines().count());
    assert!(log.lines().count() < 1000);
}

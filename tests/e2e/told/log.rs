//! The log itself: its form, its levels, and its limits.

use std::time::{Duration, Instant};

use narrows_testkit::{Login, Monitor, Narrows, NarrowsConfig, RawClient, free_port};
use serde_json::Value;

use super::{run, warnings};
use crate::support::start;

/// Logs in with a wrong password, from several threads; returns how many logins there were.
fn knock(narrows: &Narrows, threads: usize, each: usize) -> usize {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let login = Login::new("sbtest", "wrong");
                for _ in 0..each {
                    let refused = RawClient::connect(&narrows.endpoint()).login(&login);
                    assert_eq!(refused.expect_err("the password is wrong").code, 1045);
                }
            });
        }
    });
    threads * each
}

#[test]
fn a_flood_of_failing_logins_leaves_few_lines_and_right_counts() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let logins = knock(&narrows, 8, 500);
    // Others are served.
    drop(narrows.client());
    let counted = narrows
        .admin()
        .query("SELECT variable_value FROM stats_mysql_global WHERE variable_name = 'Access_Denied_Wrong_Password'")
        .cell();
    assert_eq!(counted, Some(logins.to_string()));
    let failed = |log: &str| log.lines().filter(|line| line.contains("login failed")).count();
    let left_out = |log: &str| -> usize {
        let counts = log.lines().filter_map(|line| line.split("suppressed=").nth(1));
        counts.filter_map(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).sum()
    };
    // The rest is counted a few seconds later.
    let until = Instant::now() + Duration::from_secs(30);
    while failed(&narrows.log()) + left_out(&narrows.log()) < logins && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    let log = narrows.log();
    assert_eq!(failed(&log) + left_out(&log), logins, "{log}");
    assert!(log.lines().count() < 300, "{} lines", log.lines().count());
}

#[test]
fn levels_can_be_changed_while_it_runs() {
    let server = narrows_testkit::RealServer::shared(narrows_testkit::Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let pin = || {
        let mut client = narrows.client();
        client.query("BEGIN");
        client.query("SELECT 1");
        let log = narrows.log();
        log.lines().filter(|line| line.contains("DEBUG narrows_proxy::pins")).count()
    };
    assert_eq!(pin(), 0);
    let mut admin = narrows.admin();
    run(&mut admin, &["SET admin-log_level = 'info,narrows_proxy::pins=debug'"]);
    assert!(warnings(&mut admin, "LOAD ADMIN VARIABLES TO RUNTIME").is_empty());
    let pinned = pin();
    assert!(pinned > 0, "{}", narrows.log());
    run(&mut admin, &["SET admin-log_level = 'a,b=c'"]);
    let told = warnings(&mut admin, "LOAD ADMIN VARIABLES TO RUNTIME");
    assert!(
        told.len() == 1 && told[0].starts_with("admin-log_level: the levels of the log stay"),
        "{told:?}"
    );
    assert!(pin() > pinned, "the former ones stay");
    // It can be taken back.
    run(&mut admin, &["SET admin-log_level = 'error'", "LOAD ADMIN VARIABLES TO RUNTIME"]);
    let lines = narrows.log().lines().count();
    pin();
    run(&mut admin, &["SET admin-log_level = ''", "LOAD ADMIN VARIABLES TO RUNTIME"]);
    assert!(narrows.log().lines().count() <= lines + 2, "{}", narrows.log());
}

#[test]
fn it_can_be_json() {
    let narrows = Narrows::start_with(env!("CARGO_BIN_EXE_narrows"), Monitor::Off, |interfaces, admin| {
        "log_format=\"JSON\"\n".to_owned() + &NarrowsConfig::in_front_of(free_port()).text(interfaces, admin)
    });
    knock(&narrows, 1, 1);
    // Text of clients is quoted.
    let refused = RawClient::connect(&narrows.endpoint()).login(&Login::new("o\"n\ne\u{1b}", "x"));
    assert!(refused.is_err());
    narrows.wait_for_log(0, |line| line.contains("u001b"));
    let log = narrows.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        let is_text = |name: &str| line[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(
            is_text("timestamp") && is_text("level") && is_text("target") && is_text("message"),
            "{line}"
        );
    }
    let failed = lines.iter().filter(|line| line["message"] == "login failed");
    let errors: Vec<&str> = failed.filter_map(|line| line["error"].as_str()).collect();
    assert!(
        errors.len() == 2 && errors[0].contains("'sbtest'") && errors[1].contains("'o\"n"),
        "{errors:?}\n{log}"
    );
}

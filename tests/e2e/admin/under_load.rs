//! A thousand LOADs while sysbench runs: no error, and clients wait no longer than without.
//!
//! With `NARROWS_SYSBENCH_SECONDS`, the length of each run, rounds with and without LOADs alternate, and the percentiles
//! of both are printed; they are not checked, because other tests run at the same time. By default there are only rounds
//! with LOADs, of 3 seconds each.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RawClient, ServerOptions};

use super::{all_done, rows, start};

const ROUNDS: usize = 3;
const LOADS: usize = 1_000;

#[test]
fn a_thousand_loads_disturb_nobody() {
    let server = ServerOptions::new(Flavour::MariaDb).start();
    server.execute(&["CREATE DATABASE IF NOT EXISTS sbtest"]);
    let config = NarrowsConfig::in_front_of(server.port())
        .rule("rule_id=1 active=1 match_digest=\"^SELECT .* FOR UPDATE\" destination_hostgroup=0 apply=1");
    let narrows = start(&config);
    let mut administrator = narrows.admin();
    finish(sysbench(&narrows, &["oltp_common", "prepare"]));
    let wanted = std::env::var("NARROWS_SYSBENCH_SECONDS").ok();
    let seconds: u64 = wanted.as_deref().unwrap_or("3").parse().expect("a number of seconds");
    let time = format!("--time={seconds}");
    let run = || sysbench(&narrows, &["oltp_read_write", "run", "--threads=8", "--percentile=99", &time]);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut loads = 0;
    for round in 0..ROUNDS {
        if wanted.is_some() {
            without.push(percentile(&finish(run())));
        }
        let child = run();
        let until = LOADS * (round + 1) / ROUNDS;
        let pause =
            Duration::from_secs(seconds).mul_f64(0.8) / u32::try_from(until - loads).expect("a few hundred");
        while loads < until {
            let began = Instant::now();
            load(&mut administrator, loads);
            loads += 1;
            std::thread::sleep(pause.saturating_sub(began.elapsed()));
        }
        with.push(percentile(&finish(child)));
    }
    println!("p99 in ms without LOADs: {without:?}; with {loads} LOADs: {with:?}");
    let versions =
        "SELECT version FROM runtime_checksums_values WHERE name IN ('mysql_users', 'mysql_query_rules')";
    for row in rows(&mut administrator, versions) {
        assert!(row[0].parse::<usize>().expect("a number") > LOADS / 3, "{row:?}");
    }
    assert!(narrows.client().query("DO 0").ok().is_some());
}

/// A LOAD of what has changed since the last one.
fn load(administrator: &mut RawClient, number: usize) {
    let (table, module) = [
        ("mysql_query_rules", "MYSQL QUERY RULES"),
        ("mysql_servers", "MYSQL SERVERS"),
        ("mysql_users", "MYSQL USERS"),
    ][number % 3];
    let change = format!("UPDATE {table} SET comment='load {number}'");
    all_done(administrator, &[&change, &format!("LOAD {module} TO RUNTIME")]);
}

fn sysbench(narrows: &Narrows, arguments: &[&str]) -> Child {
    Command::new("sysbench")
        .args([
            "--mysql-host=127.0.0.1",
            "--mysql-user=sbtest",
            "--mysql-password=sbtest",
            "--mysql-db=sbtest",
        ])
        .args(["--mysql-ssl=off", "--db-ps-mode=disable", "--tables=4", "--table-size=5000"])
        .args(["--rand-type=uniform", &format!("--mysql-port={}", narrows.port())])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sysbench is installed; scripts/setup.sh load does that")
}

/// Its report; sysbench ends at the first error that the server's own locks do not explain.
fn finish(child: Child) -> String {
    let output = child.wait_with_output().expect("it is ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn percentile(report: &str) -> f64 {
    let number = report.split_once("99th percentile:").and_then(|(_, rest)| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no percentile in {report}"))
}

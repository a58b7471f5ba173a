//! sysbench through the read/write split, on a primary and two replicas: no errors, reads on the replicas, writes and
//! transactions on the primary, as counted by the servers.
//!
//! `NARROWS_SYSBENCH_SECONDS` is the length of each run, 10 by default: each statement is counted, and there are more than
//! 50,000.

use std::process::Command;

use narrows_testkit::{Monitor, Narrows};

use crate::sandbox::{Sandbox, app_client};

#[test]
fn sysbench_reads_on_replicas_and_writes_on_the_primary() {
    let sandbox = Sandbox::start(&["--replicas", "2"]);
    let narrows = Narrows::start_with(env!("CARGO_BIN_EXE_narrows"), Monitor::Off, |interfaces, admin| {
        sandbox.config(interfaces, admin)
    });
    let run = |arguments: &[&str]| sysbench(narrows.port(), arguments);
    run(&["oltp_common", "prepare", "--threads=4"]);
    wait_for_replicas(&sandbox);
    let seconds = std::env::var("NARROWS_SYSBENCH_SECONDS").unwrap_or_else(|_| "10".to_owned());
    let seconds = format!("--time={seconds}");

    let before = counters(&sandbox);
    let output = run(&["oltp_read_only", "run", "--skip-trx=on", "--threads=64", &seconds]);
    let reads = difference(&before, &counters(&sandbox));
    assert_eq!(figure(&output, "ignored errors:"), 0, "{output}");
    let asked = figure(&output, "read:");
    let [primary, replicas @ ..] = &reads[..] else { panic!("a primary and two replicas") };
    assert_eq!(primary.selects, 0, "{reads:?}");
    assert!(replicas.iter().map(|replica| replica.selects).sum::<u64>() >= asked, "{asked}: {reads:?}");
    for replica in replicas {
        // They have the same weight.
        assert!(replica.selects > asked / 4, "{asked}: {reads:?}");
    }

    let before = counters(&sandbox);
    let output = run(&["oltp_read_write", "run", "--threads=64", &seconds]);
    let writes = difference(&before, &counters(&sandbox));
    let [primary, replicas @ ..] = &writes[..] else { panic!("a primary and two replicas") };
    // A deadlock is reported by the server, and sysbench restarts the transaction.
    assert_eq!(figure(&output, "ignored errors:"), primary.deadlocks, "{output}");
    assert!(primary.selects >= figure(&output, "read:"), "{writes:?}\n{output}");
    assert!(primary.writes >= figure(&output, "write:"), "{writes:?}\n{output}");
    for replica in replicas {
        // What a replica applies counts as a write there too; it would refuse a client's own write.
        assert_eq!(replica.selects, 0, "{writes:?}");
        assert!(replica.writes <= primary.writes, "{writes:?}");
    }
    narrows.client().query("DO 0").ok().expect("Narrows still serves");
}

/// Runs it and returns its output. It ends at the first error not explained by the server's own locks.
pub fn sysbench(port: u16, arguments: &[&str]) -> String {
    let output = Command::new("sysbench")
        .args([
            "--mysql-host=127.0.0.1",
            "--mysql-user=sbtest",
            "--mysql-password=sbtest",
            "--mysql-db=sbtest",
        ])
        .args(["--mysql-ssl=off", "--db-ps-mode=disable", "--tables=4", "--table-size=20000"])
        .args(["--rand-type=uniform", &format!("--mysql-port={port}")])
        .args(arguments)
        .output()
        .expect("sysbench is installed; scripts/setup.sh load does that");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The first number after a name in sysbench's report.
pub fn figure(report: &str, name: &str) -> u64 {
    let number = report.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn wait_for_replicas(sandbox: &Sandbox) {
    let [primary, replicas @ ..] = sandbox.servers() else { panic!("a primary and two replicas") };
    let position = app_client(primary.port).query("SELECT @@gtid_binlog_pos").cell().expect("a position");
    for replica in replicas {
        let waited = app_client(replica.port).query(format!("SELECT MASTER_GTID_WAIT('{position}', 60)"));
        assert_eq!(waited.cell().as_deref(), Some("0"), "a replica does not follow");
    }
}

/// A server's counter.
#[derive(Debug, Default)]
struct Counters {
    selects: u64,
    writes: u64,
    deadlocks: u64,
}

fn counters(sandbox: &Sandbox) -> Vec<Counters> {
    let of_server = |port| {
        let mut client = app_client(port);
        let mut counters = Counters::default();
        for row in client.query("SHOW GLOBAL STATUS").text_rows() {
            let [Some(name), Some(value)] = &row[..] else { continue };
            let value = value.parse().unwrap_or(0);
            match name.as_str() {
                "Com_select" => counters.selects = value,
                "Com_insert" | "Com_update" | "Com_delete" => counters.writes += value,
                "Innodb_deadlocks" => counters.deadlocks = value,
                _ => {}
            }
        }
        counters
    };
    sandbox.servers().iter().map(|server| of_server(server.port)).collect()
}

fn difference(before: &[Counters], after: &[Counters]) -> Vec<Counters> {
    let of_server = |(before, after): (&Counters, &Counters)| Counters {
        selects: after.selects - before.selects,
        writes: after.writes - before.writes,
        deadlocks: after.deadlocks - before.deadlocks,
    };
    before.iter().zip(after).map(of_server).collect()
}

//! `tests/drivers/python/split.py`: a Python application, with each of the usual drivers, over a read/write split and
//! on one server; the two are compared.
//!
//! `NARROWS_SPLIT_STEPS` is the number of steps per driver; `NARROWS_SEED` generates other scripts.

use std::path::Path;
use std::process::Command;

use narrows_testkit::Flavour;

use super::{Replicated, start};

#[test]
fn pymysql_works_over_a_split() {
    run("pymysql");
}

#[test]
fn mysqlclient_works_over_a_split() {
    run("MySQLdb");
}

#[test]
fn sqlalchemy_works_over_a_split() {
    run("sqlalchemy");
}

#[test]
fn django_works_over_a_split() {
    run("django");
}

/// Steps per driver in the suite: a defect shows within a few dozen.
const STEPS: &str = "400";

fn run(client: &str) {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("{client} is skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    let steps = std::env::var("NARROWS_SPLIT_STEPS").unwrap_or_else(|_| STEPS.to_owned());
    let seed = std::env::var("NARROWS_SEED").unwrap_or_else(|_| "1".to_owned());
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 2);
        let narrows = start(&servers.config());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers");
        let output = Command::new(folder.join("split.sh"))
            .args([client, "127.0.0.1", &narrows.port().to_string(), "sbtest", "sbtest", "127.0.0.1"])
            .args([&servers.primary.port().to_string(), &steps, &seed])
            .output()
            .expect("bash runs scripts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{client}, {flavour:?}, seed {seed}:\n{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        eprintln!("{client}, {flavour:?}: {}", said.trim());
        assert!(servers.replicas_have_written_nothing(), "{client}, {flavour:?}, seed {seed}");
    }
}

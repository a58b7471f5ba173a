//! Real drivers: each runs its script of checks in `tests/drivers` against Narrows in front of MariaDB and of MySQL 9.
//!
//! `NARROWS_E2E_TARGET=direct` runs them against the server itself, which shows whether the check or the proxy is
//! wrong. `NARROWS_SKIP_DRIVERS=1` skips them if their toolchains cannot be installed.

use std::path::Path;
use std::process::Command;

use narrows_testkit::{Flavour, NarrowsConfig, RawClient, RealServer};

use crate::support::start;

#[test]
fn mariadb_command_line_client_works() {
    run_checks("mariadb-cli");
}

#[test]
fn pymysql_works() {
    run_checks("pymysql");
}

#[test]
fn mysqlclient_works() {
    run_checks("mysqlclient");
}

#[test]
fn go_sql_driver_works() {
    run_checks("go-mysql");
}

#[test]
fn node_mysql2_works() {
    run_checks("node-mysql2");
}

#[test]
fn mysql_connector_j_works() {
    run_checks("connector-j");
}

#[test]
fn mariadb_connector_j_works() {
    run_checks("mariadb-java");
}

#[test]
fn mariadb_connector_c_works() {
    run_checks("mariadb-c");
}

#[test]
fn php_mysqlnd_works() {
    run_checks("php");
}

#[test]
fn mysql_connector_python_works() {
    run_checks("connector-python");
}

fn run_checks(driver: &str) {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("{driver} is skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    for flavour in Flavour::both() {
        if (driver, flavour) == ("mariadb-java", Flavour::MySql9) {
            // Its prepared statements do not work there without Narrows either: MySQL 9 reports one of its packets as
            // malformed (error 1835).
            continue;
        }
        let server = RealServer::shared(flavour);
        if std::env::var("NARROWS_E2E_TARGET").as_deref() == Ok("direct") {
            run_script(driver, server.port());
        } else {
            let config = NarrowsConfig::in_front_of(server.port())
                .variable("max_allowed_packet", "268435456")
                .variable("enable_load_data_local_infile", "true")
                // Drivers choose their statements by it.
                .variable("server_version", &version_of(server));
            let narrows = start(&config);
            run_script(driver, narrows.port());
        }
        eprintln!("{driver} works with {flavour:?}");
    }
}

/// What the server calls itself in its greeting.
fn version_of(server: &RealServer) -> String {
    let mut client = RawClient::connect(&server.endpoint());
    client.greeting().expect("a greeting").version.clone()
}

fn run_script(driver: &str, port: u16) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/run.sh");
    let output = Command::new(script)
        .args([driver, "127.0.0.1", &port.to_string(), "sbtest", "sbtest"])
        .output()
        .expect("bash runs scripts");
    assert!(
        output.status.success(),
        "{driver} ({}):\n{}{}\nToolchains are installed by `scripts/setup.sh drivers`; NARROWS_SKIP_DRIVERS=1 skips this.",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

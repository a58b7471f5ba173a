//! From nothing to a first statement through Narrows: few typed lines, within a minute, with real servers of every kind.

use std::process::Command;
use std::time::{Duration, Instant};

use narrows_testkit::{Cluster, Flavour, ServerOptions};

use super::{BINARY, Place, sandbox_with, text};

/// The most lines that may be typed: `narrows init` and its answers, `narrows -f`, and the client.
const MOST_LINES: usize = 9;

const MOST_TIME: Duration = Duration::from_secs(60);

/// Types everything for the server at `port`; the first statement of the client must succeed.
fn first_statement(port: u16, account: &str, answers: &[(&str, &str)]) -> Place {
    let begun = Instant::now();
    let place = Place::new();
    let server = format!("127.0.0.1:{port}");
    let options = ["--server", &server, "--user", account, "--app-user", account, "--app-password", account];
    let password = format!("Password of '{account}': ");
    let mut steps = vec![(password.as_str(), account)];
    steps.extend(answers);
    let (is_success, shown) = place.type_answers(&steps, &options);
    assert!(is_success, "{shown}");
    let _narrows = place.serve();
    let answer = place.client(account).query("SELECT 1");
    assert!(answer.error().is_none(), "{:?}\n{}", answer.error(), place.log());
    let (lines, took) = (1 + steps.len() + 2, begun.elapsed());
    assert!(lines <= MOST_LINES, "{lines} lines:\n{shown}");
    assert!(took < MOST_TIME, "{took:?}");
    let mut check = Command::new(BINARY);
    check.args(["check", "--strict", "--connect", "narrows.toml"]).current_dir(place.folder.path());
    let checked = check.env_remove("NARROWS_LOG").output().expect("the program runs");
    assert!(checked.status.success(), "{}", text(&checked.stdout));
    println!("{lines} lines and {took:.1?}");
    place
}

const MONITOR: (&str, &str) = ("Run them on ", "y");
const SPLIT: (&str, &str) = ("to the replicas? [Y/n]: ", "");

#[test]
fn to_a_lone_server() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).start();
        first_statement(server.port(), "sbtest", &[MONITOR]);
    }
}

#[test]
fn to_a_primary_with_two_replicas() {
    for flavour in Flavour::both() {
        let sandbox = sandbox_with(flavour, &["--replicas", "2"]);
        let place = first_statement(sandbox.servers()[1].port, "app", &[SPLIT]);
        assert_eq!(place.toml().matches("[[mysql_servers]]").count(), 3, "{}", place.toml());
    }
}

#[test]
fn to_a_galera_cluster() {
    Flavour::MariaDb.if_tested(|_| {
        let Some(cluster) = Cluster::galera() else {
            println!("not tested: galera-4 or rsync is not installed");
            return;
        };
        let place = first_statement(cluster.servers()[2].port(), "sbtest", &[SPLIT, MONITOR]);
        assert_eq!(place.toml().matches("[[mysql_servers]]").count(), 3, "{}", place.toml());
    });
}

#[test]
fn to_a_group() {
    Flavour::MySql9.if_tested(|_| {
        let cluster = Cluster::group();
        let place = first_statement(cluster.servers()[1].port(), "sbtest", &[SPLIT, MONITOR]);
        let toml = place.toml();
        assert_eq!(toml.matches("[[mysql_servers]]").count(), 3, "{toml}");
        assert!(toml.contains("[[mysql_group_replication_hostgroups]]"), "{toml}");
    });
}

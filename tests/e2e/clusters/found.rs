//! Real trios of which one node is configured: the others are found, checked, and take over.

use std::path::Path;
use std::time::Duration;

use narrows_testkit::{Flavour, wait_until};
use rustix::process::Signal;

use super::{INTERVAL, Trio};
use crate::init::folder_of_mysql9;

/// A configuration with the first server only, whose others are found.
fn with_one_server(text: &str, kind: &str, interval: &str) -> String {
    let mut servers = 0;
    let is_kept = |part: &&str| {
        servers += usize::from(part.starts_with("[[mysql_servers]]"));
        !part.starts_with("[[mysql_servers]]") || servers == 1
    };
    let text = text.split("\n\n").filter(is_kept).collect::<Vec<_>>().join("\n\n");
    let more = format!(
        "monitor_{interval}_interval = {}\nmonitor_{interval}_timeout = 400\nmonitor_ping_interval = 1000\n\
         monitor_{kind}_autodiscovery = true",
        INTERVAL.as_millis()
    );
    text.replace(&format!("monitor_{interval}_interval = 1000"), &more)
}

/// Waits until all nodes are in use, although one of them is configured.
fn wait_until_found(trio: &mut Trio) {
    let configured = trio.ask("SELECT COUNT(*) FROM mysql_servers");
    assert_eq!(configured, ["1"]);
    wait_until("all are found", || {
        let in_use = [0, 1, 2].map(|hostgroup| trio.nodes_in(hostgroup)).concat();
        (0..3).all(|node| in_use.contains(&node)) && trio.nodes_in(3).is_empty()
    });
    let log = trio.narrows.log();
    assert_eq!(log.matches("a node of a cluster was found").count(), 2, "{log}");
}

#[test]
fn one_node_of_a_galera_trio_is_configuration_enough() {
    if !Path::new("/usr/lib/galera/libgalera_smm.so").exists() || !Path::new("/usr/bin/rsync").exists() {
        println!("not tested: galera-4 or rsync is not installed");
        return;
    }
    let mut trio = Trio::start(&["--galera"], |text| with_one_server(&text, "galera", "galera_healthcheck"));
    wait_until_found(&mut trio);
    assert_eq!(trio.writer(), Some(0), "the one that is configured was the writer before others were found");
    // The one that is configured dies: one that was found takes over, and both stay.
    trio.signal(0, Signal::KILL);
    wait_until("one that was found is the writer", || trio.writer().is_some_and(|writer| writer != 0));
    let mut client = trio.client();
    assert!(client.query("CREATE TABLE app.of_found (n INT PRIMARY KEY)").error().is_none());
    trio.start_again(0, true);
    wait_until("it is back", || trio.nodes_in(2).contains(&0));
    // One that leaves the cluster is no longer named.
    let writer = trio.writer().expect("a writer");
    let other = if writer == 1 { 2 } else { 1 };
    trio.signal(other, Signal::TERM);
    wait_until("it leaves", || {
        trio.narrows.log().contains("a node that was found is no longer named, and leaves")
    });
    assert_eq!(trio.writer(), Some(writer));
    assert_eq!(trio.nodes_in(2), [0]);
}

#[test]
fn one_member_of_a_group_is_configuration_enough() {
    Flavour::MySql9.if_tested(|_| {
        let folder = folder_of_mysql9();
        let mut trio = Trio::start(&["--group-replication", "--server", &folder], |text| {
            with_one_server(&text, "groupreplication", "groupreplication_healthcheck")
        });
        wait_until_found(&mut trio);
        let writer = trio.writer().expect("a writer");
        let secondary = (writer + 1) % 3;
        trio.on(secondary, &["STOP GROUP_REPLICATION"]);
        wait_until("it gets no reads", || !trio.nodes_in(1).contains(&secondary));
        trio.on(secondary, &["START GROUP_REPLICATION"]);
        wait_until("it is read from again", || trio.nodes_in(1).contains(&secondary));
        trio.signal(0, Signal::KILL);
        wait_until("one that was found is the writer", || trio.writer().is_some_and(|writer| writer != 0));
        std::thread::sleep(Duration::from_secs(1));
        let mut client = trio.client();
        assert!(client.query("CREATE TABLE app.of_found (n INT PRIMARY KEY)").error().is_none());
    });
}

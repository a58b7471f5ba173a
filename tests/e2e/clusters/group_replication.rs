//! A real Group Replication trio with one primary: an election by hand, and a primary that dies.

use narrows_testkit::{Flavour, wait_until};
use rustix::process::Signal;

use super::{INTERVAL, Scene, Trio};
use crate::init::folder_of_mysql9;

#[test]
fn the_writer_of_a_group_is_its_primary() {
    Flavour::MySql9.if_tested(|_| {
        let folder = folder_of_mysql9();
        let mut trio = Trio::start(&["--group-replication", "--server", &folder], |text| {
            let interval =
                format!("monitor_groupreplication_healthcheck_interval = {}", INTERVAL.as_millis());
            let more = "monitor_groupreplication_healthcheck_timeout = 400\nmonitor_ping_interval = 1000";
            text.replace(
                "monitor_groupreplication_healthcheck_interval = 1000",
                &format!("{interval}\n{more}"),
            )
        });
        trio.wait_until_healthy();
        what_is_shown(&mut trio);
        an_election_by_hand(&mut trio);
        a_member_that_leaves(&mut trio);
        a_killed_primary(&mut trio);
    });
}

/// The tables and the statements that show the group.
fn what_is_shown(trio: &mut Trio) {
    let log = "SELECT DISTINCT viable_candidate, read_only, error FROM monitor.mysql_server_group_replication_log \
               ORDER BY read_only";
    wait_until("checks have results", || trio.ask(log) == ["YES NO NULL", "YES YES NULL"]);
    wait_until("secondaries are read from", || trio.nodes_in(1).len() == 2);
    wait_until("a secondary is no backup writer", || trio.nodes_in(2).is_empty());
    let status = trio.ask("SHOW NARROWS STATUS").join("\n");
    assert!(status.contains("reader for") && status.contains("it is a secondary"), "{status}");
}

/// The operator chooses another primary: no client notices.
fn an_election_by_hand(trio: &mut Trio) {
    let mut scene = Scene::begin("group_replication_set_as_primary", trio);
    let old = scene.writer;
    let new = (old + 1) % 3;
    let mut on_new = scene.trio.client_of(new);
    scene.faults_now();
    let chosen = on_new.query("SELECT group_replication_set_as_primary(@@server_uuid)");
    assert!(chosen.error().is_none(), "{:?}", chosen.error());
    let (writer, took) = scene.wait_for_another();
    println!("election: another writer after {took:?}");
    assert_eq!(writer, new);
    wait_until("the former primary is read from", || scene.trio.nodes_in(1).contains(&old));
    let written = scene.end(2 * INTERVAL);
    assert_eq!((written.errors.len(), written.lost, written.order.len()), (0, 0, 2), "{written}");
}

/// A secondary leaves the group and joins it again.
fn a_member_that_leaves(trio: &mut Trio) {
    let scene = Scene::begin("STOP GROUP_REPLICATION", trio);
    let secondary = (scene.writer + 1) % 3;
    scene.trio.on(secondary, &["STOP GROUP_REPLICATION"]);
    wait_until("it is out of use", || scene.trio.nodes_in(3) == [secondary]);
    scene.trio.on(secondary, &["START GROUP_REPLICATION"]);
    wait_until("it is read from", || scene.trio.nodes_in(1).contains(&secondary));
    let written = scene.end(INTERVAL);
    assert_eq!((written.errors.len(), written.lost, written.order.len()), (0, 0, 1), "{written}");
}

/// The primary dies, and joins again as a secondary.
fn a_killed_primary(trio: &mut Trio) {
    let mut scene = Scene::begin("kill -9", trio);
    let old = scene.writer;
    scene.trio.signal(old, Signal::KILL);
    scene.faults_now();
    let (_, took) = scene.wait_for_another();
    println!("kill -9: another writer after {took:?}");
    scene.trio.start_again(old, false);
    scene.trio.wait_for_login(old);
    scene.trio.on(old, &["START GROUP_REPLICATION"]);
    wait_until("it is read from", || scene.trio.nodes_in(1).contains(&old));
    let written = scene.end(2 * INTERVAL);
    let unexpected: Vec<_> = written.errors.iter().filter(|(code, _)| *code != 2013).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert_eq!((written.lost, written.late.len(), written.order.len()), (0, 0, 2), "{written}");
}

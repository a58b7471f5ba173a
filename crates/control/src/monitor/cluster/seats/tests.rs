//! From what nodes say to the rows that run, and to the next process.

use std::time::Duration;

use narrows_proxy::snapshot::ClusterRow;

use super::*;
use crate::config::tables::SERVERS;
use crate::monitor::finding::Finding;
use crate::monitor::placement::{Known, Placement};
use crate::monitor::plan::targets;

const GALERA: ClusterId = ClusterId { kind: ClusterKind::Galera, writers: HostgroupId(10) };

fn row(hostgroup: i32, hostname: &str) -> ServerRow {
    ServerRow {
        hostgroup: HostgroupId(hostgroup),
        hostname: hostname.to_owned(),
        port: 3306,
        weight: 1,
        ..(SERVERS.blank)()
    }
}

/// Nodes `a` and `b` of a Galera cluster, and a server of no cluster.
fn rows() -> Rows {
    let cluster = ClusterRow {
        writer_hostgroup: HostgroupId(10),
        backup_writer_hostgroup: HostgroupId(20),
        reader_hostgroup: HostgroupId(30),
        offline_hostgroup: HostgroupId(40),
        active: true,
        max_writers: 1,
        max_transactions_behind: 7,
        ..ClusterRow::default()
    };
    Rows {
        servers: vec![row(10, "a"), row(10, "b"), row(1, "x")],
        galera_hostgroups: vec![cluster],
        ..Rows::default()
    }
}

fn address(hostname: &str) -> Address {
    Address { hostname: hostname.to_owned(), port: 3306 }
}

fn places(rows: &[ServerRow]) -> Vec<String> {
    let place = |row: &ServerRow| format!("{}{} {}", row.hostname, row.hostgroup, row.status.name());
    rows.iter().map(place).collect()
}

/// The rows that run after the nodes have said this, starting from `known`.
fn running(known: &mut Known, rows: &Rows, said: &[(&str, Word)]) -> Vec<String> {
    let mut placement = Placement::new(&rows.servers, &[], known, false);
    for (node, word) in said {
        known.learn(&Finding::Node(address(node), GALERA, word.clone()));
        placement.seat(known, rows, Instant::now());
    }
    placement.seat(known, rows, Instant::now());
    places(&placement.with_states(known))
}

#[test]
fn rows_follow_what_nodes_say_and_leave_something_behind_where_one_was() {
    let (rows, mut known) = (rows(), Known::default());
    assert_eq!(running(&mut known, &rows, &[]), ["a10 ONLINE", "b20 ONLINE", "x1 ONLINE"]);
    let said = [("a", Word::Writes), ("b", Word::Writes), ("a", Word::Leaving("maintenance".to_owned()))];
    let expected = ["a40 ONLINE", "b10 ONLINE", "x1 ONLINE", "a10 OFFLINE_SOFT"];
    assert_eq!(running(&mut known, &rows, &said), expected);
    let expected = ["a40 ONLINE", "b10 ONLINE", "x1 ONLINE", "a10 OFFLINE_HARD"];
    assert_eq!(running(&mut known, &rows, &[("a", Word::Out("gone".to_owned()))]), expected);
    assert_eq!(running(&mut known, &rows, &[("a", Word::Writes)]), ["a20 ONLINE", "b10 ONLINE", "x1 ONLINE"]);
}

#[test]
fn the_next_process_goes_on_with_the_same_roles() {
    let (rows, mut known) = (rows(), Known::default());
    let said = [("a", Word::Writes), ("b", Word::Writes), ("a", Word::Out("gone".to_owned()))];
    let before = running(&mut known, &rows, &said);
    let mut read = Known::from_json(&known.to_json());
    assert_eq!(running(&mut read, &rows, &[]), before);
    assert_eq!(running(&mut read, &rows, &[("a", Word::Writes)])[1], "b10 ONLINE");
    assert_eq!(
        Known::from_json(&json!({ "clusters": [["no such kind", 1, true, []], 7] })),
        Known::default()
    );
}

#[test]
fn without_checks_no_node_is_offline_and_the_writer_stays() {
    let (rows, mut known) = (rows(), Known::default());
    running(&mut known, &rows, &[("a", Word::Out("gone".to_owned())), ("b", Word::Writes)]);
    known.forget_health();
    let rows = Rows { servers: vec![row(20, "a"), row(10, "b")], ..rows };
    assert_eq!(running(&mut known, &rows, &[]), ["a20 ONLINE", "b10 ONLINE"]);
}

#[test]
fn nodes_are_checked_wherever_they_are_and_others_are_not() {
    let (rows, mut known) = (rows(), Known::default());
    let mut placement = Placement::new(&rows.servers, &[], &known, false);
    known.learn(&Finding::Node(address("a"), GALERA, Word::Out("gone".to_owned())));
    placement.seat(&mut known, &rows, Instant::now());
    let targets = targets(&placement.to_check(), &rows);
    let nodes: Vec<(&str, usize)> =
        targets.iter().map(|it| (it.address.hostname.as_str(), it.clusters.len())).collect();
    assert_eq!(nodes, [("a", 1), ("b", 1), ("x", 0)]);
    assert_eq!(targets[0].clusters[0].most_behind, 7);
    known.keep(&[]);
    assert_eq!(known.seats.words.len(), 0);
}

#[test]
fn two_hundred_clusters_of_five_nodes_are_decided_in_no_time() {
    let mut rows = rows();
    let mut seats = Seats::default();
    let template = rows.galera_hostgroups[0].clone();
    rows.galera_hostgroups = (0..200)
        .map(|index| {
            let [writers, backup, readers, offline] = [0, 1, 2, 3].map(|more| HostgroupId(index * 4 + more));
            ClusterRow {
                writer_hostgroup: writers,
                backup_writer_hostgroup: backup,
                reader_hostgroup: readers,
                offline_hostgroup: offline,
                ..template.clone()
            }
        })
        .collect();
    rows.servers = (0..1_000).map(|node| row((node / 5) * 4, &format!("node{node}"))).collect();
    let begun = Instant::now();
    seats.decide(&rows.servers, &rows, begun);
    assert_eq!(seats.place(&rows.servers, &rows).len(), 1_000);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    println!("{:?}", begun.elapsed());
}

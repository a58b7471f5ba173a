//! From what nodes say to the rows that run, and to the next process.

use std::time::Duration;

use narrows_proxy::snapshot::{AuroraRow, ClusterRow, ServerStatus};

use super::*;
use crate::config::tables::SERVERS;
use crate::monitor::finding::Finding;
use crate::monitor::placement::{Known, Placement};
use crate::monitor::plan::targets;
use crate::monitor::settings::PairSettings;

/// There are none.
const PAIRS: PairSettings = PairSettings { writer_is_also_reader: false, max_writers: 1 };

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
    let mut placement = Placement::new(&rows.servers, &[], known, &PAIRS);
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
    let mut placement = Placement::new(&rows.servers, &[], &known, &PAIRS);
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

const AURORA: ClusterId = ClusterId { kind: ClusterKind::Aurora, writers: HostgroupId(10) };

/// A cluster of Aurora, of which only `db1` is configured.
fn aurora_rows() -> Rows {
    let [writers, readers] = [HostgroupId(10), HostgroupId(20)];
    let cluster = ClusterRow {
        writer_hostgroup: writers,
        backup_writer_hostgroup: readers,
        reader_hostgroup: readers,
        offline_hostgroup: readers,
        active: true,
        max_writers: 1,
        ..ClusterRow::default()
    };
    let domain_name = ".x".to_owned();
    let row =
        AuroraRow { cluster, aurora_port: 3306, domain_name, new_reader_weight: 7, ..AuroraRow::default() };
    let server = ServerRow { max_connections: 50, use_ssl: true, ..row_of("db1.x") };
    Rows { servers: vec![server], aurora_hostgroups: vec![row], ..Rows::default() }
}

fn row_of(hostname: &str) -> ServerRow {
    row(10, hostname)
}

/// A node of that cluster says that it can be written to or not, and who the writer is.
fn aurora_says(known: &mut Known, node: &str, word: Word, writer: Option<&str>, members: &[&str]) {
    let roster = Roster {
        members: Some(members.iter().map(|name| address(name)).collect()),
        own: Some(address(node)),
        writer: writer.map(address),
    };
    known.learn(&Finding::Roster(address(node), AURORA, roster));
    known.learn(&Finding::Node(address(node), AURORA, word));
}

fn reads() -> Word {
    Word::Reads("innodb_read_only is ON".to_owned())
}

#[test]
fn a_node_of_aurora_is_found_checked_and_then_read_from_and_leaves_when_nobody_names_it() {
    let (rows, mut known) = (aurora_rows(), Known::default());
    let mut placement = Placement::new(&rows.servers, &[], &known, &PAIRS);
    let start = Instant::now();
    aurora_says(&mut known, "db1.x", Word::Writes, Some("db1.x"), &["db1.x", "db2.x"]);
    placement.seat(&mut known, &rows, start);
    let shown = |placement: &Placement, known: &Known| places(&placement.with_states(known));
    assert_eq!(shown(&placement, &known), ["db1.x10 ONLINE", "db2.x20 SHUNNED"]);
    let found = placement.to_check().into_iter().find(|row| row.hostname == "db2.x").unwrap();
    assert_eq!((found.weight, found.max_connections, found.use_ssl), (7, 50, true));
    aurora_says(&mut known, "db2.x", reads(), Some("db1.x"), &["db1.x", "db2.x"]);
    placement.seat(&mut known, &rows, start);
    assert_eq!(shown(&placement, &known), ["db1.x10 ONLINE", "db2.x20 ONLINE"]);
    // The next process knows it, too.
    let mut read = Known::from_json(&known.to_json());
    let mut next = Placement::new(&rows.servers, &[], &read, &PAIRS);
    next.seat(&mut read, &rows, start);
    assert_eq!(shown(&next, &read), ["db1.x10 ONLINE", "db2.x20 ONLINE"]);
    for node in ["db1.x", "db2.x"] {
        let word = if node == "db1.x" { Word::Writes } else { reads() };
        aurora_says(&mut known, node, word, Some("db1.x"), &["db1.x"]);
    }
    placement.seat(&mut known, &rows, start);
    assert_eq!(shown(&placement, &known), ["db1.x10 ONLINE", "db2.x20 SHUNNED"]);
    assert!(!known.seats.is_due(start) && known.seats.is_due(start + Duration::from_secs(60)));
    placement.seat(&mut known, &rows, start + Duration::from_secs(60));
    assert_eq!(shown(&placement, &known), ["db1.x10 ONLINE"]);
}

#[test]
fn a_node_that_the_operator_has_taken_out_of_use_is_not_found_again() {
    for status in [ServerStatus::OfflineSoft, ServerStatus::OfflineHard] {
        let (rows, mut known) = (aurora_rows(), Known::default());
        let offline = ServerRow { status, ..row(20, "db2.x") };
        let rows = Rows { servers: vec![row_of("db1.x"), offline], ..rows };
        let mut placement = Placement::new(&rows.servers, &[], &known, &PAIRS);
        aurora_says(&mut known, "db1.x", Word::Writes, Some("db1.x"), &["db1.x", "db2.x"]);
        placement.seat(&mut known, &rows, Instant::now());
        let servers = placement.with_states(&known);
        let placed: Vec<_> = servers.iter().map(|row| (row.hostname.as_str(), row.status)).collect();
        assert_eq!(placed, [("db1.x", ServerStatus::Online), ("db2.x", status)]);
    }
}

#[test]
fn a_failover_of_aurora_leaves_nothing_to_write_to_on_the_old_writer() {
    let (rows, mut known) = (aurora_rows(), Known::default());
    let rows = Rows { servers: vec![row(10, "db1.x"), row(20, "db2.x")], ..rows };
    let mut placement = Placement::new(&rows.servers, &[], &known, &PAIRS);
    let both = ["db1.x", "db2.x"];
    aurora_says(&mut known, "db1.x", Word::Writes, Some("db1.x"), &both);
    aurora_says(&mut known, "db2.x", reads(), Some("db1.x"), &both);
    placement.seat(&mut known, &rows, Instant::now());
    let mut shown = |known: &mut Known| {
        placement.seat(known, &rows, Instant::now());
        places(&placement.with_states(known))
    };
    assert_eq!(shown(&mut known), ["db1.x10 ONLINE", "db2.x20 ONLINE"]);
    // Both tables are old: the nodes know better.
    aurora_says(&mut known, "db1.x", reads(), Some("db1.x"), &both);
    assert_eq!(shown(&mut known), ["db1.x20 ONLINE", "db2.x20 ONLINE"], "nobody is written to");
    aurora_says(&mut known, "db2.x", Word::Writes, Some("db1.x"), &both);
    assert_eq!(shown(&mut known), ["db1.x20 ONLINE", "db2.x10 ONLINE"]);
    // A late answer of the old writer, which counts for itself: as many name each.
    aurora_says(&mut known, "db2.x", Word::Writes, Some("db2.x"), &both);
    aurora_says(&mut known, "db1.x", Word::Writes, Some("db1.x"), &both);
    assert_eq!(shown(&mut known), ["db1.x20 SHUNNED", "db2.x10 ONLINE"]);
}

#[test]
fn a_writer_that_the_others_have_excluded_is_offline_while_it_is_silent() {
    let (rows, mut known) = (rows(), Known::default());
    let mut placement = Placement::new(&rows.servers, &[], &known, &PAIRS);
    let now = Instant::now();
    let view = |number, size| Some(View { history: "h".to_owned(), number, size });
    let address = |hostname: &str| Address { hostname: hostname.to_owned(), port: 3306 };
    for hostname in ["a", "b"] {
        known.learn(&Finding::Node(address(hostname), GALERA, Word::Writes));
        known.learn(&Finding::View(address(hostname), GALERA, view(3, 2)));
    }
    placement.seat(&mut known, &rows, now);
    assert_eq!(known.seats.of("a", 3306).next().map(|(_, seat)| seat.role), Some(NodeRole::Writer));
    // Nothing is heard of a any more, and b is alone.
    assert!(known.learn(&Finding::View(address("b"), GALERA, view(4, 1))));
    let changed = placement.seat(&mut known, &rows, now);
    let role = |event: &Event| match event {
        Event::Role(_, change) => Some((change.address.hostname.clone(), change.to)),
        Event::Arrival(..) | Event::TooMany(..) => None,
    };
    let changed: Vec<_> = changed.iter().filter_map(role).collect();
    assert_eq!(changed, [("a".to_owned(), NodeRole::Offline), ("b".to_owned(), NodeRole::Writer)]);
    // It has joined again.
    for hostname in ["a", "b"] {
        known.learn(&Finding::View(address(hostname), GALERA, view(5, 2)));
    }
    placement.seat(&mut known, &rows, now);
    assert_eq!(known.seats.of("a", 3306).next().map(|(_, seat)| seat.role), Some(NodeRole::BackupWriter));
}

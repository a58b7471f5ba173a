//! Where the rows of nodes are, by role and by the columns of the cluster's row.

use std::time::Instant;

use super::*;
use crate::config::tables::SERVERS;
use crate::monitor::cluster::decide::Fitness;

fn cluster(writer_is_also_reader: u8) -> ClusterRow {
    ClusterRow {
        writer_hostgroup: HostgroupId(10),
        backup_writer_hostgroup: HostgroupId(20),
        reader_hostgroup: HostgroupId(30),
        offline_hostgroup: HostgroupId(40),
        active: true,
        max_writers: 1,
        writer_is_also_reader,
        ..ClusterRow::default()
    }
}

fn row(hostgroup: i32, hostname: &str) -> ServerRow {
    ServerRow {
        hostgroup: HostgroupId(hostgroup),
        hostname: hostname.to_owned(),
        port: 3306,
        weight: 7,
        max_connections: 50,
        ..(SERVERS.blank)()
    }
}

fn decision(roles: &[(&str, NodeRole, NodeRole)]) -> Decision {
    let seat = |(hostname, role, was): &(&str, NodeRole, NodeRole)| {
        let seat = Seat {
            role: *role,
            why: String::new(),
            since: Instant::now(),
            was: *was,
            weight: 1,
            fitness: Fitness::Always,
        };
        (Address { hostname: (*hostname).to_owned(), port: 3306 }, seat)
    };
    Decision { seats: roles.iter().map(seat).collect(), is_settled: true, begun: None, again: None }
}

fn places(rows: &[ServerRow]) -> Vec<String> {
    let mut places: Vec<String> =
        rows.iter().map(|row| format!("{}{} {}", row.hostname, row.hostgroup, row.status.name())).collect();
    places.sort();
    places
}

#[test]
fn writer_is_also_reader_puts_those_that_can_be_written_to_in_the_reader_hostgroup_too() {
    let rows = [row(10, "a"), row(10, "b"), row(10, "c"), row(30, "x")];
    let same = |role| (role, role);
    let roles =
        [("a", same(NodeRole::Writer)), ("b", same(NodeRole::BackupWriter)), ("c", same(NodeRole::Reader))];
    let decision = decision(&roles.map(|(name, (role, was))| (name, role, was)));
    for (setting, expected) in [
        (0, vec!["a10", "b20", "c30", "x30"]),
        (1, vec!["a10", "a30", "b20", "b30", "c30", "x30"]),
        (2, vec!["a10", "b20", "b30", "c30", "x30"]),
    ] {
        let placed = place(rows.to_vec(), &rows, &cluster(setting), &decision);
        let online: Vec<String> = expected.iter().map(|place| format!("{place} ONLINE")).collect();
        assert_eq!(places(&placed), online, "writer_is_also_reader {setting}");
    }
}

#[test]
fn a_row_keeps_its_columns_and_one_that_is_configured_in_the_hostgroup_is_used_there() {
    let reader = ServerRow { weight: 99, ..row(30, "a") };
    let rows = [row(10, "a"), reader.clone()];
    let role = |role| decision(&[("a", role, role)]);
    assert_eq!(place(rows.to_vec(), &rows, &cluster(0), &role(NodeRole::Reader)), [reader]);
    let offline = place(rows.to_vec(), &rows, &cluster(0), &role(NodeRole::Offline));
    assert_eq!(offline, [row(40, "a")]);
}

#[test]
fn what_an_offline_node_leaves_behind_finishes_or_is_cut_off() {
    let rows = [row(10, "a"), row(10, "b"), row(40, "c")];
    let roles = [
        ("a", NodeRole::OfflineSoft, NodeRole::Writer),
        ("b", NodeRole::Offline, NodeRole::BackupWriter),
        ("c", NodeRole::Offline, NodeRole::Offline),
    ];
    let (decision, cluster) = (decision(&roles), cluster(1));
    let placed = place(rows.to_vec(), &rows, &cluster, &decision);
    assert_eq!(places(&placed), ["a40 ONLINE", "b40 ONLINE", "c40 ONLINE"]);
    let left = remains(&rows, &placed, &cluster, &decision);
    let expected = ["a10 OFFLINE_SOFT", "a30 OFFLINE_SOFT", "b20 OFFLINE_HARD", "b30 OFFLINE_HARD"];
    assert_eq!(places(&left), expected);
}

#[test]
fn rows_that_the_operator_has_taken_out_of_use_stay_as_they_are() {
    let soft = ServerRow { status: ServerStatus::OfflineSoft, ..row(10, "a") };
    let members = |rows: &[ServerRow]| members(rows, &cluster(0), &Found::default(), |_| None, |_| 0);
    assert_eq!(members(std::slice::from_ref(&soft)).len(), 0);
    let rows = [soft.clone(), row(30, "a")];
    let of_a = members(&rows);
    assert!(!of_a[0].may_write && of_a[0].configured == NodeRole::Reader);
    let placed = place(
        rows.to_vec(),
        &rows,
        &cluster(0),
        &decision(&[("a", NodeRole::BackupWriter, NodeRole::BackupWriter)]),
    );
    assert_eq!(places(&placed), ["a10 OFFLINE_SOFT", "a20 ONLINE"]);
}

#[test]
fn the_hostgroup_that_a_node_is_configured_in_is_its_role_until_it_is_heard() {
    let rows = [row(10, "a"), row(20, "b"), row(30, "c"), row(40, "d"), row(30, "a")];
    let members = members(&rows, &cluster(0), &Found::default(), |_| None, |_| 0);
    let roles: Vec<NodeRole> = members.iter().map(|it| it.configured).collect();
    assert_eq!(roles, [NodeRole::Writer, NodeRole::BackupWriter, NodeRole::Reader, NodeRole::Offline]);
}

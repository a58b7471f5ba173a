use super::*;
use crate::config::tables::SERVERS;
use crate::monitor::finding::{Behind, MeasuredLag};
use crate::monitor::rds_topology::{BlueGreen, Topology};
use narrows_proxy::snapshot::Rows;

const CHECK: CheckType = CheckType::ReadOnly;

const SEEN: MeasuredLag = MeasuredLag { behind: Behind::Seconds(9), limit_s: 5 };

fn row(hostgroup: i32, hostname: &str) -> ServerRow {
    ServerRow {
        hostgroup: HostgroupId(hostgroup),
        hostname: hostname.to_owned(),
        port: 3306,
        weight: 7,
        max_connections: 50,
        max_replication_lag: 5,
        ..(SERVERS.blank)()
    }
}

fn pair(check_type: &str) -> ReplicationHostgroupRow {
    ReplicationHostgroupRow {
        writer_hostgroup: HostgroupId(10),
        reader_hostgroup: HostgroupId(20),
        check_type: check_type.to_owned(),
        comment: String::new(),
    }
}

fn address(hostname: &str) -> Address {
    Address { hostname: hostname.to_owned(), port: 3306 }
}

fn places(placement: &Placement) -> Vec<String> {
    let mut places: Vec<String> =
        placement.paired.iter().map(|row| format!("{}{}", row.hostname, row.hostgroup)).collect();
    places.sort();
    places
}

/// Where servers are after some have reported their roles, starting from the configuration.
fn after(configured: &[(&str, i32)], roles: &[(&str, ServerRole)], also_reader: bool) -> Vec<String> {
    let rows: Vec<ServerRow> = configured.iter().map(|(name, hostgroup)| row(*hostgroup, name)).collect();
    let pairs = [pair("read_only")];
    let mut placement = Placement::new(&rows, &pairs, &Known::default(), also_reader);
    for (name, role) in roles {
        placement.place(&pairs, (&address(name), CHECK), *role, also_reader);
    }
    places(&placement)
}

use ServerRole::{Reader, Writer};

#[test]
fn a_writable_server_becomes_a_writer_and_stays_a_reader_where_that_is_wanted() {
    assert_eq!(after(&[("a", 20)], &[("a", Writer)], true), ["a10", "a20"]);
    assert_eq!(after(&[("a", 20)], &[("a", Writer)], false), ["a10"]);
}

#[test]
fn a_writer_that_is_configured_as_such_only_is_no_reader() {
    assert_eq!(after(&[("a", 10)], &[("a", Writer)], true), ["a10"]);
}

#[test]
fn a_read_only_server_is_no_writer() {
    assert_eq!(after(&[("a", 10)], &[("a", Reader)], true), ["a20"]);
    assert_eq!(after(&[("a", 10), ("a", 20)], &[("a", Reader)], true), ["a20"]);
    assert_eq!(after(&[("a", 20)], &[("a", Reader)], true), ["a20"]);
}

#[test]
fn a_switch_and_back_again_ends_where_it_began() {
    let configured = [("a", 10), ("b", 20)];
    let there = [("a", Writer), ("b", Reader), ("a", Reader), ("b", Writer)];
    assert_eq!(after(&configured, &there, false), ["a20", "b10"]);
    let back = [there.as_slice(), &[("b", Reader), ("a", Writer)]].concat();
    assert_eq!(after(&configured, &back, false), ["a10", "b20"]);
    // As in ProxySQL: once a reader, it stays one.
    assert_eq!(after(&configured, &back, true), ["a10", "a20", "b20"]);
}

#[test]
fn several_writable_servers_are_all_writers() {
    assert_eq!(after(&[("a", 10), ("b", 20)], &[("a", Writer), ("b", Writer)], false), ["a10", "b10"]);
}

#[test]
fn what_is_copied_keeps_the_columns_of_its_row() {
    let pairs = [pair("READ_ONLY")];
    let mut known = Known::default();
    known.learn(&Finding::Role(address("a"), CHECK, Writer));
    let placement = Placement::new(&[row(20, "a")], &pairs, &known, true);
    assert_eq!(placement.rows(), [row(20, "a"), row(10, "a")]);
}

#[test]
fn servers_outside_of_a_pair_and_pairs_of_another_check_are_left_alone() {
    let mut placement = Placement::new(&[row(30, "a"), row(20, "a")], &[], &Known::default(), true);
    let pairs = [pair("innodb_read_only")];
    placement.place(&pairs, (&address("a"), CHECK), Writer, true);
    assert_eq!(places(&placement), ["a20", "a30"]);
    placement.place(&pairs, (&address("a"), CheckType::InnodbReadOnly), Writer, true);
    assert_eq!(places(&placement), ["a10", "a20", "a30"]);
}

#[test]
fn states_are_laid_over_and_taken_off_again() {
    let rows = [row(10, "a"), row(20, "a"), row(20, "b")];
    let placement = Placement::new(&rows, &[], &Known::default(), true);
    let mut known = Known::default();
    known.learn(&Finding::Reach(address("a"), Reach::Unreachable));
    known.learn(&Finding::Lag(address("b"), HostgroupId(20), Lag::TooMuch, SEEN));
    let states = |known: &Known| -> Vec<ServerStatus> {
        placement.with_states(known).into_iter().map(|row| row.status).collect()
    };
    let (out, late) = (ServerStatus::Unreachable, ServerStatus::ShunnedReplicationLag);
    assert_eq!(states(&known), [out, out, late]);
    known.learn(&Finding::Reach(address("a"), Reach::Reachable));
    known.learn(&Finding::Lag(address("b"), HostgroupId(20), Lag::Fine, SEEN));
    assert_eq!(states(&known), [ServerStatus::Online; 3]);
}

#[test]
fn what_an_operator_took_offline_stays_so() {
    let mut soft = row(10, "a");
    soft.status = ServerStatus::OfflineSoft;
    let mut known = Known::default();
    known.learn(&Finding::Reach(address("a"), Reach::Unreachable));
    let placement = Placement::new(&[soft], &[], &known, true);
    assert_eq!(placement.with_states(&known)[0].status, ServerStatus::OfflineSoft);
}

#[test]
fn what_is_no_longer_checked_is_forgotten() {
    let mut known = Known::default();
    known.learn(&Finding::Reach(address("a"), Reach::Unreachable));
    known.learn(&Finding::Role(address("a"), CHECK, Writer));
    let rows = Rows { replication_hostgroups: vec![pair("read_only")], ..Rows::default() };
    known.keep(&crate::monitor::plan::targets(&[row(20, "a")], &rows));
    assert_eq!((known.unreachable.len(), known.roles.len()), (1, 1));
    known.keep(&crate::monitor::plan::targets(&[row(20, "b")], &rows));
    assert!(known.unreachable.is_empty() && known.roles.is_empty());
}

/// A pair with `a`, whose table of RDS names these nodes.
fn rds(known: &mut Known, rows: &Rows, members: &[&str], switchover: BlueGreen) {
    let members = (!members.is_empty()).then(|| members.iter().map(|name| address(name)).collect());
    known.learn(&Finding::Topology(address("a"), Topology { members, switchover }));
    known.find_readers(rows, Instant::now());
}

fn shown(rows: &Rows, known: &Known) -> (Vec<String>, usize) {
    let placement = Placement::with_readers(rows, known, false);
    let rows = placement.with_states(known);
    let place = |row: &ServerRow| format!("{}{} {}", row.hostname, row.hostgroup, row.status.name());
    (rows.iter().map(place).collect(), placement.to_check().len())
}

#[test]
fn readers_of_rds_are_checked_before_they_are_read_from_and_leave_when_nobody_names_them() {
    let rows = Rows {
        servers: vec![row(10, "a")],
        replication_hostgroups: vec![pair("read_only")],
        ..Rows::default()
    };
    let text =
        |places: &[&str], checked: usize| (places.iter().map(|it| (*it).to_owned()).collect(), checked);
    let mut known = Known::default();
    rds(&mut known, &rows, &["a", "b"], BlueGreen::None);
    assert_eq!(shown(&rows, &known), text(&["a10 ONLINE"], 2));
    known.learn(&Finding::Role(address("b"), CHECK, Reader));
    assert_eq!(shown(&rows, &known), text(&["a10 ONLINE", "b20 ONLINE"], 2));
    // It becomes the writer.
    known.learn(&Finding::Role(address("b"), CHECK, Writer));
    known.learn(&Finding::Role(address("a"), CHECK, Reader));
    assert_eq!(shown(&rows, &known), text(&["a20 ONLINE", "b10 ONLINE"], 2));
    rds(&mut known, &rows, &["a"], BlueGreen::None);
    assert_eq!(shown(&rows, &known).0[1], "b10 SHUNNED");
    known.find_readers(&rows, Instant::now() + std::time::Duration::from_secs(60));
    assert_eq!(shown(&rows, &known), text(&["a20 ONLINE"], 1));
}

#[test]
fn nothing_is_written_to_a_server_whose_switchover_runs_and_it_is_read_from() {
    let rows = Rows {
        servers: vec![row(10, "a"), row(20, "a")],
        replication_hostgroups: vec![pair("read_only")],
        ..Rows::default()
    };
    let mut known = Known::default();
    for (switchover, expected) in
        [(BlueGreen::None, "ONLINE"), (BlueGreen::Runs, "SHUNNED"), (BlueGreen::Over, "ONLINE")]
    {
        rds(&mut known, &rows, &[], switchover);
        assert_eq!(shown(&rows, &known).0, [format!("a10 {expected}"), "a20 ONLINE".to_owned()]);
    }
}

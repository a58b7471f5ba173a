use super::*;
use crate::config::tables::SERVERS;
use crate::monitor::finding::{Behind, MeasuredLag};
use crate::monitor::rds_topology::{BlueGreen, Topology};
use crate::monitor::role::{RoleReport, ServerRole};
use narrows_proxy::rt;
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

fn found(name: &str, role: ServerRole) -> Finding {
    Finding::Role(address(name), CHECK, RoleReport::found(role, rt::Instant::now()))
}

fn settings(writer_is_also_reader: bool, max_writers: usize) -> PairSettings {
    PairSettings { writer_is_also_reader, max_writers }
}

/// Where servers are after some have reported their roles, starting from the configuration.
fn placed(configured: &[(&str, i32)], roles: &[(&str, ServerRole)], settings: &PairSettings) -> Vec<String> {
    let rows: Vec<ServerRow> = configured.iter().map(|(name, hostgroup)| row(*hostgroup, name)).collect();
    let mut known = Known::default();
    for (name, role) in roles {
        known.learn(&found(name, *role));
    }
    places(&Placement::new(&rows, &[pair("read_only")], &known, settings))
}

fn after(configured: &[(&str, i32)], roles: &[(&str, ServerRole)], also_reader: bool) -> Vec<String> {
    placed(configured, roles, &settings(also_reader, 1))
}

use ServerRole::{Reader, Silent, Writer};

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
fn a_server_that_is_read_only_or_silent_is_no_writer() {
    for role in [Reader, Silent] {
        assert_eq!(after(&[("a", 10)], &[("a", role)], true), ["a20"]);
        assert_eq!(after(&[("a", 10), ("a", 20)], &[("a", role)], true), ["a20"]);
        assert_eq!(after(&[("a", 20)], &[("a", role)], true), ["a20"]);
    }
}

#[test]
fn a_switch_and_back_again_ends_where_it_began() {
    let configured = [("a", 10), ("b", 20)];
    let there = [("a", Writer), ("b", Reader), ("a", Reader), ("b", Writer)];
    assert_eq!(after(&configured, &there, false), ["a20", "b10"]);
    let back = [there.as_slice(), &[("b", Reader), ("a", Writer)]].concat();
    assert_eq!(after(&configured, &back, false), ["a10", "b20"]);
    assert_eq!(after(&configured, &back, true), ["a10", "b20"]);
}

#[test]
fn a_writer_that_was_a_reader_for_a_while_has_the_columns_of_its_own_row_again() {
    let rows = [ServerRow { weight: 1, ..row(10, "a") }, ServerRow { weight: 9, ..row(20, "a") }];
    let mut known = Known::default();
    for role in [Writer, Reader, Writer] {
        known.learn(&found("a", role));
    }
    let placement = Placement::new(&rows, &[pair("read_only")], &known, &settings(true, 1));
    assert_eq!(placement.rows(), rows);
}

#[test]
fn several_writable_servers_are_all_writers_only_where_that_is_wanted() {
    let (configured, roles) = ([("a", 10), ("b", 20)], [("b", Writer), ("a", Writer)]);
    assert_eq!(placed(&configured, &roles, &settings(false, 0)), ["a10", "b10"]);
    assert_eq!(placed(&configured, &roles, &settings(false, 1)), ["a10", "b20"]);
}

/// Servers that have said nothing stay where they are configured, unless another one is written to.
#[test]
fn a_server_that_was_never_heard_is_no_second_writer() {
    let configured = [("a", 10), ("b", 10), ("c", 20)];
    assert_eq!(placed(&configured, &[], &settings(false, 1)), ["a10", "b10", "c20"]);
    assert_eq!(placed(&configured, &[("c", Reader)], &settings(false, 1)), ["a10", "b10", "c20"]);
    assert_eq!(placed(&configured, &[("b", Writer)], &settings(false, 1)), ["a20", "b10", "c20"]);
    assert_eq!(placed(&configured, &[("b", Writer)], &settings(false, 2)), ["a10", "b10", "c20"]);
}

#[test]
fn what_is_copied_keeps_the_columns_of_its_row() {
    let pairs = [pair("READ_ONLY")];
    let mut known = Known::default();
    known.learn(&found("a", Writer));
    let placement = Placement::new(&[row(20, "a")], &pairs, &known, &settings(true, 1));
    assert_eq!(placement.rows(), [row(20, "a"), row(10, "a")]);
}

#[test]
fn servers_outside_of_a_pair_and_pairs_of_another_check_are_left_alone() {
    let rows = [row(30, "a"), row(20, "a")];
    let mut known = Known::default();
    known.learn(&found("a", Writer));
    let pairs = [pair("innodb_read_only")];
    assert_eq!(places(&Placement::new(&rows, &pairs, &known, &settings(true, 1))), ["a20", "a30"]);
    let report = RoleReport::found(Writer, rt::Instant::now());
    known.learn(&Finding::Role(address("a"), CheckType::InnodbReadOnly, report));
    assert_eq!(places(&Placement::new(&rows, &pairs, &known, &settings(true, 1))), ["a10", "a20", "a30"]);
}

#[test]
fn states_are_laid_over_and_taken_off_again() {
    let rows = [row(10, "a"), row(20, "a"), row(20, "b")];
    let placement = Placement::new(&rows, &[], &Known::default(), &settings(true, 1));
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

/// A lag takes readers away, but not one that nobody can know because the primary is gone; a writer waits for nobody.
#[test]
fn a_lag_takes_no_writer_away_and_not_the_readers_of_a_primary_that_is_gone() {
    use ServerStatus::{Online, ShunnedReplicationLag as Late, Unreachable};
    let rows = [row(10, "a"), row(20, "a"), row(20, "b")];
    for (lag, (is_up, answers), expected) in [
        (Behind::Seconds(9), (true, true), [Online, Online, Late]),
        (Behind::Unknown, (true, true), [Online, Online, Late]),
        // Pings have not failed yet.
        (Behind::Unknown, (true, false), [Online, Online, Online]),
        (Behind::Seconds(9), (false, false), [Unreachable, Unreachable, Late]),
        (Behind::Unknown, (false, false), [Unreachable, Unreachable, Online]),
    ] {
        let mut known = Known::default();
        known.learn(&found("a", Writer));
        known.learn(&found("b", Reader));
        for (name, hostgroup) in [("a", 10), ("a", 20), ("b", 20)] {
            let seen = MeasuredLag { behind: lag, limit_s: 5 };
            known.learn(&Finding::Lag(address(name), HostgroupId(hostgroup), Lag::TooMuch, seen));
        }
        if !answers {
            let now = Some(rt::Instant::now());
            let report = RoleReport { unanswered: 1, asked: now, ..RoleReport::default() };
            known.learn(&Finding::Role(address("a"), CHECK, report));
        }
        if !is_up {
            known.learn(&Finding::Reach(address("a"), Reach::Unreachable));
        }
        let placement = Placement::new(&rows, &[pair("read_only")], &known, &settings(true, 1));
        let states: Vec<ServerStatus> =
            placement.with_states(&known).into_iter().map(|row| row.status).collect();
        assert_eq!(states, expected, "{lag:?} {is_up} {answers}");
    }
}

#[test]
fn what_an_operator_took_offline_stays_so() {
    let mut soft = row(10, "a");
    soft.status = ServerStatus::OfflineSoft;
    let mut known = Known::default();
    known.learn(&Finding::Reach(address("a"), Reach::Unreachable));
    let placement = Placement::new(&[soft], &[], &known, &settings(true, 1));
    assert_eq!(placement.with_states(&known)[0].status, ServerStatus::OfflineSoft);
}

#[test]
fn what_is_no_longer_checked_is_forgotten() {
    let mut known = Known::default();
    known.learn(&Finding::Reach(address("a"), Reach::Unreachable));
    known.learn(&found("a", Writer));
    let rows = Rows { replication_hostgroups: vec![pair("read_only")], ..Rows::default() };
    known.keep(&crate::monitor::plan::targets(&[row(20, "a")], &rows));
    assert!(!known.unreachable.is_empty() && known.roles.is_heard(&address("a")));
    known.keep(&crate::monitor::plan::targets(&[row(20, "b")], &rows));
    assert!(known.unreachable.is_empty() && !known.roles.is_heard(&address("a")));
}

/// A pair with `a`, whose table of RDS names these nodes.
fn rds(known: &mut Known, rows: &Rows, members: &[&str], switchover: BlueGreen) {
    let members = (!members.is_empty()).then(|| members.iter().map(|name| address(name)).collect());
    known.learn(&Finding::Topology(address("a"), Topology { members, switchover }));
    known.find_readers(rows, Instant::now());
}

fn shown(rows: &Rows, known: &Known) -> (Vec<String>, usize) {
    let placement = Placement::with_readers(rows, known, &settings(false, 1));
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
    known.learn(&found("b", Reader));
    assert_eq!(shown(&rows, &known), text(&["a10 ONLINE", "b20 ONLINE"], 2));
    // It becomes the writer.
    known.learn(&found("b", Writer));
    known.learn(&found("a", Reader));
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

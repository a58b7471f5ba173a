//! What answers mean: roles, lags, names, and answers that no server should give.

use narrows_proxy::snapshot::{ClusterRow, HostgroupId};

use super::*;
use crate::monitor::cluster::ClusterId;

fn row() -> AuroraRow {
    AuroraRow {
        cluster: ClusterRow { writer_hostgroup: HostgroupId(1), active: true, ..ClusterRow::default() },
        aurora_port: 3306,
        domain_name: ".x.example.org".to_owned(),
        max_lag_ms: 100,
        add_lag_ms: 30,
        min_lag_ms: 30,
        lag_num_checks: 1,
        ..AuroraRow::default()
    }
}

fn address(hostname: &str) -> Address {
    Address { hostname: hostname.to_owned(), port: 3306 }
}

/// The answer of a node: its `SERVER_ID`, its `innodb_read_only`, and for each node that it knows its id, whether it is the
/// writer, how old that is, and its lag.
fn answer(own: &str, read_only: &str, known: &[(&str, bool, &str, &str)]) -> Table {
    let cell = |text: &str| Some(text.to_owned());
    let row = |(id, is_writer, age, lag): &(&str, bool, &str, &str)| {
        let session = if *is_writer { "MASTER_SESSION_ID" } else { "5f0c8a1e-0000-0000-0000-000000000000" };
        let updated = cell("2026-01-01 00:00:00");
        vec![cell(own), cell(read_only), cell(id), cell(session), updated, cell(age), cell(lag), cell("7.5")]
    };
    let none = vec![cell(own), cell(read_only), None, None, None, None, None, None];
    let rows = if known.is_empty() { vec![none] } else { known.iter().map(row).collect() };
    Table { columns: Vec::new(), rows }
}

/// A source after these answers.
fn after(answers: &[Table], row: &AuroraRow) -> Aurora {
    let mut source = Aurora::default();
    for answer in answers {
        source.take(answer, Some(row));
    }
    source
}

fn node(row: &AuroraRow) -> NodeOf {
    let id = ClusterId { kind: ClusterKind::Aurora, writers: HostgroupId(1) };
    NodeOf { id, most_behind: 0, aurora: Some(std::sync::Arc::new(row.clone())) }
}

fn word(source: &mut Aurora, row: &AuroraRow, hostname: &str) -> String {
    format!("{:?}", source.word(&node(row), &address(hostname), &MonitorSettings::default()))
}

const BOTH: &[(&str, bool, &str, &str)] = &[("db1", true, "1", "0"), ("db2", false, "1", "16.3")];

#[test]
fn what_a_node_says_of_itself_decides_whether_it_is_written_to() {
    let row = row();
    for (own, read_only, known, expected) in [
        ("db1", "0", BOTH, "Writes"),
        ("db2", "1", BOTH, "Reads(\"innodb_read_only is ON\")"),
        // After a failover, both tables are older than the nodes: the old writer is a reader, the new one is none.
        ("db1", "1", BOTH, "Reads"),
        ("db2", "0", BOTH, "Writes"),
        // A table that has nothing yet, or nothing that is recent, tells nothing.
        ("db1", "0", &[], "Writes"),
        ("db2", "1", &[], "Reads"),
        ("db2", "1", &[("db1", true, "181", "0"), ("db2", false, "181", "0")], "Reads"),
        // One that knows the others, and not this one.
        ("db2", "1", &[("db1", true, "1", "0")], "Leaving(\"it is read-only, and REPLICA_HOST_STATUS"),
        ("db2", "1", &[("db1", true, "1", "0"), ("db2", false, "181", "0")], "Leaving"),
        // What is not exactly 0 is read-only.
        ("db1", "", BOTH, "Reads"),
        ("db1", "2", BOTH, "Reads"),
    ] {
        let mut source = after(&[answer(own, read_only, known)], &row);
        let found = word(&mut source, &row, "db.x.example.org");
        assert!(found.starts_with(expected), "{own} {read_only} {known:?}: {found}");
    }
}

#[test]
fn the_endpoint_of_a_cluster_is_a_node_only_while_there_is_no_other() {
    let row = row();
    let mut source = after(&[answer("db1", "0", BOTH)], &row);
    assert!(word(&mut source, &row, "c.cluster-abc.eu-west-1.rds.amazonaws.com").starts_with("Reluctant"));
    assert_eq!(source.view.roster(&row, &address("c.cluster-ro-abc.example.org")).own, None);
    let mut source = after(&[answer("db2", "1", BOTH)], &row);
    assert!(word(&mut source, &row, "c.cluster-ro-abc.example.org").starts_with("Leaving"));
    assert!(word(&mut source, &row, "cluster-1.example.org").starts_with("Reads"), "that is its own name");
}

#[test]
fn a_lag_is_the_greatest_of_the_last_with_what_the_row_adds() {
    let lags = |lags: &[&str], row: &AuroraRow| {
        let answers =
            lags.iter().map(|lag| answer("db2", "1", &[("db1", true, "1", "0"), ("db2", false, "1", lag)]));
        let mut source = after(&answers.collect::<Vec<_>>(), row);
        (source.lag_ms(Some(row)), word(&mut source, row, "db2").starts_with("Reads"))
    };
    let row = row();
    assert_eq!(lags(&["0"], &row), (Some(30), true));
    assert_eq!(lags(&["16.3"], &row), (Some(47), true));
    assert_eq!(lags(&["70"], &row), (Some(100), true), "as much is allowed");
    assert_eq!(lags(&["70.1"], &row), (Some(101), false));
    assert_eq!(lags(&["500", "0"], &row), (Some(30), true), "one check");
    let three = AuroraRow { lag_num_checks: 3, ..row.clone() };
    assert_eq!(lags(&["500", "0", "0"], &three), (Some(530), false));
    assert_eq!(lags(&["500", "0", "0", "0"], &three), (Some(30), true));
    assert_eq!(lags(&["5"], &AuroraRow { min_lag_ms: 80, ..row.clone() }), (Some(80), true));
    assert_eq!(lags(&["5"], &AuroraRow { add_lag_ms: 0, min_lag_ms: 0, ..row.clone() }), (Some(5), true));
    let source = after(&[answer("db1", "0", BOTH)], &row);
    assert_eq!(source.lag_ms(Some(&row)), None, "the writer waits for nobody");
}

#[test]
fn who_is_named_and_who_is_taken_for_the_writer() {
    let row = row();
    let roster = |own: &str, read_only: &str, known| {
        let roster = View::of(&answer(own, read_only, known)).roster(&row, &address("10.0.0.1"));
        roster.writer.map_or_else(|| "nobody".to_owned(), |writer| writer.hostname)
    };
    let members = View::of(&answer("db1", "0", BOTH)).roster(&row, &address("10.0.0.1")).members.unwrap();
    let names: Vec<String> = members.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["db1.x.example.org:3306", "db2.x.example.org:3306"]);
    assert_eq!(roster("db2", "1", BOTH), "db1.x.example.org");
    // The former writer has a row, too, for a while: the younger one counts.
    let former: &[_] = &[("db1", true, "9", "0"), ("db2", true, "1", "0")];
    assert_eq!(roster("db3", "1", former), "db2.x.example.org");
    let same: &[_] = &[("db1", true, "1", "0"), ("db2", true, "1", "0")];
    assert_eq!(
        (roster("db3", "1", same), roster("db2", "0", same)),
        ("nobody".to_owned(), "db2.x.example.org".to_owned())
    );
    // A node that has been cut off from the others does not know.
    assert_eq!(roster("db1", "0", &[("db1", true, "21", "0"), ("db2", false, "21", "0")]), "nobody");
}

#[test]
fn an_answer_that_no_server_gives_names_nobody_and_ends_nothing() {
    let row = row();
    let long = "x".repeat(1 << 20);
    for id in ["", "a b", "a\r\nb", "\u{0}", "a/../b", "';--", "é", long.as_str()] {
        let source = after(&[answer("db1", "0", &[(id, true, "1", "0"), ("db2", false, "-5", "NaN")])], &row);
        let roster = source.view.roster(&row, &address("db1.x.example.org"));
        assert_eq!(roster.members.unwrap().len(), 1, "{id:?}");
        assert_eq!(source.view.odd.as_deref(), Some(id));
    }
    for lag in ["1e300", "-1", "inf", "-inf", "", "x"] {
        let mut source = after(&[answer("db2", "1", &[("db2", false, "1", lag)])], &row);
        assert!(!word(&mut source, &row, "db2").is_empty());
    }
    let many: Vec<String> = (0..5_000).map(|number| format!("n{number}")).collect();
    let many: Vec<_> = many.iter().map(|id| (id.as_str(), false, "1", "0")).collect();
    let source = after(&[answer("db1", "0", &many)], &row);
    assert_eq!((source.view.nodes.len(), source.reports.len()), (MOST_READ, MOST_READ));
    let mut source = after(&[Table::default()], &row);
    assert!(word(&mut source, &row, "db1").starts_with("Reads"), "who says nothing is not written to");
}

#[test]
fn a_result_has_the_columns_of_the_log_for_each_node() {
    let row = row();
    let cells = Aurora::default().take(&answer("db1", "0", BOTH), Some(&row));
    assert_eq!(cells.len(), 2 * CHECK.values.len());
    let said = |text: &str| LogCell::Said(text.to_owned());
    let db2 = &cells[CHECK.values.len()..];
    assert_eq!(db2[0], said("db2"));
    assert_eq!(
        db2[2..],
        [said("2026-01-01 00:00:00"), LogCell::Integer(17), LogCell::Integer(47), LogCell::Integer(8)]
    );
}

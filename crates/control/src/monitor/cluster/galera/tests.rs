//! Answers as servers send them, and what they mean.

use super::*;

/// The answer of a node: names as a server writes them.
fn answer(rows: &[(&str, &str)]) -> Table {
    let row = |(name, value): &(&str, &str)| vec![Some((*name).to_owned()), Some((*value).to_owned())];
    Table {
        columns: vec!["VARIABLE_NAME".to_owned(), "VARIABLE_VALUE".to_owned()],
        rows: rows.iter().map(row).collect(),
    }
}

/// A healthy node of MariaDB 10.11, as recorded.
const MARIADB: [(&str, &str); 7] = [
    ("WSREP_LOCAL_STATE", "4"),
    ("WSREP_LOCAL_RECV_QUEUE", "0"),
    ("WSREP_CLUSTER_STATUS", "Primary"),
    ("WSREP_REJECT_QUERIES", "NONE"),
    ("WSREP_SST_DONOR_REJECTS_QUERIES", "OFF"),
    ("READ_ONLY", "OFF"),
    ("WSREP_DESYNC", "OFF"),
];

/// A healthy node of Percona XtraDB Cluster 8.0, as its documentation shows it.
const PERCONA: [(&str, &str); 8] = [
    ("wsrep_local_recv_queue", "0"),
    ("wsrep_local_state", "4"),
    ("wsrep_cluster_status", "Primary"),
    ("pxc_maint_mode", "DISABLED"),
    ("read_only", "OFF"),
    ("wsrep_desync", "OFF"),
    ("wsrep_reject_queries", "NONE"),
    ("wsrep_sst_donor_rejects_queries", "OFF"),
];

/// The same, with other values.
fn with(rows: &[(&str, &str)], changes: &[(&str, &str)], most_behind: u32) -> Word {
    let rows: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| {
            let changed = changes.iter().find(|(other, _)| other.eq_ignore_ascii_case(row.0));
            (row.0, changed.map_or(row.1, |(_, value)| *value))
        })
        .collect();
    NodeState::of(&answer(&rows)).word(most_behind)
}

#[test]
fn a_synced_node_of_either_family_may_be_written_to() {
    assert_eq!(with(&MARIADB, &[], 0), Word::Writes);
    assert_eq!(with(&PERCONA, &[], 0), Word::Writes);
}

#[test]
fn a_node_with_a_majority_has_a_view_with_a_number() {
    let view = |status, conf_id| {
        let rows = [
            ("WSREP_CLUSTER_STATUS", status),
            ("WSREP_CLUSTER_CONF_ID", conf_id),
            ("WSREP_CLUSTER_SIZE", "3"),
            ("WSREP_CLUSTER_STATE_UUID", "3c8f9a52"),
        ];
        let mut galera = Galera::default();
        galera.take(&answer(&rows), None);
        galera.view()
    };
    let expected = View { history: "3c8f9a52".to_owned(), number: 17, size: 3 };
    assert_eq!(view("Primary", "17"), Some(expected));
    assert_eq!(view("non-Primary", "18446744073709551615"), None);
    assert_eq!(view("Primary", ""), None);
}

/// What differs from a healthy node, `max_transactions_behind`, the class of the word, and a part of the reason.
type Case = (&'static [(&'static str, &'static str)], u32, &'static str, &'static str);

/// The contract's rules for a node, each by the name of its variable.
#[test]
fn each_rule_of_the_contract_decides() {
    let cases: &[Case] = &[
        (&[("wsrep_cluster_status", "non-Primary")], 0, "out", "wsrep_cluster_status is not Primary"),
        (&[("wsrep_cluster_status", "Disconnected"), ("wsrep_local_state", "0")], 0, "out", "not Primary"),
        (&[("wsrep_local_state", "0")], 0, "out", "wsrep_local_state is 0"),
        (&[("wsrep_local_state", "1")], 0, "out", "wsrep_local_state is 1"),
        (&[("wsrep_local_state", "3")], 0, "leaving", "3 (Joined)"),
        (&[("wsrep_local_state", "2")], 0, "reluctant", "2 (Donor/Desynced)"),
        (
            &[("wsrep_local_state", "2"), ("wsrep_sst_donor_rejects_queries", "ON")],
            0,
            "leaving",
            "wsrep_sst_donor_rejects_queries is ON",
        ),
        (&[("wsrep_sst_donor_rejects_queries", "ON")], 0, "writes", ""),
        (&[("wsrep_desync", "ON"), ("wsrep_local_state", "2")], 0, "leaving", "wsrep_desync is ON"),
        (&[("wsrep_desync", "ON")], 0, "leaving", "wsrep_desync is ON"),
        (&[("wsrep_reject_queries", "ALL")], 0, "leaving", "wsrep_reject_queries"),
        (&[("wsrep_reject_queries", "ALL_KILL")], 0, "leaving", "wsrep_reject_queries"),
        (&[("pxc_maint_mode", "MAINTENANCE")], 0, "leaving", "pxc_maint_mode is MAINTENANCE"),
        (&[("pxc_maint_mode", "SHUTDOWN")], 0, "leaving", "pxc_maint_mode is SHUTDOWN"),
        (&[("read_only", "ON")], 0, "reads", "read_only is ON"),
        (&[("read_only", "NO_LOCK")], 0, "reads", "read_only is ON"),
        (&[("wsrep_local_recv_queue", "9")], 0, "writes", ""),
        (&[("wsrep_local_recv_queue", "9")], 9, "writes", ""),
        (&[("wsrep_local_recv_queue", "10")], 9, "late", "max_transactions_behind"),
        (&[("wsrep_local_recv_queue", "10"), ("read_only", "ON")], 9, "leaving", "max_transactions_behind"),
    ];
    for (changes, most_behind, class, part) in cases {
        let word = with(&PERCONA, changes, *most_behind);
        let (found, reason) = match &word {
            Word::Writes => ("writes", ""),
            Word::Reluctant(why) => ("reluctant", why.as_str()),
            Word::Late(why) => ("late", why.as_str()),
            Word::Reads(why) => ("reads", why.as_str()),
            Word::Leaving(why) => ("leaving", why.as_str()),
            Word::Out(why) => ("out", why.as_str()),
        };
        assert!(found == *class && reason.contains(part), "{changes:?}: {word:?}");
    }
}

#[test]
fn a_server_without_a_cluster_is_no_node() {
    let Word::Out(why) = NodeState::of(&answer(&[("read_only", "OFF")])).word(0) else { panic!("it is out") };
    assert!(why.contains("no node of a Galera cluster"), "{why}");
}

#[test]
fn a_result_has_the_columns_of_the_log() {
    let state = NodeState::of(&answer(&PERCONA));
    let (yes, no) = (|| LogCell::Text("YES"), || LogCell::Text("NO"));
    let expected = [yes(), no(), LogCell::Integer(0), LogCell::Integer(4), no(), no(), no(), no()];
    assert_eq!(state.cells(), expected);
    assert_eq!(CHECK.values.len(), state.cells().len());
}

#[test]
fn a_node_names_the_others_and_its_place_among_them() {
    let named = |addresses: &str, own: Option<usize>| {
        let mut refused = Vec::new();
        let roster =
            Named { addresses: addresses.to_owned(), own }.roster(|text| refused.push(text.to_owned()));
        let names: Vec<String> = roster.members.into_iter().flatten().map(|it| it.to_string()).collect();
        (names.join(" "), roster.own.map(|it| it.to_string()).unwrap_or_default(), refused.join(" "))
    };
    let text = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(named("10.0.0.1:3306,db2:3307", Some(1)), text("10.0.0.1:3306 db2:3307", "db2:3307", ""));
    // An arbitrator has no address; a container may not know its own.
    assert_eq!(named("db1:3306,,AUTO", Some(2)), text("db1:3306", "", "AUTO"));
    assert_eq!(named("", Some(0)), text("", "", ""));
    assert_eq!(named("[fd00::1]:3306", None), text("[fd00::1]:3306", "", ""));
}

#[test]
fn the_segment_is_asked_for_with_each_new_view_and_read_among_the_options() {
    let cases = [
        ("base_host = 10.0.0.1; gmcast.segment = 3; gmcast.time_wait = PT5S", Some("3")),
        ("gmcast.segment=0", Some("0")),
        ("GMCAST.SEGMENT = 255;", Some("255")),
        ("gmcast.segment = 256", None),
        ("gmcast.segment = x", None),
        ("gmcast.segments = 1; x.gmcast.segment = 2", None),
        ("", None),
    ];
    for (options, expected) in cases {
        assert_eq!(segment(options).as_deref(), expected, "{options}");
    }
    let settings = MonitorSettings::default();
    let options = |text: &str| Table {
        columns: vec!["o".to_owned()],
        rows: vec![vec![Some(format!("gmcast.segment = {text}"))]],
    };
    let view = |number| Some(View { history: "h".to_owned(), number, size: 3 });
    let mut source = Galera::default();
    assert!(source.more_questions(&settings).is_empty(), "it is in no cluster");
    source.state.view = view(7);
    assert_eq!(source.more_questions(&settings), [PROVIDER_OPTIONS]);
    source.take_more(PROVIDER_OPTIONS, Some(&options("1")));
    assert_eq!((source.zone().as_deref(), source.more_questions(&settings).len()), (Some("1"), 0));
    source.state.view = view(8);
    assert_eq!(source.more_questions(&settings).len(), 1);
    source.take_more(PROVIDER_OPTIONS, None);
    assert_eq!((source.zone().as_deref(), source.more_questions(&settings).len()), (Some("1"), 0));
}

#[test]
fn the_names_of_others_are_only_asked_for_if_they_are_wanted() {
    let settings =
        |galera_autodiscovery| MonitorSettings { galera_autodiscovery, ..MonitorSettings::default() };
    let mut source = Galera::default();
    assert!(!source.question(&settings(false)).contains("incoming"));
    assert!(source.question(&settings(true)).contains("wsrep_incoming_addresses"));
    let id = super::super::ClusterId {
        kind: ClusterKind::Galera,
        writers: narrows_proxy::snapshot::HostgroupId(1),
    };
    let node = NodeOf { id, most_behind: 0, aurora: None };
    let address = Address { hostname: "a".to_owned(), port: 1 };
    assert_eq!(source.roster(&node, &address, &settings(true)).members, None, "it says nothing");
    assert_eq!(source.roster(&node, &address, &settings(false)).members, Some(BTreeSet::new()), "all leave");
}

//! Percona XtraDB Cluster, as scripted servers: what MariaDB does not have, and what an operator does at the admin port.

use narrows_testkit::{
    Conversation, FakeMysql, Move, Narrows, NarrowsConfig, RawClient, Received, command, wait_until, writer,
};

use crate::support::start;

/// The statement of a check, as it is sent to servers that have their status in this schema.
fn question(schema: &str) -> String {
    format!(
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM {schema}.global_status WHERE VARIABLE_NAME IN ('wsrep_local_state', \
         'wsrep_cluster_status', 'wsrep_local_recv_queue', 'wsrep_cluster_conf_id', 'wsrep_cluster_size', \
         'wsrep_cluster_state_uuid') UNION ALL SELECT VARIABLE_NAME, VARIABLE_VALUE FROM \
         {schema}.global_variables WHERE VARIABLE_NAME IN ('wsrep_desync', 'wsrep_reject_queries', \
         'wsrep_sst_donor_rejects_queries', 'read_only', 'pxc_maint_mode')"
    )
}

/// A healthy node, but for these values.
pub fn node(changes: &[(&str, &str)]) -> Conversation {
    const AUTOCOMMIT: u16 = 2;
    let healthy = [
        ("wsrep_local_recv_queue", "0"),
        ("wsrep_local_state", "4"),
        ("wsrep_cluster_status", "Primary"),
        ("pxc_maint_mode", "DISABLED"),
        ("read_only", "OFF"),
        ("wsrep_desync", "OFF"),
        ("wsrep_reject_queries", "NONE"),
        ("wsrep_sst_donor_rejects_queries", "OFF"),
    ];
    let eof = || writer::eof(AUTOCOMMIT, 0);
    let mut packets = vec![vec![2], writer::column("VARIABLE_NAME"), writer::column("VARIABLE_VALUE"), eof()];
    let segment = changes.iter().find(|(name, _)| *name == SEGMENT).map_or("0", |(_, segment)| *segment);
    let options = format!("base_port = 4567; {SEGMENT} = {segment}; gmcast.time_wait = PT5S");
    let changes: Vec<(&str, &str)> = changes.iter().copied().filter(|(name, _)| *name != SEGMENT).collect();
    let same = healthy.into_iter().filter(|(name, _)| !changes.iter().any(|(other, _)| other == name));
    for (name, value) in same.chain(changes.iter().copied()) {
        packets.push(writer::row(&[Some(name), Some(value)]));
    }
    packets.push(eof());
    let elsewhere = Move::error(1109, "42S02", "Unknown table 'GLOBAL_STATUS' in information_schema");
    Conversation::new()
        .on(&question("information_schema"), &[elsewhere])
        .on(&question("performance_schema"), &[Move::Reply(packets)])
        .on("SELECT @@global.wsrep_provider_options", &[Move::rows("o", &[&options])])
}

/// In `changes` of a node: one of its options.
const SEGMENT: &str = "gmcast.segment";

/// Three nodes, and Narrows, which has one writer among them; the first one has the greatest weight.
fn trio(more: &str) -> ([FakeMysql; 3], Narrows) {
    trio_with(more, "100")
}

/// The same with this interval of checks in ms.
fn trio_with(more: &str, interval: &str) -> ([FakeMysql; 3], Narrows) {
    let nodes = [0; 3].map(|_| FakeMysql::start(node(&[])));
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "").monitor();
    for (name, value) in [("monitor_galera_healthcheck_interval", interval), ("monitor_ping_interval", "200")]
    {
        config = config.variable(name, value);
    }
    for (node, weight) in nodes.iter().zip([9, 5, 1]) {
        config = config.server(0, node.port(), &format!("weight={weight}"));
    }
    let columns = "writer_hostgroup=0 backup_writer_hostgroup=2 reader_hostgroup=1 offline_hostgroup=3";
    let config = config.row("mysql_galera_hostgroups", &format!("{columns} {more}"));
    (nodes, start(&config))
}

/// Waits until the nodes are in these hostgroups; a node may be in two of them.
pub fn wait_for_places(admin: &mut RawClient, nodes: &[FakeMysql; 3], expected: [&str; 3]) {
    wait_until(&format!("the nodes are in {expected:?}"), || {
        let question = "SELECT port, group_concat(hostgroup_id, '+') FROM (SELECT port, hostgroup_id FROM \
                        runtime_mysql_servers ORDER BY hostgroup_id) GROUP BY port";
        let rows = admin.query(question).text_rows();
        let of = |node: &FakeMysql| {
            let port = node.port().to_string();
            let row = rows.iter().find(|row| row[0].as_ref() == Some(&port));
            row.and_then(|row| row[1].clone()).unwrap_or_default()
        };
        nodes.iter().map(of).collect::<Vec<_>>() == expected
    });
}

#[test]
fn maintenance_of_percona_and_a_long_queue_take_a_node_out_and_its_weight_does_not_bring_it_back() {
    let (nodes, narrows) = trio("writer_is_also_reader=1 max_transactions_behind=10");
    let mut admin = narrows.admin();
    wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "1+2"]);
    nodes[0].say(node(&[("pxc_maint_mode", "MAINTENANCE")]));
    wait_for_places(&mut admin, &nodes, ["3", "0+1", "1+2"]);
    let log = "SELECT COUNT(*) > 0 FROM monitor.mysql_server_galera_log WHERE pxc_maint_mode = 'YES' AND error IS NULL";
    wait_until("the log has it", || admin.query(log).cell().as_deref() == Some("1"));
    nodes[0].say(node(&[]));
    wait_for_places(&mut admin, &nodes, ["1+2", "0+1", "1+2"]);
    nodes[2].say(node(&[("wsrep_local_recv_queue", "11")]));
    wait_for_places(&mut admin, &nodes, ["1+2", "0+1", "3"]);
    nodes[2].say(node(&[("read_only", "ON")]));
    wait_for_places(&mut admin, &nodes, ["1+2", "0+1", "1"]);
    // The operator gives the first one the role again.
    let weights = format!("UPDATE mysql_servers SET weight = 10 WHERE port = {}", nodes[0].port());
    for statement in [weights.as_str(), "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert!(admin.query(statement).error().is_none(), "{statement}");
    }
    wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "1"]);
    let changes = admin.query("SHOW NARROWS STATUS").text_rows();
    let why = "it has a higher rank than 127.0.0.1";
    assert!(changes.iter().flatten().flatten().any(|cell| cell.contains(why)), "{changes:?}");
}

#[test]
fn a_node_that_goes_and_comes_again_and_again_changes_the_writer_once() {
    let (nodes, narrows) = trio("writer_is_also_reader=1");
    let mut admin = narrows.admin();
    wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "1+2"]);
    for _ in 0..20 {
        nodes[0].say(node(&[("wsrep_local_state", "1")]));
        wait_for_places(&mut admin, &nodes, ["3", "0+1", "1+2"]);
        nodes[0].say(node(&[]));
        wait_for_places(&mut admin, &nodes, ["1+2", "0+1", "1+2"]);
    }
    let log = narrows.log();
    let writers = log.lines().filter(|line| line.contains(" to=\"writer\""));
    assert_eq!(writers.count(), 1, "{log}");
}

#[test]
fn the_segment_of_a_node_is_its_zone_unless_the_configuration_names_another() {
    let (nodes, narrows) = trio("writer_is_also_reader=1");
    let mut admin = narrows.admin();
    for (segment, it) in ["0", "1", "1"].into_iter().zip(&nodes) {
        it.say(node(&[
            ("wsrep_cluster_state_uuid", "3c8f9a52"),
            ("wsrep_cluster_conf_id", "7"),
            ("wsrep_cluster_size", "3"),
            (SEGMENT, segment),
        ]));
    }
    wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "1+2"]);
    for statement in ["SET mysql-zone = '1'", "LOAD MYSQL VARIABLES TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
    let mut shown = |zones: [&str; 3]| {
        wait_until(&format!("the nodes are in the zones {zones:?}"), || {
            let rows = admin.query("EXPLAIN ROUTE '/* hostgroup=1 */ SELECT 1' AS sbtest").text_rows();
            let lines: Vec<String> =
                rows.iter().map(|row| row.iter().flatten().cloned().collect::<Vec<_>>().join(" ")).collect();
            let is_shown = |(node, zone): (&FakeMysql, &str)| {
                let of_node = format!("127.0.0.1:{}", node.port());
                lines.iter().any(|line| line.contains(&of_node) && line.contains(&format!("; {zone}")))
            };
            nodes.iter().zip(zones).all(is_shown)
        });
    };
    shown(["zone 0", "own zone 1", "own zone 1"]);
    let mut other = narrows.admin();
    let settings = format!("{{\"zones\":{{\"127.0.0.1:{}\":\"far\"}}}}", nodes[1].port());
    let columns = "hostgroup_id, hostgroup_settings";
    let insert = format!("INSERT INTO mysql_hostgroup_attributes ({columns}) VALUES (1, '{settings}')");
    for statement in [insert.as_str(), "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert_eq!(other.query(statement).error(), None, "{statement}");
    }
    shown(["zone 0", "zone far", "own zone 1"]);
}

#[test]
fn a_silent_node_is_offline_as_soon_as_all_nodes_of_a_newer_view_say_so() {
    let (nodes, narrows) = trio("writer_is_also_reader=1");
    let mut admin = narrows.admin();
    let in_view = |number, size| {
        [
            ("wsrep_cluster_state_uuid", "3c8f9a52"),
            ("wsrep_cluster_conf_id", number),
            ("wsrep_cluster_size", size),
        ]
    };
    nodes.iter().for_each(|it| it.say(node(&in_view("7", "3"))));
    wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "1+2"]);
    // The first one does not know of it.
    nodes[1].say(node(&in_view("8", "2")));
    nodes[2].say(node(&in_view("8", "2")));
    wait_for_places(&mut admin, &nodes, ["3", "0+1", "1+2"]);
    let status = admin.query("SHOW NARROWS STATUS").text_rows();
    let why = "the other nodes have excluded it";
    assert!(status.iter().flatten().flatten().any(|cell| cell.contains(why)), "{status:?}");
    // It is there again.
    nodes.iter().for_each(|it| it.say(node(&in_view("9", "3"))));
    wait_for_places(&mut admin, &nodes, ["1+2", "0+1", "1+2"]);
}

#[test]
fn what_a_server_says_to_a_statement_makes_all_nodes_be_asked_at_once() {
    // Checks by themselves would be too late.
    let (nodes, narrows) = trio_with("writer_is_also_reader=1", "60000");
    let mut admin = narrows.admin();
    wait_until("all nodes are heard", || {
        let status = admin.query("SHOW NARROWS STATUS").text_rows();
        let cells: Vec<String> = status.into_iter().flatten().flatten().collect();
        cells.iter().any(|cell| cell.starts_with("backup_writer for "))
            && !cells.iter().any(|it| it.contains("not been heard"))
    });
    let refusal = Move::error(1047, "08S01", "WSREP has not yet prepared node for application use");
    nodes[0].say(node(&[("wsrep_cluster_status", "non-Primary")]).on("INSERT INTO t VALUES (1)", &[refusal]));
    for other in &nodes[1..] {
        other.say(node(&[]).on("INSERT INTO t VALUES (1)", &[Move::ok()]));
    }
    let answer = narrows.client().query("INSERT INTO t VALUES (1)");
    assert!(answer.error().is_none(), "{:?}", answer.error());
    wait_for_places(&mut admin, &nodes, ["3", "0+1", "1+2"]);
}

/// OK in a transaction.
fn in_transaction() -> Move {
    Move::Reply(vec![writer::ok(1, 0, 3, 0)])
}

#[test]
fn a_transaction_whose_first_statement_is_refused_begins_again_on_the_next_writer() {
    for refusal in [1290, 1836, 1047, 4094] {
        let (nodes, narrows) = trio("");
        let mut admin = narrows.admin();
        wait_for_places(&mut admin, &nodes, ["0", "2", "2"]);
        let refusal = Move::error(refusal, "HY000", "it gives its role away");
        let begin = "START TRANSACTION";
        let first = "INSERT INTO t VALUES (1)";
        let goes = node(&[("read_only", "ON")]).on(begin, &[in_transaction()]);
        let goes = goes.on(first, std::slice::from_ref(&refusal)).on("INSERT INTO t VALUES (2)", &[refusal]);
        nodes[1].say(node(&[]).on(begin, &[in_transaction()]).on(first, &[in_transaction()]));
        let mut client = narrows.client();
        nodes[0].say(node(&[]).on(begin, &[in_transaction()]));
        assert!(client.query(begin).error().is_none());
        nodes[0].say(goes);
        for statement in [first, "COMMIT"] {
            let error = client.query(statement).error();
            assert!(error.is_none(), "{statement}: {error:?}");
        }
        let queries = nodes[1].received().into_iter().filter(|received| received.code == command::QUERY);
        let seen: Vec<String> =
            queries.map(|received| received.body).filter(|text| !text.contains("VARIABLE_NAME")).collect();
        let at = seen.iter().position(|text| text == begin).unwrap_or_else(|| panic!("{seen:?}"));
        assert_eq!(seen[at..][..3], [begin, first, "COMMIT"], "{seen:?}");
        wait_for_places(&mut admin, &nodes, ["1", "0", "2"]);
    }
}

#[test]
fn a_transaction_that_has_begun_again_stays_where_it_is_also_after_an_error() {
    let (nodes, narrows) = trio("");
    let mut admin = narrows.admin();
    wait_for_places(&mut admin, &nodes, ["0", "2", "2"]);
    let first = "INSERT INTO t VALUES (1)";
    let [refusal, duplicate] = [(1290, "it is read-only"), (1062, "Duplicate entry")]
        .map(|(code, text)| Move::error(code, "HY000", text));
    nodes[0].say(node(&[]).on("BEGIN", &[in_transaction()]));
    nodes[1].say(node(&[]).on("BEGIN", &[in_transaction()]).on(first, &[duplicate]));
    let mut client = narrows.client();
    assert!(client.query("BEGIN").error().is_none());
    nodes[0].say(node(&[("read_only", "ON")]).on(first, &[refusal]));
    assert_eq!(client.query(first).error().map(|error| error.code), Some(1062));
    assert!(client.query("ROLLBACK").error().is_none());
    let is_of_client = |it: &Received| it.code == command::QUERY && it.body != "SHOW WARNINGS";
    let received: Vec<Received> = nodes[1].received().into_iter().filter(is_of_client).collect();
    let at = received.iter().position(|it| it.body == "BEGIN").unwrap_or_else(|| panic!("{received:?}"));
    let [begin, insert, rollback] = &received[at..][..3] else { panic!("{received:?}") };
    assert_eq!([&insert.body, &rollback.body], [first, "ROLLBACK"]);
    assert_eq!([insert.connection, rollback.connection], [begin.connection; 2]);
}

#[test]
fn a_transaction_that_has_written_is_not_begun_again() {
    let (nodes, narrows) = trio("");
    let mut admin = narrows.admin();
    wait_for_places(&mut admin, &nodes, ["0", "2", "2"]);
    let [first, second] = ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"];
    let refusal = Move::error(1290, "HY000", "it is read-only");
    nodes[0].say(
        node(&[]).on("BEGIN", &[in_transaction()]).on(first, &[in_transaction()]).on(second, &[refusal]),
    );
    let mut client = narrows.client();
    for statement in ["BEGIN", first] {
        assert!(client.query(statement).error().is_none(), "{statement}");
    }
    assert_eq!(client.query(second).error().map(|error| error.code), Some(1290));
    assert!(nodes[1].received().iter().all(|received| received.body != "BEGIN"));
}

#[test]
fn a_hostgroup_of_two_rows_is_refused_and_a_row_that_is_not_active_does_nothing() {
    let (nodes, narrows) = trio("active=0");
    let mut admin = narrows.admin();
    wait_for_places(&mut admin, &nodes, ["0", "0", "0"]);
    for statement in [
        "INSERT INTO mysql_replication_hostgroups VALUES (0, 1, 'read_only', '')",
        "UPDATE mysql_galera_hostgroups SET active = 1",
        "LOAD MYSQL SERVERS TO RUNTIME",
    ] {
        assert!(admin.query(statement).error().is_none(), "{statement}");
    }
    let warnings = admin.query("SHOW WARNINGS").text_rows();
    let expected = "mysql_galera_hostgroups writer_hostgroup=0: left out: hostgroup 0 belongs to the row of \
                    mysql_replication_hostgroups with writer_hostgroup 0 already";
    assert!(warnings.iter().flatten().flatten().any(|cell| cell == expected), "{warnings:?}");
}

//! Percona XtraDB Cluster, as scripted servers: what MariaDB does not have, and what an operator does at the admin port.

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig, RawClient, wait_until, writer};

use crate::support::start;

/// The statement of a check, as it is sent to servers that have their status in this schema.
fn question(schema: &str) -> String {
    format!(
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM {schema}.global_status WHERE VARIABLE_NAME IN ('wsrep_local_state', \
         'wsrep_cluster_status', 'wsrep_local_recv_queue') UNION ALL SELECT VARIABLE_NAME, VARIABLE_VALUE FROM \
         {schema}.global_variables WHERE VARIABLE_NAME IN ('wsrep_desync', 'wsrep_reject_queries', \
         'wsrep_sst_donor_rejects_queries', 'read_only', 'pxc_maint_mode')"
    )
}

/// A healthy node, but for these values.
fn node(changes: &[(&str, &str)]) -> Conversation {
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
    for (name, value) in healthy {
        let changed = changes.iter().find(|(other, _)| *other == name);
        packets.push(writer::row(&[Some(name), Some(changed.map_or(value, |(_, value)| *value))]));
    }
    packets.push(eof());
    let elsewhere = Move::error(1109, "42S02", "Unknown table 'GLOBAL_STATUS' in information_schema");
    Conversation::new()
        .on(&question("information_schema"), &[elsewhere])
        .on(&question("performance_schema"), &[Move::Reply(packets)])
}

/// Three nodes, and Narrows, which has one writer among them; the first one has the greatest weight.
fn trio(more: &str) -> ([FakeMysql; 3], Narrows) {
    let nodes = [0; 3].map(|_| FakeMysql::start(node(&[])));
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "").monitor();
    for (name, value) in [("monitor_galera_healthcheck_interval", "100"), ("monitor_ping_interval", "200")] {
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
fn wait_for_places(admin: &mut RawClient, nodes: &[FakeMysql; 3], expected: [&str; 3]) {
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

//! Positions that the checks of the monitor find: replicas are known before any statement has asked them, and not for longer than
//! they have what they had.

use narrows_testkit::{Flavour, Narrows, wait_until};

use super::{Servers, figure, on_each, read, run, write};
use crate::support::start;

/// What a server is known to have applied.
fn known(narrows: &Narrows, servers: &Servers, node: usize) -> String {
    let port = servers.nodes[node].port();
    let rows = narrows.admin().query("SELECT port, gtid_executed FROM stats_mysql_gtid_executed").text_rows();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(&port.to_string()));
    row.and_then(|row| row[1].clone()).unwrap_or_default()
}

/// How often the role of a server was checked.
fn checks(narrows: &Narrows, port: u16) -> usize {
    let query = format!("SELECT time_start_us FROM monitor.mysql_server_read_only_log WHERE port = {port}");
    narrows.admin().query(&query).text_rows().len()
}

/// Replicas are read only, and checked.
fn monitored(servers: &Servers) -> Narrows {
    servers.nodes[1..].iter().for_each(|node| node.execute(&["SET GLOBAL read_only = 1"]));
    let config = servers.config().monitor().variable("causal_reads", "session");
    let config = config.variable("monitor_username", "sbtest").variable("monitor_password", "sbtest");
    start(&config.variable("monitor_read_only_interval", "100"))
}

#[test]
fn replicas_that_no_statement_has_asked_are_known_by_their_checks() {
    on_each(|servers| {
        let narrows = monitored(servers);
        let mut session = narrows.client();
        write(&mut session, 1, 7);
        servers.wait_for_replicas();
        let written = known(&narrows, servers, 0);
        assert!(!written.is_empty());
        for replica in [1, 2] {
            wait_until("checks have found what a replica has", || {
                let ends = written.rsplit(['-', ':']).next().expect("a number");
                known(&narrows, servers, replica).ends_with(ends)
            });
        }
        for _ in 0..20 {
            let (n, server) = read(&mut session, "", 1);
            assert!(n == 7 && server != 1, "{:?}: {n} from server {server}", servers.flavour);
        }
        assert_eq!(figure(&narrows, "Narrows_causal_reads_known"), 20, "{:?}", servers.flavour);
        assert_eq!(figure(&narrows, "Narrows_causal_reads_waited"), 0, "{:?}", servers.flavour);
    });
}

#[test]
fn a_replica_that_is_filled_anew_while_its_connections_stay_open_is_not_taken_for_what_it_was() {
    on_each(|servers| {
        let narrows = monitored(servers);
        let mut session = narrows.client();
        write(&mut session, 1, 7);
        wait_until("reads run on replicas", || read(&mut session, "", 1).1 != 1);
        for node in &servers.nodes[1..] {
            // A check compares with the one before it.
            wait_until("it was checked", || checks(&narrows, node.port()) >= 2);
            let forget = match servers.flavour {
                Flavour::MySql9 => ["STOP REPLICA", "RESET BINARY LOGS AND GTIDS"],
                Flavour::MariaDb => ["STOP SLAVE", "SET GLOBAL gtid_slave_pos = ''"],
            };
            node.execute(&["SET SESSION sql_log_bin = 0", "DELETE FROM shop.t"]);
            node.execute(&forget);
        }
        wait_until("it is noticed", || read(&mut session, "", 1) == (7, 1));
        for _ in 0..20 {
            assert_eq!(read(&mut session, "", 1), (7, 1), "{:?}", servers.flavour);
        }
        // Nothing that was written before is asked of them any more.
        let mut other = narrows.client();
        run(&mut other, "DO 1");
        assert_ne!(read(&mut other, "", 1).1, 1, "{:?}", servers.flavour);
    });
}

//! RDS as scripted servers: the readers of a Multi-AZ cluster, and a Blue/Green switchover.

use narrows_testkit::{
    Conversation, Endpoint, FakeMysql, Login, Move, NarrowsConfig, RawClient, wait_until, writer,
};

use super::aurora::free_port;
use crate::support::start;

const WRITE: &str = "INSERT INTO t VALUES (1)";

/// A server that says whether it is read-only, and has this table `mysql.rds_topology`.
fn server(is_read_only: bool, columns: &[&str], rows: &[Vec<String>]) -> Conversation {
    const AUTOCOMMIT: u16 = 2;
    let eof = || writer::eof(AUTOCOMMIT, 0);
    let mut packets = vec![vec![u8::try_from(columns.len()).expect("few")]];
    packets.extend(columns.iter().map(|name| writer::column(name)));
    packets.push(eof());
    for row in rows {
        packets.push(writer::row(&row.iter().map(|cell| Some(cell.as_str())).collect::<Vec<_>>()));
    }
    packets.push(eof());
    let read_only = Move::rows("read_only", &[if is_read_only { "1" } else { "0" }]);
    Conversation::new()
        .on("SELECT @@global.read_only read_only", &[read_only])
        .on("SELECT * FROM mysql.rds_topology LIMIT 200", &[Move::Reply(packets)])
}

fn config(port: u16) -> NarrowsConfig {
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "").monitor();
    for (name, value) in [
        ("monitor_read_only_interval", "100"),
        ("monitor_ping_interval", "500"),
        ("monitor_aws_rds_topology_discovery_interval", "2"),
    ] {
        config = config.variable(name, value);
    }
    config.server(0, port, "").row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
}

fn places(admin: &mut RawClient) -> Vec<String> {
    let question =
        "SELECT hostgroup_id || ' ' || hostname || ' ' || status FROM runtime_mysql_servers ORDER BY 1";
    let rows = admin.query(question).text_rows();
    rows.into_iter().flatten().flatten().collect()
}

#[test]
fn the_readers_of_a_multi_az_cluster_are_found_and_leave() {
    let port = free_port();
    let named = |hosts: &[&str]| {
        let row = |host: &&str| vec!["id".to_owned(), (*host).to_owned(), port.to_string()];
        hosts.iter().map(row).collect::<Vec<_>>()
    };
    let columns = ["id", "endpoint", "port"];
    let all = ["127.0.0.1", "127.0.1.1", "127.0.2.1"];
    let nodes =
        all.map(|host| FakeMysql::start_at(host, port, server(host != "127.0.0.1", &columns, &named(&all))));
    let narrows = start(&config(port));
    let mut admin = narrows.admin();
    let expected = ["0 127.0.0.1 ONLINE", "1 127.0.1.1 ONLINE", "1 127.0.2.1 ONLINE"];
    wait_until("the readers are found", || places(&mut admin) == expected);
    for (host, node) in all.iter().zip(&nodes) {
        node.say(server(*host != "127.0.0.1", &columns, &named(&all[..2])));
    }
    let expected = ["0 127.0.0.1 ONLINE", "1 127.0.1.1 ONLINE", "1 127.0.2.1 SHUNNED"];
    wait_until("one leaves", || places(&mut admin) == expected);
}

#[test]
fn writes_wait_while_a_switchover_runs_and_none_fails() {
    let status = |status: &str| {
        let row = |id: &str, host: &str, role: &str| {
            [id, host, "3306", role, status, "1.0"].map(str::to_owned).to_vec()
        };
        let rows = [
            row("1", "db.example.org", "BLUE_GREEN_DEPLOYMENT_SOURCE"),
            row("2", "db-green.example.org", "BLUE_GREEN_DEPLOYMENT_TARGET"),
        ];
        server(false, &["id", "endpoint", "port", "role", "status", "version"], &rows)
    };
    let blue = FakeMysql::start(status("AVAILABLE"));
    let narrows = start(&config(blue.port()));
    let mut admin = narrows.admin();
    let mut client = RawClient::open(&Endpoint::local(narrows.port()), &Login::new("sbtest", "sbtest"));
    assert!(client.query(WRITE).error().is_none());
    blue.say(status("SWITCHOVER_IN_PROGRESS"));
    wait_until("writes are held", || places(&mut admin) == ["0 127.0.0.1 SHUNNED"]);
    let writes = || blue.received().iter().filter(|received| received.body == WRITE).count();
    let before = writes();
    let waiting = std::thread::spawn(move || client.query(WRITE).error().map(|error| format!("{error:?}")));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(writes(), before, "nothing is written while it runs");
    blue.say(status("SWITCHOVER_COMPLETED"));
    assert_eq!(waiting.join().expect("a client"), None);
    assert_eq!(writes(), before + 1);
    let log = narrows.log();
    assert_eq!(log.matches("a Blue/Green switchover runs").count(), 1, "{log}");
    assert_eq!(log.matches("a Blue/Green switchover is over").count(), 1, "{log}");
    let found = admin.query("SELECT COUNT(*) FROM runtime_mysql_servers").cell();
    assert_eq!(found.as_deref(), Some("1"), "no green server is used");
}

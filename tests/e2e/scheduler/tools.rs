//! What public tools do with the scheduler and with servers: a script that moves the writer of a real cluster, and the
//! statements of the schedulers and operators that people run.

use narrows_testkit::{
    Conversation, Endpoint, FakeMysql, Flavour, Login, Narrows, NarrowsConfig, RawClient, kill, wait_until,
};

use super::{rows, run, script, wait_for_figures};
use crate::sandbox::{Sandbox, Server};
use crate::support::start;

/// Keeps one synchronised node in hostgroup 0, chosen among those of hostgroup 1: the usual scheduler in few lines.
const KEEPER_OF_THE_WRITER: &str = r#"
admin() { mariadb --no-defaults -h127.0.0.1 -P"$admin_port" -uadmin -padmin -N -B -e "$1"; }
is_synchronised() {
    state=$(mariadb --no-defaults --connect-timeout=1 -h127.0.0.1 -P"$1" -umonitor -pmonitor -N -B \
        -e "SHOW STATUS LIKE 'wsrep_local_state'" 2> /dev/null)
    [ "$(echo "$state" | cut -f2)" = 4 ]
}
admin_port=$1
current=$(admin "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id='0' AND status='ONLINE'") || exit 1
[ -n "$current" ] && is_synchronised "$current" && exit 0
for next in $(admin "SELECT port FROM mysql_servers WHERE hostgroup_id = 1 ORDER BY weight DESC, port"); do
    is_synchronised "$next" || continue
    admin "DELETE FROM mysql_servers WHERE hostgroup_id = 0;
           REPLACE INTO mysql_servers (hostgroup_id, hostname, port) SELECT 0, hostname, port FROM mysql_servers
               WHERE hostgroup_id = 1 AND port = $next;
           LOAD MYSQL SERVERS TO RUNTIME"
    echo "moved to $next"
    exit 0
done
exit 1
"#;

/// Narrows in front of the nodes of a sandbox.
fn in_front_of(nodes: &[Server], config: NarrowsConfig) -> Narrows {
    let config = config.user("app", "app", "default_hostgroup=0").monitor();
    let config = nodes.iter().fold(config, |config, node| config.server(1, node.port, ""));
    start(&config.server(0, nodes[0].port, ""))
}

#[test]
fn a_script_moves_the_writer_of_a_real_cluster() {
    Flavour::MariaDb.if_tested(|_| {
        let sandbox = Sandbox::start(&["--galera"]);
        let nodes = sandbox.servers();
        let narrows = in_front_of(nodes, NarrowsConfig::new());
        let program = script(narrows.folder(), "writer", KEEPER_OF_THE_WRITER);
        let mut admin = narrows.admin();
        let insert = format!(
            "INSERT INTO scheduler (id, interval_ms, filename, arg1) VALUES (1, 300, '{program}', '{}')",
            port_of_admin(&narrows)
        );
        run(&mut admin, &[&insert, "LOAD SCHEDULER TO RUNTIME"]);
        wait_for_figures(&mut admin, "runs >= 2 AND last_exit = '0' AND last_output = ''");
        let writer = |admin: &mut RawClient| {
            rows(admin, "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 0").join(" ")
        };
        assert_eq!(writer(&mut admin), nodes[0].port.to_string());
        kill(pid_of(&sandbox, 0));
        let others = [1, 2].map(|node| nodes[node].port.to_string());
        let took = wait_until("another node is written to", || others.contains(&writer(&mut admin)));
        println!("the script has moved the writer after {took:?}");
        wait_for_figures(&mut admin, "runs >= 3");
        let mut client = RawClient::open(&narrows.endpoint(), &Login::new("app", "app"));
        let port = client.query("SELECT @@port").cell().expect("a port");
        assert!(others.contains(&port), "{port}");
        assert!(client.query("CREATE TABLE app.written (id INT PRIMARY KEY)").error().is_none());
    });
}

fn port_of_admin(narrows: &Narrows) -> u16 {
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("the admin interface has a port") };
    address.port()
}

fn pid_of(sandbox: &Sandbox, node: usize) -> u32 {
    let pid = sandbox.record()["servers"][node]["pid"].as_u64().expect("a pid");
    u32::try_from(pid).expect("a pid")
}

/// A healthy cluster in the hostgroups that Percona's tools give it.
fn galera_of_percona(sandbox: &Sandbox) -> Narrows {
    let mut config = NarrowsConfig::new()
        .user("app", "app", "default_hostgroup=11")
        .monitor()
        .variable("monitor_galera_healthcheck_interval", "200")
        .row(
            "mysql_galera_hostgroups",
            "writer_hostgroup=11 backup_writer_hostgroup=12 reader_hostgroup=10 offline_hostgroup=13 max_writers=1 \
             writer_is_also_reader=2",
        )
        .row(
            "scheduler",
            "id=1 interval_ms=100000 filename=\"/bin/true\" comment=\"1.0 hgW:11, hgR:10\"",
        );
    for (node, weight) in sandbox.servers().iter().zip([1000, 999, 998]) {
        config = config.server(11, node.port, &format!("weight={weight}"));
    }
    start(&config)
}

#[test]
fn operators_see_a_real_cluster_and_choose_its_writer_by_weights() {
    Flavour::MariaDb.if_tested(|_| {
        let sandbox = Sandbox::start(&["--galera"]);
        let ports: Vec<u16> = sandbox.servers().iter().map(|node| node.port).collect();
        let narrows = galera_of_percona(&sandbox);
        let mut admin = narrows.admin();
        let places = "SELECT CASE hostgroup_id WHEN 11 THEN 'writer' WHEN 10 THEN 'reader' WHEN 12 THEN 'backup-writer' \
                      ELSE 'unknown' END hostgroup, hostgroup_id AS hg_id, port, status FROM runtime_mysql_servers \
                      WHERE hostgroup_id in (11,10,12,13) ORDER BY hostgroup_id,weight,hostname,port";
        let expected = |writer: u16, mut others: [u16; 2]| {
            // They are sorted by weight, and the lower one comes first.
            others.reverse();
            let rows_of = |name: &str, hostgroup: u32| others.map(|port| format!("{name} {hostgroup} {port} ONLINE"));
            let mut all = rows_of("reader", 10).to_vec();
            all.push(format!("writer 11 {writer} ONLINE"));
            all.extend(rows_of("backup-writer", 12));
            all
        };
        wait_until("the nodes have their roles", || {
            rows(&mut admin, places) == expected(ports[0], [ports[1], ports[2]])
        });
        for (question, answer) in [
            ("SELECT MAX(active) FROM runtime_mysql_galera_hostgroups", "1"),
            ("SELECT count(*) FROM runtime_scheduler", "1"),
            ("SELECT active FROM runtime_mysql_galera_hostgroups WHERE writer_hostgroup=11", "1"),
            ("SELECT active FROM runtime_scheduler WHERE comment like '% hgW:11%'", "1"),
            (
                "SELECT writer_hostgroup || ',' || reader_hostgroup || ',' || backup_writer_hostgroup || ',' || \
                 offline_hostgroup FROM mysql_galera_hostgroups WHERE writer_hostgroup = 11",
                "11,10,12,13",
            ),
            (
                "SELECT COUNT(*) FROM mysql_galera_hostgroups WHERE writer_hostgroup IN (11,10) OR reader_hostgroup IN \
                 (11,10)",
                "1",
            ),
            ("SELECT COUNT(*) FROM runtime_mysql_group_replication_hostgroups WHERE active=1", "0"),
            ("SELECT COUNT(DISTINCT(hostname)) FROM mysql_servers WHERE weight=1000", "1"),
            ("SELECT COUNT(*) FROM runtime_mysql_servers WHERE hostgroup_id=11 AND hostname LIKE '127%'", "1"),
            ("SELECT hostname FROM runtime_mysql_servers WHERE hostgroup_id = 11", "127.0.0.1"),
            (
                "SELECT COUNT(*) FROM runtime_mysql_servers WHERE hostgroup_id=11 AND status != 'SHUNNED'",
                "1",
            ),
            ("SELECT variable_value FROM global_variables WHERE variable_name=\"mysql-monitor_galera_healthcheck_interval\"", "200"),
        ] {
            assert_eq!(rows(&mut admin, question), [answer], "{question}");
        }
        let raise = format!("UPDATE mysql_servers SET weight=1001 WHERE hostgroup_id IN (11, 10) AND port = {}", ports[2]);
        run(&mut admin, &[&raise, "LOAD MYSQL SERVERS TO RUNTIME;", "SAVE MYSQL SERVERS TO DISK;"]);
        wait_until("the chosen node is the writer", || {
            rows(&mut admin, "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 11") == [ports[2].to_string()]
        });
        run(
            &mut admin,
            &[
                "UPDATE scheduler SET active=0 WHERE comment like '% hgW:11%'",
                "LOAD scheduler TO RUNTIME",
                "SAVE SCHEDULER TO DISK;",
                "SAVE SCHEDULER FROM RUNTIME",
            ],
        );
        assert_eq!(rows(&mut admin, "SELECT active FROM runtime_scheduler WHERE comment like '% hgW:11%'"), ["0"]);
    });
}

/// Three servers in the hostgroups that the schedulers for Percona XtraDB Cluster use: 100 for the writer, 101 for
/// readers, 8100 and 8101 with what may become one.
fn before_schedulers() -> ([FakeMysql; 3], Narrows) {
    let servers = [0; 3].map(|_| FakeMysql::start(Conversation::new()));
    let mut config = NarrowsConfig::new().user("app", "app", "default_hostgroup=100");
    config = config.server(100, servers[0].port(), "weight=1000");
    for (server, weight) in servers.iter().zip([1000, 999, 998]) {
        let more = format!("weight={weight}");
        config = [101, 8100, 8101]
            .iter()
            .fold(config, |config, hostgroup| config.server(*hostgroup, server.port(), &more));
    }
    let narrows = start(&config);
    (servers, narrows)
}

fn writer_ports(admin: &mut RawClient) -> Vec<String> {
    rows(admin, "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 100 AND status = 'ONLINE'")
}

#[test]
fn the_statements_of_pxc_scheduler_handler_move_the_writer() {
    let (servers, narrows) = before_schedulers();
    let mut admin = narrows.admin();
    let [old, new] = [servers[0].port(), servers[1].port()];
    let nodes = " select b.*, c.ConnUsed from stats_mysql_connection_pool c left JOIN runtime_mysql_servers b ON  \
                 c.hostgroup=b.hostgroup_id and c.srv_host=b.hostname and c.srv_port = b.port where hostgroup_id in \
                 (100,101,8100,8101,9100,9101)  order by hostgroup,srv_host desc;";
    let answer = admin.query(nodes);
    let columns: Vec<String> = answer.columns().into_iter().map(|column| column.name).collect();
    assert_eq!((answer.text_rows().len(), columns.len()), (10, 13), "{columns:?}");
    assert_eq!((columns[0].as_str(), columns[12].as_str()), ("hostgroup_id", "ConnUsed"));
    assert!(
        rows(&mut admin, "SHOW GLOBAL VARIABLES")
            .iter()
            .any(|row| row.starts_with("mysql-monitor_username "))
    );
    let proxies = "select weight,hostname,port,comment from runtime_proxysql_servers order by weight desc";
    assert_eq!(rows(&mut admin, proxies), [""; 0]);
    let insert = format!(
        "INSERT INTO mysql_servers (hostgroup_id, hostname,port,gtid_port,status,weight,compression,max_connections,\
         max_replication_lag,use_ssl,max_latency_ms,comment) VALUES(100,'127.0.0.1',{new},0,'ONLINE',1000,0,1000,0,0,0,'')"
    );
    run(
        &mut admin,
        &[
            &format!(
                " UPDATE mysql_servers SET hostgroup_id=9100 WHERE hostgroup_id=100 AND hostname='127.0.0.1' AND port={old}"
            ),
            &format!(
                " UPDATE mysql_servers SET status='OFFLINE_SOFT' WHERE hostgroup_id=101 AND hostname='127.0.0.1' AND port={old}"
            ),
            &format!(
                " DELETE FROM mysql_servers WHERE hostgroup_id=100 AND hostname='127.0.0.1' AND port={new}"
            ),
            &insert,
            "LOAD mysql servers to RUN ",
            "SAVE mysql servers to DISK ",
        ],
    );
    assert_eq!(writer_ports(&mut admin), [new.to_string()]);
    run(
        &mut admin,
        &[
            &format!(
                " UPDATE mysql_servers SET comment=' pxc_retry=1' WHERE hostgroup_id=101 AND hostname='127.0.0.1' AND port={old}"
            ),
            &format!(
                " UPDATE mysql_servers SET status='ONLINE' WHERE hostgroup_id=101 AND hostname='127.0.0.1' AND port={old}"
            ),
            &format!(
                " UPDATE mysql_servers SET hostgroup_id=100 WHERE hostgroup_id=9100 AND hostname='127.0.0.1' AND port={old}"
            ),
            "LOAD mysql servers to RUN ",
        ],
    );
    assert_eq!(writer_ports(&mut admin).len(), 2);
}

#[test]
fn the_statements_of_galera_check_move_the_writer() {
    let (servers, narrows) = before_schedulers();
    let mut admin = narrows.admin();
    let [old, new] = [servers[0].port(), servers[1].port()];
    let monitor = "select variable_name name,variable_value value from global_variables where variable_name in( \
                   'mysql-monitor_username','mysql-monitor_password','mysql-monitor_read_only_timeout' ) order by 1";
    let expected = [
        "mysql-monitor_password monitor",
        "mysql-monitor_read_only_timeout 800",
        "mysql-monitor_username monitor",
    ];
    assert_eq!(rows(&mut admin, monitor), expected);
    let hostgroups = "select distinct hostgroup_id hg_isd from runtime_mysql_servers order by 1;";
    assert_eq!(rows(&mut admin, hostgroups), ["100", "101", "8100", "8101"]);
    let pairs = "select writer_hostgroup,reader_hostgroup from mysql_replication_hostgroups order by 1;";
    assert_eq!(rows(&mut admin, pairs), [""; 0]);
    let nodes = " SELECT a.* FROM runtime_mysql_servers a join stats_mysql_connection_pool b on a.hostname=b.srv_host and \
                 a.port=b.srv_port and a.hostgroup_id=b.hostgroup  WHERE b.status not in ('OFFLINE_HARD','SHUNNED')  AND \
                 hostgroup_id IN (100,101,8100,8101,9100,9101) order by hostgroup_id, hostname";
    assert_eq!(rows(&mut admin, nodes).len(), 10);
    run(
        &mut admin,
        &[
            &format!(
                " UPDATE mysql_servers SET status='OFFLINE_SOFT' WHERE hostgroup_id=101 AND hostname='127.0.0.1' AND port='{old}'"
            ),
            "LOAD MYSQL SERVERS TO RUNTIME",
            "DELETE from mysql_servers where hostgroup_id in (100,9100) AND STATUS = 'ONLINE'",
            &format!(
                "INSERT INTO mysql_servers (hostname,hostgroup_id,port,weight,max_connections,use_ssl,compression,\
                 max_latency_ms) VALUES ('127.0.0.1',100,{new},999,1000,0,0,0);"
            ),
            "LOAD MYSQL SERVERS TO RUNTIME",
            "SAVE MYSQL SERVERS TO DISK",
        ],
    );
    assert_eq!(writer_ports(&mut admin), [new.to_string()]);
    run(
        &mut admin,
        &[
            &format!(
                " UPDATE mysql_servers SET hostgroup_id=9101 WHERE hostgroup_id=101 AND hostname='127.0.0.1' AND port='{old}'"
            ),
            "LOAD MYSQL SERVERS TO RUNTIME",
        ],
    );
    assert_eq!(
        rows(&mut admin, "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 9101"),
        [old.to_string()]
    );
}

#[test]
fn the_statements_of_the_scripts_of_proxysql_move_the_writer() {
    let (servers, narrows) = before_schedulers();
    let mut admin = narrows.admin();
    let [old, new] = [servers[0].port(), servers[1].port()];
    let monitor = "SELECT variable_value FROM global_variables WHERE variable_name IN \
                   ('mysql-monitor_username','mysql-monitor_password') ORDER BY variable_name DESC";
    assert_eq!(rows(&mut admin, monitor), ["monitor", "monitor"]);
    let writers = "SELECT hostgroup_id, hostname, port, status FROM mysql_servers WHERE hostgroup_id IN (100) AND status <> \
                   'OFFLINE_HARD' ORDER BY hostgroup_id, weight DESC, hostname, port";
    assert_eq!(rows(&mut admin, writers), [format!("100 127.0.0.1 {old} ONLINE")]);
    let readers = "SELECT reader.hostgroup_id,\n reader.hostname,\n reader.port,\n reader.status,\n writer.status\n FROM \
                   mysql_servers as reader\n LEFT JOIN mysql_servers as writer \n ON writer.hostgroup_id = 100 \n AND \
                   writer.hostname = reader.hostname \n AND writer.port = reader.port\n WHERE reader.hostgroup_id = 101\n AND \
                   reader.status <> 'OFFLINE_HARD'\n ORDER BY writer.status ASC,\n reader.weight DESC,\n reader.hostname,\n \
                   reader.port";
    let found = rows(&mut admin, readers);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], format!("101 127.0.0.1 {old} ONLINE ONLINE"));
    let runtime = format!(
        "SELECT status FROM runtime_mysql_servers WHERE hostname='127.0.0.1' AND port='{old}' AND hostgroup_id='100'"
    );
    assert_eq!(rows(&mut admin, &runtime), ["ONLINE"]);
    run(
        &mut admin,
        &[
            &format!(
                "UPDATE mysql_servers set status = 'OFFLINE_SOFT' WHERE hostgroup_id = 101 AND hostname = '127.0.0.1' AND port = {old};"
            ),
            "LOAD MYSQL SERVERS TO RUNTIME;",
            "UPDATE mysql_servers SET status='OFFLINE_SOFT' WHERE hostgroup_id=100",
            "REPLACE INTO mysql_servers (hostgroup_id, hostname, port, status, weight, max_connections, use_ssl) SELECT 100 , \
             hostname, port, status, weight, max_connections, use_ssl FROM mysql_servers WHERE hostgroup_id=101 AND \
             status='ONLINE' ORDER BY weight DESC, hostname, port LIMIT 1",
            "LOAD MYSQL SERVERS TO RUNTIME",
        ],
    );
    assert_eq!(rows(&mut admin, &runtime), ["OFFLINE_SOFT"]);
    assert_eq!(writer_ports(&mut admin), [new.to_string()]);
}

//! The statements of programs that operate ProxySQL: each gets an answer in the form that its program reads.

use narrows_testkit::{Conversation, FakeMysql, NarrowsConfig, RawClient};

use super::start;

/// The answer that a statement must get.
enum Shape {
    /// OK.
    Done,
    /// Rows with these columns; if none are named, any.
    Rows(&'static [&'static str]),
}

use Shape::{Done, Rows};

/// Ansible's collection `community.proxysql`.
const ANSIBLE: &[(&str, Shape)] = &[
    ("select version();", Rows(&["version()"])),
    (
        "SELECT count(*) AS variable_count FROM global_variables WHERE variable_name = 'mysql-max_connections' and \
         variable_value = '4096'",
        Rows(&["variable_count"]),
    ),
    (
        "SELECT * FROM global_variables WHERE variable_name = 'mysql-max_connections'",
        Rows(&["variable_name", "variable_value"]),
    ),
    (
        "UPDATE global_variables SET variable_value = '4096' WHERE variable_name = 'mysql-max_connections'",
        Done,
    ),
    ("SAVE MYSQL VARIABLES TO DISK", Done),
    ("LOAD MYSQL VARIABLES TO RUNTIME", Done),
    ("SAVE ADMIN VARIABLES TO DISK", Done),
    ("LOAD ADMIN VARIABLES TO RUNTIME", Done),
    (
        "SELECT count(*) AS host_count FROM mysql_servers WHERE hostgroup_id = 1 AND hostname = 'mysql01' AND port = 3306 \
         AND status = 'ONLINE' AND weight = 1",
        Rows(&["host_count"]),
    ),
    (
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port, status, weight, comment) VALUES (1, 'mysql01', 3306, \
         'ONLINE', 1, 'x')",
        Done,
    ),
    (
        "UPDATE mysql_servers SET weight= 2, max_latency_ms= 100 WHERE hostgroup_id = 1 AND hostname = 'mysql01' AND \
         port = 3306",
        Done,
    ),
    ("DELETE FROM mysql_servers WHERE hostgroup_id = 1 AND hostname = 'mysql01' AND port = 3306", Done),
    (
        "SELECT count(*) AS user_count FROM mysql_users WHERE username = 'app' AND backend = 1 AND frontend = 1",
        Rows(&["user_count"]),
    ),
    (
        "INSERT INTO mysql_query_rules (active, username, match_pattern, destination_hostgroup, apply) VALUES (1, 'guest', '^SELECT.*', 1, 1)",
        Done,
    ),
    (
        "SELECT count(*) AS rule_count FROM mysql_query_rules WHERE active = 1 AND username = 'guest'",
        Rows(&["rule_count"]),
    ),
    ("DELETE FROM mysql_query_rules WHERE active = 1 AND username = 'guest'", Done),
    (
        "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup, check_type, comment) VALUES (1, 2, 'read_only', '')",
        Done,
    ),
    (
        "UPDATE mysql_replication_hostgroups SET check_type = 'innodb_read_only' WHERE writer_hostgroup = 1 AND reader_hostgroup = 2",
        Done,
    ),
    (
        "INSERT INTO mysql_galera_hostgroups (writer_hostgroup, backup_writer_hostgroup, reader_hostgroup, offline_hostgroup, active, max_writers) VALUES (20, 21, 22, 23, 1, 1)",
        Done,
    ),
    ("UPDATE mysql_galera_hostgroups SET 'max_writers' = 2 WHERE writer_hostgroup = 20", Done),
    ("DELETE FROM mysql_galera_hostgroups WHERE writer_hostgroup = 20", Done),
    ("INSERT INTO mysql_hostgroup_attributes (hostgroup_id, multiplex) VALUES (3, 1)", Done),
    ("DELETE FROM mysql_hostgroup_attributes WHERE hostgroup_id = 3", Done),
    ("LOAD  SCHEDULER TO RUNTIME", Done),
    ("SAVE  SCHEDULER TO DISK", Done),
    ("LOAD MYSQL SERVERS FROM DISK", Done),
    ("SAVE MYSQL USERS FROM RUNTIME", Done),
    ("LOAD MYSQL QUERY RULES FROM CONFIG", Done),
    ("show tables", Rows(&["tables"])),
];

/// Percona's `proxysql-admin`, `percona-scheduler-admin` and `proxysql-status`.
const PERCONA_ADMIN: &[(&str, Shape)] = &[
    ("SELECT 1", Rows(&["1"])),
    (
        "SELECT writer_hostgroup || ',' || reader_hostgroup FROM mysql_galera_hostgroups WHERE writer_hostgroup = 10",
        Rows(&[]),
    ),
    (
        "SELECT COUNT(*) FROM mysql_galera_hostgroups WHERE writer_hostgroup IN (10) OR reader_hostgroup IN (11)",
        Rows(&[]),
    ),
    (
        "SELECT CASE hostgroup_id WHEN 10 THEN 'writer' ELSE 'unknown' END hostgroup, hostgroup_id AS hg_id, hostname, port, \
         weight FROM runtime_mysql_servers WHERE hostgroup_id in (10,11) ORDER BY hostgroup_id,weight,hostname,port",
        Rows(&["hostgroup", "hg_id", "hostname", "port", "weight"]),
    ),
    ("SELECT active FROM runtime_mysql_galera_hostgroups WHERE writer_hostgroup=10", Rows(&["active"])),
    (
        "SELECT hostname || ':' || port AS bkp_writer FROM mysql_servers WHERE hostgroup_id=11 AND bkp_writer != \"h:1\" AND \
         status NOT IN (\"OFFLINE_HARD\",\"OFFLINE_SOFT\")",
        Rows(&["bkp_writer"]),
    ),
    (
        "INSERT INTO mysql_servers (hostname,hostgroup_id,port,weight,max_connections,use_ssl) VALUES ('a',10,3306,1000000,1000,0),('b',11,3306,1,1,0)",
        Done,
    ),
    ("DELETE FROM mysql_servers WHERE hostgroup_id in (10,11)", Done),
    (
        "SELECT username,HEX(password) FROM mysql_users WHERE password!='' AND default_hostgroup=0",
        Rows(&["username", "HEX(password)"]),
    ),
    (
        "INSERT INTO mysql_users (username, password, active, default_hostgroup) VALUES ('u', UNHEX('2A4142'), 1, 10)",
        Done,
    ),
    ("DELETE FROM mysql_users WHERE username='u'", Done),
    ("SET mysql-monitor_galera_healthcheck_interval = 5000", Done),
    ("SET admin-checksum_mysql_query_rules = 'false'", Done),
    ("SET admin-cluster_username = ''", Done),
    (
        "SELECT * FROM runtime_global_variables WHERE variable_name='mysql-interfaces'",
        Rows(&["variable_name", "variable_value"]),
    ),
    ("SAVE ADMIN VARIABLES FROM RUNTIME", Done),
    (
        "INSERT INTO scheduler (active, interval_ms, filename, arg1, arg2, comment) VALUES (0, 2000, '/bin/true', 'a', 'b', 'c')",
        Done,
    ),
    ("SELECT active FROM runtime_scheduler WHERE comment like '% hgW:10%'", Rows(&["active"])),
    ("DELETE FROM scheduler", Done),
    ("LOAD scheduler TO RUNTIME", Done),
    ("SHOW TABLES FROM stats", Rows(&["tables"])),
    ("SHOW TABLES FROM monitor", Rows(&["tables"])),
    ("SHOW TABLES LIKE 'mysql_users'", Rows(&["tables"])),
];

/// What Percona's exporter, PMM, Datadog and Netdata query as statistics users.
const MONITORING: &[(&str, Shape)] = &[
    (
        "SELECT Variable_Name, Variable_Value FROM stats_mysql_global",
        Rows(&["Variable_Name", "Variable_Value"]),
    ),
    ("SELECT hostgroup, srv_host, srv_port, * FROM stats_mysql_connection_pool", Rows(&[])),
    (
        "SELECT COUNT(cli_host) as connection_count, cli_host FROM stats_mysql_processlist GROUP BY cli_host",
        Rows(&["connection_count", "cli_host"]),
    ),
    (
        "SELECT user, db, cli_host, hostgroup, COUNT(*) as count from stats_mysql_processlist group by user, db, cli_host, \
         hostgroup",
        Rows(&["user", "db", "cli_host", "hostgroup", "count"]),
    ),
    (
        "SELECT Command, Total_Time_us, Total_cnt, cnt_100us, cnt_INFs FROM stats_mysql_commands_counters WHERE Command IN \
         ('SELECT','UPDATE')",
        Rows(&["Command", "Total_Time_us", "Total_cnt", "cnt_100us", "cnt_INFs"]),
    ),
    (
        "select Variable_Name, Variable_Value  from stats_memory_metrics",
        Rows(&["Variable_Name", "Variable_Value"]),
    ),
    (
        "select variable_value from global_variables where variable_name = 'admin-version'",
        Rows(&["variable_value"]),
    ),
    ("SELECT /* agent='connectionchecker' */ 'pmm-agent'", Rows(&[])),
    ("SELECT * FROM stats.stats_mysql_global", Rows(&["Variable_Name", "Variable_Value"])),
    (
        "SELECT Command, Total_time_us, Total_cnt, cnt_100us FROM stats.stats_mysql_commands_counters",
        Rows(&[]),
    ),
    (
        "SELECT hostgroup, srv_host, status, ConnUsed, Latency_us FROM stats.stats_mysql_connection_pool",
        Rows(&[]),
    ),
    (
        "SELECT username, frontend_connections, frontend_max_connections FROM stats.stats_mysql_users",
        Rows(&[]),
    ),
    ("SELECT * FROM stats.stats_memory_metrics", Rows(&["Variable_Name", "Variable_Value"])),
    ("SELECT rule_id, hits FROM stats.stats_mysql_query_rules", Rows(&["rule_id", "hits"])),
    (
        "SELECT * FROM stats_mysql_users;",
        Rows(&["username", "frontend_connections", "frontend_max_connections"]),
    ),
    ("SELECT * FROM stats_mysql_query_digest WHERE 1=0", Rows(&[])),
    (
        "SELECT digest AS `digest`, sum_time/1000 AS `totalTime` FROM stats_mysql_query_digest ORDER BY `totalTime` DESC \
         LIMIT 500",
        Rows(&["digest", "totalTime"]),
    ),
];

/// Orchestrator, Kubernetes operators, Puppet, Chef and scripts.
const ORCHESTRATION: &[(&str, Shape)] = &[
    ("UPDATE mysql_servers SET status='OFFLINE_SOFT' WHERE hostname='h' AND port=1 AND hostgroup_id=0", Done),
    (
        "REPLACE INTO mysql_servers (hostgroup_id, hostname, port, status) VALUES (9, 'h', 3306, 'OFFLINE_SOFT')",
        Done,
    ),
    (
        "SELECT hostgroup_id, hostname, port, status, weight, max_connections, comment FROM runtime_mysql_servers WHERE \
         hostgroup_id = 9 ORDER BY hostgroup_id, hostname, port",
        Rows(&["hostgroup_id", "hostname", "port", "status", "weight", "max_connections", "comment"]),
    ),
    ("DELETE FROM mysql_servers WHERE hostname='h' AND port=3306 AND hostgroup_id=9", Done),
    ("LOAD MYSQL SERVERS TO RUNTIME", Done),
    ("SAVE MYSQL SERVERS TO DISK", Done),
    ("select count(*) from runtime_mysql_servers where hostgroup_id = 0", Rows(&[])),
    ("SELECT DISTINCT username FROM runtime_mysql_users", Rows(&["username"])),
    ("PROXYSQL RELOAD TLS", Done),
    (
        "SELECT variable_value FROM global_variables WHERE variable_name=\"mysql-have_ssl\"",
        Rows(&["variable_value"]),
    ),
    ("SELECT MAX(active) FROM runtime_mysql_galera_hostgroups", Rows(&[])),
    ("SELECT COUNT(DISTINCT(hostname)) FROM mysql_servers WHERE weight=1000", Rows(&[])),
    ("INSERT INTO proxysql_servers (hostname,port) VALUES ('h','6032')", Done),
    ("DELETE FROM proxysql_servers; LOAD PROXYSQL SERVERS TO RUNTIME;", Done),
    ("INSERT INTO proxysql_servers VALUES (\"10.0.0.1\", 6032, 0, \"pod\")", Done),
    ("DELETE FROM proxysql_servers", Done),
    (
        "SELECT COUNT(hostname) FROM stats_proxysql_servers_metrics WHERE last_check_ms > 30000 AND hostname != \
         'proxysql-core' AND Uptime_s > 0",
        Rows(&[]),
    ),
    (
        "SELECT Client_Connections_connected FROM mysql_connections ORDER BY timestamp DESC LIMIT 1",
        Rows(&["Client_Connections_connected"]),
    ),
    ("SHOW GLOBAL VARIABLES", Rows(&["Variable_name", "Value"])),
    ("SET mysql-wait_timeout = '28800000'", Done),
    ("SELECT * FROM mysql_query_rules WHERE rule_id = '12'", Rows(&[])),
    ("LOAD ADMIN VARIABLES FROM DISK", Done),
    ("LOAD PROXYSQL SERVERS FROM CONFIG", Done),
    ("SELECT 1 AS result", Rows(&["result"])),
    ("save mysql servers to disk", Done),
    ("load mysql servers to runtime", Done),
    (
        "SELECT a.* FROM runtime_mysql_servers a join stats_mysql_connection_pool b on a.hostname=b.srv_host and \
         a.port=b.srv_port and a.hostgroup_id=b.hostgroup WHERE b.status not in ('OFFLINE_HARD','SHUNNED') order by \
         hostgroup_id, hostname",
        Rows(&[]),
    ),
    ("select distinct hostgroup_id hg_isd from runtime_mysql_servers order by 1;", Rows(&["hg_isd"])),
    ("SELECT * FROM main.runtime_mysql_users", Rows(&[])),
];

/// What drivers and clients send about themselves when they connect.
const CHATTER: &[(&str, Shape)] = &[
    ("SELECT @@version_comment LIMIT 1", Rows(&[])),
    ("SET AUTOCOMMIT = 0", Done),
    ("SET NAMES utf8mb4", Done),
    ("COMMIT", Done),
    ("ROLLBACK", Done),
    ("SELECT @@max_allowed_packet", Rows(&["@@max_allowed_packet"])),
    ("SET character_set_results = NULL", Done),
    ("SELECT DATABASE(), USER() LIMIT 1", Rows(&["DATABASE()", "USER()"])),
];

fn ask_all(client: &mut RawClient, who: &str, statements: &[(&str, Shape)]) {
    for (statement, shape) in statements {
        let answer = client.query(statement);
        assert!(answer.error().is_none(), "{who}: {statement}: {:?}", answer.error());
        let columns: Vec<String> = answer.columns().into_iter().map(|column| column.name).collect();
        match shape {
            Done => assert!(columns.is_empty(), "{who}: {statement}: {columns:?}"),
            Rows([]) => assert!(!columns.is_empty(), "{who}: {statement}"),
            Rows(expected) => assert_eq!(columns, *expected, "{who}: {statement}"),
        }
    }
}

#[test]
fn statements_of_other_programs_are_answered_in_their_shape() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let (mut admin, mut stats) = (narrows.admin(), narrows.stats());
    ask_all(&mut admin, "Ansible", ANSIBLE);
    // Its module `info` reads every table.
    for table in super::rows(&mut admin, "show tables") {
        assert!(admin.query(format!("select * from {}", table[0])).error().is_none(), "{table:?}");
    }
    ask_all(&mut admin, "proxysql-admin", PERCONA_ADMIN);
    ask_all(&mut stats, "monitoring", MONITORING);
    ask_all(&mut admin, "monitoring with a full user", MONITORING);
    ask_all(&mut admin, "orchestration", ORCHESTRATION);
    ask_all(&mut admin, "drivers", CHATTER);
    ask_all(&mut stats, "drivers", CHATTER);
    // `proxysql-status` reads every table of statistics by its bare name.
    for table in super::rows(&mut stats, "SHOW TABLES") {
        assert!(stats.query(format!("SELECT * FROM {}", table[0])).error().is_none(), "{table:?}");
    }
}

#[test]
fn patterns_are_those_of_mysql() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut admin = narrows.admin();
    // How mysqldump checks whether a table exists.
    assert_eq!(super::rows(&mut admin, r"SHOW TABLES LIKE 'mysql\_users'"), [["mysql_users"]]);
    assert_eq!(super::rows(&mut admin, r"SHOW TABLE STATUS LIKE 'mysql\_users'")[0][0], "mysql_users");
    assert_eq!(
        super::rows(&mut admin, r"SHOW VARIABLES LIKE 'mysql-max\_connections'")[0][0],
        "mysql-max_connections"
    );
    assert_eq!(super::rows(&mut admin, r"SHOW TABLES LIKE 'mysql\%'"), Vec::<Vec<String>>::new());
}

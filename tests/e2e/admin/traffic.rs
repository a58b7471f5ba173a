//! The recorded reads of statistics, after the same traffic as in the recording.

use narrows_testkit::{Flavour, Login, RawClient, RealServer, ServerOptions, command, wait_until};
use serde_json::{Value, json};

use super::replay::{Instance, Keys};

/// What the recording's operator did after the start; `PORT` is the server's.
const OPERATOR: &[&str] = &[
    "DELETE FROM mysql_servers",
    "INSERT INTO mysql_servers (hostgroup_id,hostname,port) VALUES (0,'127.0.0.1',PORT),(1,'127.0.0.1',PORT),\
     (5,'127.0.0.1',29399)",
    "LOAD MYSQL SERVERS TO RUNTIME",
    "INSERT INTO mysql_users (username,password,default_schema) VALUES ('u_db','p_db','db1')",
    "INSERT INTO mysql_users (username,password,max_connections) VALUES ('u_max1','p_max1',1)",
    "INSERT INTO mysql_users (username,password,active) VALUES ('u_off','p_off',0)",
    "INSERT INTO mysql_users (username,password,default_hostgroup) VALUES ('u_nohg','p_nohg',99)",
    "INSERT INTO mysql_users (username,password,default_hostgroup) VALUES ('u_down','p_down',5)",
    "INSERT INTO mysql_users (username,password,fast_forward) VALUES ('u_ff','p_ff',1)",
    "INSERT INTO mysql_users (username,password,use_ssl) VALUES ('u_ssl','p_ssl',1)",
    "INSERT INTO mysql_users (username,password,transaction_persistent) VALUES ('u_ntp','p_ntp',0)",
    "INSERT INTO mysql_users (username,password,default_hostgroup) VALUES ('u_hg1','p_hg1',1)",
    "INSERT INTO mysql_users (username,password,fast_forward) VALUES ('u_ffnohg','p_ffnohg',1)",
    "INSERT INTO mysql_users (username,password,default_schema) VALUES ('u_baddb','p_baddb','nodb')",
    "UPDATE mysql_users SET default_hostgroup=98 WHERE username='u_ffnohg'",
    "INSERT INTO mysql_users (username,password) VALUES ('u_nopw','')",
    "INSERT INTO mysql_users (username,password) VALUES ('u_hash',MYSQL_NATIVE_PASSWORD('p_hash'))",
    "INSERT INTO mysql_users (username,password) VALUES ('u_be','mine')",
    "INSERT INTO mysql_users (username,password) VALUES \
     ('u_sha',CACHING_SHA2_PASSWORD('p_sha','abcdefghijklmnopqrst'))",
    "INSERT INTO mysql_users (username,password) VALUES ('u_min','p_min')",
    "INSERT INTO mysql_users (username,password) VALUES ('u_nobe','p_nobe')",
    "LOAD MYSQL USERS TO RUNTIME",
    "UPDATE global_variables SET variable_value='2000' WHERE variable_name='mysql-connect_timeout_server_max'",
    // ProxySQL's initial state.
    "SET mysql-default_schema='information_schema'",
    "SET mysql-query_digests_track_hostname='false'",
    "LOAD MYSQL VARIABLES TO RUNTIME",
];

/// What the recording's client did.
const CLIENT: &[&str] = &[
    "SELECT 1",
    "SELECT 2",
    "USE db1",
    "SELECT * FROM t WHERE id IN (1,2)",
    "SELECT * FROM nosuch",
    "INSERT INTO t (a) VALUES (50)",
    "DELETE FROM t WHERE a=50",
    "SET NAMES utf8",
];

const RESETS: &[&str] = &[
    "SELECT COUNT(*) FROM stats_mysql_query_digest_reset",
    "SELECT COUNT(*) FROM stats_mysql_errors_reset",
    "SELECT COUNT(*) FROM stats_mysql_connection_pool_reset",
];

/// The current answers to the recorded reads after traffic.
pub fn answers(keys: &Keys, records: &[&Value]) -> Vec<Value> {
    let server = server();
    let mut instance = Instance::start(keys);
    let mut operator = |statement: &str| {
        let sql = statement.replace("PORT", &server.port().to_string());
        let found = instance.ask(&json!({"user": "admin", "sql": sql}));
        assert!(found["error"].is_null(), "{sql}: {found}");
    };
    OPERATOR.iter().for_each(|statement| operator(statement));
    let endpoint = instance.endpoint();
    // An idle connection in the other hostgroup.
    let mut other = RawClient::open(&endpoint, &Login::new("u_hg1", "p_hg1"));
    assert!(other.query("SELECT 1").error().is_none());
    drop(other);
    RESETS.iter().for_each(|statement| drop(instance.ask(&json!({"user": "admin", "sql": statement}))));
    let mut client = RawClient::open(&endpoint, &Login::new("sbtest", "sbtest"));
    for statement in CLIENT {
        client.query(statement);
    }
    // The connection is reset after the SET, because of the error before it; meanwhile a client would get another one.
    wait_until("both hostgroups have an idle connection", || {
        let idle =
            instance.ask(&json!({"user": "admin", "sql": "SELECT * FROM stats_mysql_free_connections"}));
        idle["count"] == 2
    });
    prepare_and_execute(&mut client);
    instance.mask(server.port().to_string(), "29306");
    records.iter().map(|record| instance.ask(record)).collect()
}

/// `SELECT ?, 7` with 41.
fn prepare_and_execute(client: &mut RawClient) {
    let prepared = client.command(command::STMT_PREPARE, b"SELECT ?, 7");
    let id = &prepared.packets[0].payload[1..5];
    // No cursor, one execution, no NULL, types follow: LONGLONG.
    let head = [id, &[0, 1, 0, 0, 0, 0, 1, 8, 0]].concat();
    let answer = client.command(command::STMT_EXECUTE, &[&head[..], &41_u64.to_le_bytes()].concat());
    assert!(answer.error().is_none(), "{answer:?}");
}

fn server() -> RealServer {
    let mut options = ServerOptions::new(Flavour::MariaDb);
    options.statements.push("CREATE USER 'u_hg1'@'127.0.0.1' IDENTIFIED BY 'p_hg1'".to_owned());
    options.statements.push("GRANT ALL PRIVILEGES ON *.* TO 'u_hg1'@'127.0.0.1'".to_owned());
    let server = options.start();
    server.execute(&[
        "CREATE DATABASE db1",
        "CREATE TABLE db1.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(20))",
        "INSERT INTO db1.t VALUES (1,1,'x'),(2,2,'y'),(3,NULL,'z')",
    ]);
    server
}

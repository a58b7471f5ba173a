//! Layers: what LOAD and SAVE move, and the initial state at a start.

use std::path::{Path, PathBuf};

use super::tests::{Fixture, rows};
use super::*;
use crate::schema::{Layer, MODULES, Module};

/// A folder in which stores are opened one after another.
struct Site {
    folder: tempfile::TempDir,
}

const FILE: &str = r#"
admin_variables = { admin_credentials = "admin:secret" }
mysql_variables = { max_connections = 77, multiplexing = false }
mysql_servers = ( { address = "a", hostgroup = 1 }, { address = "b", port = 3307, hostgroup = 2, weight = 5 } )
mysql_users = ( { username = "app", password = "x", default_hostgroup = 1 } )
mysql_query_rules = ( { rule_id = 1, match_digest = "^SELECT", destination_hostgroup = 2, apply = 1 } )
mysql_galera_hostgroups = ( { writer_hostgroup = 1, backup_writer_hostgroup = 4, reader_hostgroup = 2, offline_hostgroup = 9, active = 0 } )
scheduler = ( { id = 1, interval_ms = 10, filename = "/bin/true" }, { id = 2, interval_ms = 1000, filename = "/bin/true" } )
restapi = ( { id = 1, interval_ms = 1000, method = "GET", uri = "x", script = "/bin/true" } )
"#;

impl Site {
    fn new() -> Site {
        Site { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, text: &str) -> PathBuf {
        let path = self.path("narrows.cnf");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn try_open(&self, file: Option<&Path>, start: Start) -> Result<Store, OpenError> {
        Store::open(Opening { datadir: self.folder.path(), file, start, uuid: None })
    }

    fn open(&self, file: Option<&Path>, start: Start) -> Store {
        self.try_open(file, start).unwrap()
    }
}

fn all(store: &mut Store, text: &str) -> Vec<Vec<String>> {
    store.refresh_runtime(text).unwrap();
    rows(store.sql(text).unwrap())
}

fn counts(store: &mut Store) -> [usize; 3] {
    let tables = ["main.mysql_servers", "disk.mysql_servers", "runtime_mysql_servers"];
    tables.map(|table| all(store, &format!("SELECT * FROM {table}")).len())
}

#[test]
fn a_first_start_takes_the_file_to_every_layer() {
    let site = Site::new();
    let file = site.write(FILE);
    let mut store = site.open(Some(&file), Start::Usual);
    assert_eq!(counts(&mut store), [2, 2, 2]);
    assert_eq!(store.variable("mysql-max_connections").as_deref(), Some("77"));
    assert_eq!(store.variable("mysql-multiplexing").as_deref(), Some("false"));
    assert_eq!(store.rows().servers[1].weight, 5);
    assert_eq!(store.rows().users[0].username, "app");
    assert_eq!(store.rows().rules[0].match_digest.as_deref(), Some("^SELECT"));
    assert!(store.rows().rules[0].active.is_asked(), "a rule of a file is active");
    let galera = all(&mut store, "SELECT active, max_writers FROM runtime_mysql_galera_hostgroups");
    assert_eq!(galera, [["0", "1"]]);
    assert_eq!(all(&mut store, "SELECT id FROM disk.scheduler"), [["2"]]);
    assert_eq!(all(&mut store, "SELECT timeout_ms FROM restapi_routes"), [["1000"]]);
    let left_out =
        "scheduler, line 8: left out: CHECK constraint failed: interval_ms>=100 AND interval_ms<=100000000";
    assert!(store.remarks().iter().any(|remark| remark == left_out), "{:?}", store.remarks());
}

#[test]
fn later_starts_take_what_is_on_disk() {
    let site = Site::new();
    let file = site.write(FILE);
    let uuid = site.open(Some(&file), Start::Usual).uuid().to_owned();
    let other =
        r#"mysql_servers = ( { address = "c", hostgroup = 3 } ) mysql_variables = { max_connections = 99 }"#;
    let file = site.write(other);

    let mut store = site.open(Some(&file), Start::Usual);
    assert_eq!(store.uuid(), uuid);
    assert_eq!(counts(&mut store), [2, 2, 2]);
    assert_eq!(store.variable("mysql-max_connections").as_deref(), Some("77"));
    drop(store);

    let mut store = site.open(Some(&file), Start::Reload);
    assert_eq!(counts(&mut store), [3, 3, 3]);
    assert_eq!(store.variable("mysql-max_connections").as_deref(), Some("99"));
    assert_eq!(store.variable("mysql-multiplexing").as_deref(), Some("false"));
    drop(store);

    let mut store = site.open(Some(&file), Start::Initial);
    assert_eq!(counts(&mut store), [1, 1, 1]);
    assert_eq!(store.variable("mysql-multiplexing").as_deref(), Some("true"));
    assert!(site.path("narrows.db.bak").exists());
}

#[test]
fn a_file_with_errors_starts_nothing_and_stores_nothing() {
    let site = Site::new();
    let file = site.write("mysql_servers = ( { address = \"a\", hostgroup = \"one\" } )");
    let error = site.try_open(Some(&file), Start::Usual).expect_err("an error");
    assert!(matches!(error, OpenError::File(_)), "{error}");
    assert!(error.to_string().contains("narrows.cnf:1:"), "{error}");
    let file = site.write(FILE);
    assert_eq!(counts(&mut site.open(Some(&file), Start::Usual)), [2, 2, 2]);
}

#[test]
fn modules_move_between_layers_as_a_whole() {
    let site = Site::new();
    let mut store = site.open(None, Start::Usual);
    store.sql("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a')").unwrap();
    store.sql("INSERT INTO mysql_replication_hostgroups VALUES (1, 2, 'read_only', '')").unwrap();
    assert_eq!(counts(&mut store), [1, 0, 0]);
    let servers = Module::MysqlServers;
    assert_eq!(store.copy(servers, Layer::Memory, Layer::Disk), Ok(Answer::done(0)));
    assert_eq!(counts(&mut store), [1, 1, 0]);
    let candidate = store.candidate(&[servers]).unwrap();
    assert_eq!((candidate.rows.servers.len(), candidate.rows.replication_hostgroups.len()), (1, 1));
    assert_eq!(counts(&mut store), [1, 1, 0], "nothing runs before it is accepted");
    assert_eq!(store.accept(candidate), Ok(Answer::done(0)));
    assert_eq!(counts(&mut store), [1, 1, 1]);
    store.sql("DELETE FROM mysql_servers").unwrap();
    store.copy(servers, Layer::Disk, Layer::Memory).unwrap();
    assert_eq!(counts(&mut store), [1, 1, 1]);
    store.sql("DELETE FROM mysql_replication_hostgroups").unwrap();
    store.copy(servers, Layer::Runtime, Layer::Memory).unwrap();
    assert_eq!(all(&mut store, "SELECT COUNT(*) FROM mysql_replication_hostgroups"), [["1"]]);
    store.copy(servers, Layer::Runtime, Layer::Disk).unwrap_err();
}

#[test]
fn every_module_comes_back_from_disk_as_it_was() {
    let site = Site::new();
    let file = site.write(FILE);
    let mut store = site.open(Some(&file), Start::Usual);
    let mut before = Vec::new();
    for module in MODULES {
        for table in module.tables() {
            before.push(all(&mut store, &format!("SELECT * FROM {table} ORDER BY 1")));
            if module.prefix().is_none() {
                store.sql(&format!("DELETE FROM {table}")).unwrap();
            }
        }
        store.copy(module, Layer::Disk, Layer::Memory).unwrap();
    }
    let tables = MODULES.iter().flat_map(|module| module.tables());
    let after: Vec<_> =
        tables.map(|table| all(&mut store, &format!("SELECT * FROM {table} ORDER BY 1"))).collect();
    assert_eq!(before, after);
}

/// The password `p` as a hash.
const P: &str = "*7B9EBEED26AA52ED10C0F549FA863F13C39E0209";

#[test]
fn what_runs_of_an_account_is_shown_for_each_side() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_users (username, password) VALUES ('a', 'p')");
    fixture.done("INSERT INTO mysql_users (username, active) VALUES ('gone', 0)");
    assert_eq!(fixture.load(Module::MysqlUsers), Vec::<String>::new());
    let shown = "SELECT username, password, backend, frontend, default_schema FROM runtime_mysql_users";
    assert_eq!(all(&mut fixture.store, shown), [["a", P, "0", "1", ""], ["a", P, "1", "0", ""]]);
    let stored = "SELECT password FROM mysql_users WHERE username = 'a'";
    assert_eq!(all(&mut fixture.store, stored), [["p"]]);
    assert_eq!(fixture.store.rows().users.len(), 1);
    fixture.store.copy(Module::MysqlUsers, Layer::Runtime, Layer::Memory).unwrap();
    let kept = "SELECT username, active, backend FROM mysql_users ORDER BY username, backend";
    assert_eq!(all(&mut fixture.store, kept), [["a", "1", "0"], ["a", "1", "1"], ["gone", "0", "1"]]);
    assert_eq!(fixture.load(Module::MysqlUsers), Vec::<String>::new());
    assert_eq!(fixture.store.rows().users.len(), 1);
}

#[test]
fn rows_that_cannot_be_honoured_are_left_out_and_said() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_query_rules (rule_id, active, match_pattern) VALUES (6, 1, 'a(b'), (7, 1, 'b'), (8, 0, '(')");
    let said = fixture.load(Module::MysqlQueryRules);
    assert_eq!(said.len(), 1, "{said:?}");
    let beginning = "mysql_query_rules rule_id=6: left out: match_pattern: the expression does not compile, at character 2:";
    assert!(said[0].starts_with(beginning), "{said:?}");
    assert_eq!(all(&mut fixture.store, "SELECT rule_id FROM runtime_mysql_query_rules"), [["7"]]);
    fixture.done(
        "INSERT INTO mysql_replication_hostgroups VALUES (1, 2, 'read_only', ''), (2, 3, 'read_only', '')",
    );
    let said = fixture.load(Module::MysqlServers);
    assert_eq!(
        said,
        [
            "mysql_replication_hostgroups writer_hostgroup=2: left out: writer_hostgroup 1 with reader_hostgroup 2 contradicts it",
            "mysql_servers has no rows: statements have nowhere to go"
        ]
    );
}

#[test]
fn variables_that_cannot_be_are_put_back_or_deleted() {
    let mut fixture = Fixture::new();
    fixture.set("mysql-max_connections", "0");
    fixture.done("INSERT INTO global_variables VALUES ('mysql-nosuch', '1')");
    let said = fixture.load(Module::MysqlVariables);
    assert_eq!(
        said,
        [
            "mysql-max_connections: expected an integer from 1 to 1000000, found \"0\"; it stays \"10000\"",
            "mysql-nosuch: there is no such variable; its row is deleted",
        ]
    );
    assert_eq!(fixture.in_memory("mysql-max_connections"), "10000");
    assert_eq!(fixture.store.variable_in_memory("mysql-nosuch"), Ok(None));
    assert_eq!(fixture.load(Module::MysqlVariables), Vec::<String>::new());
}

#[test]
fn names_that_belong_to_no_module_are_said_and_stay() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO global_variables VALUES ('bogus', '1'), ('pgsql-threads', '4')");
    let expected = "global_variables: \"bogus\", \"pgsql-threads\": there is no such variable, and the row is ignored; names \
                    begin with mysql- or admin-";
    for module in [Module::MysqlVariables, Module::AdminVariables] {
        assert_eq!(fixture.load(module), [expected]);
    }
    assert_eq!(fixture.in_memory("bogus"), "1");
}

#[test]
fn an_account_for_nobody_is_said() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_users (username, password, frontend, backend, active) VALUES ('app', 'x', 1, 1, 1), \
         ('idle', 'x', 0, 0, 1), ('off', 'x', 0, 0, 0)",
    );
    assert_eq!(
        fixture.load(Module::MysqlUsers),
        [
            "mysql_users username='idle' backend=0: has no effect: frontend and backend are both 0, so it is neither for \
             clients nor for servers"
        ]
    );
}

#[test]
fn a_start_says_what_is_not_meant_once_and_a_later_one_again() {
    let site = Site::new();
    let file = site.write(
        "admin_variables = { mysql_ifaces = \"0.0.0.0:6032\" stats_credentials = \"s:t\" }\n\
         mysql_servers = ( { address = \"a\", hostgroup = 0 } )\n\
         mysql_users = ( { username = \"app\", default_hostgroup = 0, attributes = \"[]\" } )\n\
         mysql_query_rules = ( { rule_id = 1, mirror_hostgroup = 9 } )\n\
         mysql_hostgroup_attributes = ( { hostgroup_id = 0, hostgroup_settings = \"{\\\"balance\\\":5}\" } )\n",
    );
    let about = [
        "everybody knows the password",
        "nothing of it is read",
        "mirror hostgroup 9",
        "left out: balance is 5",
    ];
    for start in ["first", "second"] {
        let store = site.open(Some(&file), Start::Usual);
        for part in about {
            let said = store.remarks().iter().filter(|remark| remark.contains(part)).count();
            assert_eq!(said, 1, "{start} start, {part}: {:#?}", store.remarks());
        }
    }
}

#[test]
fn accounts_without_a_password_are_refused_and_no_password_is_told() {
    for name in ["admin-admin_credentials", "admin-stats_credentials"] {
        let mut fixture = Fixture::new();
        fixture.set(name, "one:secret");
        assert_eq!(fixture.load(Module::AdminVariables), Vec::<String>::new());
        fixture.set(name, "one:secret;two:");
        let said = fixture.load(Module::AdminVariables);
        assert_eq!(
            said,
            [format!(
                "{name}: {}: expected user:password, neither of them empty, separated by `;`, found another text; it stays as it was",
                name.trim_start_matches("admin-")
            )]
        );
        assert_eq!(fixture.running(name), "one:secret");
    }
}

#[test]
fn writing_to_what_is_running_has_no_effect() {
    let site = Site::new();
    let file = site.write(FILE);
    let mut store = site.open(Some(&file), Start::Usual);
    store.sql("DELETE FROM runtime_mysql_servers").unwrap();
    store.sql("UPDATE runtime_global_variables SET variable_value = '1'").unwrap();
    assert_eq!(counts(&mut store), [2, 2, 2]);
    let threads =
        "SELECT variable_value FROM runtime_global_variables WHERE variable_name = 'mysql-max_connections'";
    assert_eq!(all(&mut store, threads), [["77"]]);
}

#[test]
fn from_config_puts_rows_beside_those_there_are() {
    let site = Site::new();
    let mut store = site.open(None, Start::Usual);
    let unknown = store.copy(Module::MysqlServers, Layer::ConfigFile, Layer::Memory).unwrap_err();
    assert_eq!(unknown.message, "ProxySQL Admin Error: Config file unknown");
    drop(store);
    let file = site.write(FILE);
    let mut store = site.open(Some(&file), Start::Usual);
    store.sql("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (9, 'z')").unwrap();
    store.sql("UPDATE mysql_servers SET weight = 3 WHERE hostname = 'b'").unwrap();
    assert_eq!(store.copy(Module::MysqlServers, Layer::ConfigFile, Layer::Memory), Ok(Answer::done(3)));
    let weights = "SELECT hostname, weight FROM mysql_servers ORDER BY hostname";
    assert_eq!(all(&mut store, weights), [["a", "1"], ["b", "5"], ["z", "1"]]);
    assert_eq!(store.copy(Module::MysqlVariables, Layer::ConfigFile, Layer::Memory), Ok(Answer::done(2)));
    std::fs::write(&file, "mysql_servers = (").unwrap();
    let broken = store.copy(Module::MysqlServers, Layer::ConfigFile, Layer::Memory).unwrap_err();
    assert_eq!(
        broken.message,
        format!("ProxySQL Admin Error: Unable to open or parse config file {}", file.display())
    );
}

#[test]
fn checksums_are_those_of_proxysql() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (0, '127.0.0.1', 29306)");
    fixture
        .done("INSERT INTO mysql_users (username, password, default_schema) VALUES ('sbtest', 'sbtest', '')");
    let servers = fixture.store.checksum(Module::MysqlServers, "mysql_servers", Layer::Memory).unwrap();
    assert_eq!(servers.to_string(), "0x9AFE3DB8D042489F");
    let users = fixture.store.checksum(Module::MysqlUsers, "mysql_users", Layer::Memory).unwrap();
    assert_eq!(users.to_string(), "0x667DE1B6217C9FD6");
}

#[test]
fn checksums_follow_contents_and_nothing_else() {
    let mut fixture = Fixture::new();
    let sum = |fixture: &mut Fixture, layer| {
        fixture.store.checksum(Module::MysqlServers, "mysql_servers", layer).unwrap().to_string()
    };
    assert_eq!(sum(&mut fixture, Layer::Memory), "0x00");
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (2, 'b'), (1, 'a')");
    let first = sum(&mut fixture, Layer::Memory);
    assert_ne!(first, sum(&mut fixture, Layer::Disk));
    fixture.store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).unwrap();
    fixture.done("DELETE FROM mysql_servers");
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')");
    assert_eq!((sum(&mut fixture, Layer::Memory), sum(&mut fixture, Layer::Disk)), (first.clone(), first));
    let global = fixture.store.global_checksum();
    fixture.load(Module::MysqlServers);
    assert_ne!(fixture.store.global_checksum(), global);
    let versions = "SELECT name, version FROM runtime_checksums_values";
    let loaded = all(&mut fixture.store, versions);
    assert_eq!(loaded.len(), 7);
    assert!(loaded.contains(&vec!["mysql_servers".to_owned(), "2".to_owned()]), "{loaded:?}");
}

#[test]
fn one_account_alone_can_be_taken_to_runtime() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_users (username) VALUES ('a'), ('b')");
    let candidate = fixture.store.candidate_user("b").unwrap();
    fixture.store.accept(candidate).unwrap();
    let users = "SELECT DISTINCT username FROM runtime_mysql_users ORDER BY 1";
    assert_eq!(all(&mut fixture.store, users), [["b"]]);
    fixture.load(Module::MysqlUsers);
    fixture.done("DELETE FROM mysql_users WHERE username = 'a'");
    fixture.done("UPDATE mysql_users SET password = 'new'");
    let candidate = fixture.store.candidate_user("nosuch").unwrap();
    fixture.store.accept(candidate).unwrap();
    assert_eq!(all(&mut fixture.store, users), [["a"], ["b"]]);
    let candidate = fixture.store.candidate_user("a").unwrap();
    fixture.store.accept(candidate).unwrap();
    assert_eq!(all(&mut fixture.store, users), [["b"]]);
    assert_eq!(fixture.store.rows().users[0].password, "");
}

#[test]
fn what_is_written_as_a_file_is_read_as_what_it_was() {
    let site = Site::new();
    let file = site.write(FILE);
    let mut store = site.open(Some(&file), Start::Usual);
    for text in [
        r#"UPDATE mysql_users SET comment = 'say "hi" \ \d' || char(10, 9, 1) || 'ü'"#,
        "INSERT INTO mysql_query_rules (rule_id, match_pattern, attributes) VALUES (5000000000, '^a\\.b$', '{\"a\":1}')",
        "INSERT INTO mysql_query_rules_fast_routing VALUES ('u', 's', 0, 1, '')",
        "INSERT INTO mysql_hostgroup_attributes (hostgroup_id) VALUES (1)",
        "INSERT INTO mysql_firewall_whitelist_users VALUES (1, 'u', '', 'OFF', '')",
        "UPDATE global_variables SET variable_value = '12abc' WHERE variable_name = 'mysql-ping_timeout_server'",
        "UPDATE global_variables SET variable_value = 'TRUE' WHERE variable_name = 'mysql-verbose_query_error'",
    ] {
        store.sql(text).unwrap();
    }
    for module in MODULES {
        let candidate = store.candidate(&[module]).unwrap();
        store.accept(candidate).unwrap();
    }
    // Two accounts in memory, one in a file.
    store.copy(Module::MysqlUsers, Layer::Runtime, Layer::Memory).unwrap();
    let text = store.config_text().unwrap();

    let other = Site::new();
    let file = other.write(&text);
    let mut second = other.open(Some(&file), Start::Usual);
    for module in MODULES {
        for table in module.tables() {
            let show = format!("SELECT * FROM runtime_{table} ORDER BY 1, 2");
            assert_eq!(all(&mut store, &show), all(&mut second, &show), "{table}");
        }
    }
    assert_eq!(store.rows(), second.rows());
}

/// A database as written by ProxySQL 1.4, with the tables that matter, and one row that no release accepts.
const OF_RELEASE_1_4: &str = "
    CREATE TABLE global_variables (variable_name VARCHAR NOT NULL PRIMARY KEY, variable_value VARCHAR NOT NULL);
    INSERT INTO global_variables VALUES ('mysql-max_connections', '55'), ('mysql-forward_autocommit', 'false'),
        ('admin-version', '1.4.16'), ('admin-telnet_admin_ifaces', '(null)');
    CREATE TABLE mysql_servers (hostgroup_id INT NOT NULL DEFAULT 0, hostname VARCHAR NOT NULL,
        port INT NOT NULL DEFAULT 3306, status VARCHAR NOT NULL DEFAULT 'ONLINE', weight INT NOT NULL DEFAULT 1,
        compression INT NOT NULL DEFAULT 0, max_connections INT NOT NULL DEFAULT 1000,
        max_replication_lag INT NOT NULL DEFAULT 0, use_ssl INT NOT NULL DEFAULT 0,
        max_latency_ms INT UNSIGNED NOT NULL DEFAULT 0, comment VARCHAR NOT NULL DEFAULT '',
        PRIMARY KEY (hostgroup_id, hostname, port));
    INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'old'), (-1, 'impossible');
    CREATE TABLE mysql_users (username VARCHAR NOT NULL, password VARCHAR, active INT NOT NULL DEFAULT 1,
        default_hostgroup INT NOT NULL DEFAULT 0, backend INT NOT NULL DEFAULT 1, frontend INT NOT NULL DEFAULT 1);
    INSERT INTO mysql_users (username, password) VALUES ('app', 'x');
    CREATE TABLE restapi_routes (id INTEGER PRIMARY KEY, interval_ms INTEGER, method VARCHAR, uri VARCHAR, script VARCHAR);
    INSERT INTO restapi_routes VALUES (1, 500, 'GET', 'u', '/bin/true');
    CREATE TABLE global_settings (variable_name VARCHAR, variable_value VARCHAR);
    INSERT INTO global_settings VALUES ('uuid', '01234567-89ab-4cde-8f01-23456789abcd');
";

fn write_former(path: &Path) {
    rusqlite::Connection::open(path).unwrap().execute_batch(OF_RELEASE_1_4).unwrap();
}

#[test]
fn a_database_of_proxysql_is_taken_over_at_the_first_start() {
    let site = Site::new();
    write_former(&site.path("proxysql.db"));
    let before = std::fs::read(site.path("proxysql.db")).unwrap();
    let file = site.write(FILE);
    for _ in 0..2 {
        let mut store = site.open(Some(&file), Start::Usual);
        assert_eq!(counts(&mut store), [1, 1, 1]);
        assert_eq!(store.variable("mysql-max_connections").as_deref(), Some("55"));
        assert_eq!(store.variable("admin-telnet_admin_ifaces").as_deref(), Some(""));
        assert_eq!(store.rows().users[0].password, "x");
        assert_eq!(all(&mut store, "SELECT timeout_ms, active FROM runtime_restapi_routes"), [["500", "1"]]);
        assert_eq!(store.uuid(), "01234567-89ab-4cde-8f01-23456789abcd");
    }
    assert_eq!(std::fs::read(site.path("proxysql.db")).unwrap(), before);
    let mut store = site.open(Some(&file), Start::Initial);
    assert_eq!(counts(&mut store), [2, 2, 2], "--initial is the file and nothing else");
}

#[test]
fn a_database_of_proxysql_can_be_imported_where_there_is_none_yet() {
    let (site, target) = (Site::new(), Site::new());
    let former = site.path("any ? name.db");
    write_former(&former);
    let import = |folder: &Site, path: &Path| {
        let tables = SourceTables::of_database(path).map_err(|source| source.to_string())?;
        let imported = Store::import(Some(folder.folder.path()), ImportSource::Tables(&tables));
        imported.map(|(_, report)| report).map_err(|error| error.to_string())
    };
    let taken = import(&target, &former).unwrap();
    let rows = [("mysql_servers", 1), ("mysql_users", 1), ("restapi_routes", 1), ("global_variables", 1)];
    assert_eq!(taken.carried_over, rows);
    assert_eq!(
        taken.left_out,
        [
            "mysql_servers: a row was left out (hostgroup_id=-1 hostname='impossible' port=3306): CHECK constraint failed: hostgroup_id>=0",
            "global_variables: there is no mysql-forward_autocommit",
        ]
    );
    let occupied = import(&target, &former).expect_err("occupied");
    assert!(occupied.contains("holds a configuration already"), "{occupied}");
    assert_eq!(counts(&mut target.open(None, Start::Usual)), [1, 1, 1]);
    std::fs::write(&former, "not a database, whatever its name says").unwrap();
    let third = Site::new();
    assert_eq!(import(&third, &former).expect_err("unreadable"), "file is not a database");
    assert_eq!(counts(&mut third.open(None, Start::Usual)), [0, 0, 0]);
}

#[test]
fn a_first_start_that_was_killed_is_a_first_start_again() {
    let site = Site::new();
    write_former(&site.path("proxysql.db"));
    std::fs::write(site.path("narrows.db"), "").unwrap();
    assert_eq!(site.open(None, Start::Usual).variable("mysql-max_connections").as_deref(), Some("55"));
}

#[test]
fn a_database_that_is_no_use_any_more_is_put_aside_too() {
    let site = Site::new();
    let file = site.write(FILE);
    std::fs::write(site.path("narrows.db"), "not a database").unwrap();
    std::fs::write(site.path("narrows.db-journal"), "nor a journal").unwrap();
    site.try_open(Some(&file), Start::Usual).expect_err("no database");
    assert_eq!(counts(&mut site.open(Some(&file), Start::Initial)), [2, 2, 2]);
    assert_eq!(std::fs::read(site.path("narrows.db.bak")).unwrap(), b"not a database");
    assert_eq!(counts(&mut site.open(Some(&file), Start::Usual)), [2, 2, 2]);
}

#[test]
fn databases_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    drop(site.open(None, Start::Usual));
    for name in ["narrows.db", "narrows_stats.db"] {
        let mode = std::fs::metadata(site.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

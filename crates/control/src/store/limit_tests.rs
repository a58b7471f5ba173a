//! What statements may not do, and what happens to those that take too much.

use std::time::{Duration, Instant};

use super::tests::Fixture;
use super::*;
use crate::schema::{Layer, MODULES, Module};

/// Checks that the store still works.
fn works(fixture: &mut Fixture) {
    assert_eq!(fixture.rows("SELECT 1"), [["1"]]);
    for module in MODULES {
        fixture.store.copy(module, Layer::Memory, Layer::Disk).unwrap();
        fixture.store.copy(module, Layer::Disk, Layer::Memory).unwrap();
        fixture.load(module);
        for table in module.tables() {
            let name = format!("runtime_{table}");
            fixture.store.refresh_runtime(&name).unwrap();
            fixture.rows(&format!("SELECT COUNT(*) FROM {name}"));
        }
    }
}

#[test]
fn nothing_but_the_tables_can_be_reached() {
    let mut fixture = Fixture::new();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("x");
    let path = path.display();
    let statements = [
        format!("ATTACH '{path}' AS x"),
        "ATTACH '' AS x".to_owned(),
        "DETACH disk".to_owned(),
        format!("VACUUM INTO '{path}'"),
        format!("VACUUM main INTO '{path}'"),
        format!("VACUUM\nINTO\n'{path}'"),
        "SELECT load_extension('/lib/x86_64-linux-gnu/libm.so.6')".to_owned(),
        "SELECT fts3_tokenizer('simple')".to_owned(),
        "PRAGMA writable_schema = 1".to_owned(),
        "PRAGMA writable_schema(1)".to_owned(),
        "PRAGMA query_only = 1".to_owned(),
        "PRAGMA disk.journal_mode = OFF".to_owned(),
        "PRAGMA disk.synchronous = 0".to_owned(),
        "PRAGMA main.max_page_count = 1".to_owned(),
        "PRAGMA hard_heap_limit = 1".to_owned(),
        format!("PRAGMA temp_store_directory = '{path}'"),
        "PRAGMA disk.user_version = 7".to_owned(),
        "PRAGMA disk.wal_checkpoint".to_owned(),
        "UPDATE sqlite_master SET sql = ''".to_owned(),
        "DELETE FROM disk.sqlite_master".to_owned(),
        "DROP TABLE runtime_mysql_servers".to_owned(),
        "DROP TABLE mysql_query_rules".to_owned(),
        "DROP TABLE disk.mysql_users".to_owned(),
        "DROP TABLE stats.stats_mysql_global".to_owned(),
        "ALTER TABLE mysql_servers RENAME TO x".to_owned(),
        "ALTER TABLE mysql_servers ADD COLUMN x INT".to_owned(),
        "CREATE TABLE disk.x (a INT)".to_owned(),
        "CREATE TEMP TABLE x (a INT)".to_owned(),
        "CREATE TEMP VIEW mysql_users AS SELECT 1".to_owned(),
        "CREATE VIRTUAL TABLE x USING fts5(a)".to_owned(),
        "CREATE TRIGGER t AFTER INSERT ON mysql_servers BEGIN SELECT RAISE(ABORT, 'no'); END".to_owned(),
    ];
    for text in &statements {
        let said = fixture.refused(Role::Admin, text);
        println!("{text}: {said}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "a file was written");
    works(&mut fixture);
}

#[test]
fn tables_of_ones_own_are_ones_own() {
    let mut fixture = Fixture::new();
    for text in [
        "CREATE TABLE x (a INT)",
        "CREATE INDEX i ON x (a)",
        "INSERT INTO x VALUES (1)",
        "ALTER TABLE x ADD COLUMN b INT",
        "CREATE VIEW v AS SELECT a FROM x",
        "CREATE INDEX j ON mysql_users (password)",
        "DROP INDEX j",
        "VACUUM",
        "VACUUM disk",
        "REINDEX",
    ] {
        fixture.done(text);
    }
    assert_eq!(fixture.rows("SELECT * FROM v"), [["1"]]);
    fixture.done("DROP VIEW v");
    fixture.done("DROP TABLE x");
    works(&mut fixture);
}

#[test]
fn there_are_no_transactions_between_statements() {
    let mut fixture = Fixture::new();
    for text in
        ["BEGIN", "INSERT INTO mysql_users (username) VALUES ('a')", "ROLLBACK", "SAVEPOINT s", "RELEASE s"]
    {
        fixture.done(text);
    }
    assert_eq!(fixture.rows("SELECT username FROM mysql_users"), [["a"]]);
    works(&mut fixture);
}

#[test]
fn what_takes_too_long_is_ended() {
    let mut fixture = Fixture::new();
    fixture.store.all.limit_time(Duration::from_millis(50));
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c";
    let join =
        "SELECT COUNT(*) FROM global_variables a, global_variables b, global_variables c, global_variables d";
    let pattern = format!("SELECT '{}' LIKE '{}'", "a".repeat(40_000), "%a".repeat(2_000));
    for text in [endless, join] {
        let start = Instant::now();
        let said = fixture.refused(Role::Admin, text);
        assert!(said.starts_with("ProxySQL Admin Error: the statement was ended"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    // This one is a single step of SQLite's virtual machine, so its length is limited.
    let start = Instant::now();
    let _ = fixture.store.sql(&pattern);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // Earlier changes are rolled back.
    let insert = "INSERT INTO mysql_query_rules (rule_id) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    fixture.refused(Role::Admin, insert);
    assert_eq!(fixture.rows("SELECT COUNT(*) FROM mysql_query_rules"), [["0"]]);
    works(&mut fixture);
}

#[test]
fn what_takes_too_much_memory_is_refused() {
    let mut fixture = Fixture::new();
    let growing = "WITH RECURSIVE c(x) AS (SELECT 'aaaaaaaaaa' UNION ALL SELECT x || x FROM c) SELECT LENGTH(x) FROM c LIMIT 60";
    let many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100) SELECT zeroblob(5000000) FROM c";
    for text in [
        "SELECT zeroblob(2000000000)",
        "SELECT printf('%2000000000d', 1)",
        "SELECT replace(printf('%60000d', 1), ' ', printf('%60000d', 1))",
        growing,
        many,
    ] {
        let said = fixture.refused(Role::Admin, text);
        println!("{text}: {said}");
    }
    let fill = "INSERT INTO x WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100) SELECT zeroblob(5000000) FROM c";
    fixture.done("CREATE TABLE x (a)");
    assert_eq!(fixture.refused(Role::Admin, fill), "ProxySQL Admin Error: database or disk is full");
    fixture.done("DROP TABLE x");
    works(&mut fixture);
}

#[test]
fn text_of_any_kind_is_an_answer_or_a_refusal() {
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.refused(Role::Admin, "SELECT 1\0; DROP TABLE x"),
        "ProxySQL Admin Error: unrecognized token: a byte of value 0"
    );
    let long = format!("SELECT '{}'", "x".repeat(128 << 20));
    assert!(fixture.store.sql(&long).is_err());
    let deep = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(fixture.store.sql(&deep).is_err());
    let wide = format!("SELECT {}1", "1,".repeat(100_000));
    assert!(fixture.store.sql(&wide).is_err());
    let name = "x\"; DROP TABLE mysql_users; --";
    assert!(fixture.store.sql(&format!("SELECT * FROM \"{name}\"")).is_err());
    assert!(fixture.store.sql("SELECT ?1, :a").is_ok(), "parameters that nobody gives are NULL");
    works(&mut fixture);
}

#[test]
fn changes_are_refused_while_the_interface_is_read_only() {
    let mut fixture = Fixture::new();
    fixture.store.set_read_only(true);
    let said = "ProxySQL Admin Error: attempt to write a readonly database";
    for text in [
        "DELETE FROM mysql_users",
        "CREATE TABLE x (a INT)",
        "UPDATE global_variables SET variable_value = ''",
    ] {
        assert_eq!(fixture.refused(Role::Admin, text), said, "{text}");
    }
    for module in MODULES.into_iter().filter(|module| *module != Module::AdminVariables) {
        fixture.store.copy(module, Layer::Memory, Layer::Disk).unwrap();
        fixture.load(module);
    }
    assert_eq!(fixture.running("admin-read_only"), "true");
    assert_eq!(fixture.refused(Role::Admin, "DELETE FROM mysql_users"), said);
    fixture.store.set_read_only(false);
    fixture.done("DELETE FROM mysql_users");
}

#[test]
fn a_save_that_the_disk_has_no_room_for_leaves_what_was_there() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_users (username) VALUES ('a')");
    fixture.store.copy(Module::MysqlUsers, Layer::Memory, Layer::Disk).unwrap();
    let connection = fixture.store.all.open().unwrap();
    let pages: i64 = connection.query_row("PRAGMA disk.page_count", [], |row| row.get(0)).unwrap();
    connection.pragma_update(Some("disk"), "max_page_count", pages).unwrap();
    fixture.done("INSERT INTO mysql_users (username, comment) VALUES ('b', printf('%900000d', 1))");
    let full = fixture.store.copy(Module::MysqlUsers, Layer::Memory, Layer::Disk).unwrap_err();
    assert_eq!(full.message, "ProxySQL Admin Error: database or disk is full");
    assert_eq!(fixture.rows("SELECT username FROM disk.mysql_users"), [["a"]]);
    assert_eq!(fixture.rows("SELECT username FROM mysql_users"), [["a"], ["b"]]);
    let connection = fixture.store.all.open().unwrap();
    connection.pragma_update(Some("disk"), "max_page_count", 1_000_000).unwrap();
    works(&mut fixture);
    assert_eq!(fixture.rows("SELECT username FROM disk.mysql_users"), [["a"], ["b"]]);
}

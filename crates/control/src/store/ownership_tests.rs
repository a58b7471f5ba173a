//! What the file owns changes with the file, and with nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use super::tests::rows;
use super::*;
use crate::schema::{Database, Layer, MODULES, Module};
use crate::versions::{ConfigDocument, VersionOrigin, VersionSource};

/// A folder with a configuration file, which owns servers, rules and variables.
struct Owned {
    store: Store,
    folder: tempfile::TempDir,
}

const FILE: &str = r#"
managed = ["servers", "mysql_query_rules", "variables"]
[mysql_variables]
max_connections = 500
[admin_variables]
[[mysql_servers]]
hostgroup_id = 0
hostname = "a"
[[mysql_users]]
username = "app"
[[mysql_query_rules]]
rule_id = 1
match_digest = "^SELECT"
destination_hostgroup = 0
"#;

impl Owned {
    fn new() -> Owned {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("narrows.toml"), FILE).unwrap();
        Owned { store: open(folder.path(), Start::Usual).unwrap(), folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("narrows.toml")
    }

    fn write(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.file()).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(self.file(), text.replace(from, to)).unwrap();
    }

    fn again(self) -> Owned {
        let Owned { store, folder } = self;
        drop(store);
        Owned { store: open(folder.path(), Start::Usual).unwrap(), folder }
    }

    fn servers(&mut self, database: &str) -> String {
        let sql = format!("SELECT group_concat(hostname) FROM {database}.mysql_servers");
        rows(self.store.sql(&sql).unwrap())[0][0].clone()
    }

    fn everything(&mut self) -> Vec<ConfigDocument> {
        let layers = [Database::Main, Database::Disk].map(|of| self.store.document(of).unwrap());
        [layers.to_vec(), vec![self.store.current().clone()]].concat()
    }

    fn load(&mut self, module: Module) -> Result<Answer, Refusal> {
        let candidate = self.store.candidate(&[module])?;
        self.store.adopt(candidate, &VersionOrigin::of_program(VersionSource::Load, "a test"))
    }

    fn apply(&mut self, document: &ConfigDocument) -> Result<(), Refusal> {
        let origin = VersionOrigin::of_program(VersionSource::Apply, "a test");
        self.store.change(document, &origin, |_, _| Ok(())).map(drop)
    }
}

fn open(folder: &Path, start: Start) -> Result<Store, OpenError> {
    let file = folder.join("narrows.toml");
    Store::open(Opening { datadir: folder, file: Some(&file), start, uuid: None })
}

#[test]
fn no_statement_changes_what_the_file_owns() {
    let mut owned = Owned::new();
    let before = owned.everything();
    let path = owned.file().display().to_string();
    for statement in [
        "INSERT INTO mysql_servers (hostname) VALUES ('x')",
        "INSERT INTO main.mysql_servers (hostname) VALUES ('x')",
        "INSERT INTO disk.mysql_servers (hostname) VALUES ('x')",
        "INSERT OR IGNORE INTO mysql_servers (hostname) VALUES ('x')",
        "INSERT INTO mysql_servers SELECT * FROM mysql_servers WHERE true ON CONFLICT DO UPDATE SET weight = 9",
        "REPLACE INTO main.mysql_servers (hostname) VALUES ('a')",
        "REPLACE INTO \"DISK\".\"Mysql_Servers\" (hostname) VALUES ('a')",
        "WITH x AS (SELECT 'x') INSERT INTO [mysql_servers] (hostname) SELECT * FROM x",
        "WITH x AS (SELECT 1) DELETE FROM mysql_servers",
        "UPDATE mysql_servers SET weight = 9",
        "UPDATE OR REPLACE disk.mysql_servers SET hostname = 'x'",
        "UPDATE mysql_servers SET weight = 9 FROM mysql_users WHERE username = 'app' RETURNING *",
        "UPDATE mysql_servers SET weight = weight WHERE 0",
        "DELETE FROM mysql_servers",
        "DELETE FROM disk.mysql_servers WHERE 1",
        "EXPLAIN DELETE FROM mysql_servers",
        "CREATE UNIQUE INDEX mine ON mysql_servers (weight)",
        "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup) VALUES (0, 1)",
        "DELETE FROM mysql_query_rules",
        "DELETE FROM mysql_query_rules_fast_routing",
        "UPDATE global_variables SET variable_value = 9 WHERE variable_name = 'mysql-max_connections'",
        "UPDATE OR IGNORE global_variables SET variable_value = 9 WHERE variable_name LIKE 'MYSQL-max%'",
        "UPDATE global_variables SET variable_value = 9",
        "UPDATE disk.global_variables SET variable_value = 9 WHERE variable_name = 'mysql-max_connections'",
        "UPDATE OR REPLACE global_variables SET variable_name = 'mysql-threads' WHERE variable_name = 'admin-version'",
        "UPDATE global_variables SET variable_name = 'admin-x' WHERE variable_name = 'mysql-threads'",
        "REPLACE INTO global_variables VALUES ('mysql-max_connections', '9')",
        "INSERT INTO global_variables VALUES ('MySQL-new', '9')",
        "INSERT OR IGNORE INTO global_variables VALUES ('mysql-max_connections', '9')",
        "INSERT INTO global_variables VALUES ('mysql-max_connections', '9') ON CONFLICT DO UPDATE SET variable_value = 9",
        "DELETE FROM global_variables",
        "DELETE FROM disk.global_variables WHERE variable_name = 'mysql-max_connections'",
    ] {
        let refused = owned.store.sql(statement).expect_err(statement).message;
        let is_told =
            refused.contains(&path) && refused.contains("narrows apply") && refused.contains("managed");
        assert!(is_told, "{statement}: {refused}");
    }
    for statement in [
        "DROP TRIGGER temp.owned_mysql_variables_main_update",
        "CREATE TEMP TRIGGER mine AFTER UPDATE ON mysql_users BEGIN DELETE FROM mysql_servers; END",
        "CREATE VIEW mine AS SELECT * FROM mysql_servers; DELETE FROM mine",
        "DROP TABLE mysql_servers",
        "ALTER TABLE mysql_servers RENAME TO mine",
    ] {
        let _ = owned.store.sql(statement);
    }
    assert_eq!(owned.everything(), before);
    // The rest is free.
    for statement in [
        "UPDATE mysql_users SET comment = 'x'",
        "INSERT INTO disk.mysql_users (username) VALUES ('y')",
        "UPDATE global_variables SET variable_value = 'x' WHERE variable_name = 'admin-log_level'",
        "UPDATE mysql_users SET comment = (SELECT count(*) FROM mysql_servers)",
        "DELETE FROM runtime_mysql_servers",
        "CREATE TABLE copied AS SELECT * FROM mysql_servers",
        "DELETE FROM copied",
    ] {
        owned.store.sql(statement).unwrap_or_else(|refusal| panic!("{statement}: {refusal}"));
    }
}

#[test]
fn no_layer_brings_anything_else_than_what_runs_or_the_file() {
    let mut owned = Owned::new();
    let before = owned.everything();
    // Nothing would change.
    for module in MODULES {
        owned.load(module).unwrap();
        for (from, to) in [(Layer::Disk, Layer::Memory), (Layer::Memory, Layer::Disk)] {
            owned.store.copy(module, from, to).unwrap();
        }
    }
    assert!(owned.store.copy(Module::MysqlServers, Layer::Runtime, Layer::Memory).is_err());
    assert!(owned.store.copy(Module::MysqlVariables, Layer::Runtime, Layer::Memory).is_err());
    assert_eq!(owned.everything(), before);
    // What something else than Narrows has written to the disk.
    let path = owned.folder.path().join("narrows.db");
    rusqlite::Connection::open(path).unwrap().execute("UPDATE mysql_servers SET weight = 9", []).unwrap();
    let refused = owned.store.copy(Module::MysqlServers, Layer::Disk, Layer::Memory).unwrap_err();
    assert!(refused.message.contains("owns the section servers"), "{refused}");
    // That can be repaired.
    owned.store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).unwrap();
    assert_eq!(owned.everything(), before);
}

#[test]
fn the_file_is_taken_as_a_whole_by_a_load() {
    let mut owned = Owned::new();
    owned
        .write("hostname = \"a\"", "hostname = \"b\"\n[[mysql_servers]]\nhostgroup_id = 0\nhostname = \"c\"");
    owned.write("max_connections = 500", "");
    for module in [Module::MysqlServers, Module::MysqlVariables] {
        owned.store.copy(module, Layer::ConfigFile, Layer::Memory).unwrap();
        owned.load(module).unwrap();
        owned.store.copy(module, Layer::Memory, Layer::Disk).unwrap();
    }
    assert_eq!((owned.servers("main"), owned.servers("disk")), ("b,c".to_owned(), "b,c".to_owned()));
    assert_eq!(owned.store.variable("mysql-max_connections").as_deref(), Some("10000"));
    // A file that has changed since it was read brings nothing that it does not say any more.
    owned.write("\"c\"", "\"d\"");
    owned.store.copy(Module::MysqlServers, Layer::ConfigFile, Layer::Memory).unwrap();
    owned.write("\"d\"", "\"e\"");
    assert!(owned.load(Module::MysqlServers).is_err());
    assert!(owned.store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).is_err());
    owned.write("hostname = \"e\"", "hostname =");
    let refused = owned.load(Module::MysqlServers).unwrap_err().message;
    assert!(refused.contains("cannot be used"), "{refused}");
    let states = owned.store.section_owners();
    assert!(matches!(states[0].is_in_force, Some(Err(_))) && states[1].owner.is_none(), "{states:?}");
}

#[test]
fn a_single_account_is_not_mixed_with_those_that_run() {
    let owned = Owned::new();
    owned.write("\"variables\"]", "\"variables\", \"users\"]");
    owned.write("username = \"app\"", "username = \"app\"\n[[mysql_users]]\nusername = \"more\"");
    let mut owned = owned.again();
    owned.write("\"app\"", "\"app\"\ncomment = \"x\"");
    owned.write("\"more\"", "\"more\"\ncomment = \"x\"");
    owned.store.copy(Module::MysqlUsers, Layer::ConfigFile, Layer::Memory).unwrap();
    let origin = VersionOrigin::of_program(VersionSource::Load, "a test");
    let candidate = owned.store.candidate_user("app").unwrap();
    assert!(owned.store.adopt(candidate, &origin).is_err());
    owned.load(Module::MysqlUsers).unwrap();
    let candidate = owned.store.candidate_user("app").unwrap();
    owned.store.adopt(candidate, &origin).unwrap();
}

#[test]
fn a_plan_and_the_way_back_change_what_is_free() {
    let mut owned = Owned::new();
    let mut wanted = owned.store.current().clone();
    wanted.put_variable("admin-log_level", "debug".to_owned());
    owned.apply(&wanted).unwrap();
    let mut foreign = wanted.clone();
    foreign.put_variable("mysql-max_connections", "9".to_owned());
    assert!(owned.apply(&foreign).unwrap_err().message.contains("owns the section variables"));
    // What the file says now is applied, wherever it comes from.
    owned.write("max_connections = 500", "max_connections = 9");
    let of_file = Store::document_of_file(&owned.file()).unwrap();
    owned.apply(&of_file.over(&foreign)).unwrap();
    assert_eq!(owned.store.variable("mysql-max_connections").as_deref(), Some("9"));
    // Back to a version with another number.
    assert!(owned.apply(&wanted).is_err());
    assert_eq!(owned.everything()[0], owned.everything()[1]);
}

#[test]
fn a_start_takes_what_is_owned_from_the_file_and_the_rest_from_disk() {
    let owned = Owned::new();
    let mut owned = owned.again();
    owned.store.sql("UPDATE disk.mysql_users SET comment = 'kept'").unwrap();
    owned.write("hostname = \"a\"", "hostname = \"b\"");
    owned.write("username = \"app\"", "username = \"of_the_file\"");
    owned.write("max_connections = 500", "");
    let mut owned = owned.again();
    assert_eq!((owned.servers("main"), owned.servers("disk")), ("b".to_owned(), "b".to_owned()));
    assert_eq!(owned.store.variable("mysql-max_connections").as_deref(), Some("10000"));
    let users = rows(owned.store.sql("SELECT username, comment FROM mysql_users").unwrap());
    assert_eq!(users, [["app", "kept"]]);
    let versions = owned.store.latest_versions(10).unwrap();
    assert!(versions[0].command.contains("took variables, servers, rules from"), "{versions:?}");
    // What the file does not own any more stays as it is, and is free after a start.
    owned.write("managed = [\"servers\", \"mysql_query_rules\", \"variables\"]", "managed = []");
    owned.write("[[mysql_servers]]\nhostgroup_id = 0\nhostname = \"b\"\n", "");
    let refused =
        owned.store.copy(Module::MysqlServers, Layer::ConfigFile, Layer::Memory).unwrap_err().message;
    assert!(refused.contains("any more"), "{refused}");
    let mut none = ConfigDocument::default();
    none.put_table("mysql_servers", Vec::new());
    assert!(owned.apply(&none).is_err());
    let mut owned = owned.again();
    assert_eq!(owned.servers("main"), "b");
    owned.store.sql("DELETE FROM mysql_servers").unwrap();
}

#[test]
fn an_owned_section_is_empty_only_if_the_file_says_so() {
    let owned = Owned::new();
    owned.write("[[mysql_servers]]\nhostgroup_id = 0\nhostname = \"a\"\n", "");
    let Owned { store, folder } = owned;
    drop(store);
    let file = folder.path().join("narrows.toml");
    let refused = OpenError::File(crate::config_file::load(&file).unwrap_err()).to_string();
    assert!(refused.contains("`servers`") && refused.contains("`mysql_servers = []`"), "{refused}");
    // A program that runs already starts again with what it had.
    let mut owned = Owned { store: open(folder.path(), Start::Usual).unwrap(), folder };
    assert_eq!(owned.servers("main"), "a");
    assert!(owned.store.sql("DELETE FROM mysql_servers").is_err());
    assert!(owned.store.remarks().iter().any(|remark| remark.contains("stay as on disk")));
    let Owned { store, folder } = owned;
    drop(store);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("mysql_servers = []\n{text}")).unwrap();
    let mut owned = Owned { store: open(folder.path(), Start::Usual).unwrap(), folder };
    assert_eq!(owned.servers("main"), "NULL");
}

#[test]
fn the_next_process_knows_the_owner_whatever_the_file_says_now() {
    use crate::holds::Holds;
    use crate::monitor::placement::Known;

    let mut owned = Owned::new();
    // Loaded from the file and not saved.
    owned.write("hostname = \"a\"", "hostname = \"b\"");
    owned.store.copy(Module::MysqlServers, Layer::ConfigFile, Layer::Memory).unwrap();
    owned.load(Module::MysqlServers).unwrap();
    let frozen = owned.store.freeze(&Known::default(), &Holds::default());
    let file = owned.file();
    fs::write(&file, "not a configuration").unwrap();
    let Owned { store, folder } = owned;
    drop(store);
    let frozen = Frozen::read(&frozen).unwrap();
    let opening = Opening { datadir: folder.path(), file: Some(&file), start: Start::Usual, uuid: None };
    let mut owned = Owned { store: Store::open_beside(opening, &frozen).unwrap(), folder };
    assert_eq!(owned.servers("main"), "b");
    assert!(owned.store.sql("DELETE FROM mysql_servers").is_err());
    assert!(owned.store.sql("UPDATE global_variables SET variable_value = 1").is_err());
    owned.load(Module::MysqlServers).unwrap();
}

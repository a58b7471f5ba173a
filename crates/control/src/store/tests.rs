//! The store from outside: statements and their answers.

use super::*;
use crate::schema::Module;

/// A store in a separate folder.
pub(super) struct Fixture {
    pub store: Store,
    _folder: tempfile::TempDir,
}

/// The cells of an answer, `NULL` for none.
pub(super) fn rows(answer: Answer) -> Vec<Vec<String>> {
    let Answer::Rows(answer) = answer else { panic!("no rows: {answer:?}") };
    let text = |cell: Cell| cell.map_or("NULL".to_owned(), |bytes| String::from_utf8(bytes).unwrap());
    answer.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

impl Fixture {
    pub fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let opening = Opening { datadir: folder.path(), file: None, start: Start::Usual, uuid: None };
        let store = Store::open(opening).unwrap();
        Fixture { store, _folder: folder }
    }

    pub fn done(&mut self, text: &str) -> u64 {
        match self.store.sql(text).unwrap() {
            Answer::Done { affected, .. } => affected,
            rows => panic!("{rows:?}"),
        }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        let value = value.replace('\'', "''");
        let text =
            format!("UPDATE global_variables SET variable_value = '{value}' WHERE variable_name = '{name}'");
        assert_eq!(self.done(&text), 1, "{name}");
    }

    /// Loads a module from memory to runtime; returns the warnings.
    pub fn load(&mut self, module: Module) -> Vec<String> {
        let candidate = self.store.candidate(&[module]).unwrap();
        let Answer::Done { warnings, .. } = self.store.accept(candidate).unwrap() else { panic!("rows") };
        warnings.into_iter().map(|warning| warning.message).collect()
    }

    pub fn running(&self, name: &str) -> String {
        self.store.variable(name).unwrap()
    }

    pub fn in_memory(&mut self, name: &str) -> String {
        self.store.variable_in_memory(name).unwrap().unwrap()
    }

    pub fn rows(&mut self, text: &str) -> Vec<Vec<String>> {
        rows(self.store.sql(text).unwrap())
    }

    pub fn sql(&mut self, role: Role, text: &str) -> Result<Answer, Refusal> {
        match role {
            Role::Admin => self.store.sql(text),
            Role::Stats => self.store.snapshot(text)?.sql(text, &Abandoned::default()),
        }
    }

    pub fn refused(&mut self, role: Role, text: &str) -> String {
        self.sql(role, text).expect_err(text).message
    }
}

/// One line per column or key of every table of ProxySQL 2.7, as `tests/data/tables.txt` has them.
fn described(store: &mut Store) -> String {
    let mut lines = String::new();
    for database in ["main", "disk", "stats", "monitor", "stats_history"] {
        let list = format!(
            "SELECT name FROM {database}.sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'
             AND name NOT LIKE 'narrows_%' AND name NOT LIKE 'stats_narrows_%' AND name NOT LIKE 'runtime_narrows_%' AND name NOT LIKE '%_mysql_query_events'
             AND name NOT LIKE '%_passthrough_auth_cache' ORDER BY name"
        );
        for table in rows(store.sql(&list).unwrap()).into_iter().flatten() {
            lines.push_str(&format!("{database}.{table}\n"));
            let columns = format!(
                "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('{table}', '{database}')"
            );
            for column in rows(store.sql(&columns).unwrap()) {
                lines.push_str(&format!("    {}\n", column.join(" | ")));
            }
            let keys = format!(
                "SELECT (SELECT group_concat(name) FROM pragma_index_info(l.name, '{database}')) AS names
                 FROM pragma_index_list('{table}', '{database}') l WHERE origin = 'u' ORDER BY names"
            );
            for key in rows(store.sql(&keys).unwrap()) {
                lines.push_str(&format!("    unique {}\n", key.join(",")));
            }
        }
    }
    lines
}

#[test]
fn tables_are_those_of_proxysql() {
    let mut fixture = Fixture::new();
    let expected = include_str!("../../tests/data/tables.txt");
    let found = described(&mut fixture.store);
    for (line, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "line {}", line + 1);
    }
    assert_eq!(expected.lines().count(), found.lines().count());
    assert_eq!(expected.lines().filter(|line| !line.starts_with(' ')).count(), 110);
}

#[test]
fn columns_are_read_in_the_order_of_their_table() {
    for section in crate::config::tables::SECTIONS {
        let read: Vec<&str> = section.absent().into_iter().map(|(column, _)| column).collect();
        assert_eq!(read, crate::schema::columns(section.name()), "{}", section.name());
    }
}

#[test]
fn statements_answer_as_sqlite_does() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.rows("SELECT 1, 'a', NULL, \"b\""), [["1", "a", "NULL", "b"]]);
    let insert = "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')";
    assert_eq!(fixture.store.sql(insert), Ok(Answer::done(2)));
    assert_eq!(fixture.store.sql("SAVEPOINT s"), Ok(Answer::done(2)));
    assert_eq!(fixture.rows("SELECT hostname, port FROM main.mysql_servers"), [["a", "3306"], ["b", "3306"]]);
    let refused = |text: &str, reason: &str| (text.to_owned(), format!("ProxySQL Admin Error: {reason}"));
    for (text, message) in [
        refused(
            insert,
            "UNIQUE constraint failed: mysql_servers.hostgroup_id, mysql_servers.hostname, mysql_servers.port",
        ),
        refused(
            "UPDATE mysql_servers SET max_connections=-1",
            "CHECK constraint failed: max_connections >=0",
        ),
        refused("SELECT * FROM nosuch", "no such table: nosuch"),
        refused("foo bar", "near \"foo\": syntax error"),
        refused("", "not an error"),
        refused("/* nothing */", "not an error"),
    ] {
        assert_eq!(fixture.refused(Role::Admin, &text), message);
    }
}

#[test]
fn users_of_statistics_see_statistics_only() {
    let mut fixture = Fixture::new();
    let row = vec![Value::Text("Questions".to_owned()), Value::Text("5".to_owned())];
    fixture.store.refill("stats.stats_mysql_global", vec![row]).unwrap();
    let seen = fixture.sql(Role::Stats, "SELECT * FROM stats_mysql_global").unwrap();
    assert_eq!(rows(seen), [["Questions", "5"]]);
    let said = |reason: &str| format!("ProxySQL Admin Error: {reason}");
    assert_eq!(fixture.refused(Role::Stats, "SELECT * FROM mysql_users"), said("no such table: mysql_users"));
    for text in ["DELETE FROM stats_mysql_global", "CREATE TABLE x (a INT)", "VACUUM"] {
        assert_eq!(
            fixture.refused(Role::Stats, text),
            said("attempt to write a readonly database"),
            "{text}"
        );
    }
    // Each statement uses its own copy, so new data is visible.
    let row = vec![Value::Text("Questions".to_owned()), Value::Text("6".to_owned())];
    fixture.store.refill("stats.stats_mysql_global", vec![row]).unwrap();
    let seen = fixture.sql(Role::Stats, "SELECT Variable_Value FROM stats_mysql_global").unwrap();
    assert_eq!(rows(seen), [["6"]]);
    fixture.done("INSERT INTO monitor.mysql_server_ping_log VALUES ('a', 1, 1, 2, NULL)");
    fixture.done("INSERT INTO stats_history.system_cpu VALUES (1, 2, 3)");
    for (text, expected) in [
        ("SELECT hostname FROM monitor.mysql_server_ping_log", "a"),
        ("SELECT hostname FROM Mysql_Server_Ping_Log", "a"),
        ("SELECT COUNT(*) FROM monitor.sqlite_master WHERE name LIKE 'mysql_server_p%'", "1"),
        ("SELECT tms_stime FROM system_cpu", "3"),
    ] {
        assert_eq!(rows(fixture.sql(Role::Stats, text).unwrap()), [[expected]], "{text}");
    }
    assert_eq!(fixture.refused(Role::Stats, "PRAGMA query_only=0"), said("Command not allowed"));
    assert_eq!(fixture.refused(Role::Stats, "ATTACH ':memory:' AS x"), said("Command not allowed"));
}

#[test]
fn rows_that_do_not_fit_leave_those_before() {
    let mut fixture = Fixture::new();
    let row = |id: i64| vec![Value::Integer(id), Value::Integer(1)];
    fixture.store.refill("stats.stats_mysql_query_rules", vec![row(1), row(2)]).unwrap();
    fixture.store.refill("stats.stats_mysql_query_rules", vec![row(3), vec![Value::Integer(4)]]).unwrap_err();
    assert_eq!(fixture.rows("SELECT rule_id FROM stats_mysql_query_rules"), [["1"], ["2"]]);
}

#[test]
fn collations_are_listed_with_those_that_character_sets_begin_with() {
    let mut fixture = Fixture::new();
    let listed = "SELECT Collation, \"Default\" FROM mysql_collations WHERE Id IN (5, 8, 33, 45) ORDER BY Id";
    let listed = fixture.rows(listed);
    assert_eq!(
        listed[..3],
        [["latin1_german1_ci", ""], ["latin1_swedish_ci", "Yes"], ["utf8mb3_general_ci", "Yes"]]
    );
    let count: u32 = fixture.rows("SELECT COUNT(*) FROM disk.mysql_collations")[0][0].parse().unwrap();
    assert!(count > 375, "{count}");
}

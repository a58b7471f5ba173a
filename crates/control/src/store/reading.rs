//! Converts rows of tables to rows of the data plane, with the column declarations used for the configuration file.

use narrows_proxy::snapshot::{ReplicationHostgroupRow, Rows, ServerRow, UserRow, finds_accounts};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::answer::{Refusal, Warning};
use crate::config::diagnostic::Problem;
use crate::config::schema::{ColumnKind, ConfigTable};
use crate::config::{tables, tree};
use crate::config_file::checks::{attributes_fault, aurora_fault, pair_fault};
use crate::config_file::hostgroups::Managed;
use crate::monitor::cluster::ClusterKind;
use crate::schema::Module;
use crate::schema::{self, Database};
use crate::tokens;
use crate::versions::key;

/// `ER_WRONG_ARGUMENTS`: a row that cannot be applied.
pub(super) const ROW_LEFT_OUT: u16 = 1210;

/// `ER_NOT_SUPPORTED_YET`: something that is stored, but has no effect.
pub(super) const NO_EFFECT: u16 = 1235;

/// `ER_UNKNOWN_ERROR`: MySQL has no error number for a table without rows.
const EMPTY: u16 = 1105;

/// The rows of one table, unchanged.
pub(super) type Cells = Vec<Vec<Value>>;

/// Rows that will run, in both forms, and remarks on the others.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The rows that will run, by table name.
    pub tables: Vec<(&'static str, Cells)>,
    /// What was left out.
    pub warnings: Vec<Warning>,
}

/// Returns the rows of a table that may run: those in memory, or those that ran before.
pub(super) type Source<'a> = &'a dyn Fn(&str) -> Result<Cells, Refusal>;

/// The rows of a table in memory that may run, in the order of insertion.
pub(super) fn in_memory(connection: &Connection, table: &str) -> Result<Cells, Refusal> {
    let condition = if ONLY_ACTIVE.contains(&table) { "active <> 0" } else { "1" };
    Ok(cells_where(connection, Database::Main, table, &format!("{condition} ORDER BY rowid"))?)
}

/// Reads the tables of `module` into `rows`.
pub(super) fn read(source: Source<'_>, module: Module, rows: &mut Rows) -> Result<Read, Refusal> {
    let mut read = Read::default();
    match module {
        Module::MysqlServers => {
            rows.servers = read.table(source, &tables::SERVERS, server_fault)?;
            let mut pairs: Vec<ReplicationHostgroupRow> = Vec::new();
            rows.replication_hostgroups =
                read.table(source, &tables::REPLICATION_HOSTGROUPS, |row| pair_fault(&mut pairs, row))?;
            let mut managed = Managed::by_pairs(pairs.iter());
            let (galera, group, aurora) =
                (ClusterKind::Galera, ClusterKind::GroupReplication, ClusterKind::Aurora);
            rows.galera_hostgroups =
                read.table(source, &tables::GALERA_HOSTGROUPS, |row| managed.add_cluster(galera, row))?;
            rows.group_replication_hostgroups =
                read.table(source, &tables::GROUP_REPLICATION_HOSTGROUPS, |row| {
                    managed.add_cluster(group, row)
                })?;
            rows.aurora_hostgroups = read.table(source, &tables::AURORA_HOSTGROUPS, |row| {
                aurora_fault(row).or_else(|| managed.add_cluster(aurora, &row.cluster))
            })?;
            rows.hostgroup_attributes =
                read.table(source, &tables::HOSTGROUP_ATTRIBUTES, attributes_fault)?;
            rows.ssl_params = read.table(source, &tables::SSL_PARAMS, |_| None)?;
        }
        Module::MysqlUsers => {
            rows.users = read.table(source, &tables::USERS, |_| None)?;
            read.keep_accounts(&mut rows.users);
            rows.token_issuers = read.table(source, &tables::TOKEN_ISSUERS, tokens::fault)?;
        }
        Module::MysqlQueryRules => {
            rows.rules = read.table(source, &tables::RULES, |_| None)?;
            rows.fast_routing = read.table(source, &tables::FAST_ROUTING, |_| None)?;
        }
        Module::MysqlFirewall => {
            rows.firewall_users = read.table(source, &tables::FIREWALL_USERS, |_| None)?;
            rows.firewall_rules = read.table(source, &tables::FIREWALL_RULES, |_| None)?;
            rows.firewall_fingerprints = read.table(source, &tables::FIREWALL_FINGERPRINTS, |_| None)?;
        }
        Module::MysqlVariables | Module::AdminVariables => {}
        Module::Scheduler | Module::Restapi | Module::ProxysqlServers => {}
    }
    // Tables that the data plane does not read run unchanged.
    for table in module.tables().iter().filter(|_| module.prefix().is_none()) {
        if !read.tables.iter().any(|(name, _)| name == table) {
            read.tables.push((table, source(table)?));
        }
    }
    read.warn_of_tables_without_effect();
    read.warn_of_nothing(module, rows);
    Ok(read)
}

/// Tables whose rows do not run if their column `active` is 0.
const ONLY_ACTIVE: [&str; 2] = ["mysql_users", "mysql_query_rules"];

impl Read {
    fn table<R>(
        &mut self,
        source: Source<'_>,
        table: &'static ConfigTable<R>,
        mut fault: impl FnMut(&R) -> Option<String>,
    ) -> Result<Vec<R>, Refusal> {
        let (mut rows, mut kept) = (Vec::new(), Vec::new());
        let mut lacking: Vec<((String, String), usize)> = Vec::new();
        for cells in source(table.name)? {
            let read = table.read_cells(cells.iter().map(file_value));
            let faults: Vec<String> = match &read {
                Ok(row) => fault(row).into_iter().collect(),
                Err(problems) => problems.iter().map(ToString::to_string).collect(),
            };
            for reason in &faults {
                let message = format!("{} {}: left out: {reason}", table.name, key(table.name, &cells));
                self.warnings.push(Warning { code: ROW_LEFT_OUT, message });
            }
            if let (Ok(row), true) = (read, faults.is_empty()) {
                for lack in lacks_of_row(table, &cells) {
                    match lacking.iter_mut().find(|(known, _)| *known == lack) {
                        Some((_, rows)) => *rows += 1,
                        None => lacking.push((lack, 1)),
                    }
                }
                rows.push(row);
                kept.push(cells);
            }
        }
        for ((name, what), rows) in lacking {
            let message = format!("{}.{name}, set in {}, {what}", table.name, counted_rows(rows));
            self.warnings.push(Warning { code: NO_EFFECT, message });
        }
        self.tables.push((table.name, kept));
        Ok(rows)
    }

    /// Tables whose rows have no effect.
    fn warn_of_tables_without_effect(&mut self) {
        for (table, cells) in &self.tables {
            let active = schema::columns(table).iter().position(|column| *column == "active");
            let is_active = |cells: &&Vec<Value>| {
                active.is_none_or(|active| cells.get(active) == Some(&Value::Integer(1)))
            };
            let rows = cells.iter().filter(is_active).count();
            if let Some(what) = schema::effect(table).lacking().filter(|_| rows > 0) {
                let message = format!("{table} ({}) {what}", counted_rows(rows));
                self.warnings.push(Warning { code: NO_EFFECT, message });
            }
        }
    }

    /// Warns if a table without which no client can be served is empty.
    fn warn_of_nothing(&mut self, module: Module, rows: &Rows) {
        let message = match module {
            Module::MysqlUsers if rows.users.is_empty() && !finds_accounts(&rows.variables) => {
                Problem::NoUsers
            }
            Module::MysqlServers if rows.servers.is_empty() => Problem::NoServers,
            _ => return,
        };
        self.warnings.push(Warning { code: EMPTY, message: message.to_string() });
    }

    /// Keeps the accounts that clients may use, and shows each as ProxySQL does: once for clients, once for servers.
    fn keep_accounts(&mut self, users: &mut Vec<UserRow>) {
        let Some((_, all)) = self.tables.last_mut() else { return };
        let names = schema::columns("mysql_users");
        let at =
            |name: &str| names.iter().position(|column| *column == name).expect("a column of mysql_users");
        let (password, schema) = (at("password"), at("default_schema"));
        let (backend, frontend) = (at("backend"), at("frontend"));
        let is = |cells: &[Value], column: usize| cells.get(column) == Some(&Value::Integer(1));
        let (mut kept, mut accounts, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for (mut cells, row) in std::mem::take(all).into_iter().zip(std::mem::take(users)) {
            for column in [password, schema] {
                if cells[column] == Value::Null {
                    cells[column] = Value::Text(String::new());
                }
            }
            let (for_clients, for_servers) = (is(&cells, frontend), is(&cells, backend));
            if !for_clients && !for_servers {
                let key = key("mysql_users", &cells);
                let message = format!(
                    "mysql_users {key}: has no effect: frontend and backend are both 0, so it is neither for clients nor for servers"
                );
                idle.push(Warning { code: NO_EFFECT, message });
            }
            for (wanted, is_backend) in [(for_clients, 0), (for_servers, 1)] {
                cells[backend] = Value::Integer(is_backend);
                cells[frontend] = Value::Integer(1 - is_backend);
                kept.extend(wanted.then(|| cells.clone()));
            }
            accounts.extend(for_clients.then_some(row));
        }
        *all = kept;
        *users = accounts;
        self.warnings.extend(idle);
    }
}

/// The settings of a row that have no effect, each with a remark.
fn lacks_of_row<R>(table: &'static ConfigTable<R>, cells: &[Value]) -> Vec<(String, String)> {
    // In the admin tables, the unused columns have a meaning: they say whether an account is for clients or for
    // servers.
    let read = table.columns.iter().filter(|column| !matches!(column.kind, ColumnKind::Unused));
    let cell = |name: &str| {
        let place = table.columns.iter().position(|column| column.name == name)?;
        file_value(cells.get(place)?)
    };
    read.filter_map(|column| Some(column.lacks_effect(&cell(column.name)?))).flatten().collect()
}

fn counted_rows(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn server_fault(row: &ServerRow) -> Option<String> {
    match row.port {
        0 if !row.hostname.starts_with('/') => {
            Some("with port 0, hostname must be the path of a Unix socket".to_owned())
        }
        _ => None,
    }
}

/// The rows that meet a condition.
pub(super) fn cells_where(
    connection: &Connection,
    database: Database,
    table: &str,
    condition: &str,
) -> rusqlite::Result<Cells> {
    let columns = schema::columns(table.trim_start_matches("runtime_"));
    // A file may have columns of a newer version.
    let names = if columns.is_empty() { "*".to_owned() } else { schema::listed(&columns) };
    let sql = format!("SELECT {names} FROM {}.{table} WHERE {condition}", database.name());
    let mut statement = connection.prepare(&sql)?;
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    statement.query_map([], row)?.collect()
}

/// A cell as a value for the reader of the configuration file.
pub(super) fn file_value(cell: &Value) -> Option<tree::NodeValue> {
    Some(match cell {
        Value::Null => return None,
        Value::Integer(integer) => tree::NodeValue::Integer(*integer, integer.to_string()),
        Value::Real(real) => tree::NodeValue::Literal(real.to_string()),
        Value::Text(text) => tree::NodeValue::Text(text.clone()),
        Value::Blob(bytes) => tree::NodeValue::Text(String::from_utf8_lossy(bytes).into_owned()),
    })
}

//! What the session of a connection has that has changed nothing: the server's defaults, and what is run first on every connection
//! of Narrows (`mysql-init_connect`) or of the server (its own `init_connect`). A reset leads back to it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::Command;
use narrows_wire::charset::Family;

use super::diagnostics::one_row;
use super::reports::MYSQL_TRACKED;
use super::{Backend, BackendError, Table};
use crate::state::{CHARSETS, SCHEMA_COLLATION, SessionState, is_variable_name, slot};

/// The session of a connection as it was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Session variables with their values, sorted by their lower-case names.
    variables: Vec<(Box<str>, Box<str>)>,
    /// Those of them that are not the server's global values, as a state.
    own: SessionState,
    /// The active roles; `None`: the server does not know roles.
    pub(super) role: Option<Box<str>>,
    /// The names of the user variables that have a value, in lower case; `None`: the server does not tell.
    pub(super) user_variables: Option<Vec<Box<str>>>,
    /// Whether the server tells how many locks of `GET_LOCK()` the session has,
    pub(super) tells_user_locks: bool,
    /// and its metadata locks.
    pub(super) tells_metadata_locks: bool,
}

/// What is run first in each session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FirstStatements {
    /// By the server, at the login; empty: nothing. It may be several statements.
    of_server: String,
    /// By Narrows.
    of_narrows: String,
}

/// A variable of a session that has changed nothing, and of the server.
struct Value {
    name: Box<str>,
    of_session: Box<str>,
    /// `None`: it has no global value.
    of_server: Option<String>,
}

impl Base {
    /// The session variables and their values.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The variables to which a reset leads back, and `DEFAULT` does not: with their values, as a state.
    pub fn own(&self) -> &SessionState {
        &self.own
    }

    fn of(values: Vec<Value>) -> Base {
        let mut base = Base::default();
        for Value { name, of_session, of_server } in values {
            let is_own = of_server.is_some_and(|value| value != *of_session);
            let is_of_login = CHARSETS.contains(&slot(&name)) || slot(&name) == SCHEMA_COLLATION;
            // Narrows' own, and what no SET brings back.
            let is_apart = NOT_CARRIED.contains(&&*name) || name.starts_with("session_track_");
            if is_own && !is_of_login && !is_apart && is_variable_name(&name) {
                base.own.set_text(&name, of_session.as_bytes());
            }
            base.variables.push((name, of_session));
        }
        base.variables.sort();
        base
    }
}

impl Backend {
    /// Completes a login: runs what is to run first on every connection, and reads what the session has then, if that is not what
    /// the server gives to all or if `verifies`.
    ///
    /// # Errors
    /// The server's, if it refuses what is to run first.
    pub async fn begin_session(
        &mut self,
        init_connect: &str,
        verifies: bool,
        limit: Duration,
    ) -> Result<(), BackendError> {
        if self.login.family == Family::MySql && self.login.version >= CASCADES_ABOVE_ENGINES {
            let told = self.told_one(LOSES_CASCADES, limit).await?;
            self.login.spoiled_by_reset = told.as_deref() == Some("1");
        }
        // What the account has instead of the server's value, MariaDB applies at logins, and a reset replaces it.
        if self.login.family == Family::MariaDb {
            let told = self.told_one(HAS_LIMIT_OF_ACCOUNT, limit).await?;
            self.login.spoiled_by_reset = told.as_deref() == Some("1");
        }
        // The server has run its own already.
        let of_server = self.server_init_connect(limit).await?;
        if !init_connect.is_empty() {
            let ran = self.execute(init_connect, limit).await;
            ran.map_err(|error| match error {
                BackendError::Server(error) => BackendError::InitConnect(error),
                error => error,
            })?;
        }
        if !init_connect.is_empty() || !of_server.is_empty() {
            let first = FirstStatements { of_server, of_narrows: init_connect.to_owned() };
            self.login.first = Some(Box::new(first));
        }
        if verifies || self.login.first.is_some() {
            self.login.base = Some(Arc::new(self.read_base(limit).await?));
        }
        Ok(())
    }

    /// The same after a reset or a change of the user, after which servers do not run their own `init_connect`.
    pub(super) async fn begin_session_again(&mut self, limit: Duration) -> Result<(), BackendError> {
        let of_server = self.server_init_connect(limit).await?;
        let mut first = self.login.first.take().unwrap_or_default();
        first.of_server = of_server;
        if !first.of_server.is_empty() {
            self.execute_several(&first.of_server, limit).await?;
        }
        if !first.of_narrows.is_empty() {
            self.execute(&first.of_narrows, limit).await?;
        }
        if *first != FirstStatements::default() {
            self.login.first = Some(first);
        }
        if self.login.base.is_some() || self.login.first.is_some() {
            self.login.base = Some(Arc::new(self.read_base(limit).await?));
        }
        Ok(())
    }

    /// What the server runs at the login of this account; empty: nothing. It is asked once, and after changes of its variables.
    async fn server_init_connect(&self, limit: Duration) -> Result<String, BackendError> {
        let (defaults, read) = (&self.login.server.figures.defaults, self.login.defaults);
        if defaults.has_init_connect(read) == Some(false) {
            return Ok(String::new());
        }
        let text = self
            .told_one(&one_row("CAST(@@GLOBAL.init_connect AS BINARY)"), limit)
            .await?
            .unwrap_or_default();
        defaults.note_init_connect(read, !text.is_empty());
        // It is not for accounts with certain privileges.
        match text.is_empty() || self.told_one(SPARED, limit).await?.is_some() {
            true => Ok(String::new()),
            false => Ok(text),
        }
    }

    /// Runs a text of several statements.
    async fn execute_several(&mut self, text: &str, limit: Duration) -> Result<(), BackendError> {
        let may_already = self.login.state.multi_statements;
        if !may_already {
            self.command(Command::SetOption, &[0, 0], limit).await?;
        }
        self.execute(text, limit).await?;
        if !may_already {
            self.command(Command::SetOption, &[1, 0], limit).await?;
        }
        Ok(())
    }

    /// Reads what the session has, whose state nothing has changed yet but the login and what is run first.
    async fn read_base(&self, limit: Duration) -> Result<Base, BackendError> {
        let values = match self.login.family {
            Family::MySql => {
                let of_session = self.told(MYSQL_VARIABLES, limit).await?.unwrap_or_default();
                let of_server = self.told(MYSQL_GLOBALS, limit).await?.unwrap_or_default();
                mysql_values(of_session, of_server)
            }
            Family::MariaDb => mariadb_values(self.told(MARIADB_VARIABLES, limit).await?.unwrap_or_default()),
        };
        let mut base = Base::of(values);
        // The tables of variables show NULL as an empty value.
        let empty = |(name, literal): (&str, &str)| (literal == "''").then(|| name.to_owned());
        let empty: Vec<String> = base.own.variables().filter_map(empty).collect();
        if !empty.is_empty() {
            for (name, _) in self.variables(&empty, limit).await?.iter().filter(|(_, value)| value.is_none())
            {
                base.own.set_literal(name, "NULL");
            }
        }
        let role = self.told(&one_row("CAST(CURRENT_ROLE() AS BINARY)"), limit).await?;
        let role = role.and_then(|table| table.rows.into_iter().next()?.into_iter().next());
        base.role = role.map(|role| role.unwrap_or_default().into());
        let names = self.told(super::verify::USER_VARIABLES[self.family_index()], limit).await?;
        let lower = |name: String| -> Box<str> { name.to_lowercase().into() };
        base.user_variables = names.map(|names| {
            names.rows.into_iter().filter_map(|row| row.into_iter().next()?.map(lower)).collect()
        });
        base.tells_user_locks = self.told(&one_row("RELEASE_ALL_LOCKS()"), limit).await?.is_some();
        if self.login.family == Family::MySql {
            base.tells_metadata_locks =
                self.told(&one_row(super::verify::METADATA_LOCKS), limit).await?.is_some();
        }
        Ok(base)
    }

    /// The answer to a question that a server may refuse: then there is none.
    async fn told(&self, question: &str, limit: Duration) -> Result<Option<Table>, BackendError> {
        match self.ask_briefly(question, limit).await {
            Ok(table) => Ok(Some(table)),
            Err(BackendError::Server(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first cell of the answer; `None`: NULL, no row, or the server refuses it.
    async fn told_one(&self, question: &str, limit: Duration) -> Result<Option<String>, BackendError> {
        let table = self.told(question, limit).await?;
        Ok(table.and_then(|table| table.rows.into_iter().next()?.into_iter().next()?))
    }

    /// The place of its family in lists of questions.
    pub(super) fn family_index(&self) -> usize {
        match self.login.family {
            Family::MySql => 0,
            Family::MariaDb => 1,
        }
    }

    /// What connections take over from the server, as it is now.
    ///
    /// # Errors
    /// As [`Backend::ask`]; a server that refuses an answer tells less.
    pub async fn defaults_seen(&self, limit: Duration) -> Result<DefaultsSeen, BackendError> {
        let mut hasher = DefaultHasher::new();
        let mut may_ask_schemas = true;
        match self.login.family {
            Family::MySql => {
                let table = self.told(MYSQL_GLOBALS, limit).await?.unwrap_or_default();
                let mut rows = table.rows;
                rows.retain(|row| is_taken_over(row.first().and_then(Option::as_deref).unwrap_or_default()));
                rows.sort();
                rows.hash(&mut hasher);
                // The question would leave a transaction open, with a view of the schemas that stays as it is.
                let is_off = |row: &Vec<Option<String>>| {
                    row.first().and_then(Option::as_deref) == Some("autocommit")
                        && row.get(1).and_then(Option::as_deref) == Some("OFF")
                };
                may_ask_schemas = !rows.iter().any(is_off);
            }
            Family::MariaDb => {
                let mut rows = self.told(MARIADB_GLOBALS, limit).await?.unwrap_or_default().rows;
                rows.sort();
                rows.hash(&mut hasher);
            }
        }
        if may_ask_schemas {
            let mut schemas = self.told(SCHEMAS, limit).await?.unwrap_or_default().rows;
            schemas.sort();
            schemas.hash(&mut hasher);
        }
        let sessions = hasher.finish();
        let mut counts = self.told(ACCOUNT_STATEMENTS, limit).await?.unwrap_or_default().rows;
        counts.sort();
        let mut hasher = DefaultHasher::new();
        counts.hash(&mut hasher);
        Ok(DefaultsSeen { sessions, logins: hasher.finish() })
    }
}

/// Numbers that change with what a server gives to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultsSeen {
    /// Changes with a global variable that sessions take over, and with the character set of a schema that the account sees.
    pub sessions: u64,
    /// Changes when anybody, also a stored program, has run a statement about accounts, roles or privileges.
    pub logins: u64,
}

/// Whether sessions take over the global value of this variable (MySQL).
fn is_taken_over(name: &str) -> bool {
    name.eq_ignore_ascii_case("init_connect")
        || MYSQL_TRACKED.split(',').any(|known| known.eq_ignore_ascii_case(name))
}

fn mysql_values(of_session: Table, of_server: Table) -> Vec<Value> {
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter();
        Some((cells.next().flatten()?.to_lowercase(), cells.next().flatten().unwrap_or_default()))
    };
    let mut of_server: std::collections::BTreeMap<String, String> =
        of_server.rows.into_iter().filter_map(pair).collect();
    let values = of_session.rows.into_iter().filter_map(pair);
    // It tells the values of those that sessions do not have, too.
    let of_sessions = values.filter(|(name, _)| MYSQL_TRACKED.split(',').any(|known| known == name));
    let value = |(name, value): (String, String)| Value {
        of_server: of_server.remove(&name),
        name: name.into(),
        of_session: value.into(),
    };
    of_sessions.map(value).collect()
}

fn mariadb_values(table: Table) -> Vec<Value> {
    let value = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter();
        let name = cells.next().flatten()?.to_lowercase().into();
        let of_session = cells.next().flatten().unwrap_or_default().into();
        Some(Value { name, of_session, of_server: cells.next().flatten() })
    };
    table.rows.into_iter().filter_map(value).collect()
}

/// The session variables and their values. A binary string is not converted to the session's character set, and a limit of its own
/// is not that of `sql_select_limit`.
const MYSQL_VARIABLES: &str = "SELECT CAST(VARIABLE_NAME AS BINARY), CAST(VARIABLE_VALUE AS BINARY) \
FROM performance_schema.session_variables LIMIT 10000";

/// Only `SHOW` has these counters on both servers.
const ACCOUNT_STATEMENTS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_alter_user', \
'Com_alter_user_default_role', 'Com_create_role', 'Com_create_user', 'Com_drop_role', 'Com_drop_user', 'Com_flush', \
'Com_grant', 'Com_grant_role', 'Com_grant_roles', 'Com_rename_user', 'Com_revoke', 'Com_revoke_all', 'Com_revoke_role', \
'Com_revoke_roles', 'Com_set_password')";

const MYSQL_GLOBALS: &str = "SELECT CAST(VARIABLE_NAME AS BINARY), CAST(VARIABLE_VALUE AS BINARY) \
FROM performance_schema.global_variables LIMIT 10000";

const MARIADB_VARIABLES: &str = "SELECT CAST(VARIABLE_NAME AS BINARY), CAST(SESSION_VALUE AS BINARY), \
CAST(GLOBAL_VALUE AS BINARY) FROM information_schema.SYSTEM_VARIABLES \
WHERE VARIABLE_SCOPE <> 'GLOBAL' LIMIT 10000";

const MARIADB_GLOBALS: &str = "SELECT CAST(VARIABLE_NAME AS BINARY), CAST(GLOBAL_VALUE AS BINARY) \
FROM information_schema.SYSTEM_VARIABLES \
WHERE VARIABLE_SCOPE = 'SESSION' OR VARIABLE_NAME = 'INIT_CONNECT' LIMIT 10000";

const SCHEMAS: &str = "SELECT CAST(SCHEMA_NAME AS BINARY), CAST(DEFAULT_COLLATION_NAME AS BINARY) \
FROM information_schema.SCHEMATA LIMIT 10000";

/// The first version in which MySQL itself, and not InnoDB, deletes the child rows, and writes that to the binary log.
const CASCADES_ABOVE_ENGINES: (u16, u16) = (9, 6);

/// Whether a session that was reset leaves that to InnoDB, and a binary log lacks it (seen with 9.7, after `COM_RESET_CONNECTION`
/// and after `COM_CHANGE_USER`).
const LOSES_CASCADES: &str = "SELECT @@GLOBAL.log_bin AND NOT @@GLOBAL.innodb_native_foreign_keys LIMIT 1";

/// Whether the session has another limit than the server gives to sessions after a reset: that of its account, if it has changed
/// nothing.
const HAS_LIMIT_OF_ACCOUNT: &str =
    "SELECT @@SESSION.max_statement_time <> @@GLOBAL.max_statement_time LIMIT 1";

/// Whether the account is one for which servers do not run `init_connect`. One that can read the schema `mysql` sees the
/// privileges of all accounts here, so those of others are left out.
const SPARED: &str = "SELECT 1 FROM information_schema.USER_PRIVILEGES \
WHERE PRIVILEGE_TYPE IN ('SUPER', 'CONNECTION_ADMIN', 'CONNECTION ADMIN') \
AND REPLACE(GRANTEE, '''', '') = REPLACE(CURRENT_USER(), '''', '') LIMIT 1";

/// Variables whose value in a new session differs from the global one by itself, or that cannot be set back.
const NOT_CARRIED: [&str; 14] = [
    "gtid_next",
    "identity",
    "immediate_server_version",
    "insert_id",
    "last_insert_id",
    "original_commit_timestamp",
    "original_server_version",
    "pseudo_thread_id",
    "pseudo_slave_mode",
    "pseudo_replica_mode",
    "rand_seed1",
    "rand_seed2",
    "timestamp",
    "proxy_user",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_goes_back_to_what_sessions_begin_with() {
        let row = |cells: [&str; 3]| cells.map(|cell| Some(cell.to_owned())).to_vec();
        let rows = vec![
            row(["SQL_MODE", "ANSI_QUOTES", ""]),
            row(["LOCK_WAIT_TIMEOUT", "77", "86400"]),
            row(["CHARACTER_SET_CLIENT", "utf8mb4", "latin1"]),
            row(["AUTOCOMMIT", "ON", "ON"]),
        ];
        let base = Base::of(mariadb_values(Table { columns: Vec::new(), rows }));
        let own: Vec<(&str, &str)> = base.own().variables().collect();
        assert_eq!(own, [("lock_wait_timeout", "77"), ("sql_mode", "'ANSI_QUOTES'")]);
        let (wanted, mut found) = (SessionState::default(), SessionState::default());
        found.set_text("lock_wait_timeout", b"5");
        let difference = wanted.over(base.own()).difference(&found.over(base.own()), false);
        assert_eq!(difference.set.as_deref(), Some("SET lock_wait_timeout=77"));
        let nothing = wanted.over(base.own()).difference(&wanted.over(base.own()), false);
        assert!(nothing.is_empty(), "{nothing:?}");
    }
}

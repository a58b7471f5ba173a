//! What an operator's statement may do: SQL on the tables, and nothing else.
//!
//! The store's own statements are not checked. An operator's statement is checked while it is prepared (no files, no
//! settings of SQLite, no definitions except of the operator's own tables), and ended when its time is over.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};

use super::Role;
use super::owned::Ownership;
use super::row_watch;
use crate::schema::{self, Database, MODULES, Module};
use crate::urgency::Urgency;

/// How long a statement may take while something urgent waits; see [`Urgency`].
pub const URGENT_LIMIT: Duration = Duration::from_millis(250);

/// Longest pattern of `LIKE` and `GLOB`, in bytes. SQLite matches them with one recursion per wildcard; its own limit
/// of 50,000 would overflow a thread's stack.
const PATTERN_LIMIT: i32 = 4096;

/// Steps of SQLite's virtual machine between two looks at the clock: a few microseconds. They are few because a single
/// step may be a function call with the longest value.
const STEPS: i32 = 100;

/// The limits on a connection's statements.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Whose statements these are.
    pub role: Role,
    /// How long a statement may take.
    pub time: Duration,
    /// Bytes of one value or row, and of one statement.
    value: i32,
    /// Steps of a compiled statement: sequences without a jump run without a look at the clock.
    steps: i32,
    /// The maximum number of arguments of a function.
    arguments: i32,
    /// The maximum product of the lengths of two arguments, for functions whose duration depends on it.
    pub work: u64,
    /// Bytes of memory, in addition to what SQLite used at the beginning.
    memory: u64,
}

impl Limits {
    /// Administrators' statements take milliseconds, and others wait in the meantime. A value may be twice as long as
    /// the largest packet that a client may send, so that such a packet fits with what surrounds it. Memory is limited
    /// for the whole process.
    pub const FULL: Limits = Limits {
        role: Role::Admin,
        time: Duration::from_secs(10),
        value: 128 << 20,
        steps: i32::MAX,
        arguments: i32::MAX,
        work: 4 << 30,
        memory: u64::MAX,
    };

    /// The owner of such an account is trusted with figures, but not with others' time. No value in a statistics table
    /// is nearly as long; a whole table may be, and sorting it takes its size again.
    pub const STATISTICS: Limits = Limits {
        role: Role::Stats,
        time: Duration::from_secs(2),
        value: 2 << 20,
        steps: 10_000,
        arguments: 64,
        work: 64 << 20,
        memory: 256 << 20,
    };
}

/// The origin of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The store.
    Store = 0,
    /// An operator.
    Operator = 1,
}

/// Signals that nobody waits for a statement any more.
#[derive(Debug, Clone, Default)]
pub struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Signals it from now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a statement was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It took longer than its limit, or nobody waits for it.
    TooLong = 0,
    /// It took longer than [`URGENT_LIMIT`] while something urgent was waiting.
    Urgent = 1,
    /// It took more memory than its limit.
    TooLarge = 2,
}

/// Gives the hooks of a connection the context of a statement.
#[derive(Debug, Clone)]
pub struct Guard {
    origin: Arc<AtomicU8>,
    /// The deadline in microseconds since `start`.
    deadline: Arc<AtomicU64>,
    transaction: Arc<AtomicU8>,
    /// Why the last statement was ended: a [`Late`].
    reason: Arc<AtomicU8>,
    /// SQLite's memory usage in bytes at which a statement is ended.
    most_memory: Arc<AtomicU64>,
    /// What the configuration file owns.
    ownership: Arc<OnceLock<Ownership>>,
    /// The table that the last statement would have changed, and that is owned: its place in [`owned_tables`], from 1.
    owned_table: Arc<AtomicU64>,
    urgency: Urgency,
    abandoned: Abandoned,
    start: Instant,
    /// The limits on statements.
    pub limits: Limits,
}

impl Guard {
    /// Installs the hooks and limits.
    pub fn install(
        connection: &mut Connection,
        limits: Limits,
        urgency: Urgency,
        abandoned: Abandoned,
    ) -> Result<Guard> {
        let guard = Guard {
            origin: Arc::default(),
            deadline: Arc::new(AtomicU64::new(u64::MAX)),
            transaction: Arc::default(),
            reason: Arc::default(),
            most_memory: Arc::default(),
            ownership: Arc::default(),
            owned_table: Arc::default(),
            urgency,
            abandoned,
            start: Instant::now(),
            limits,
        };
        let (asked, late) = (guard.clone(), guard.clone());
        connection.authorizer(Some(move |context: AuthContext<'_>| asked.authorize(&context)))?;
        connection.progress_handler(STEPS, Some(move || late.is_late()))?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, limits.value)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, limits.value)?;
        connection.set_limit(Limit::SQLITE_LIMIT_VDBE_OP, limits.steps)?;
        connection.set_limit(Limit::SQLITE_LIMIT_FUNCTION_ARG, limits.arguments)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_LIMIT)?;
        Ok(guard)
    }

    /// From now until the result is dropped, statements come from `origin`.
    pub fn enter(&self, origin: Origin) -> Entered<'_> {
        self.transaction.store(0, Ordering::Relaxed);
        self.owned_table.store(0, Ordering::Relaxed);
        self.reason.store(Late::TooLong as u8, Ordering::Relaxed);
        let memory = sqlite_bytes().saturating_add(self.limits.memory);
        self.most_memory.store(memory, Ordering::Relaxed);
        self.origin.store(origin as u8, Ordering::Relaxed);
        let end = self.start.elapsed() + self.limits.time;
        self.deadline.store(u64::try_from(end.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        Entered(self)
    }

    /// Why the last statement was ended, if it was.
    pub fn late(&self) -> Late {
        match self.reason.load(Ordering::Relaxed) {
            reason if reason == Late::Urgent as u8 => Late::Urgent,
            reason if reason == Late::TooLarge as u8 => Late::TooLarge,
            _ => Late::TooLong,
        }
    }

    /// Whether the running statement must end.
    pub fn is_late(&self) -> bool {
        let end = self.deadline.load(Ordering::Relaxed);
        if end == u64::MAX {
            return false;
        }
        let (now, end) = (self.start.elapsed(), Duration::from_micros(end));
        let began = end.saturating_sub(self.limits.time);
        let reason = if self.urgency.is_set() && now > began + URGENT_LIMIT {
            Late::Urgent
        } else if self.limits.memory != u64::MAX && sqlite_bytes() > self.most_memory.load(Ordering::Relaxed)
        {
            Late::TooLarge
        } else if now > end || self.abandoned.is_set() {
            Late::TooLong
        } else {
            return false;
        };
        self.reason.store(reason as u8, Ordering::Relaxed);
        true
    }

    /// What the configuration file owns.
    pub fn ownership(&self) -> &Ownership {
        static NOTHING: OnceLock<Ownership> = OnceLock::new();
        self.ownership.get().unwrap_or_else(|| NOTHING.get_or_init(Ownership::default))
    }

    /// From now on, operators do not change what is owned.
    pub fn own(&self, ownership: Ownership) {
        let is_first = self.ownership.set(ownership).is_ok();
        debug_assert!(is_first, "the owner of a store does not change");
    }

    /// Why the last statement was refused, if it would have changed what is owned.
    pub fn owner_refusal(&self) -> Option<String> {
        let place = usize::try_from(self.owned_table.load(Ordering::Relaxed)).ok()?.checked_sub(1)?;
        let table = owned_tables().nth(place)?;
        Some(self.ownership().refusal(table, self.ownership().of_table(table)?))
    }

    /// Whether the running statement comes from an operator.
    pub fn is_operator(&self) -> bool {
        self.origin.load(Ordering::Relaxed) == Origin::Operator as u8
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        let origin = self.origin.load(Ordering::Relaxed);
        if origin == Origin::Store as u8 {
            return Authorization::Allow;
        }
        if matches!(context.action, AuthAction::Transaction { .. } | AuthAction::Savepoint { .. }) {
            self.transaction.store(1, Ordering::Relaxed);
        }
        if let Some(table) = changed_configuration(context)
            && self.ownership().of_table(table).is_some()
        {
            let place = owned_tables().position(|own| own.eq_ignore_ascii_case(table));
            self.owned_table.store(place.map_or(0, |place| place as u64 + 1), Ordering::Relaxed);
            return Authorization::Deny;
        }
        let is_allowed =
            is_allowed(context) && (self.limits.role == Role::Admin || is_of_statistics(context));
        if is_allowed { Authorization::Allow } else { Authorization::Deny }
    }
}

/// Memory that SQLite uses in this process, in bytes.
pub fn sqlite_bytes() -> u64 {
    // SAFETY: takes no arguments, reads a counter protected by SQLite's own lock, and may be called at any time.
    let bytes = unsafe { rusqlite::ffi::sqlite3_memory_used() };
    u64::try_from(bytes).unwrap_or(0)
}

/// A period in which statements come from an operator.
#[derive(Debug)]
pub struct Entered<'a>(&'a Guard);

impl Entered<'_> {
    /// Whether the prepared statement would begin or end a transaction: transactions across statements are not allowed.
    pub fn is_transaction(&self) -> bool {
        self.0.transaction.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.origin.store(Origin::Store as u8, Ordering::Relaxed);
        self.0.deadline.store(u64::MAX, Ordering::Relaxed);
    }
}

/// PRAGMAs that describe the tables and change nothing.
const PRAGMAS: &[&str] = &[
    "compile_options",
    "database_list",
    "foreign_key_list",
    "foreign_keys",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "query_only",
    "quick_check",
    "synchronous",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// The PRAGMAs among them whose argument selects what to read and does not set anything.
const PRAGMAS_WITH_SUBJECT: &[&str] = &[
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Functions that reach outside of the database, or that take memory addresses.
const FUNCTIONS_DENIED: &[&str] = &["fts3_tokenizer", "load_extension"];

/// Functions of which a single call may take time proportional to the square of its input or more, and which are not
/// needed to read figures; see `bounded.rs` for those that are needed.
const FUNCTIONS_OF_FULL_USERS: &[&str] = &[
    "json_array_insert",
    "json_insert",
    "json_patch",
    "json_pretty",
    "json_remove",
    "json_replace",
    "json_set",
    "jsonb_array_insert",
    "jsonb_insert",
    "jsonb_patch",
    "jsonb_remove",
    "jsonb_replace",
    "jsonb_set",
    "rtreecheck",
    "sqlite_log",
];

/// Whether a function is forbidden to statistics users.
#[cfg(test)]
pub fn is_denied(name: &str) -> bool {
    FUNCTIONS_DENIED.contains(&name) || FUNCTIONS_OF_FULL_USERS.contains(&name)
}

/// Whether statistics users may also do this: they may not use PRAGMAs as table-valued functions, nor those that read a
/// whole file in one step.
fn is_of_statistics(context: &AuthContext<'_>) -> bool {
    match context.action {
        // `SHOW DATABASES` uses this PRAGMA; one that the user sent has already been refused.
        AuthAction::Pragma { pragma_name, pragma_value } => {
            pragma_name.eq_ignore_ascii_case("database_list") && pragma_value.is_none()
        }
        AuthAction::Read { table_name, .. } => {
            let name = table_name.to_ascii_lowercase();
            !name.starts_with("pragma_") && name != "dbstat"
        }
        AuthAction::Function { function_name } => {
            !FUNCTIONS_OF_FULL_USERS.iter().any(|denied| denied.eq_ignore_ascii_case(function_name))
        }
        _ => true,
    }
}

/// The table of the configuration whose rows, or whose rules about rows, a statement changes.
fn changed_configuration<'a>(context: &AuthContext<'a>) -> Option<&'a str> {
    use AuthAction::*;
    let is_of_configuration =
        context.database_name.is_none_or(|database| matches!(database, "main" | "disk" | "temp"));
    match context.action {
        Insert { table_name }
        | Delete { table_name }
        | Update { table_name, .. }
        | CreateIndex { table_name, .. }
        | DropIndex { table_name, .. }
            if is_of_configuration =>
        {
            Some(table_name)
        }
        _ => None,
    }
}

/// Every table that can be owned.
fn owned_tables() -> impl Iterator<Item = &'static str> {
    MODULES.into_iter().flat_map(Module::tables).copied()
}

fn is_allowed(context: &AuthContext<'_>) -> bool {
    use AuthAction::*;
    let own = |name: &str| is_own(context.database_name, name);
    match context.action {
        Attach { .. } | Detach { .. } | CreateVtable { .. } | DropVtable { .. } | Unknown { .. } => false,
        CreateTrigger { .. } | CreateTempTrigger { .. } | DropTrigger { .. } | DropTempTrigger { .. } => {
            false
        }
        Pragma { pragma_name, pragma_value } => is_question(pragma_name, pragma_value),
        Function { function_name } => {
            !FUNCTIONS_DENIED.iter().any(|denied| denied.eq_ignore_ascii_case(function_name))
                && row_watch::may_call(function_name, context.accessor)
        }
        CreateTable { table_name } | DropTable { table_name } | AlterTable { table_name, .. } => {
            own(table_name)
        }
        CreateTempTable { .. } | CreateTempView { .. } | CreateTempIndex { .. } => false,
        CreateIndex { .. } | DropIndex { .. } => context.database_name == Some("main"),
        CreateView { view_name } | DropView { view_name } => {
            own(view_name) && !row_watch::is_name_of_trigger(view_name)
        }
        Insert { table_name } | Delete { table_name } | Update { table_name, .. } => {
            !is_unchangeable(table_name)
        }
        _ => true,
    }
}

/// Tables that only Narrows itself changes: a history that can be changed proves nothing.
const UNCHANGEABLE: &[&str] = &["narrows_config_history", "narrows_config_documents"];

/// Whether only Narrows itself changes a table.
pub fn is_unchangeable(table: &str) -> bool {
    UNCHANGEABLE.iter().any(|name| name.eq_ignore_ascii_case(table))
}

fn is_question(name: &str, argument: Option<&str>) -> bool {
    let among = |list: &[&str]| list.iter().any(|listed| listed.eq_ignore_ascii_case(name));
    among(PRAGMAS_WITH_SUBJECT) || (argument.is_none() && among(PRAGMAS))
}

/// Whether a table with that name would be the operator's own: in memory, and not one of Narrows' tables.
fn is_own(database: Option<&str>, name: &str) -> bool {
    let in_main = database.is_none_or(|database| database == "main" || database == "temp");
    in_main && schema::find(Database::Main, name).is_none()
}

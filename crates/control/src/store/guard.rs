//! What a statement of an operator may do: SQL on the tables, and nothing beyond them.
//!
//! The store's own statements pass unasked. A statement of an operator is asked while it is prepared (no files, no
//! settings of SQLite, no definitions but those of tables of one's own), and ended when its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};

use super::schema::{self, Database};

/// How long one statement may take; statements of operators take milliseconds, and others wait meanwhile.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The same for users of statistics: whoever has such an account is trusted with figures, not with everybody's time.
pub const STATISTICS_TIME_LIMIT: Duration = Duration::from_secs(2);

/// How long one may take while somebody waits who must not wait for long; see [`Urgency`].
pub const URGENT_LIMIT: Duration = Duration::from_millis(250);

/// Longest pattern of `LIKE` and `GLOB`, in bytes. SQLite matches them with a recursion for each wildcard; its own limit of 50,000
/// is more than the stack of a thread takes.
const PATTERN_LIMIT: i32 = 4096;

/// Bytes of one value or row, and of one statement: twice as much as the largest packet that a client may send, so that such
/// a value fits with what is around it.
const VALUE_LIMIT: i32 = 128 << 20;

/// Steps of SQLite's machine between two looks at the clock: about a tenth of a millisecond.
const STEPS: i32 = 10_000;

/// Who is behind a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The store.
    Store = 0,
    /// An operator.
    Operator = 1,
}

/// Says whether somebody waits for the control thread who must not wait for long: what the monitor has found out about a server
/// counts for nothing until it is in force.
#[derive(Debug, Clone, Default)]
pub struct Urgency(Arc<AtomicBool>);

impl Urgency {
    /// Somebody waits, or nobody any more.
    pub fn set(&self, is_urgent: bool) {
        self.0.store(is_urgent, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a statement was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It took longer than its limit.
    TooLong,
    /// It took longer than [`URGENT_LIMIT`], and somebody was waiting.
    Urgent,
}

/// Tells the hooks of one connection what they are asked about.
#[derive(Debug, Clone)]
pub struct Guard {
    origin: Arc<AtomicU8>,
    /// In microseconds since `start`.
    deadline: Arc<AtomicU64>,
    transaction: Arc<AtomicU8>,
    /// Whether the last statement was ended because somebody was waiting.
    gave_way: Arc<AtomicBool>,
    urgency: Urgency,
    start: Instant,
    /// How long one statement may take.
    pub limit: Duration,
}

impl Guard {
    /// Puts the hooks and limits in place.
    pub fn install(connection: &mut Connection, urgency: Urgency) -> Result<Guard> {
        let guard = Guard {
            origin: Arc::default(),
            deadline: Arc::new(AtomicU64::new(u64::MAX)),
            transaction: Arc::default(),
            gave_way: Arc::default(),
            urgency,
            start: Instant::now(),
            limit: TIME_LIMIT,
        };
        let (asked, late) = (guard.clone(), guard.clone());
        connection.authorizer(Some(move |context: AuthContext<'_>| asked.authorize(&context)))?;
        connection.progress_handler(STEPS, Some(move || late.is_late()))?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_LIMIT)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, VALUE_LIMIT)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_LIMIT)?;
        Ok(guard)
    }

    /// From now until the result is dropped statements are those of `origin`.
    pub fn enter(&self, origin: Origin) -> Entered<'_> {
        self.transaction.store(0, Ordering::Relaxed);
        self.gave_way.store(false, Ordering::Relaxed);
        self.origin.store(origin as u8, Ordering::Relaxed);
        let end = self.start.elapsed() + self.limit;
        self.deadline.store(u64::try_from(end.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        Entered(self)
    }

    /// Why the last statement was ended, where it was.
    pub fn late(&self) -> Late {
        if self.gave_way.load(Ordering::Relaxed) { Late::Urgent } else { Late::TooLong }
    }

    fn is_late(&self) -> bool {
        let (now, end) = (self.start.elapsed(), self.deadline.load(Ordering::Relaxed));
        let end = Duration::from_micros(end);
        let gives_way = self.urgency.is_set() && now + self.limit.saturating_sub(URGENT_LIMIT) > end;
        if gives_way {
            self.gave_way.store(true, Ordering::Relaxed);
        }
        gives_way || now > end
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        let origin = self.origin.load(Ordering::Relaxed);
        if origin == Origin::Store as u8 {
            return Authorization::Allow;
        }
        if matches!(context.action, AuthAction::Transaction { .. } | AuthAction::Savepoint { .. }) {
            self.transaction.store(1, Ordering::Relaxed);
        }
        if is_allowed(context) { Authorization::Allow } else { Authorization::Deny }
    }
}

/// A span in which statements are those of an operator.
#[derive(Debug)]
pub struct Entered<'a>(&'a Guard);

impl Entered<'_> {
    /// Whether what was prepared would begin or end a transaction: there are none between statements.
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

/// Questions to SQLite that tell of the tables and change nothing.
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

/// Of these, those whose argument says what is asked for and not what shall be.
const PRAGMAS_WITH_SUBJECT: &[&str] = &[
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Functions that reach outside, or that are handed memory addresses.
const FUNCTIONS_DENIED: &[&str] = &["fts3_tokenizer", "load_extension"];

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
        }
        CreateTable { table_name } | DropTable { table_name } | AlterTable { table_name, .. } => {
            own(table_name)
        }
        CreateTempTable { .. } | CreateTempView { .. } | CreateTempIndex { .. } => false,
        CreateIndex { .. } | DropIndex { .. } => context.database_name == Some("main"),
        CreateView { view_name } | DropView { view_name } => own(view_name),
        _ => true,
    }
}

fn is_question(name: &str, argument: Option<&str>) -> bool {
    let among = |list: &[&str]| list.iter().any(|listed| listed.eq_ignore_ascii_case(name));
    among(PRAGMAS_WITH_SUBJECT) || (argument.is_none() && among(PRAGMAS))
}

/// Whether a table of that name would be the operator's own: in memory, and none of ours.
fn is_own(database: Option<&str>, name: &str) -> bool {
    let in_main = database.is_none_or(|database| database == "main" || database == "temp");
    in_main && schema::find(Database::Main, name).is_none()
}

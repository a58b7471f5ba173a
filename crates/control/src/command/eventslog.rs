//! DUMP EVENTSLOG: what the query log keeps in memory becomes rows.

use std::time::Duration;

use crate::admin::reply::Reply;
use crate::query_log::events::row;
use crate::runtime::Runtime;
use crate::store::{Refusal, Store};
use rusqlite::types::Value;

use super::verb::{Call, Parts, Verb, Who};

macro_rules! dump {
    ($pattern:literal, $to:expr, $doc:literal) => {
        Verb {
            pattern: concat!("DUMP EVENTSLOG FROM BUFFER TO ", $pattern),
            who: Who::Admin,
            run: |parts, call| Some(dump_for(parts, call, $to)),
            doc: $doc,
        }
    };
}

pub const VERBS: &[Verb] = &[
    dump!(
        "MEMORY",
        DumpTarget { memory: true, disk: false },
        "Moves the logged statements that `mysql-eventslog_buffer_history_size` keeps to `stats_mysql_query_events`; the answer counts them."
    ),
    dump!(
        "DISK",
        DumpTarget { memory: false, disk: true },
        "Moves them to `stats_history.history_mysql_query_events`, where they stay for seven days."
    ),
    dump!("BOTH", DumpTarget { memory: true, disk: true }, "Moves them to both tables."),
];

/// Where the records go.
#[derive(Debug, Clone, Copy)]
pub struct DumpTarget {
    /// To `stats_mysql_query_events`.
    pub memory: bool,
    /// To `history_mysql_query_events`.
    pub disk: bool,
}

fn dump_for(parts: &mut Parts<'_>, _: &Call<'_>, places: DumpTarget) -> Reply {
    match dump(parts.runtime, parts.store, places) {
        Ok(count) => Reply::done(count, ""),
        Err(refusal) => Reply::Refused(refusal),
    }
}

/// Moves what the query log keeps; returns how many records it were.
///
/// # Errors
/// If they cannot be stored on disk; then they are lost, or only in memory.
pub fn dump(runtime: &mut Runtime, store: &mut Store, places: DumpTarget) -> Result<u64, Refusal> {
    let Some(records) = runtime.logs().queries.take(PATIENCE) else { return Ok(0) };
    let count = records.len() as u64;
    let stored = match places.disk && count > 0 {
        true => store.keep_events(records.iter().map(|record| row(Value::Null, record))),
        false => Ok(()),
    };
    if places.memory {
        let most = store.variable("mysql-eventslog_table_memory_size").and_then(|text| text.parse().ok());
        let (events, most) = (runtime.events_mut(), most.unwrap_or_default());
        records.into_iter().for_each(|record| events.add(record, most));
    }
    stored.map(|()| count)
}

/// How long the writer of the log may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

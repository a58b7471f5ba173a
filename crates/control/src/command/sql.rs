//! SQL other than commands: with the rows of the tables that it names, or only about the tables themselves.

use std::time::Instant;

use super::verb::Parts;
use crate::admin::question::{Question, Taken};
use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::{names, requalify};
use crate::stats;
use crate::stats::fleet::FleetRows;
use crate::store::{Answer, Refusal, Role};

/// SQL that a user has sent, which arrived at `since`: other members of a fleet may have to be asked for it.
pub fn typed_sql(parts: &mut Parts<'_>, caller: &Caller, text: &str, since: Instant) -> Reply {
    match stats::fleet::ask(parts.store, parts.runtime, (text, since)) {
        Ok(Some(fleet)) => on_rows(parts, caller, text, &fleet),
        Ok(None) => Reply::NotYet,
        Err(refusal) => Reply::Refused(refusal),
    }
}

/// SQL on rows: the statistics and runtime tables that it names are filled first.
pub fn sql(parts: &mut Parts<'_>, caller: &Caller, text: &str) -> Reply {
    on_rows(parts, caller, text, &FleetRows::default())
}

fn on_rows(parts: &mut Parts<'_>, caller: &Caller, text: &str, fleet: &FleetRows) -> Reply {
    if caller.role == Role::Stats {
        // A PRAGMA that the user sent, unlike the one of `SHOW DATABASES`.
        if names(text).first().is_some_and(|first| first == "pragma") {
            return Reply::error("Command not allowed");
        }
        // For statistics users the statistics tables are in `main`; tools use both names.
        return on_figures(parts, caller, requalify(text, "stats", "main").into_owned(), fleet);
    }
    if stats::resets(text)
        && let Err(refusal) = parts.store.check(text)
    {
        return Reply::Refused(refusal);
    }
    let taken = match stats::fill(parts.store, parts.runtime, parts.nodes, text) {
        Ok(taken) => taken,
        Err(refusal) => return Reply::Refused(refusal),
    };
    let filled =
        refresh_runtime(parts, text).and_then(|()| fleet.fill(parts.store, parts.runtime, parts.nodes));
    let mut answer = filled.and_then(|()| parts.store.sql(text));
    if let Ok(Answer::Rows(set)) = &mut answer {
        set.warnings = fleet.warnings();
    }
    match &answer {
        Ok(_) => taken.told(),
        Err(_) => taken.give_back(parts.runtime.observer().as_ref()),
    }
    stats::empty(parts.store, parts.runtime, text);
    stats::fleet::empty(parts.store, parts.runtime, text);
    answer.into()
}

/// Narrows' own SQL about the tables themselves: it reads no rows, so none are filled.
pub fn catalog_sql(parts: &mut Parts<'_>, caller: &Caller, text: String) -> Reply {
    match caller.role {
        Role::Admin => parts.store.sql(&text).into(),
        Role::Stats => match parts.store.snapshot(&text) {
            Ok(snapshot) => {
                let taken = Taken::default();
                let warnings = Vec::new();
                Reply::OnFigures(Box::new(Question::Answer { snapshot, text, taken, warnings }))
            }
            Err(refusal) => Reply::Refused(refusal),
        },
    }
}

/// Leaves the SQL of a statistics user to another thread, so that nobody waits for it.
fn on_figures(parts: &mut Parts<'_>, caller: &Caller, text: String, fleet: &FleetRows) -> Reply {
    let is_check = stats::resets(&text) && !caller.is_checked;
    let taken = match is_check {
        true => Ok(Taken::default()),
        false => stats::fill(parts.store, parts.runtime, parts.nodes, &text),
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(refusal) => return Reply::Refused(refusal),
    };
    let filled = fleet.fill(parts.store, parts.runtime, parts.nodes);
    let snapshot = filled.and_then(|()| parts.store.snapshot(&text));
    stats::empty(parts.store, parts.runtime, &text);
    stats::fleet::empty(parts.store, parts.runtime, &text);
    match snapshot {
        Ok(snapshot) if is_check => Reply::OnFigures(Box::new(Question::Check { snapshot, text })),
        Ok(snapshot) => {
            let warnings = fleet.warnings();
            Reply::OnFigures(Box::new(Question::Answer { snapshot, text, taken, warnings }))
        }
        Err(refusal) => {
            taken.give_back(parts.runtime.observer().as_ref());
            Reply::Refused(refusal)
        }
    }
}

/// Fills the runtime tables that `text` names, with the current state of servers.
fn refresh_runtime(parts: &mut Parts<'_>, text: &str) -> Result<(), Refusal> {
    parts.store.refresh_runtime(text)?;
    let names = |table: &str| text.to_ascii_lowercase().contains(table);
    if names(stats::SCHEDULER_RUNS) {
        parts
            .store
            .refill(&format!("main.{}", stats::SCHEDULER_RUNS), stats::scheduler_runs(parts.runtime))?;
    }
    match parts.runtime.observer() {
        Some(observer) if names("runtime_mysql_servers") => {
            parts.store.show_statuses(&stats::statuses(&observer))
        }
        _ => Ok(()),
    }
}

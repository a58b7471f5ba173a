//! Interprets statements: commands by their patterns, and everything else as SQL.
//!
//! Each file has the commands of one verb, as rows; a command gets the [`Parts`] that it works on, and the statement
//! with its user as a [`Call`].

mod canned;
mod change_rows;
mod checksum;
mod eventslog;
mod fleet;
mod help;
mod hold;
mod kill;
mod load;
mod managed;
mod operate;
mod plan;
mod proxysql;
mod route;
mod set;
mod show;
mod sql;
mod switchover;
mod verb;
mod versions;

use std::time::Instant;

use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::{Statement, captures};
use crate::store::Answer;
pub use eventslog::{DumpTarget, dump as dump_events};
pub use load::direction;
pub use proxysql::flush_logs;
pub use verb::{Call, Parts, Verb, Who};

/// Every command, in the order in which patterns are tried.
pub fn verbs() -> impl Iterator<Item = &'static Verb> {
    [canned::VERBS, set::IGNORED, set::IGNORED_OF_ADMINS].into_iter().flatten().chain(for_operators())
}

/// Those that operators use, without what only drivers and tools send.
fn for_operators() -> impl Iterator<Item = &'static Verb> + Clone {
    let families = [
        set::VERBS,
        load::VERBS,
        show::VERBS,
        proxysql::VERBS,
        kill::VERBS,
        hold::VERBS,
        switchover::VERBS,
        versions::VERBS,
        managed::VERBS,
        fleet::VERBS,
        plan::VERBS,
        checksum::VERBS,
        operate::VERBS,
        eventslog::VERBS,
        route::VERBS,
        help::VERBS,
    ];
    families.into_iter().flatten()
}

/// The commands of operators as typed, who may use each, and what it does, for documentation.
pub fn documented() -> impl Iterator<Item = (String, Who, &'static str)> {
    for_operators().flat_map(|verb| -> Vec<(String, Who, &'static str)> {
        match verb.pattern == load::BETWEEN_LAYERS {
            true => load::moves_of_any().map(|(command, doc)| (command, verb.who, doc)).collect(),
            false => vec![(verb.pattern.to_owned(), verb.who, verb.doc)],
        }
    })
}

/// Answers a statement.
pub fn answer(parts: &mut Parts<'_>, caller: &Caller, statement: &Statement<'_>, since: Instant) -> Reply {
    for verb in verbs().filter(|verb| verb.who.includes(caller.role)) {
        if let Some(words) = captures(verb.pattern, &statement.plain) {
            let call = Call { caller, statement, words, since, is_first: caller.is_first };
            if let Some(reply) = (verb.run)(parts, &call) {
                return reply;
            }
        }
    }
    match sql::typed_sql(parts, caller, statement.sql, since) {
        Reply::Refused(refusal) => Reply::Refused(help::with_hint(refusal, caller.role, &statement.plain)),
        reply => reply,
    }
}

/// Whether a statement reads the warnings of the previous one, which are then kept.
pub fn asks_for_warnings(text: &[u8], reply: &Reply) -> bool {
    if !matches!(reply, Reply::Answer(Answer::Rows(_))) {
        return false;
    }
    let start: String = text.iter().take(40).map(|byte| char::from(*byte).to_ascii_uppercase()).collect();
    let mut words = start.split([' ', '\t', '\n', '\r', ';']).filter(|word| !word.is_empty());
    (words.next(), words.next()) == (Some("SHOW"), Some("WARNINGS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_fits_what_it_says() {
        for verb in verbs() {
            let pattern = verb.pattern.strip_suffix('*').unwrap_or(verb.pattern);
            let typed = pattern.replace('<', "x").replace("...>", "").replace('>', "");
            let typed: Vec<&str> =
                typed.split(' ').map(|word| word.split('|').next().unwrap_or_default()).collect();
            assert!(captures(verb.pattern, &typed.join(" ")).is_some(), "{}", verb.pattern);
            assert!(verb.doc.ends_with('.'), "{}", verb.pattern);
        }
    }
}

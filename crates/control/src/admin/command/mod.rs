//! What statements mean: commands by their patterns, and everything else is SQL.

mod canned;
mod checksum;
mod kill;
mod load;
mod operate;
mod proxysql;
mod route;
mod set;
mod show;

use std::time::Instant;

use super::Caller;
use super::answer::Reply;
use super::statement::{Statement, captures, requalify};
use super::stats;
use crate::control::Control;
use crate::store::{Answer, Refusal, Role};
pub use load::direction;

/// A command.
pub struct Verb {
    /// What is typed; see [`captures`].
    pub pattern: &'static str,
    /// Who may. To others it is no command but bad SQL.
    pub who: Who,
    /// Carries it out; `None`: it was none after all.
    pub run: fn(&mut Control, &Call<'_>) -> Option<Reply>,
    /// What it does, for operators.
    pub doc: &'static str,
}

/// Who may use a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Full users.
    Admin,
    /// Users of statistics too.
    Everybody,
}

impl Who {
    fn includes(self, role: Role) -> bool {
        self == Who::Everybody || role == Role::Admin
    }
}

/// A command as it was typed.
pub struct Call<'a> {
    /// Who typed it.
    pub caller: &'a Caller,
    /// The statement.
    pub statement: &'a Statement<'a>,
    /// What the holes of the pattern hold.
    pub words: Vec<&'a str>,
    /// When it came.
    pub since: Instant,
}

impl<'a> Call<'a> {
    /// What the hole of that number holds; empty where there is none.
    pub fn word(&self, index: usize) -> &'a str {
        self.words.get(index).copied().unwrap_or_default()
    }
}

/// Every command, in the order in which patterns are tried.
pub fn verbs() -> impl Iterator<Item = &'static Verb> {
    let families = [
        canned::VERBS,
        set::IGNORED,
        set::IGNORED_OF_ADMINS,
        set::VERBS,
        load::VERBS,
        show::VERBS,
        proxysql::VERBS,
        kill::VERBS,
        checksum::VERBS,
        operate::VERBS,
        route::VERBS,
    ];
    families.into_iter().flatten()
}

/// Answers a statement.
pub fn answer(control: &mut Control, caller: &mut Caller, text: &[u8], since: Instant) -> Reply {
    let reply = match std::str::from_utf8(text) {
        Ok(text) => {
            let statement = Statement::new(text);
            let before = control.before(caller, &statement);
            let reply = dispatch(control, caller, &statement, since);
            control.after(caller, &statement, before, &reply);
            reply
        }
        Err(error) => {
            let message = format!("Invalid utf8 character string: byte {}", error.valid_up_to() + 1);
            Reply::refused(1300, "HY000", message)
        }
    };
    let asks_for_warnings = matches!(&reply, Reply::Answer(Answer::Rows(_))) && is_diagnostic(text);
    if !asks_for_warnings {
        caller.warnings = match &reply {
            Reply::Answer(Answer::Done { warnings, .. }) => warnings.clone(),
            _ => Vec::new(),
        };
    }
    reply
}

/// Whether a statement asks about the one before it, and so leaves what is known of that.
fn is_diagnostic(text: &[u8]) -> bool {
    let start: String = text.iter().take(40).map(|byte| char::from(*byte).to_ascii_uppercase()).collect();
    let mut words = start.split([' ', '\t', '\n', '\r', ';']).filter(|word| !word.is_empty());
    (words.next(), words.next()) == (Some("SHOW"), Some("WARNINGS"))
}

fn dispatch(control: &mut Control, caller: &Caller, statement: &Statement<'_>, since: Instant) -> Reply {
    for verb in verbs().filter(|verb| verb.who.includes(caller.role)) {
        if let Some(words) = captures(verb.pattern, &statement.plain) {
            let call = Call { caller, statement, words, since };
            if let Some(reply) = (verb.run)(control, &call) {
                return reply;
            }
        }
    }
    sql(control, caller.role, statement.sql)
}

/// SQL, with the tables that it names filled before.
pub fn sql(control: &mut Control, role: Role, text: &str) -> Reply {
    let requalified;
    let text = match role {
        Role::Admin => text,
        Role::Stats => {
            let first = text.split_ascii_whitespace().next().unwrap_or_default();
            if first.eq_ignore_ascii_case("PRAGMA") {
                return Reply::error("Command not allowed");
            }
            // The tables of figures are in `main` for users of statistics; tools call them by both names.
            requalified = requalify(text, "stats", "main");
            &requalified
        }
    };
    let taken = match stats::fill(control, role, text) {
        Ok(taken) => taken,
        Err(refusal) => return Reply::Refused(refusal),
    };
    let answer = refresh_runtime(control, text).and_then(|()| control.store.sql(role, text));
    match &answer {
        Ok(_) => taken.told(),
        Err(_) => taken.give_back(control),
    }
    stats::empty(control, text);
    answer.into()
}

/// Fills the tables of what is running that `text` names, servers with what has become of them.
fn refresh_runtime(control: &mut Control, text: &str) -> Result<(), Refusal> {
    control.store.refresh_runtime(text)?;
    match control.observer() {
        Some(observer) if text.to_ascii_lowercase().contains("runtime_mysql_servers") => {
            control.store.show_statuses(&stats::statuses(&observer))
        }
        _ => Ok(()),
    }
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

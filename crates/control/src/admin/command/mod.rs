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
use super::readers::Question;
use super::statement::{Statement, captures, names, requalify};
use super::stats::{self, Taken};
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
    sql(control, caller, statement.sql)
}

/// SQL, with the tables that it names filled before.
pub fn sql(control: &mut Control, caller: &Caller, text: &str) -> Reply {
    if caller.role == Role::Stats {
        // What they ask for themselves: `SHOW DATABASES` is the one that is asked for them.
        if names(text).first().is_some_and(|first| first == "pragma") {
            return Reply::error("Command not allowed");
        }
        // The tables of figures are in `main` for users of statistics; tools call them by both names.
        return on_figures(control, caller, &requalify(text, "stats", "main"));
    }
    sql_of_full_users(control, text)
}

/// SQL on all tables.
pub fn sql_of_full_users(control: &mut Control, text: &str) -> Reply {
    if stats::resets(text)
        && let Err(refusal) = control.store.check(text)
    {
        return Reply::Refused(refusal);
    }
    let taken = match stats::fill(control, text) {
        Ok(taken) => taken,
        Err(refusal) => return Reply::Refused(refusal),
    };
    let answer = refresh_runtime(control, text).and_then(|()| control.store.sql(text));
    match &answer {
        Ok(_) => taken.told(),
        Err(_) => taken.give_back(control),
    }
    stats::empty(control, text);
    answer.into()
}

/// SQL of Narrows that names no tables of figures.
fn own_sql(control: &mut Control, caller: &Caller, text: &str) -> Reply {
    match caller.role {
        Role::Admin => control.store.sql(text).into(),
        Role::Stats => on_figures(control, caller, text),
    }
}

/// SQL of a user of statistics: it is not carried out here, where others would wait for it.
fn on_figures(control: &mut Control, caller: &Caller, text: &str) -> Reply {
    let is_check = stats::resets(text) && !caller.is_checked;
    let taken = match is_check {
        true => Ok(Taken::default()),
        false => stats::fill(control, text),
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(refusal) => return Reply::Refused(refusal),
    };
    let snapshot = control.store.snapshot(text);
    stats::empty(control, text);
    let text = text.to_owned();
    match snapshot {
        Ok(snapshot) if is_check => Reply::OnFigures(Box::new(Question::Check { snapshot, text })),
        Ok(snapshot) => Reply::OnFigures(Box::new(Question::Answer { snapshot, text, taken })),
        Err(refusal) => {
            taken.give_back(control);
            Reply::Refused(refusal)
        }
    }
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

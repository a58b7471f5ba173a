//! HELP, what Narrows does not do, and what a mistyped command may have meant.

use super::verb::{Call, Parts, Verb, Who};
use super::{for_operators, load};
use crate::admin::reply::Reply;
use crate::admin::statement::unquoted;
use crate::config::nearest::nearest;
use crate::effect::Effect;
use crate::schema::{self, Database};
use crate::store::{Refusal, Role};
use crate::without_effect::{self, Idle};

pub const VERBS: &[Verb] = &[
    Verb { pattern: "HELP", who: Who::Everybody, run: help, doc: "All commands that you may use." },
    Verb {
        pattern: "HELP <words...>",
        who: Who::Everybody,
        run: help,
        doc: "The commands that have all of these words, as in `HELP LOAD USERS`.",
    },
    Verb {
        pattern: "SHOW NARROWS LIMITATIONS",
        who: Who::Everybody,
        run: limitations,
        doc: "What Narrows does not do, and every setting without effect.",
    },
];

/// What Narrows does not do, as README.md says at greater length.
const NOT_DONE: &[(&str, &str)] = &[
    (
        "failover",
        "Narrows follows a failover, and runs a switchover that is asked for; it promotes no server by itself.",
    ),
    ("SQL injection", "It is not detected."),
    ("background mode", "Narrows stays in the foreground; run it with systemd, or in a container."),
];

fn help(_: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let asked = unquoted(call.word(0)).to_ascii_uppercase();
    let words: Vec<&str> = asked.split_whitespace().collect();
    let is_asked = |command: &str| {
        let command = command.to_ascii_uppercase();
        words.iter().all(|word| command.contains(word))
    };
    let rows = commands(call.caller.role)
        .filter(|(command, _)| is_asked(command))
        .map(|(command, doc)| vec![command, doc.to_owned()])
        .collect();
    Some(Reply::rows(["Command", "What it does"], rows))
}

/// The commands that a user may use, as typed, with what they do.
fn commands(role: Role) -> impl Iterator<Item = (String, &'static str)> {
    let verbs = for_operators().filter(move |verb| verb.who.includes(role));
    let is_of_modules = |verb: &&Verb| verb.pattern == load::BETWEEN_LAYERS;
    let rows = verbs.clone().filter(move |verb| !is_of_modules(verb));
    let rows = rows.map(|verb| (verb.pattern.to_owned(), verb.doc));
    let of_modules = verbs.filter(is_of_modules).flat_map(|_| load::moves());
    rows.chain(of_modules)
}

fn limitations(_: &mut Parts<'_>, _: &Call<'_>) -> Option<Reply> {
    let row = |kind: &str, name: &str, text: &str| vec![kind.to_owned(), name.to_owned(), text.to_owned()];
    let not_done = NOT_DONE.iter().map(|(name, text)| row("not done", name, text));
    let idle = |kind: &'static str, all: Vec<Idle>| {
        let lacking = |idle: Idle| {
            let text = idle.effect.lacking().unwrap_or_default();
            row(kind, &idle.name, &text)
        };
        let unmet = all.into_iter().filter(|idle| idle.effect == Effect::NotYet);
        unmet.map(lacking).collect::<Vec<_>>()
    };
    let rows = not_done
        .chain(idle("table", without_effect::tables()))
        .chain(idle("column", without_effect::columns()))
        .chain(idle("variable", without_effect::variables()))
        .collect();
    Some(Reply::rows(["Kind", "Name", "Limitation"], rows))
}

/// Adds to the error of a statement what it may have meant: another command, or another table.
pub fn with_hint(mut refusal: Refusal, role: Role, plain: &str) -> Refusal {
    let table = refusal.message.split_once("no such table: ").map(|(_, table)| table);
    let meant = match table {
        Some(table) => nearest_table(table),
        None if refusal.message.ends_with("syntax error") => nearest_command(role, plain),
        None => None,
    };
    if let Some(meant) = meant {
        refusal.message.push_str(&format!("; did you mean {meant}?"));
    }
    refusal
}

fn nearest_table(table: &str) -> Option<String> {
    let databases = [Database::Main, Database::Stats, Database::Monitor, Database::StatsHistory];
    let of = |database| schema::tables().flat_map(move |table| table.names_in(database));
    let names: Vec<String> = databases.into_iter().flat_map(of).collect();
    nearest(table, names.iter().map(String::as_str)).map(str::to_owned)
}

/// The command that `plain` misspells, or the ones that it begins.
fn nearest_command(role: Role, plain: &str) -> Option<String> {
    let typed: Vec<&str> = plain.split(' ').collect();
    // What is open at its end resembles anything.
    let closed = commands(role).filter(|(command, _)| !command.ends_with("...>"));
    let all: Vec<String> = closed.flat_map(|(command, _)| spellings(&command, &typed)).collect();
    if all.iter().any(|command| command.eq_ignore_ascii_case(plain)) {
        return None;
    }
    let begun = format!("{} ", plain.to_ascii_uppercase());
    let mut longer: Vec<&str> = all.iter().map(String::as_str).filter(|it| it.starts_with(&begun)).collect();
    longer.sort_by_key(|command| command.len());
    longer.dedup();
    longer.truncate(MOST_ENDINGS);
    match longer.is_empty() {
        true => nearest(plain, all.iter().map(String::as_str)).map(str::to_owned),
        false => Some(longer.join(", or ")),
    }
}

/// A command with each of its alternatives, and with what was typed in the place of each name.
fn spellings(command: &str, typed: &[&str]) -> Vec<String> {
    let mut all = vec![String::new()];
    for (index, element) in command.trim_end_matches('*').split(' ').enumerate() {
        let words: Vec<&str> = match element.starts_with('<') {
            true => vec![typed.get(index).copied().unwrap_or(element)],
            false => element.split('|').collect(),
        };
        let longer = |begun: &String| {
            let join =
                |word: &&str| if begun.is_empty() { (*word).to_owned() } else { format!("{begun} {word}") };
            words.iter().map(join).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// How many commands a hint names.
const MOST_ENDINGS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(plain: &str) -> Option<String> {
        nearest_command(Role::Admin, plain)
    }

    #[test]
    fn a_misspelt_command_is_recognised() {
        for (typed, meant) in [
            ("LOAD MYSQL USERS TO RUNTMIE", "LOAD MYSQL USERS TO RUNTIME"),
            ("LAOD MYSQL SERVERS TO RUNTIME", "LOAD MYSQL SERVERS TO RUNTIME"),
            ("SAVE MYSQL QUERY RULE TO DISK", "SAVE MYSQL QUERY RULES TO DISK"),
            ("show mysql varables", "SHOW MYSQL VARIABLES"),
            ("KILL QEURY 12", "KILL QUERY 12"),
            ("SHOW PROCESLIST", "SHOW PROCESSLIST"),
        ] {
            assert_eq!(hint(typed).as_deref(), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_command_that_is_not_complete_is_continued() {
        assert!(hint("SAVE MYSQL SERVERS").unwrap().contains("SAVE MYSQL SERVERS TO DISK"));
        assert_eq!(hint("SHOW CREATE").as_deref(), Some("SHOW CREATE TABLE <table>"));
    }

    #[test]
    fn nothing_is_made_up() {
        for typed in [
            "",
            "x",
            "FROBNICATE ALL",
            "SHOW ENGINES",
            "TRUNCATE mysql_users",
            "SELECT FROM WHERE",
            &"LOAD ".repeat(1000),
        ] {
            assert_eq!(hint(typed), None, "{typed}");
        }
    }

    #[test]
    fn a_misspelt_table_is_recognised() {
        assert_eq!(nearest_table("mysql_server").as_deref(), Some("mysql_servers"));
        assert_eq!(nearest_table("stats.stats_mysql_qurey_digest"), None);
        assert_eq!(nearest_table("stats_mysql_qurey_digest").as_deref(), Some("stats_mysql_query_digest"));
        assert_eq!(nearest_table("invoices"), None);
    }
}

//! LOAD and SAVE: moves configuration between file, disk, memory and runtime.

use std::io;
use std::path::Path;

use narrows_proxy::stats::{Take, wait};

use super::sql::sql;
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::unquoted;
use crate::files;
use crate::schema::{self, Database, Layer, MODULES, Module};
use crate::store::Store;
use crate::versions::VersionSource;

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "LOAD MYSQL USER <name> TO RUNTIME",
        who: Who::Admin,
        run: load_user,
        doc: "Loads one user from memory to runtime, and leaves the others unchanged.",
    },
    Verb {
        pattern: "SAVE MYSQL DIGEST TO DISK",
        who: Who::Admin,
        run: |parts, call| Some(save_digests(parts, call.caller)),
        doc: "Saves the digests to `stats_history`, then resets them.",
    },
    Verb {
        pattern: BETWEEN_LAYERS,
        who: Who::Admin,
        run: between_layers,
        doc: "`LOAD module TO RUNTIME`, `SAVE module TO DISK` and so on: configuration from one layer to another.",
    },
    Verb {
        pattern: "SAVE CONFIG TO FILE",
        who: Who::Admin,
        run: |_, _| Some(Reply::error("empty file name")),
        doc: "Needs a file name.",
    },
    Verb {
        pattern: "SAVE CONFIG TO FILE <path...>",
        who: Who::Admin,
        run: |parts, call| {
            let path = &*unquoted(call.word(0));
            let written = write_config(parts.store, path);
            Some(written.map_or_else(|reply| reply, |_| Reply::done(0, &format!("File {path} is saved."))))
        },
        doc: "Writes memory as a configuration file.",
    },
    Verb {
        pattern: "SELECT CONFIG INTO OUTFILE <path...>",
        who: Who::Admin,
        run: |parts, call| {
            let path = &*unquoted(call.word(0));
            let saved = |bytes| Reply::done(bytes as u64, &format!("File {path} is saved."));
            Some(write_config(parts.store, path).map_or_else(|reply| reply, saved))
        },
        doc: "Writes memory as a configuration file; the answer counts the bytes.",
    },
    Verb {
        pattern: "SELECT CONFIG FILE",
        who: Who::Admin,
        run: |parts, _| {
            Some(match parts.store.config_text() {
                Ok(text) => Reply::rows(["Data"], vec![vec![text]]),
                Err(refusal) => Reply::Refused(refusal),
            })
        },
        doc: "Shows memory as a configuration file.",
    },
];

/// The pattern of all commands that move a module from one layer to another; [`moves`] has them one by one.
pub const BETWEEN_LAYERS: &str = "LOAD|SAVE <module...>";

/// Every command that moves a module from one layer to another, and what it does.
pub fn moves() -> impl Iterator<Item = (String, &'static str)> {
    let of = |module: Module| {
        let command = move |(verb, direction, from, to): &(&str, &str, Layer, Layer)| {
            (format!("{verb} {} {direction}", module.name()), what_moves(*from, *to))
        };
        DIRECTIONS.iter().map(command)
    };
    MODULES.into_iter().flat_map(of)
}

/// The same for any module, for documentation.
pub fn moves_of_any() -> impl Iterator<Item = (String, &'static str)> {
    let command = |(verb, direction, from, to): &(&str, &str, Layer, Layer)| {
        (format!("{verb} <module> {direction}"), what_moves(*from, *to))
    };
    DIRECTIONS.iter().map(command)
}

fn what_moves(from: Layer, to: Layer) -> &'static str {
    match (from, to) {
        (Layer::Memory, Layer::Runtime) => "Puts what was edited into effect.",
        (Layer::Memory, Layer::Disk) => "Keeps what was edited for the next start.",
        (Layer::Runtime, _) => "Discards what was edited: memory is again what runs.",
        (Layer::ConfigFile, _) => "Reads the configuration file into memory.",
        _ => "Discards what was edited: memory is again what is on disk.",
    }
}

/// ProxySQL modules that do not exist here: loading them succeeds and does nothing.
const NOTHING_THERE: &[&str] = &["CLICKHOUSE VARIABLES", "SQLITESERVER VARIABLES", "COREDUMP"];

/// The directions of LOAD and SAVE as typed, with their layers.
const DIRECTIONS: &[(&str, &str, Layer, Layer)] = &[
    ("LOAD", "TO MEMORY", Layer::Disk, Layer::Memory),
    ("LOAD", "TO MEM", Layer::Disk, Layer::Memory),
    ("LOAD", "FROM DISK", Layer::Disk, Layer::Memory),
    ("LOAD", "FROM CONFIG", Layer::ConfigFile, Layer::Memory),
    ("LOAD", "FROM MEMORY", Layer::Memory, Layer::Runtime),
    ("LOAD", "FROM MEM", Layer::Memory, Layer::Runtime),
    ("LOAD", "TO RUNTIME", Layer::Memory, Layer::Runtime),
    ("LOAD", "TO RUN", Layer::Memory, Layer::Runtime),
    ("SAVE", "FROM MEMORY", Layer::Memory, Layer::Disk),
    ("SAVE", "FROM MEM", Layer::Memory, Layer::Disk),
    ("SAVE", "TO DISK", Layer::Memory, Layer::Disk),
    ("SAVE", "TO MEMORY", Layer::Runtime, Layer::Memory),
    ("SAVE", "TO MEM", Layer::Runtime, Layer::Memory),
    ("SAVE", "FROM RUNTIME", Layer::Runtime, Layer::Memory),
    ("SAVE", "FROM RUN", Layer::Runtime, Layer::Memory),
];

fn between_layers(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let (plain, comment) = without_comment(&call.statement.plain);
    let upper = plain.to_ascii_uppercase();
    let (verb, rest) = upper.split_once(' ')?;
    let (from, to, module) = layers(verb, rest)?;
    if NOTHING_THERE.contains(&module) {
        let is_coredump = module == "COREDUMP";
        return (!is_coredump || (from, to) == (Layer::Memory, Layer::Runtime)).then(Reply::ok);
    }
    let module = MODULES.into_iter().find(|known| known.name() == module)?;
    Some(match (from, to) {
        (Layer::Memory, Layer::Runtime) => {
            let origin = call.origin(VersionSource::Load, comment.unwrap_or_default());
            parts.runtime.load(parts.store, module, &origin)
        }
        _ => parts.store.copy(module, from, to).into(),
    })
}

/// A command, and the comment after it: it becomes that of the version that the command makes.
fn without_comment(plain: &str) -> (&str, Option<&str>) {
    let comment = plain.strip_suffix("*/").and_then(|text| text.rsplit_once("/*"));
    match comment {
        Some((command, comment)) => (command.trim_end(), Some(comment.trim())),
        None => (plain, None),
    }
}

/// The layers as typed, and the module as typed.
fn layers<'a>(verb: &str, rest: &'a str) -> Option<(Layer, Layer, &'a str)> {
    DIRECTIONS.iter().find_map(|(wanted, direction, from, to)| {
        let module = rest.strip_suffix(direction)?.strip_suffix(' ')?;
        (*wanted == verb).then_some((*from, *to, module))
    })
}

/// The source, the destination and the module of a LOAD or SAVE.
pub fn direction(plain: &str) -> Option<(Layer, Layer, Module)> {
    let upper = without_comment(plain).0.to_ascii_uppercase();
    let (verb, rest) = upper.split_once(' ')?;
    let (from, to, module) = layers(verb, rest)?;
    let is_user = module.starts_with("MYSQL USER ");
    let module =
        if is_user { Some(Module::MysqlUsers) } else { MODULES.into_iter().find(|it| it.name() == module) };
    Some((from, to, module?))
}

fn load_user(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let name = call.word(0);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '_' | '-'));
    Some(if is_name {
        parts.runtime.load_user(parts.store, name, &call.origin(VersionSource::Load, ""))
    } else {
        Reply::error(format!("Invalid name {name}"))
    })
}

/// `SAVE MYSQL DIGEST TO DISK`
fn save_digests(parts: &mut Parts<'_>, caller: &Caller) -> Reply {
    let table = schema::find(Database::StatsHistory, "history_mysql_query_digest").expect("a table of ours");
    let columns: Vec<&str> = table.columns().collect();
    let insert = format!(
        "INSERT INTO stats_history.history_mysql_query_digest ({}) SELECT CAST(strftime('%s','now') AS INT), * \
         FROM stats.stats_mysql_query_digest_reset",
        schema::listed(&columns)
    );
    let digests = parts.runtime.observer().map_or(0, |observer| wait(observer.digests(Take::Copy)).len());
    if digests == 0 {
        return Reply::ok();
    }
    sql(parts, caller, &insert)
}

/// Writes memory as a configuration file; returns its length in bytes.
///
/// # Errors
/// The answer with the reason.
fn write_config(store: &mut Store, path: &str) -> Result<usize, Reply> {
    if store.is_owner(Path::new(path)) {
        let owned = store.ownership().names();
        return Err(Reply::error(format!("{path} is not written: it owns {owned} (managed)")));
    }
    let text = store.config_text().map_err(Reply::Refused)?;
    // It contains passwords: only the owner can read a new file.
    match files::replace(Path::new(path), text.as_bytes(), 0o600) {
        Ok(()) => Ok(text.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Reply::error(format!("Cannot open file {path}")))
        }
        Err(error) => {
            tracing::error!(path, %error, "cannot write the configuration file");
            Err(Reply::error(format!("Cannot open file {path}: {error}; its content is unchanged")))
        }
    }
}

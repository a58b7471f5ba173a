//! LOAD and SAVE: configuration between file, disk, memory and what runs.

use super::{Call, Reply, Verb, Who};
use crate::control::Control;
use crate::schema::{Layer, MODULES, Module};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "LOAD MYSQL USER <name> TO RUNTIME",
        who: Who::Admin,
        run: load_user,
        doc: "Takes one user of memory into force, and leaves the others as they are.",
    },
    Verb {
        pattern: "LOAD|SAVE <module...>",
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
        run: |control, call| {
            let path = call.word(0);
            let written = control.write_config(path);
            Some(written.map_or_else(|reply| reply, |_| Reply::done(0, &format!("File {path} is saved."))))
        },
        doc: "Writes memory as a configuration file.",
    },
    Verb {
        pattern: "SELECT CONFIG INTO OUTFILE <path...>",
        who: Who::Admin,
        run: |control, call| {
            let path = call.word(0);
            let saved = |bytes| Reply::done(bytes as u64, &format!("File {path} is saved."));
            Some(control.write_config(path).map_or_else(|reply| reply, saved))
        },
        doc: "The same; the answer counts the bytes.",
    },
    Verb {
        pattern: "SELECT CONFIG FILE",
        who: Who::Admin,
        run: |control, _| {
            Some(match control.store.config_text() {
                Ok(text) => Reply::rows(["Data"], vec![vec![text]]),
                Err(refusal) => Reply::Refused(refusal),
            })
        },
        doc: "Shows memory as a configuration file.",
    },
];

/// Modules of ProxySQL that there is nothing of here: loading nothing is no error.
const NOTHING_THERE: &[&str] = &["CLICKHOUSE VARIABLES", "SQLITESERVER VARIABLES", "COREDUMP"];

/// Directions as they are typed.
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

fn between_layers(control: &mut Control, call: &Call<'_>) -> Option<Reply> {
    let upper = call.statement.plain.to_ascii_uppercase();
    let (verb, rest) = upper.split_once(' ')?;
    if (verb, rest) == ("SAVE", "MYSQL DIGEST TO DISK") {
        return Some(control.save_digests());
    }
    let (from, to, module) = layers(verb, rest)?;
    if NOTHING_THERE.contains(&module) {
        let is_coredump = module == "COREDUMP";
        return (!is_coredump || (from, to) == (Layer::Memory, Layer::Runtime)).then(Reply::ok);
    }
    let module = MODULES.into_iter().find(|known| known.name() == module)?;
    Some(match (from, to) {
        (Layer::Memory, Layer::Runtime) => control.load(module),
        _ => control.store.copy(module, from, to).into(),
    })
}

/// The layers that are typed, and what is typed for the module.
fn layers<'a>(verb: &str, rest: &'a str) -> Option<(Layer, Layer, &'a str)> {
    DIRECTIONS.iter().find_map(|(wanted, direction, from, to)| {
        let module = rest.strip_suffix(direction)?.strip_suffix(' ')?;
        (*wanted == verb).then_some((*from, *to, module))
    })
}

/// What a LOAD or SAVE moves, from where, and where to.
pub fn direction(plain: &str) -> Option<(Layer, Layer, Module)> {
    let upper = plain.to_ascii_uppercase();
    let (verb, rest) = upper.split_once(' ')?;
    let (from, to, module) = layers(verb, rest)?;
    let is_user = module.starts_with("MYSQL USER ");
    let module =
        if is_user { Some(Module::MysqlUsers) } else { MODULES.into_iter().find(|it| it.name() == module) };
    Some((from, to, module?))
}

fn load_user(control: &mut Control, call: &Call<'_>) -> Option<Reply> {
    let name = call.word(0);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '_' | '-'));
    Some(if is_name { control.load_user(name) } else { Reply::error(format!("Invalid name {name}")) })
}

//! Compares the declared effects of settings with the sources: a setting with an effect is read somewhere, the others
//! nowhere.

use std::path::{Path, PathBuf};

use narrows_proxy::snapshot::{HOSTGROUP_KEYS, RULE_KEYS, SERVERS_DEFAULTS_KEYS, USER_KEYS};

use super::*;
use crate::variables::{Kind, Reader};

/// Sources of the program without their tests, below the folder `crates`, each with its path.
fn sources(crates: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = crates.iter().map(|name| root.join(name).join("src")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "probes.rs" {
                found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 50);
    found
}

/// Whether `text` reads a field of that name: it follows a dot, and nothing is assigned to it.
fn reads(text: &str, field: &str) -> bool {
    let dotted = format!(".{field}");
    text.match_indices(&dotted).any(|(at, _)| {
        let behind = &text[at + dotted.len()..];
        let is_longer = behind.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let assigned = behind.trim_start();
        let is_assigned = assigned.starts_with('=') && !assigned.starts_with("==");
        !is_longer && !is_assigned
    })
}

#[test]
fn a_variable_is_read_by_name_where_its_row_says_so_and_nowhere_else() {
    // These two only describe the form of values.
    let about_form = ["variables/table.rs", "variables/adopt.rs"];
    let sources = sources(&["control"]);
    let others: Vec<&String> = sources
        .iter()
        .filter(|(path, _)| !about_form.iter().any(|end| path.ends_with(end)))
        .map(|(_, text)| text)
        .collect();
    for variable in VARIABLES.iter().filter(|variable| !matches!(variable.kind, Kind::Fixed { .. })) {
        let quoted = format!("\"{}\"", variable.name);
        let is_named = others.iter().any(|text| text.contains(&quoted));
        match variable.reader {
            Reader::Name => assert!(is_named, "{} is read by nobody", variable.name),
            Reader::Nobody | Reader::Needless(_) => assert!(!is_named, "{} has an effect", variable.name),
            _ => {}
        }
    }
}

#[test]
fn every_value_that_the_data_plane_and_the_monitor_are_given_is_read() {
    let sources = sources(&["proxy", "control"]);
    // A row of the data plane's variables, and a field of the monitor's settings.
    let declared = |line: &str| {
        let (field, rest) = line.trim().split_once(": ")?;
        let is_row = rest.contains(" = ") && rest.contains("\"mysql-");
        is_row.then(|| field.to_owned())
    };
    let field = |line: &str| Some(line.trim().strip_prefix("pub ")?.split_once(':')?.0.to_owned());
    let variables = fields_of(&sources, "proxy/src/rows/variable_rows.rs", "macro_rules!", &declared);
    let settings =
        fields_of(&sources, "control/src/monitor/settings.rs", "pub struct MonitorSettings {", &field);
    assert!(variables.len() > 80 && settings.len() > 10, "{variables:?} {settings:?}");
    let is_declaration = |path: &Path| {
        let ends = ["rows/variable_rows.rs", "monitor/settings.rs", "variables/table.rs"];
        ends.iter().any(|end| path.ends_with(end))
    };
    for field in variables.iter().chain(&settings) {
        let mut readers = sources.iter().filter(|(path, _)| !is_declaration(path));
        assert!(readers.any(|(_, text)| reads(text, field)), "nobody reads {field}");
    }
}

/// The fields that a file declares, after `start` and up to the next brace at the beginning of a line.
fn fields_of(
    sources: &[(PathBuf, String)],
    file: &str,
    start: &str,
    field: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let (_, text) = sources.iter().find(|(path, _)| path.ends_with(file)).unwrap();
    let declared = text.split_once(start).unwrap().1.split_once("\n}").unwrap().0;
    declared.lines().filter_map(field).collect()
}

#[test]
fn a_column_that_nobody_reads_says_so() {
    // These only show rows.
    let shown = [
        "config/tables.rs",
        "config/checks.rs",
        "store/running.rs",
        "rules/rule.rs",
        "stats/route.rs",
        "stats/memory.rs",
    ];
    let sources = sources(&["proxy", "control"]);
    let (_, tables) = sources.iter().find(|(path, _)| path.ends_with("config/tables.rs")).unwrap();
    let (_, rules) = sources.iter().find(|(path, _)| path.ends_with("rules/columns.rs")).unwrap();
    let readers = |(path, _): &&(PathBuf, String)| !shown.iter().any(|end| path.ends_with(end));
    // Compiled rules have columns named after their actions.
    let compiled = ["negate_match_pattern", "re_modifiers"];
    let mut columns = 0;
    for line in tables.lines().filter(|line| line.starts_with("        ") && line.contains(", v| ")) {
        let Some((_, field)) = line.split_once(", v| ") else { continue };
        // The program reads the top-level keys.
        let Some(field) = field.strip_prefix("r.") else { continue };
        let field = field.split(' ').next().and_then(|field| field.rsplit('.').next()).unwrap();
        let idle = line.contains(").not_yet()") || line.contains(").needless(");
        if line.contains("\"Free text.\"") || line.contains("\"fingerprint\"") || compiled.contains(&field) {
            continue;
        }
        columns += 1;
        let is_read = sources.iter().filter(readers).any(|(_, text)| reads(text, field));
        // Those are compiled where they are declared.
        let condition = format!("{field}: Option<");
        let is_condition = rules.lines().any(|line| line.contains(&condition) && line.contains(", client: "));
        assert!(idle || is_read || is_condition, "nobody reads {field}");
    }
    assert!(columns > 70, "{columns}");
}

#[test]
fn keys_of_json_columns_are_read_where_it_is_said() {
    let sources = sources(&["proxy"]);
    // They are declared there.
    let readers = |(path, _): &&(PathBuf, String)| !path.ends_with("snapshot/attributes.rs");
    // These are only read there.
    let there = ["auto_read_write_split", "reader_hostgroup"];
    for key in [USER_KEYS, RULE_KEYS, HOSTGROUP_KEYS, SERVERS_DEFAULTS_KEYS].into_iter().flatten() {
        let quoted = format!("\"{}\"", key.name);
        let is_read = sources.iter().filter(readers).any(|(_, text)| text.contains(&quoted));
        assert!(is_read || there.contains(&key.name), "nobody reads {}", key.name);
    }
}

#[test]
fn tables_that_are_always_empty_are_filled_by_nobody() {
    let sources = sources(&["control"]);
    for table in schema::tables().filter(|table| {
        table
            .places
            .iter()
            .all(|(database, ..)| !matches!(database, schema::Database::Main | schema::Database::Disk))
    }) {
        let twins = || table.places.iter().map(|(_, before, after)| format!("{before}{}{after}", table.name));
        let is_in = |text: &str, name: &str| {
            text.contains(&format!("{name}\"")) || text.contains(&format!(".{name} "))
        };
        let names = |(path, text): &(PathBuf, String)| {
            let is_definition = path.to_string_lossy().contains("/schema/");
            !is_definition && twins().any(|name| is_in(text, &name))
        };
        let is_filled = sources.iter().any(names);
        let declared = schema::ALWAYS_EMPTY.contains(&table.name);
        assert_eq!(is_filled, !declared, "{}", table.name);
    }
    for (table, _) in schema::WITHOUT_EFFECT {
        assert!(schema::find(schema::Database::Main, table).is_some(), "{table}");
    }
}

//! Compares the declared effects of settings with the sources: a setting with an effect is read somewhere, the others
//! nowhere.

use std::path::{Path, PathBuf};

use narrows_proxy::snapshot::{HOSTGROUP_KEYS, RULE_KEYS, USER_KEYS};

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
    // Those two only describe the form of values.
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
    for (definition, structure) in [
        ("proxy/src/rows/variables.rs", "pub struct Variables {"),
        ("control/src/monitor/settings.rs", "pub struct MonitorSettings {"),
    ] {
        let (_, text) = sources.iter().find(|(path, _)| path.ends_with(definition)).unwrap();
        let fields = text.split_once(structure).unwrap().1.split_once("\n}").unwrap().0;
        let fields = fields.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
        let readers = |(path, _): &&(PathBuf, String)| {
            !path.ends_with(definition) && !path.ends_with("variables/table.rs")
        };
        for (field, _) in fields {
            let is_read = sources.iter().filter(readers).any(|(_, text)| reads(text, field));
            assert!(is_read, "{definition}: nobody reads {field}");
        }
    }
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
        let field = field.split(' ').next().unwrap();
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
    for key in [USER_KEYS, RULE_KEYS, HOSTGROUP_KEYS].into_iter().flatten() {
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
        let quoted = format!("{}\"", table.name);
        let names = |(path, text): &(PathBuf, String)| {
            let is_definition = path.to_string_lossy().contains("/schema/");
            !is_definition && (text.contains(&quoted) || text.contains(&format!(".{} ", table.name)))
        };
        let is_filled = sources.iter().any(names);
        let declared = schema::ALWAYS_EMPTY.contains(&table.name);
        assert_eq!(is_filled, !declared, "{}", table.name);
    }
    for (table, _) in schema::WITHOUT_EFFECT {
        assert!(schema::find(schema::Database::Main, table).is_some(), "{table}");
    }
}

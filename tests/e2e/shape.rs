//! How the sources are cut: the length of functions and of files, and the names of types.
//!
//! The longest function is held by `too-many-lines-threshold` in `clippy.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::dependencies::sources::Source;

/// The folders with code of the program, the tools for tests, and the bench.
const CODE: &[&str] = &[
    "bench/src",
    "crates/control/src",
    "crates/proxy/src",
    "crates/sql/src",
    "crates/testkit/src",
    "crates/wire/src",
    "src",
];

/// Files that are data.
const DATA: &[&str] = &["crates/wire/src/charset/table.rs"];

#[test]
fn one_function_in_a_hundred_is_longer_than_a_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for folder in CODE {
        for source in Source::all(&root.join(folder)) {
            let file = source.file.strip_prefix(root).expect("a file of this repository").display();
            let found = functions(&source.text).into_iter();
            all.extend(found.map(|(name, lines)| (lines, format!("{file}: {name}, {lines} lines"))));
        }
    }
    assert!(all.len() > 3_000, "{} functions", all.len());
    all.sort_by(|a, b| b.cmp(a));
    let (long, _) = all.split_at(all.len() / 100 + 1);
    let names: Vec<&str> = long.iter().map(|(_, name)| name.as_str()).collect();
    assert!(
        long.last().is_some_and(|(lines, _)| *lines < 45),
        "too many long functions:\n{}",
        names.join("\n")
    );
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting: Vec<PathBuf> =
        ["bench/src", "crates", "fuzz/fuzz_targets", "src", "tests"].map(|folder| root.join(folder)).into();
    let mut long = Vec::new();
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let file = entry.path();
            let name = file.strip_prefix(root).expect("a file of this repository").display().to_string();
            if file.is_dir() {
                waiting.push(file);
            } else if name.ends_with(".rs") && !DATA.contains(&name.as_str()) {
                let lines = std::fs::read_to_string(&file).expect("a source").lines().count();
                if lines > 600 {
                    long.push(format!("{name}: {lines} lines"));
                }
            }
        }
    }
    assert!(long.is_empty(), "split by subject:\n{}", long.join("\n"));
}

#[test]
fn no_two_public_types_of_a_crate_have_one_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in CODE {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for source in Source::all(&root.join(folder)) {
            let file = source.file.strip_prefix(root).expect("a file of this repository").display();
            for name in source.text.lines().filter_map(public_type) {
                places.entry(name.to_owned()).or_default().push(file.to_string());
            }
        }
        assert!(places.len() > 5, "{folder}: {} types", places.len());
        let several = places.into_iter().filter(|(_, files)| files.len() > 1);
        found.extend(several.map(|(name, files)| format!("{name}: {}", files.join(", "))));
    }
    assert!(found.is_empty(), "name each by what it is:\n{}", found.join("\n"));
}

/// The name of the type that a line defines for other modules, or for other crates.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.into_iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The functions of a text that rustfmt has formatted, with their lines from the name to the closing brace.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = name_of_function(line) else { continue };
        let head = lines[start..].iter().position(|line| line.ends_with(['{', ';', '}']));
        let Some(head) = head.map(|length| start + length) else { continue };
        let end = match lines[head].chars().next_back() {
            Some('{') => {
                let indent = &line[..line.len() - line.trim_start().len()];
                let closes = |line: &&str| line.strip_prefix(indent) == Some("}");
                lines[head..].iter().position(closes).map(|length| head + length)
            }
            Some('}') => Some(head),
            _ => None,
        };
        found.extend(end.map(|end| (name.to_owned(), end - start + 1)));
    }
    found
}

/// The name of the function whose definition begins in a line.
fn name_of_function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "async" | "const" | "extern" | "in" | "pub" | "unsafe" | "\"C\"")
            || word.starts_with("pub(")
            || word.ends_with(')')
    };
    if !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    Some(name).filter(|name| !name.is_empty())
}

#[test]
fn functions_are_measured_from_the_name_to_the_closing_brace() {
    let text = "impl A {\n    pub(in super::super) async fn one(\n        a: u8,\n    ) {\n        if a {\n        }\n    }\n}\n\
                fn two() {}\ntrait B {\n    fn three();\n}\nconst unsafe fn four() -> u8 {\n    1\n}\n";
    let found = [("one", 6), ("two", 1), ("four", 3)].map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(functions(text), found);
}

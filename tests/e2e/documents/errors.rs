//! docs/errors.md has every error number that the program sends, no other one, and its texts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

#[test]
fn every_error_of_the_program_is_documented() {
    let (sent, documented) = (sent(), documented());
    let missing: Vec<_> = sent.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/errors.md has no section for {missing:?}");
    let unknown: Vec<_> = documented.difference(&sent).collect();
    assert!(unknown.is_empty(), "docs/errors.md describes {unknown:?}, which no source has");
    assert!(sent.contains(&9001) && sent.contains(&1235), "{sent:?}");
}

#[test]
fn the_texts_of_errors_are_those_of_the_program() {
    let sources: String = sources().iter().map(|path| fs::read_to_string(path).expect("a source")).collect();
    // A literal may continue on the next line.
    let sources =
        Regex::new(r"\\\n\s*").expect("an expression").replace_all(&sources, "").replace("\\\"", "\"");
    for line in texts() {
        for part in line.split("...").flat_map(|part| part.split(". ")) {
            let part = part.trim_matches(|c: char| !c.is_alphanumeric());
            assert!(part.len() < 4 || sources.contains(part), "{line}: no source has {part:?}");
        }
    }
}

/// The numbers in the sources that make errors: rows of `Errno`, and numbers in place of them.
fn sent() -> BTreeSet<u16> {
    let literal = r"number: (\d{4})|refused\((\d{4})|code: (\d{4})|u16 = (\d{4});|=> \((\d{4}), ";
    let literal = Regex::new(literal).expect("an expression");
    let row = Regex::new(r"(?m)^    [A-Z_]+ = (\d{4}) ").expect("an expression");
    let mut numbers = BTreeSet::new();
    for path in sources() {
        let text = fs::read_to_string(&path).expect("a source");
        // Tests at the end of a file.
        let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let program = NOT_SENT.iter().fold(program.to_owned(), |program, name| program.replace(name, ""));
        let expression = if path.ends_with("errno.rs") { &row } else { &literal };
        let found = expression.captures_iter(&program);
        numbers.extend(
            found.filter_map(|found| found.iter().skip(1).flatten().next()?.as_str().parse::<u16>().ok()),
        );
    }
    numbers
}

/// Numbers that are no error, or that are only recognised in what a server sends.
const NOT_SENT: [&str; 7] = [
    "LAST_ID: u16 = 4095",
    "TOO_MANY_CONNECTIONS_OF_ACCOUNT: u16 = 1203",
    "UNKNOWN_DATABASE: u16 = 1049",
    "BLOCKED: u16 = 4094",
    "NO_TABLE: u16 = 1146",
    "OFFLINE: u16 = 3032",
    "READ_ONLY_TRANSACTION: u16 = 1792",
];

/// The numbers that have a section.
fn documented() -> BTreeSet<u16> {
    let heading = Regex::new(r"(?m)^## Error (\d{4}):").expect("an expression");
    heading.captures_iter(&page()).map(|found| found[1].parse().expect("digits")).collect()
}

/// The lines of the blocks on the page.
fn texts() -> Vec<String> {
    let page = page();
    let blocks = page.split("```").skip(1).step_by(2);
    let lines: Vec<String> = blocks.flat_map(|block| block.lines().skip(1)).map(str::to_owned).collect();
    assert!(lines.len() > 30, "{} texts", lines.len());
    lines
}

fn page() -> String {
    fs::read_to_string(root().join("docs/errors.md")).expect("docs/errors.md")
}

/// The sources of the crates that send errors, without their tests.
fn sources() -> Vec<PathBuf> {
    let mut found = vec![root().join("crates/wire/src/errno.rs")];
    for folder in ["crates/proxy/src", "crates/control/src"] {
        collect(&root().join(folder), &mut found);
    }
    assert!(found.len() > 100, "{} sources", found.len());
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            collect(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

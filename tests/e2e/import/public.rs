//! Configurations of the kinds that ProxySQL's documentation, packages, charts and tutorials have, in our own words.
//!
//! Each file in `public` says at its end what must come out of it, as comments: the sentences of the report, and where
//! statements go. A sentence that is not expected there fails the test as one that is missing does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use narrows_testkit::{RawClient, TempFolder};

use super::{carried_over, report, sentences, start};

const LISTS: [&str; 4] = ["not_carried_over", "differs", "without_effect", "mistakes"];

fn configurations() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/import/public");
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "cnf")).collect();
    files.sort();
    files
}

/// What a file expects: the text after `# NAME: `.
fn expected<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let prefix = format!("# {name}: ");
    text.lines().filter_map(|line| line.strip_prefix(prefix.as_str())).collect()
}

/// Rows by section, and the number of variables, read without Narrows: a section begins at the left margin, and a row of
/// it with a brace. The files are written so that this is true of them.
fn counted(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let begins = line.starts_with(|c: char| c.is_ascii_lowercase());
        if begins {
            section = line.split([' ', '=', ':']).next().unwrap_or_default().to_owned();
        }
        let content = match begins {
            true => line.split_once(['=', ':']).map_or("", |(_, content)| content),
            false => line,
        };
        match section.as_str() {
            "mysql_variables" | "admin_variables" => {
                let settings = content.split(", ").filter(|part| part.contains('=')).count() as u64;
                *counts.entry("global_variables".to_owned()).or_default() += settings;
            }
            _ if section.starts_with("mysql_") || section == "scheduler" || section == "proxysql_servers" => {
                *counts.entry(section.clone()).or_default() += content.matches("{ ").count() as u64;
            }
            _ => {}
        }
    }
    counts.retain(|_, rows| *rows > 0);
    counts
}

#[test]
fn the_report_on_every_public_configuration_is_complete() {
    let folder = TempFolder::new("import");
    let mut faults = Vec::new();
    for file in configurations() {
        let text = fs::read_to_string(&file).expect("a file");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let said = report(folder.path(), &[&file.to_string_lossy(), "--report"]);
        for list in LISTS {
            let (expected, found) = (expected(&text, list), sentences(&said, list));
            for sentence in &found {
                if expected.iter().filter(|part| sentence.contains(**part)).count() != 1 {
                    faults.push(format!("{name}: # {list}: {sentence}"));
                }
            }
            let is_said = |part: &&str| found.iter().any(|sentence| sentence.contains(*part));
            let missing = expected.iter().filter(|part| !is_said(part));
            faults.extend(missing.map(|part| format!("{name}: {list} lacks: {part}")));
        }
        let mut rows = counted(&text);
        let unknown = sentences(&said, "not_carried_over");
        let variables =
            unknown.iter().filter(|sentence| sentence.contains("variable `") && sentence.contains("ignored"));
        if let Some(all) = rows.get_mut("global_variables") {
            *all -= variables.count() as u64;
        }
        rows.retain(|_, rows| *rows > 0);
        let found: BTreeMap<String, u64> = carried_over(&said).into_iter().collect();
        if rows != found {
            faults.push(format!("{name}: {rows:?} are in the file, {found:?} are reported"));
        }
        if said.to_string().contains("of-") {
            faults.push(format!("{name}: a password is in the report"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn statements_go_where_every_public_configuration_says() {
    let folder = TempFolder::new("import");
    let mut asked = 0;
    for file in configurations() {
        let text = fs::read_to_string(&file).expect("a file");
        let routes = expected(&text, "route");
        let arguments = [&file.to_string_lossy(), "--output", "narrows.toml", "--force"];
        report(folder.path(), &arguments);
        let narrows = start(&fs::read_to_string(folder.file("narrows.toml")).expect("a file"));
        let mut admin = narrows.admin();
        for route in routes {
            let (client, rest) = route.split_once(" | ").expect("a client");
            let (hostgroup, statement) = rest.split_once(" | ").expect("a hostgroup and a statement");
            let found = hostgroup_of(&mut admin, statement, client);
            assert_eq!(found, hostgroup, "{}: {route}", file.display());
            asked += 1;
        }
    }
    assert!(asked >= 30, "{asked}");
}

/// The hostgroup that EXPLAIN ROUTE names, or how the statement is answered.
pub fn hostgroup_of(admin: &mut RawClient, statement: &str, client: &str) -> String {
    let question =
        format!("EXPLAIN ROUTE '{}' {client}", statement.replace('\\', "\\\\").replace('\'', "''"));
    let answer = admin.query(&question);
    assert!(answer.error().is_none(), "{question}: {:?}", answer.error());
    let rows = answer.text_rows();
    let row = rows.iter().find(|row| matches!(row[1].as_deref(), Some("hostgroup" | "answered")));
    row.and_then(|row| row[2].clone()).unwrap_or_else(|| panic!("{question}: {rows:?}"))
}

//! The order of the modules inside a crate: each stands on a floor, and uses only what stands on a lower one.
//!
//! The tables below are all that says so. A row is a module with everything below it; a folder that is too large for one row
//! has rows of its own parts (`session::query`), and the longest row that fits counts. Unit tests may use what they like.

use std::path::Path;

use super::sources::Source;

/// Modules by floor, the lowest floor first. Those of one floor do not use each other.
type Floors = &'static [&'static [&'static str]];

const CONTROL: Floors = &[
    &[
        "calendar",
        "effect",
        "files",
        "holds",
        "http_client",
        "listeners",
        "log_output",
        "scheduler",
        "urgency",
    ],
    &["aws_iam", "tokens", "traces"],
    &["audit_log", "config", "query_log", "schema"],
    &["monitor"],
    &["switchover", "variables"],
    &["secrets"],
    &["tls", "versions", "without_effect"],
    &["config_file", "fleet"],
    &["json_schema", "store"],
    &["admin"],
    &["http"],
    &["runtime"],
    &["stats"],
    &["command"],
    &["control", "docs"],
];

const PROXY: Floors = &[
    &["clock"],
    &[
        "capabilities",
        "hash",
        "lag",
        "log_target",
        "outbox",
        "pin_reason",
        "recent_texts",
        "reply",
        "rows",
        "rt",
        "state",
        "tls",
    ],
    &[
        "audit",
        "descriptors",
        "hostgroup",
        "hot_restart",
        "log_limit",
        "prepared",
        "query_log",
        "rules",
        "seldom",
        "server_tokens",
        "sockets",
        "threads",
        "tokens",
    ],
    &["figures", "snapshot", "stream"],
    &["auth_query", "buffer", "cache", "passthrough", "route"],
    &["packets"],
    &["backend"],
    &["pool"],
    &["mirror"],
    &["worker"],
    &["client"],
    &["session"],
    &["event_loop"],
    &["stats"],
    &["server"],
];

#[test]
fn modules_of_proxy_use_only_what_stands_below_them() {
    hold("crates/proxy", PROXY);
}

#[test]
fn modules_of_control_use_only_what_stands_below_them() {
    hold("crates/control", CONTROL);
}

/// Fails with each use that runs upwards in the sources of a crate.
fn hold(package: &str, floors: Floors) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src");
    let files = Source::all(&sources);
    let mut faults = Vec::new();
    for row in floors.iter().copied().flatten() {
        let is_there =
            |source: &Source| row_of(&source.module, floors).is_some_and(|(_, found)| found == *row);
        if !files.iter().any(is_there) {
            faults.push(format!("`{row}` is in the table of floors, and no module of {package}"));
        }
    }
    for source in files.iter().filter(|source| !source.module.is_empty()) {
        let file = source.file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(&source.file).display();
        let Some((floor, row)) = row_of(&source.module, floors) else {
            faults.push(format!("{file}: `{}` stands on no floor", source.module.join("::")));
            continue;
        };
        for (line, used) in uses(&source.text, &source.module) {
            let Some((other_floor, other)) = row_of(&used, floors) else { continue };
            if other != row && other_floor >= floor {
                let path = used.join("::");
                faults.push(format!(
                    "{file}:{line}: `{row}` (floor {floor}) uses `{other}` (floor {other_floor}): crate::{path}"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "uses that run upwards:\n{}", faults.join("\n"));
}

/// The row that a path belongs to, and its floor.
fn row_of(path: &[String], floors: Floors) -> Option<(usize, &'static str)> {
    let fits = |row: &str| {
        let mut parts = row.split("::");
        let mut path = path.iter();
        parts.all(|part| path.next().is_some_and(|segment| segment == part))
    };
    let rows = floors.iter().enumerate().flat_map(|(floor, rows)| rows.iter().map(move |row| (floor, *row)));
    rows.filter(|(_, row)| fits(row)).max_by_key(|(_, row)| row.len())
}

/// The paths of the own crate that a text of the module `module` names, each with its line.
fn uses(text: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            // A part of a longer name or path, as in `pub(crate)`, `$crate::` and the second of `super::super::`.
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            let line = text[..at].matches('\n').count() + 1;
            let (mut base, mut rest) = (Vec::new(), &text[at..]);
            if let Some(below) = rest.strip_prefix("crate::") {
                rest = below;
            } else {
                base = module.to_vec();
                while let Some(below) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = below;
                }
            }
            let mut paths = Vec::new();
            tree(rest, &base, &mut paths);
            found.extend(paths.into_iter().map(|Named { path, .. }| (line, path)));
        }
    }
    found
}

/// A path, and the name by which a file uses what it leads to.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) path: Vec<String>,
}

/// Reads what stands after `base::`: a path, or a group of them; gives what follows.
pub(super) fn tree<'a>(text: &'a str, base: &[String], found: &mut Vec<Named>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            if rest.is_empty() || rest.starts_with('}') {
                return rest.strip_prefix('}').unwrap_or(rest);
            }
            let before = rest.len();
            rest = tree(rest, base, found);
            // What is no name, such as `*`.
            rest = if rest.len() == before {
                &rest[rest.chars().next().map_or(0, char::len_utf8)..]
            } else {
                rest
            };
        }
    }
    if let Some(rest) = text.strip_prefix('*') {
        found.push(Named { name: "*".to_owned(), path: base.to_vec() });
        return rest;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return rest;
    }
    let own = name == "self";
    let path: Vec<String> = base.iter().cloned().chain((!own).then(|| name.to_owned())).collect();
    if let Some(below) = rest.strip_prefix("::") {
        return tree(below, &path, found);
    }
    let (name, rest) = match rest.strip_prefix(" as ") {
        Some(renamed) => renamed.split_at(renamed.find([',', '}', ';']).unwrap_or(0)),
        None => (path.last().map_or("", String::as_str), rest),
    };
    found.push(Named { name: name.to_owned(), path });
    rest
}

#[test]
fn paths_are_found_however_they_are_written() {
    let found = |text: &str| -> Vec<String> {
        let module = ["store".to_owned(), "open".to_owned()];
        uses(text, &module).into_iter().map(|(line, path)| format!("{line} {}", path.join("::"))).collect()
    };
    assert_eq!(
        found("use crate::files;\nuse crate::admin::{self, reply::Reply as R, x::{Y, Z}, w::*};"),
        ["1 files", "2 admin", "2 admin::reply::Reply", "2 admin::x::Y", "2 admin::x::Z", "2 admin::w",]
    );
    assert_eq!(
        found("use super::{Store, answer::Answer};\nuse super::super::schema::Module;"),
        ["1 store::Store", "1 store::answer::Answer", "2 schema::Module",]
    );
    assert_eq!(found("let x = crate::tls::load(1); pub(crate) fn f() {} $crate::macro!()"), ["1 tls::load"]);
}

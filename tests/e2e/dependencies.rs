//! Rules about dependencies and licences: the part of `deny.toml` that must hold on every machine, and the dependencies
//! between crates, which go further than cargo-deny's rules.

mod circles;
mod floors;
pub(crate) mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[test]
fn crates_depend_one_way_only() {
    let graph = Graph::read();
    for (package, own) in OWN_EDGES {
        let found: BTreeSet<&str> =
            graph.direct(package).into_iter().filter(|name| name.starts_with("narrows")).collect();
        let allowed: BTreeSet<&str> = own.iter().copied().collect();
        assert!(found.is_subset(&allowed), "{package} depends on {found:?}, allowed are {allowed:?}");
    }
}

#[test]
fn protocol_and_lexer_reach_no_runtime_and_no_socket() {
    let graph = Graph::read();
    for package in ["narrows-wire", "narrows-sql"] {
        let reached = graph.reached_from(package);
        for banned in ["tokio", "mio", "socket2", "rusqlite", "libsqlite3-sys", "tracing", "rustix"] {
            assert!(!reached.contains(banned), "{package} reaches {banned}");
        }
    }
}

#[test]
fn data_plane_reaches_no_storage() {
    let reached = Graph::read().reached_from("narrows-proxy");
    for banned in ["rusqlite", "libsqlite3-sys", "clap", "toml"] {
        assert!(!reached.contains(banned), "narrows-proxy reaches {banned}");
    }
}

/// What a statement says is read by the lexer of `crates/sql`, which knows where strings and comments are.
#[test]
fn the_data_plane_scans_no_statement_by_itself() {
    let proxy = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/proxy/src");
    let mut files = Vec::new();
    for place in READ_NO_TEXT {
        collect_sources(&proxy.join(place), &mut files);
    }
    assert!(files.len() > 40, "{files:?}");
    let mut found = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source file");
        let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in (1..).zip(code.lines()) {
            if SCANS.iter().any(|scan| line.contains(scan)) && !line.trim_start().starts_with("//") {
                found.push(format!("{}:{number}: {}", file.display(), line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "these look for words in bytes; if they are those of a statement, write a function in crates/sql that asks the lexer, \
         or a flag that it sets, and test it there with quotes, comments and both cases:\n{}",
        found.join("\n")
    );
}

/// The files with a suffix of Rust below a folder, without those of tests; or the file itself.
fn collect_sources(place: &Path, files: &mut Vec<PathBuf>) {
    if place.is_dir() {
        for entry in std::fs::read_dir(place).expect("a folder").flatten() {
            collect_sources(&entry.path(), files);
        }
    } else if place.extension().is_some_and(|it| it == "rs") && !place.ends_with("tests.rs") {
        files.push(place.to_owned());
    }
}

/// Where statements come by, in `crates/proxy/src`.
const READ_NO_TEXT: &[&str] = &[
    "session",
    "route",
    "cache",
    "mirror.rs",
    "prepared.rs",
    "figures/commands.rs",
    "stats/route.rs",
    "rules/annotation.rs",
    "rules/firewall.rs",
];

/// How words are looked for in bytes.
const SCANS: &[&str] = &[
    ".windows(",
    "memchr",
    "ignore_ascii_case(b\"",
    "starts_with(b\"",
    "strip_prefix(b\"",
    "text.contains(",
    "text.split(",
    "text.iter()",
    "split_ascii_whitespace",
    "is_ascii_whitespace",
];

#[test]
fn licences_are_on_the_list() {
    let allowed = allowed_licences();
    assert!(allowed.contains("Apache-2.0"), "deny.toml lists licences");
    for (package, licence) in &Graph::read().licences {
        // `A OR B` and the older `A/B` allow a choice; `A AND B` requires both.
        let holds = licence.replace('/', " OR ").replace(['(', ')'], "").split(" AND ").all(|part| {
            part.split(" OR ").any(|name| {
                let name = name.trim().split(" WITH ").next().unwrap_or_default();
                allowed.contains(name)
            })
        });
        assert!(holds, "{package} has the licence {licence:?}; the allowed ones are in deny.toml");
    }
}

/// Which of our crates each of our crates may use, apart from tests.
const OWN_EDGES: &[(&str, &[&str])] = &[
    ("narrows-wire", &[]),
    ("narrows-sql", &[]),
    ("narrows-proxy", &["narrows-wire", "narrows-sql"]),
    ("narrows-control", &["narrows-wire", "narrows-sql", "narrows-proxy"]),
    ("narrows-testkit", &["narrows-wire"]),
    ("narrows", &["narrows-control", "narrows-proxy", "narrows-wire", "narrows-sql"]),
];

/// The packages of Cargo.lock without development dependencies.
struct Graph {
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
    licences: BTreeMap<String, String>,
}

impl Graph {
    fn read() -> Graph {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs the tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut graph = Graph { names: BTreeMap::new(), edges: BTreeMap::new(), licences: BTreeMap::new() };
        for package in metadata["packages"].as_array().expect("packages") {
            graph.names.insert(text(&package["id"]), text(&package["name"]));
            graph.licences.insert(text(&package["name"]), text(&package["license"]));
        }
        for node in metadata["resolve"]["nodes"].as_array().expect("nodes") {
            let used = node["deps"].as_array().expect("deps").iter().filter(|dependency| {
                dependency["dep_kinds"]
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
            });
            graph.edges.insert(text(&node["id"]), used.map(|dependency| text(&dependency["pkg"])).collect());
        }
        graph
    }

    fn id(&self, name: &str) -> &str {
        self.names
            .iter()
            .find(|(_, other)| *other == name)
            .map(|(id, _)| id.as_str())
            .expect("a package of ours")
    }

    /// Names of the direct dependencies of one of our packages.
    fn direct(&self, package: &str) -> Vec<&str> {
        self.edges[self.id(package)].iter().map(|id| self.names[id].as_str()).collect()
    }

    /// Names of all dependencies of one of our packages.
    fn reached_from(&self, package: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![self.id(package)];
        while let Some(id) = waiting.pop() {
            for next in &self.edges[id] {
                if reached.insert(next.as_str()) {
                    waiting.push(next);
                }
            }
        }
        reached.into_iter().map(|id| self.names[id].clone()).collect()
    }
}

fn allowed_licences() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    let text = std::fs::read_to_string(path).expect("deny.toml");
    let list = text
        .split_once("allow = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .expect("a list of licences")
        .0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

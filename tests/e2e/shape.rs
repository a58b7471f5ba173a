//! How the sources are cut: the names of types.

use std::collections::BTreeMap;
use std::path::Path;

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

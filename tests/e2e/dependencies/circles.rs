//! No circles: of the files of a crate, none uses another one that uses it, directly or through others.
//!
//! A file uses the file that defines what it names; a `pub use` on the way there is no use. A file may use what the `mod.rs`
//! of its folder defines, and of the folders above: it is a part of that. What only the compiler sees, such as which `impl`
//! block has a method, is not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::floors::{Named, tree};
use super::sources::Source;

#[test]
fn no_files_of_proxy_use_each_other() {
    hold("crates/proxy/src");
}

#[test]
fn no_files_of_control_use_each_other() {
    hold("crates/control/src");
}

#[test]
fn no_files_of_the_program_use_each_other() {
    hold("src");
}

#[test]
fn a_circle_is_found_through_what_others_pass_on() {
    let source = |module: &str, text: &str| {
        let module =
            module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        Source { file: module.join("/").into(), module, text: text.to_owned() }
    };
    let sources = |last: &str| {
        vec![
            source("", "mod a;\npub mod b;\npub use a::One;\n"),
            source("a", "use super::b;\n\npub struct One;\n\nfn f() -> b::Two {\n    b::two()\n}\n"),
            source("b", "mod c;\npub use c::Two;\npub fn two() -> c::Two {\n    Two\n}\n"),
            source("b::c", last),
        ]
    };
    assert!(circles(sources("use super::two;\npub struct Two;\n")).is_empty());
    let expected = ["a uses b: b::two", "a uses b/c: b::Two", "b uses b/c: b::c::Two", "b/c uses a: One"];
    assert_eq!(circles(sources("use crate::{One, b::two as _};\npub struct Two;\n")), expected);
}

/// Fails with each use that closes a circle.
fn hold(sources: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
    let found = circles(Source::all(&root));
    assert!(found.is_empty(), "circles:\n{}", found.join("\n"));
}

fn circles(sources: Vec<Source>) -> Vec<String> {
    let files: Vec<File> = sources.into_iter().map(File::read).collect();
    let crate_ = Crate(files.iter().map(|file| (file.module.clone(), file)).collect());
    let mut uses: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for file in &files {
        let found = crate_.used_by(file);
        let others = found.into_iter().filter(|(used, _)| !file.module.starts_with(&used.module));
        uses.insert(&file.name, others.map(|(used, path)| (used.name.as_str(), path.join("::"))).collect());
    }
    let mut lines = Vec::new();
    for (file, used) in &uses {
        let back = used.iter().filter(|(other, _)| reached_from(other, &uses).contains(file));
        lines.extend(back.map(|(other, path)| format!("{file} uses {other}: {path}")));
    }
    lines
}

/// The files that a file uses, directly or through others.
fn reached_from<'a>(file: &'a str, uses: &BTreeMap<&'a str, BTreeMap<&'a str, String>>) -> BTreeSet<&'a str> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![file]);
    while let Some(file) = waiting.pop() {
        for other in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(*other) {
                waiting.push(other);
            }
        }
    }
    found
}

/// What a file defines, and which names it has from elsewhere.
struct File {
    name: String,
    module: Vec<String>,
    /// Its text without `use`.
    code: String,
    items: BTreeSet<String>,
    /// Names of `use`, with their paths from the root of the crate, and whether they are only passed on.
    bound: BTreeMap<String, (Vec<String>, bool)>,
    /// The modules of `use ..::*`.
    globs: Vec<Vec<String>>,
}

impl File {
    fn read(source: Source) -> File {
        let (mut code, mut bound, mut globs) = (String::new(), BTreeMap::new(), Vec::new());
        let mut items: BTreeSet<String> = source.text.lines().filter_map(item).collect();
        items.extend(children(&source.text));
        let mut rest = source.text.as_str();
        while let Some(line) = rest.lines().next() {
            let Some(after) = after_use(line) else {
                code.push_str(line);
                code.push('\n');
                rest = rest.get(line.len() + 1..).unwrap_or_default();
                continue;
            };
            let start = line.len() - after.len();
            let end = rest.find(';').map_or(rest.len(), |end| end + 1);
            let mut found = Vec::new();
            tree(&rest[start..end], &[], &mut found);
            let is_passed_on = line.trim_start().starts_with("pub");
            for Named { name, path } in found {
                let Some(path) = absolute(&path, &source.module, &items, &bound) else { continue };
                match name.as_str() {
                    "*" => globs.push(path),
                    _ => drop(bound.insert(name, (path, is_passed_on))),
                }
            }
            rest = rest[end..].trim_start_matches(['\n', ' ']);
        }
        let name = source
            .file
            .strip_prefix(env!("CARGO_MANIFEST_DIR"))
            .unwrap_or(&source.file)
            .display()
            .to_string();
        File { name, module: source.module, code, items, bound, globs }
    }
}

/// What follows `use` in a line that begins with it.
fn after_use(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.split_once("use ").filter(|(scope, _)| scope.trim().is_empty() || scope.ends_with(") "))?.1
        }
        None => line.strip_prefix("use ")?,
    };
    Some(rest)
}

/// The name that a line defines for the whole file.
fn item(line: &str) -> Option<String> {
    const KINDS: &[&str] =
        &["const", "enum", "fn", "macro_rules!", "static", "struct", "trait", "type", "union"];
    if line.starts_with(' ') {
        return None;
    }
    let mut words = line.split([' ', '(', '<', ':', ';', '{', '=']).filter(|word| !word.is_empty());
    let mut kind = words.find(|word| KINDS.contains(word))?;
    let mut name = words.next()?;
    while KINDS.contains(&name) || matches!(name, "unsafe" | "mut" | "async" | "extern") {
        (kind, name) = (name, words.next()?);
    }
    let _ = kind;
    Some(name.to_owned())
}

/// The modules that a text declares.
fn children(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let (before, rest) = line.split_once("mod ")?;
        let is_declared = before.is_empty() || before.starts_with("pub");
        Some(rest.strip_suffix(';').filter(|_| is_declared)?.to_owned())
    })
}

/// The path from the root of the crate that a written path means; `None` for another crate.
fn absolute(
    path: &[String],
    module: &[String],
    items: &BTreeSet<String>,
    bound: &BTreeMap<String, (Vec<String>, bool)>,
) -> Option<Vec<String>> {
    let (first, mut rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => {
            let mut base = module[..module.len().checked_sub(1)?].to_vec();
            while let Some(("super", below)) =
                rest.split_first().map(|(first, below)| (first.as_str(), below))
            {
                base.pop();
                rest = below;
            }
            base
        }
        name if items.contains(name) => [module, &[name.to_owned()]].concat(),
        name => bound.get(name)?.0.clone(),
    };
    base.extend_from_slice(rest);
    Some(base)
}

struct Crate<'a>(BTreeMap<Vec<String>, &'a File>);

impl<'a> Crate<'a> {
    /// The files that a file uses, each with a path by which it does.
    fn used_by(&self, file: &'a File) -> Vec<(&'a File, Vec<String>)> {
        let mut paths: Vec<Vec<String>> = Vec::new();
        for (name, (path, is_passed_on)) in &file.bound {
            if !is_passed_on || has_word(&file.code, name) {
                paths.push(path.clone());
            }
        }
        for path in written_paths(&file.code) {
            paths.extend(absolute(&path, &file.module, &file.items, &file.bound));
        }
        let found = paths.into_iter().filter_map(|path| Some((self.definition(&path, 0)?, path)));
        found.collect()
    }

    /// The file that defines what a path names; `None` for a module.
    fn definition(&self, path: &[String], depth: usize) -> Option<&'a File> {
        let module = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(module);
        let file = self.0[module];
        let (name, below) = rest.split_first()?;
        if depth > 8 || file.items.contains(name) {
            return Some(file);
        }
        if let Some((bound, _)) = file.bound.get(name) {
            return self.definition(&[bound.as_slice(), below].concat(), depth + 1);
        }
        let globs = file.globs.iter().map(|glob| [glob.as_slice(), rest].concat());
        let mut found = globs.filter_map(|path| self.definition(&path, depth + 1));
        found.find(|other| other.items.contains(name)).or(Some(file))
    }
}

/// The paths with `::` in a text.
fn written_paths(text: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.contains("::"));
    words.map(|word| word.split("::").map(str::to_owned).collect()).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

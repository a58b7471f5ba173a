//! Marked passwords, and the search for them in what a Narrows has written.
//!
//! Every [`Narrows`](crate::Narrows) of a test is searched when it ends, so a test that uses a marked password needs to do nothing
//! else for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// In passwords that Narrows may keep in its memory only: what a configuration refers to, what clients and servers reveal, and
/// what somebody has tried.
pub const KEPT_MARK: &str = "zQ9kept";

/// In passwords that an operator writes into the configuration, which keeps them. Nothing else may.
pub const TYPED_MARK: &str = "qX7-typed";

/// The files of a folder, and of the folders in it, by their names. Sockets and pipes are none.
pub fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        // Narrows removes files while it runs.
        for entry in fs::read_dir(current).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => {
                    let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                    found.extend(fs::read(&path).ok().map(|bytes| (name, bytes)));
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether `bytes` has the text in it.
pub fn has_text(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The files of a data folder that have a password they must not have, with that password: `typed` are those of the
/// configuration, besides the marked ones.
pub(crate) fn leaks(folder: &Path, typed: &[String]) -> Vec<(String, String)> {
    let mut leaks = Vec::new();
    for (name, bytes) in files_below(folder) {
        // The test has written it.
        if name == "narrows.cnf" {
            continue;
        }
        let mut forbidden = vec![KEPT_MARK];
        if !keeps_configurations(&name) {
            forbidden.push(TYPED_MARK);
            forbidden.extend(typed.iter().map(String::as_str));
        }
        let found = forbidden.into_iter().filter(|text| has_text(&bytes, text));
        leaks.extend(found.map(|text| (name.clone(), text.to_owned())));
    }
    leaks
}

/// Whether it is a file of configurations, which has what operators write: the database, its journals and copies, and what is saved
/// as a file.
pub fn keeps_configurations(name: &str) -> bool {
    let of_database = ["narrows.db", "proxysql.db"].iter().any(|start| name.starts_with(start));
    of_database || name.ends_with(".cnf") || name.ends_with(".toml")
}

/// The passwords that are nothing else in a configuration, and no common word: a text with one has that password.
pub(crate) fn distinctive(passwords: &[String], text: &str) -> Vec<String> {
    let is_reference =
        |password: &str| ["env:", "file:", "exec:", "plain:"].iter().any(|start| password.starts_with(start));
    let is_distinctive = |password: &&String| {
        let times = passwords.iter().filter(|other| other.contains(password.as_str())).count();
        password.len() >= SHORTEST
            && !is_reference(password)
            && text.matches(password.as_str()).count() == times
    };
    passwords.iter().filter(is_distinctive).cloned().collect()
}

/// Shorter texts are in other words by chance.
const SHORTEST: usize = 8;

//! The sources of a crate, for tests that read them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file without its comments and unit tests.
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// Its module: the path from the root of the crate, which itself has none.
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
}

impl Source {
    /// Those below a folder.
    pub(crate) fn all(folder: &Path) -> Vec<Source> {
        let (mut found, mut tests) = (Vec::new(), BTreeSet::new());
        let mut waiting = vec![(folder.to_owned(), Vec::new())];
        while let Some((folder, parent)) = waiting.pop() {
            for entry in
                std::fs::read_dir(&folder).expect("the sources").map(|entry| entry.expect("an entry"))
            {
                let file = entry.path();
                let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
                let below = |name| parent.iter().cloned().chain([name]).collect::<Vec<String>>();
                if file.is_dir() {
                    waiting.push((file, below(name)));
                } else if file.extension().is_some_and(|extension| extension == "rs") {
                    let module = match name.as_str() {
                        "mod" | "lib" | "main" => parent.clone(),
                        _ => below(name),
                    };
                    let text = std::fs::read_to_string(&file).expect("a source");
                    let declared =
                        text.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
                    let names = declared.map(|(name, _)| name).filter(|name| !name.contains(' '));
                    tests.extend(names.map(|name| [module.as_slice(), &[name.to_owned()]].concat()));
                    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
                    let text = code.lines().map(without_comment).collect::<Vec<_>>().join("\n");
                    found.push(Source { file, module, text });
                }
            }
        }
        found.retain(|source| !tests.contains(&source.module));
        assert!(!found.is_empty());
        found
    }
}

//! Words and phrases that an English-speaking reader stumbles over, and that are therefore in no document, comment,
//! error text or log line. To ban another one, or a term that was renamed, add a row to [`PHRASES`].

use std::path::{Path, PathBuf};

/// A phrase, what to write instead, and longer phrases in which it is good English.
type Phrase = (&'static str, &'static str, &'static [&'static str]);

/// Matched in lower case, as whole words; a letter, a digit, `_` or `-` next to them makes another word.
const PHRASES: &[Phrase] = &[
    ("behind", "after", BEHIND),
    ("anew", "again", &[]),
    ("at hand", "current", &[]),
    ("is told", "receives, or the name of the message", TOLD_TO),
    ("are told", "receive, or the name of the message", TOLD_TO),
    ("was told", "received, or the name of the message", TOLD_TO),
    ("were told", "received, or the name of the message", TOLD_TO),
    ("be told", "receive, or the name of the message", TOLD_TO),
    ("thereof", "of it", &[]),
    ("whereby", "by which", &[]),
    ("hereby", "nothing", &[]),
    ("whoever", "the client, the caller, anyone who", &[]),
    ("go on", "continue", &[]),
    ("goes on", "continues", &[]),
    ("went on", "continued", &[]),
    ("gone on", "continued", &[]),
    ("came to nothing", "failed", &[]),
    ("comes to nothing", "fails", &[]),
    ("let in", "logged in", &[]),
    ("in clear", "in clear text", &["in clear text"]),
    ("in the midst", "in the middle", &[]),
    ("for ever", "forever", &[]),
    ("strewn", "left", &[]),
    ("says goodbye", "disconnects", &[]),
    ("held against", "compared with", &[]),
    ("had heard of", "had received", &[]),
    ("has heard of", "has received", &[]),
    ("told of", "received, or the name of the message", &[]),
    ("come through", "succeed, arrive", &[]),
    ("came through", "succeeded, arrived", &[]),
    ("heritage", "restored client", &[]),
    ("heir", "the next process", &[]),
    ("estate", "client transfer", &[]),
    ("keepsake", "uncollected diagnostics", &[]),
    ("residue", "uncollected diagnostics", &[]),
    ("verdict", "rule output, decision, result", &[]),
];

/// Where something is in front of something else, or lags.
const BEHIND: &[&str] = &[
    "behind a load balancer",
    "behind a balancer",
    "behind a lock",
    "behind nat",
    "behind narrows",
    "behind the proxy",
    "far behind",
    "further behind",
    "are behind",
    "is behind",
    "transactions behind",
    "behind::",
    "{behind}",
];

/// A process that is told to end receives a signal or a command.
const TOLD_TO: &[&str] = &["told to "];

/// What is built or installed, what quotes others, and this file.
const LEFT_OUT: &[&str] = &["target", "fuzz/target", "fuzz/corpus", "tests/vectors", "tests/e2e/wording.rs"];

/// Files with texts, by the end of their names.
const KINDS: &[&str] = &[
    ".rs", ".md", ".toml", ".sh", ".py", ".js", ".go", ".java", ".php", ".rb", ".c", ".lua", ".cnf", ".yml",
    ".service", ".socket", "postinst", "prerm", "postrm", "Makefile",
];

#[test]
fn texts_have_no_words_that_readers_stumble_over() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = files(root);
    assert!(files.len() > 500, "{} files", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).expect("a file of this repository").display().to_string();
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            let prose = if name.ends_with(".rs") { prose(line) } else { line.to_owned() };
            for (phrase, instead) in stumbles(&prose) {
                found.push(format!("{name}:{number}: `{phrase}`, write: {instead}\n    {}", line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{} phrases:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_phrase_is_found_as_whole_words_and_not_where_it_is_allowed() {
    let phrases = |line| stumbles(line).into_iter().map(|(phrase, _)| phrase).collect::<Vec<_>>();
    assert_eq!(phrases("the byte Behind it, and anew"), ["behind", "anew"]);
    assert!(phrases("seconds_behind, a server too far behind, renewed").is_empty());
    assert_eq!(phrases("it is told to end, and is told why"), ["is told"]);
    assert_eq!(prose("    let behind = f(\"a {x} b\"); // the rest"), "a {x} b the rest");
    assert_eq!(prose("    /// See http://x"), "See http://x");
}

/// The phrases in a line, each with what to write instead.
fn stumbles(line: &str) -> Vec<(&'static str, &'static str)> {
    let line = line.to_lowercase();
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let mut found = Vec::new();
    for (phrase, instead, allowed) in PHRASES {
        let is_bad = line.match_indices(phrase).any(|(at, _)| {
            let end = at + phrase.len();
            let is_whole = !is_part(line[..at].chars().next_back()) && !is_part(line[end..].chars().next());
            let is_allowed = allowed.iter().any(|longer| {
                line.match_indices(longer).any(|(start, _)| start < end && at < start + longer.len())
            });
            is_whole && !is_allowed
        });
        if is_bad {
            found.push((*phrase, *instead));
        }
    }
    found
}

/// What a line of Rust has in comments and in strings.
fn prose(line: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '/']) {
        let (first, after) = rest[at..].split_at(1);
        if first == "\"" {
            let end = closing_quote(after);
            parts.push(&after[..end]);
            rest = after.get(end + 1..).unwrap_or_default();
        } else if let Some(comment) = after.strip_prefix('/') {
            parts.push(comment.trim_start_matches(['/', '!']).trim());
            break;
        } else {
            rest = after;
        }
    }
    // A line inside of a string that began before it.
    if parts.is_empty() && line.trim_end().ends_with('\\') {
        parts.push(line);
    }
    parts.join(" ")
}

/// Where the string ends that `text` begins in.
fn closing_quote(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => return at,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// The files below a folder that have texts, apart from [`LEFT_OUT`].
fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("a path below the folder").display().to_string();
            let is_left_out = LEFT_OUT.iter().any(|place| name.starts_with(place));
            if is_left_out || name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if KINDS.iter().any(|kind| name.ends_with(kind)) {
                files.push(path);
            }
        }
    }
    files
}

//! Parses the text of a file into its tree, in either syntax.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::diagnostic::{Diagnostic, Problem, placed};
use super::tree::{Document, Position};
use super::{libconfig, toml_syntax};

pub use libconfig::ReadFile;

/// The two syntaxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// The syntax of `proxysql.cnf`.
    Libconfig,
    /// The syntax of `narrows.toml`.
    Toml,
}

/// Reads the file `path` as a tree, without interpreting the names in it: once more, so it cannot be a pipe.
///
/// # Errors
/// A file that cannot be read, or syntax errors.
pub fn document(path: &Path) -> Result<Document, Vec<Diagnostic>> {
    let text = read_included(path).map_err(|reason| unreadable(path, reason))?;
    parse(path, &text, &read_included)
}

/// Parses `text` in the syntax that it is written in.
///
/// A text that is valid in both syntaxes means the same in both; for a text that is valid in neither, the errors are
/// those of the syntax that it looks like.
pub fn parse(path: &Path, text: &str, read_file: ReadFile<'_>) -> Result<Document, Vec<Diagnostic>> {
    // Windows editors put this mark at the beginning of a file.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let libconfig = || libconfig::parse(path, text, read_file).map_err(|diagnostic| vec![diagnostic]);
    let toml = || toml_syntax::parse(path, text);
    match looks_like(text) {
        Syntax::Toml => toml().or_else(|problems| libconfig().map_err(|_| problems)),
        Syntax::Libconfig => libconfig().or_else(|problems| toml().map_err(|_| problems)),
    }
}

/// TOML if a line is a table header, which libconfig does not have.
pub fn looks_like(text: &str) -> Syntax {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_head = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let head = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let name = head.map(|name| name.trim_start_matches('[').trim_end_matches(']').trim());
        name.is_some_and(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name)
        })
    };
    if text.lines().any(is_head) { Syntax::Toml } else { Syntax::Libconfig }
}

/// The text of a file, or why it cannot be read.
pub fn read_file(path: &Path) -> Result<String, String> {
    let bytes = std::fs::File::open(path).and_then(read_bounded);
    in_utf8(bytes.map_err(|e| e.to_string())?)
}

/// The text of a file that another one includes, or that was read before. A pipe may be the file itself, of which a shell makes
/// one, but nobody writes to one that is included, and opening it would wait for a writer.
pub fn read_included(path: &Path) -> Result<String, String> {
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_fifo() => Err("it is a pipe".to_owned()),
        _ => read_file(path),
    }
}

/// All bytes of a configuration.
///
/// # Errors
/// If it cannot be read, or is so long that it is something else.
pub fn read_bounded(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LONGEST_FILE {
        true => Err(std::io::Error::other("it is longer than 64 MiB")),
        false => Ok(bytes),
    }
}

/// A million rules are shorter.
const LONGEST_FILE: u64 = 64 << 20;

/// Bytes as text, or which line is not.
pub fn in_utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|e| {
        let before = e.as_bytes().iter().take(e.utf8_error().valid_up_to());
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })
}

/// The diagnostic for a file that cannot be read.
pub fn unreadable(path: &Path, reason: String) -> Vec<Diagnostic> {
    vec![placed(&[path.to_owned()], Position::default(), Problem::Unreadable(reason))]
}

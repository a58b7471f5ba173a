//! The syntax of `narrows.toml`, read into the same tree as `proxysql.cnf`.
//!
//! The `toml` crate limits nesting, including that of dotted keys, so walking its tables cannot exhaust the stack.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Problem, placed};
use super::tree::{Document, Entry, Node, NodeValue, Position};

/// Reads `text`, the content of the file `path`; reports every syntax error.
pub fn parse(path: &Path, text: &str) -> Result<Document, Vec<Diagnostic>> {
    let files = vec![path.to_owned()];
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(Document { files, root: entries(table.get_ref(), &lines) });
    }
    Err(errors
        .iter()
        .map(|error| {
            let at = error.span().map_or_else(Position::default, |span| lines.position(span.start));
            mistake(&files, at, error.message())
        })
        .collect())
}

fn mistake(files: &[PathBuf], at: Position, message: &str) -> Diagnostic {
    placed(files, at, Problem::Syntax(message.replace('\n', ", ")))
}

/// The entries of a table, in the order of the file.
fn entries(table: &DeTable<'_>, lines: &Lines<'_>) -> Vec<Entry> {
    let mut spanned: Vec<_> = table.iter().collect();
    spanned.sort_by_key(|(name, _)| name.span().start);
    spanned
        .into_iter()
        .map(|(name, value)| Entry {
            name: name.get_ref().to_string(),
            at: lines.position(name.span().start),
            node: node(value, lines),
        })
        .collect()
}

fn node(spanned: &Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
    let written = || lines.text.get(spanned.span()).unwrap_or_default().to_owned();
    let value = match spanned.get_ref() {
        DeValue::String(text) => NodeValue::Text(text.to_string()),
        DeValue::Boolean(flag) => NodeValue::Flag(*flag),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) => NodeValue::Integer(value, written()),
            Err(_) => NodeValue::Literal(written()),
        },
        DeValue::Float(_) | DeValue::Datetime(_) => NodeValue::Literal(written()),
        DeValue::Array(array) => NodeValue::List(array.iter().map(|value| node(value, lines)).collect()),
        DeValue::Table(table) => NodeValue::Group(entries(table, lines)),
    };
    Node { value, at: lines.position(spanned.span().start) }
}

/// Finds the line and column of a byte.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Lines<'a> {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Lines { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or_default();
        let column = before.chars().count() + 1;
        Position { file: 0, line: to_u32(line), column: to_u32(column) }
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

//! A configuration file as a tree in which every name and value knows where it stands.
//!
//! Both syntaxes are read into this; nothing here knows which names exist.

use std::path::PathBuf;

/// Where something stands; line and column count from 1, a line of 0 means the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Index into [`Document::files`].
    pub file: usize,
    /// Line.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

/// A file and what it includes.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The file itself, then what it includes, in the order of reading.
    pub files: Vec<PathBuf>,
    /// The settings at the top.
    pub root: Vec<Entry>,
}

/// A name with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name as written.
    pub name: String,
    /// Where the name stands.
    pub at: Position,
    /// The value.
    pub node: Node,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it begins.
    pub at: Position,
}

/// What either syntax can say.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number, and its digits as written: `01` in a text column is not `1`.
    Integer(i64, String),
    /// A number with a fraction, or a date: kept as written, for text columns.
    Literal(String),
    /// A string.
    Text(String),
    /// `{ ... }`, or a TOML table.
    Group(Vec<Entry>),
    /// `( ... )` or `[ ... ]`.
    List(Vec<Node>),
}

impl Value {
    /// What it is, as an error message says it.
    pub fn describe(&self) -> String {
        match self {
            Value::Flag(flag) => flag.to_string(),
            Value::Integer(_, written) | Value::Literal(written) => written.clone(),
            Value::Text(text) => format!("{text:?}"),
            Value::Group(_) => "a group".to_owned(),
            Value::List(_) => "a list".to_owned(),
        }
    }
}

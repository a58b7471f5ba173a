//! A configuration file as a tree in which every name and value has its position.
//!
//! Both syntaxes are read into this; this file does not know which names exist.

use std::path::PathBuf;

/// The position of something; lines and columns count from 1, and line 0 means the file as a whole.
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
    /// The file itself, then included files in the order in which they are read.
    pub files: Vec<PathBuf>,
    /// The settings at the top.
    pub root: Vec<Entry>,
}

/// A name with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name as written.
    pub name: String,
    /// The position of the name.
    pub at: Position,
    /// The value.
    pub node: Node,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: NodeValue,
    /// Where it begins.
    pub at: Position,
}

/// The values in either syntax.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// `true` or `false`.
    Flag(bool),
    /// An integer, with its digits as written: `01` in a text column is not `1`.
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

impl NodeValue {
    /// Its description in error messages.
    pub fn describe(&self) -> String {
        match self {
            NodeValue::Flag(flag) => flag.to_string(),
            NodeValue::Integer(_, written) | NodeValue::Literal(written) => written.clone(),
            NodeValue::Text(text) => format!("{text:?}"),
            NodeValue::Group(_) => "a group".to_owned(),
            NodeValue::List(_) => "a list".to_owned(),
        }
    }
}

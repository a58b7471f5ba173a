//! The syntax of `proxysql.cnf`: the libconfig grammar.
//!
//! ```text
//! settings := { name ("=" | ":") value [";" | ","] }
//! value    := scalar | string { string } | "{" settings "}" | "(" [values] ")" | "[" [values] "]"
//! values   := value { "," value } [","]
//! ```
//!
//! Reading stops at the first error: what follows it cannot be interpreted. This file does not know which names exist.

mod token;

use std::path::{Path, PathBuf};

use super::diagnostic::{Diagnostic, Problem, placed};
use super::tree::{Document, Entry, Node, NodeValue};
pub use token::ReadFile;
use token::{Kind, Mistake, Token, Tokens};

/// How deep groups and lists may nest. Configurations use three levels; the limit keeps the stack small.
const DEEPEST_NESTING: usize = 64;

/// Reads `text`, the content of the file `path`; `read_file` returns included files.
pub fn parse(path: &Path, text: &str, read_file: ReadFile<'_>) -> Result<Document, Diagnostic> {
    let mut files = vec![path.to_owned()];
    match parse_tokens(&mut files, text, read_file) {
        Ok(root) => Ok(Document { files, root }),
        Err(mistake) => Err(placed(&files, mistake.at, Problem::Syntax(mistake.message))),
    }
}

fn parse_tokens(
    files: &mut Vec<PathBuf>,
    text: &str,
    read_file: ReadFile<'_>,
) -> Result<Vec<Entry>, Mistake> {
    let tokens = Tokens::of(files, text, read_file)?;
    let mut parser = Parser { tokens, next: 0 };
    parser.settings(Kind::End, 0)
}

struct Parser {
    /// Ends with [`Kind::End`], which is never consumed.
    tokens: Tokens,
    next: usize,
}

impl Parser {
    fn settings(&mut self, closing: Kind, depth: usize) -> Result<Vec<Entry>, Mistake> {
        let mut entries = Vec::new();
        loop {
            let token = self.peek();
            if token.kind == closing {
                return Ok(entries);
            }
            let at = token.at;
            let Kind::Name(name) = token.kind.clone() else {
                return Err(self.unexpected(&format!("a name or {}", closing.describe())));
            };
            self.take();
            if !self.take_if(&Kind::Assign) {
                return Err(self.unexpected(&format!("`=` or `:` after `{name}`")));
            }
            let node = self.value(depth)?;
            entries.push(Entry { name, at, node });
            if !self.take_if(&Kind::Semicolon) {
                self.take_if(&Kind::Comma);
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Mistake> {
        let Token { at, kind } = self.peek().clone();
        if depth == DEEPEST_NESTING {
            return Err(Mistake { at, message: format!("more than {DEEPEST_NESTING} levels of nesting") });
        }
        let value = match kind {
            Kind::Flag(flag) => NodeValue::Flag(flag),
            Kind::Integer(value, written) => NodeValue::Integer(value, written),
            Kind::Float(written) => NodeValue::Literal(written),
            Kind::Text(_) => return Ok(Node { value: NodeValue::Text(self.adjacent_strings()), at }),
            Kind::GroupOpen => {
                self.take();
                NodeValue::Group(self.settings(Kind::GroupClose, depth + 1)?)
            }
            Kind::ListOpen => {
                self.take();
                NodeValue::List(self.values(Kind::ListClose, depth + 1)?)
            }
            Kind::ArrayOpen => {
                self.take();
                NodeValue::List(self.values(Kind::ArrayClose, depth + 1)?)
            }
            _ => return Err(self.unexpected("a value")),
        };
        self.take();
        Ok(Node { value, at })
    }

    fn values(&mut self, closing: Kind, depth: usize) -> Result<Vec<Node>, Mistake> {
        let mut nodes = Vec::new();
        while self.peek().kind != closing {
            nodes.push(self.value(depth)?);
            if !self.take_if(&Kind::Comma) && self.peek().kind != closing {
                return Err(self.unexpected(&format!("`,` or {}", closing.describe())));
            }
        }
        Ok(nodes)
    }

    fn adjacent_strings(&mut self) -> String {
        let mut joined = String::new();
        while let Kind::Text(text) = &self.tokens.at(self.next).kind {
            joined.push_str(text);
            self.next += 1;
        }
        joined
    }

    fn peek(&self) -> &Token {
        self.tokens.at(self.next)
    }

    fn take(&mut self) {
        self.next += 1;
    }

    fn take_if(&mut self, kind: &Kind) -> bool {
        let found = self.peek().kind == *kind;
        self.next += usize::from(found);
        found
    }

    fn unexpected(&self, expected: &str) -> Mistake {
        let token = self.peek();
        Mistake { at: token.at, message: format!("expected {expected}, found {}", token.kind.describe()) }
    }
}

#[cfg(test)]
mod tests;

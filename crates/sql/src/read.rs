//! Which statements a replica may answer: those that are provably reads, and whose result does not depend on a server's
//! own state. When in doubt, a statement is not one of them.

use crate::flags::Flags;
use crate::functions;
use crate::kind::Kind;
use crate::statement::Statement;
use crate::token::{Escapes, Lexer, Token, TokenKind, quoted_body};

/// Whether `query`, classified as `statement`, changes nothing and reads nothing that belongs to one connection or one
/// server.
///
/// Functions that are not built in are only allowed if `is_safe` returns true for the lower-case name, prefixed with
/// its schema and a dot if the statement gives one. A backslash before a quote is read as an escape: the caller must
/// know whether the server reads it in the same way, see [`Flags::ESCAPED_QUOTE`].
pub fn is_read(query: &[u8], statement: Statement, is_safe: impl Fn(&str) -> bool) -> bool {
    const HARMLESS: Flags = Flags::USER_VARIABLE
        .union(Flags::SQL_NO_CACHE)
        .union(Flags::COMMENT)
        .union(Flags::ESCAPED_QUOTE)
        .union(Flags::ESCAPED_DOUBLE_QUOTE)
        .union(Flags::FROM)
        .union(Flags::LIMIT)
        .union(Flags::OFFSET)
        .union(OF_ONE_FAMILY);
    const CALLS: Flags = Flags::FUNCTION_CALL_UNKNOWN.union(Flags::SERVER_FUNCTION);
    let rest = statement.flags.without(HARMLESS);
    if statement.kind != Kind::Select || !rest.without(CALLS).is_empty() {
        return false;
    }
    let calls_unknown = !rest.is_empty();
    if !calls_unknown && memchr::memchr(b'.', query).is_none() {
        return true;
    }
    Names::new(query).all(|name| match name {
        Name::Schema(schema) => !is_of_server(schema),
        Name::Call { is_harmless: true, .. } => true,
        Name::Call { schema, name, .. } => !calls_unknown || is_safe_call(schema, name, &is_safe),
        // Reading a sequence consumes a value.
        Name::Word(word) => !calls_unknown || !SEQUENCES.iter().any(|one| word.eq_ignore_ascii_case(one)),
    })
}

fn is_safe_call(schema: Option<&[u8]>, name: &[u8], is_safe: impl Fn(&str) -> bool) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    match schema.map(std::str::from_utf8) {
        None => is_safe(&name.to_lowercase()),
        Some(Ok(schema)) => is_safe(&format!("{schema}.{name}").to_lowercase()),
        Some(Err(_)) => false,
    }
}

/// Whether a schema shows a server's own state: another server's result is different.
#[must_use]
pub fn is_of_server(schema: &[u8]) -> bool {
    let own: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];
    own.iter().any(|one| schema.eq_ignore_ascii_case(one))
}

/// Words by which sequences are read, with and without parentheses.
const SEQUENCES: [&[u8]; 6] = [b"NEXT", b"PREVIOUS", b"NEXTVAL", b"LASTVAL", b"SETVAL", b"CURRVAL"];

/// Functions that are built in on some servers: [`Statement::on`] tells what they are on others.
const OF_ONE_FAMILY: Flags = Flags::OF_MYSQL.union(Flags::OF_MARIADB);

/// What the names in a statement tell about it.
enum Name<'a> {
    /// It precedes a dot.
    Schema(&'a [u8]),
    /// It precedes a parenthesis.
    Call {
        schema: Option<&'a [u8]>,
        name: &'a [u8],
        /// It is a built-in function, on the servers that have it, that may run anywhere.
        is_harmless: bool,
    },
    /// It is on its own.
    Word(&'a [u8]),
}

/// Iterates over the names of a statement.
struct Names<'a> {
    lexer: Lexer<'a>,
    /// The name before the last dot.
    schema: Option<&'a [u8]>,
}

impl<'a> Names<'a> {
    fn new(query: &'a [u8]) -> Names<'a> {
        Names { lexer: Lexer::new(query, Escapes::Backslash), schema: None }
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = Name<'a>;

    fn next(&mut self) -> Option<Name<'a>> {
        loop {
            let token = self.lexer.next();
            if token.kind == TokenKind::End {
                return None;
            }
            let Some(name) = name_of(token) else {
                self.schema = None;
                continue;
            };
            let mut ahead = self.lexer.clone();
            let behind = ahead.next();
            if behind.is_symbol(b'.') {
                self.lexer = ahead;
                self.schema = Some(name);
                return Some(Name::Schema(name));
            }
            let schema = self.schema.take();
            if !behind.is_symbol(b'(') {
                return Some(Name::Word(name));
            }
            let flags = functions::named(name).flags_of_call(token.end() == behind.start, &ahead);
            let is_harmless =
                schema.is_none() && token.kind == TokenKind::Word && flags.without(OF_ONE_FAMILY).is_empty();
            return Some(Name::Call { schema, name, is_harmless });
        }
    }
}

/// What a token may name. A string in double quotes is a name if `sql_mode` has `ANSI_QUOTES`.
pub(crate) fn name_of(token: Token<'_>) -> Option<&[u8]> {
    match token.kind {
        TokenKind::Word | TokenKind::Number => Some(token.text),
        TokenKind::QuotedName => quoted_body(token.text).map(|(_, body)| body),
        TokenKind::Text => quoted_body(token.text).filter(|(quote, _)| *quote == b'"').map(|(_, body)| body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    fn reads(query: &str) -> bool {
        let safe = |name: &str| matches!(name, "safe_fn" | "shop.price");
        is_read(query.as_bytes(), classify(query.as_bytes()), safe)
    }

    /// The rows of `tests/vectors/reads.txt`: `read` or `write`, and a statement.
    #[test]
    fn tells_reads_from_everything_else() {
        let rows = include_str!("../tests/vectors/reads.txt").lines();
        let cases: Vec<(bool, String)> = rows
            .filter(|row| !row.starts_with('#') && !row.is_empty())
            .map(|row| row.split_once('|').expect("two parts"))
            .map(|(what, query)| (what.trim() == "read", query.trim().replace("\\n", "\n")))
            .collect();
        let wrong: Vec<_> = cases.iter().filter(|(read, query)| reads(query) != *read).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(cases.len() > 300, "{}", cases.len());
    }
}

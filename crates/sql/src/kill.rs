//! `KILL`: what it ends, and what to do with a text that contains one. Connection ids belong to the party that assigned them:
//! a proxy that assigns its own must handle every `KILL` itself.
//!
//! `KILL` is a reserved word in MySQL and MariaDB: unquoted and not after a dot, it is the statement ([`Flags::KILL`]).

use crate::flags::Flags;
use crate::statement::{classify_with, parts, single_end, text_kills};
use crate::token::{Escapes, Lexer, Token, TokenKind, unquote};

/// What a `KILL` statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillKind {
    /// The connection.
    Connection,
    /// Only the statement that it runs.
    Query,
}

/// A `KILL` statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillTarget {
    /// What to end.
    pub kind: KillKind,
    /// The connection id as the client knows it.
    pub id: u64,
}

/// How a `KILL` may give a connection other than by a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillId<'a> {
    /// `CONNECTION_ID()`.
    Own,
    /// `@name`, as it is written after the `@`.
    UserVariable(&'a [u8]),
}

/// What to do with a text that contains a `KILL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Killing {
    /// It is a single `KILL`, and nothing else.
    Alone(KillTarget),
    /// Execute these, and then this text, in which `DO 0` replaces each: the answer is the same.
    First(Vec<KillTarget>, Vec<u8>),
    /// It is only stored, in the body of a stored program.
    Defined,
    /// It is unknown what it would end, or when.
    Unknown,
}

/// The values of ids that are not numbers.
type Resolve<'r> = dyn Fn(KillId<'_>) -> Option<u64> + 'r;

/// Parses `KILL [HARD | SOFT] [CONNECTION | QUERY] id`. `None` for any other form, such as MariaDB's `KILL QUERY ID n`
/// (a query id, which the proxy does not assign) and `KILL USER name`.
#[must_use]
pub fn kill_target(query: &[u8]) -> Option<KillTarget> {
    target(query, Escapes::Backslash, &|_| None)
}

/// What to do with `query`, which has [`Flags::KILL`]; `resolve` returns the values of ids that are not numbers.
#[must_use]
pub fn killing(query: &[u8], escapes: Escapes, resolve: &Resolve<'_>) -> Killing {
    if depends_on_server(query, escapes) {
        return Killing::Unknown;
    }
    if defines_program(query, escapes) {
        return Killing::Defined;
    }
    let immediate = immediate(query, escapes);
    let alone = immediate.as_deref().unwrap_or(query);
    match target(alone, escapes, resolve) {
        Some(target) => Killing::Alone(target),
        None => first(query, escapes, resolve).unwrap_or(Killing::Unknown),
    }
}

/// Only kills that precede all other statements. A statement before a kill may fail, and then the kill must not happen.
fn first(query: &[u8], escapes: Escapes, resolve: &Resolve<'_>) -> Option<Killing> {
    if classify_with(query, escapes).flags.intersects(Flags::EXECUTABLE_COMMENT) {
        // It may end in a statement other than the one it begins in.
        return None;
    }
    let mut targets = Vec::new();
    let mut left = Vec::new();
    for (part, statement) in parts(query, escapes) {
        match target(part, escapes, resolve) {
            Some(target) if targets.len() == left.len() => {
                targets.push(target);
                left.push(b"DO 0".as_slice());
            }
            _ if statement.flags.intersects(Flags::KILL) => return None,
            _ => left.push(part),
        }
    }
    (!targets.is_empty()).then(|| Killing::First(targets, left.join(b";".as_slice())))
}

/// Whether there is a comment that some servers execute and others skip, or anything else that they read differently.
fn depends_on_server(query: &[u8], escapes: Escapes) -> bool {
    let mut lexer = Lexer::new(query, escapes);
    while lexer.next().kind != TokenKind::End {}
    lexer.oddities.version_comment || lexer.oddities.unsure
}

/// Whether `query` only creates or alters a stored program, whose body is the rest of it.
#[must_use]
pub fn defines_program(query: &[u8], escapes: Escapes) -> bool {
    const PROGRAMS: &[&str] = &["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"];
    const BEFORE: &[&str] = &["OR", "REPLACE", "DEFINER", "AGGREGATE", "CURRENT_USER", "CURRENT_ROLE"];
    let mut lexer = Lexer::new(query, escapes);
    if !lexer.next().is_any(&["CREATE", "ALTER"]) {
        return false;
    }
    let mut token = lexer.next();
    while !token.is_any(PROGRAMS) {
        let names_definer = matches!(token.kind, TokenKind::UserVariable | TokenKind::Text)
            || token.kind == TokenKind::QuotedName
            || token.is_symbol(b'=');
        if !token.is_any(BEFORE) && !names_definer {
            return false;
        }
        token = lexer.next();
    }
    // After a `;` the body continues as long as an `END` is still to come.
    let (mut several, mut kill, mut end) = (false, None, None);
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return kill < end || kill.is_none();
        }
        several |= token.is_symbol(b';');
        if token.is_word("END") {
            end = Some(token.start);
        } else if token.is_word("KILL") && several {
            kill = Some(token.start);
        }
    }
}

/// The text of an `EXECUTE IMMEDIATE 'text'`.
fn immediate(query: &[u8], escapes: Escapes) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(query, escapes);
    let begins = lexer.next().is_word("EXECUTE") && lexer.next().is_word("IMMEDIATE");
    let text = lexer.next();
    let after = lexer.next();
    let alone = begins && text.kind == TokenKind::Text && single_end(&mut lexer, after);
    alone.then(|| unquote(text.text))
}

/// The user variable, as written after the `@`, whose text `PREPARE .. FROM` or `EXECUTE IMMEDIATE` uses.
#[must_use]
pub fn prepared_variable(query: &[u8], escapes: Escapes) -> Option<&[u8]> {
    let mut lexer = Lexer::new(query, escapes);
    let (verb, word) = (lexer.next(), lexer.next());
    let takes = match (verb.is_word("PREPARE"), verb.is_word("EXECUTE")) {
        (true, _) => lexer.next().is_word("FROM"),
        (_, true) => word.is_word("IMMEDIATE"),
        _ => false,
    };
    let variable = lexer.next();
    let is_named = takes && variable.kind == TokenKind::UserVariable;
    variable.text.get(1..).filter(|_| is_named)
}

/// Whether a string literal, possibly preceded by a character set, is a text that contains a `KILL`.
#[must_use]
pub fn literal_kills(literal: &[u8]) -> bool {
    let mut lexer = Lexer::new(literal, Escapes::Backslash);
    loop {
        let token = lexer.next();
        match token.kind {
            TokenKind::End => return false,
            TokenKind::Text if text_kills(token.text, 0) => return true,
            _ => {}
        }
    }
}

fn target(query: &[u8], escapes: Escapes, resolve: &Resolve<'_>) -> Option<KillTarget> {
    let mut lexer = Lexer::new(query, escapes);
    if !lexer.next().is_word("KILL") {
        return None;
    }
    let mut token = lexer.next();
    if token.is_any(&["HARD", "SOFT"]) {
        token = lexer.next();
    }
    let kind = if token.is_word("QUERY") { KillKind::Query } else { KillKind::Connection };
    if token.is_any(&["CONNECTION", "QUERY"]) {
        token = lexer.next();
    }
    let id = id(token, &mut lexer, resolve)?;
    let after = lexer.next();
    single_end(&mut lexer, after).then_some(KillTarget { kind, id })
}

fn id(token: Token<'_>, lexer: &mut Lexer<'_>, resolve: &Resolve<'_>) -> Option<u64> {
    match token.kind {
        TokenKind::Number => std::str::from_utf8(token.text).ok()?.parse().ok(),
        TokenKind::UserVariable => resolve(KillId::UserVariable(token.text.get(1..)?)),
        TokenKind::Word if token.is_word("CONNECTION_ID") => {
            let is_call = lexer.next().is_symbol(b'(') && lexer.next().is_symbol(b')');
            if is_call { resolve(KillId::Own) } else { None }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    fn flagged(query: &str) -> bool {
        classify(query.as_bytes()).flags.intersects(Flags::KILL)
    }

    fn comes_to(query: &str) -> Killing {
        assert!(flagged(query), "{query}");
        killing(query.as_bytes(), Escapes::Backslash, &|id| match id {
            KillId::Own => Some(77),
            KillId::UserVariable(name) => name.eq_ignore_ascii_case(b"x").then_some(9),
        })
    }

    fn connection(id: u64) -> KillTarget {
        KillTarget { kind: KillKind::Connection, id }
    }

    #[test]
    fn sees_a_kill_wherever_it_is_one() {
        for query in [
            "KILL 5",
            "/*!50000 KILL 5*/",
            "SELECT 1; kill 5",
            "BEGIN NOT ATOMIC KILL 5; END",
            "SET STATEMENT max_statement_time = 1 FOR KILL 5",
            "CREATE PROCEDURE p() KILL 5",
            "PREPARE s FROM 'KILL 5'",
            "PREPARE `s` FROM 'KILL 5'",
            "SELECT 1; PREPARE statement_to_kill FROM \"kill ?\"",
            "EXECUTE IMMEDIATE 'KILL 5'",
            "EXECUTE IMMEDIATE CONCAT('KILL ', 5)",
            "PREPARE s FROM \"PREPARE t FROM 'KILL 5'\"",
        ] {
            assert!(flagged(query), "{query}");
        }
    }

    #[test]
    fn sees_a_kill_in_texts_in_texts_at_any_depth() {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
        for version in ["", " /*!99999 */"] {
            let (mut kills, mut reads) = ("KILL 5".to_owned(), "SELECT 5".to_owned());
            for _ in 0..14 {
                kills = format!("EXECUTE IMMEDIATE '{}'{version}", quoted(&kills));
                reads = format!("EXECUTE IMMEDIATE '{}'{version}", quoted(&reads));
                assert!(flagged(&kills));
                assert!(!flagged(&reads));
            }
        }
        assert!(flagged("EXECUTE IMMEDIATE 'K\\ILL 5'"));
        assert!(literal_kills(b"'KI\\LL 5'"));
    }

    #[test]
    fn sees_none_where_it_is_a_name_or_a_text() {
        for query in [
            "SELECT 'KILL 5'",
            "SELECT `kill` FROM t",
            "SELECT t.kill FROM t",
            "SELECT @kill, @@kill",
            "SELECT 1 -- ; KILL 5",
            "INSERT INTO kills (execute, prepare) VALUES ('KILL 5', 'kill')",
            "PREPARE s FROM 'SELECT \"KILL 5\"'",
            "PREPARE s FROM 'SELECT 1'; SELECT 'KILL 5'",
            "XA PREPARE 'kill'",
            "SELECT prepare FROM t WHERE a = 'KILL 5'",
        ] {
            assert!(!flagged(query), "{query}");
        }
    }

    #[test]
    fn tells_whom_a_kill_ends() {
        let query = |id| KillTarget { kind: KillKind::Query, id };
        for (text, target) in [
            ("KILL 5", connection(5)),
            ("/*!50000 KILL 5*/;", connection(5)),
            ("KILL HARD QUERY 5", query(5)),
            ("KILL CONNECTION_ID()", connection(77)),
            ("KILL QUERY @X", query(9)),
            ("EXECUTE IMMEDIATE 'KILL 5'", connection(5)),
        ] {
            assert_eq!(comes_to(text), Killing::Alone(target), "{text}");
        }
    }

    #[test]
    fn tells_kills_before_other_statements() {
        let first = |ids: &[u64], text: &str| {
            Killing::First(ids.iter().map(|id| connection(*id)).collect(), text.as_bytes().to_vec())
        };
        assert_eq!(comes_to("KILL 5; SELECT ';'"), first(&[5], "DO 0;SELECT ';'"));
        assert_eq!(comes_to("kill 5;kill 6;"), first(&[5, 6], "DO 0;DO 0"));
    }

    #[test]
    fn tells_what_it_does_not_know() {
        for text in [
            "SELECT 1; KILL 5",
            "KILL 5; SELECT 1; KILL 6",
            "KILL @x := 5",
            "KILL @y",
            "KILL 5 + 1",
            "KILL USER me",
            "KILL QUERY ID 5",
            "PREPARE s FROM 'KILL 5'",
            "EXECUTE IMMEDIATE CONCAT('KILL ', 5)",
            "BEGIN NOT ATOMIC KILL 5; END",
            "/*!99999 KILL 5 */",
            "/*M! KILL 5 */",
            "KILL 5 /*!80000 */",
            "/*!99999 ' */ KILL 5 -- '",
            "SELECT 1 /*!99999 ' */ ; KILL 5 -- '",
            "/*!50000 KILL 5; SELECT 1 */",
            "CREATE TABLE t (n INT); KILL 5",
            "CREATE PROCEDURE p() SELECT 1; KILL 5",
        ] {
            assert_eq!(comes_to(text), Killing::Unknown, "{text}");
        }
    }

    #[test]
    fn tells_where_it_is_only_written_down() {
        for text in [
            "CREATE PROCEDURE p() KILL 5",
            "CREATE OR REPLACE DEFINER=`me`@`%` PROCEDURE p() BEGIN SELECT 1; KILL 5; END",
            "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO KILL 5",
        ] {
            assert_eq!(comes_to(text), Killing::Defined, "{text}");
        }
    }

    #[test]
    fn tells_the_variable_that_a_text_is_taken_from() {
        let variable = |text: &'static str| prepared_variable(text.as_bytes(), Escapes::Backslash);
        assert_eq!(variable("PREPARE s FROM @a"), Some(b"a".as_slice()));
        assert_eq!(variable("EXECUTE IMMEDIATE @a"), Some(b"a".as_slice()));
        assert_eq!(variable("EXECUTE s USING @a"), None);
        assert!(literal_kills(b"_utf8mb4 'KILL 5' COLLATE utf8mb4_bin"));
        assert!(!literal_kills(b"'SELECT 5'"));
    }
}

//! What a statement leaves on its connection under a name, and which statement removes it again: locks of `GET_LOCK()`
//! and temporary tables.
//!
//! Code that releases a connection because of this must be certain. So only statements are recognised in which every
//! token is accounted for, and only ASCII names without escapes, which mean the same in every character set and every
//! `sql_mode`. For all others the result is `None`.

use std::borrow::Cow;

use crate::flags::Flags;
use crate::kind::Kind;
use crate::statement::{Statement, single_end};
use crate::token::{Escapes, Lexer, Token, TokenKind, unquote};
use crate::words::says;

/// A user-lock function, called once with a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// `GET_LOCK('name', timeout)`.
    Get(Vec<u8>),
    /// `RELEASE_LOCK('name')`.
    Release(Vec<u8>),
    /// `RELEASE_ALL_LOCKS()`.
    ReleaseAll,
}

/// A table and its schema, both as written, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    schema: Vec<u8>,
    table: Vec<u8>,
}

/// The calls in a `SELECT` or `DO` that consists only of calls of user-lock functions, each possibly with an alias: a
/// server that answers such a `SELECT` with one row, or such a `DO` with OK, has executed each of them once.
#[must_use]
pub fn lock_calls(query: &[u8]) -> Option<Vec<LockCall>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.take_any(&["SELECT", "DO"]) {
        return None;
    }
    let mut calls = Vec::new();
    loop {
        calls.push(lock_call(&mut lexer)?);
        let mut token = lexer.next();
        if token.is_word("FROM") {
            if !lexer.take_any(&["DUAL"]) {
                return None;
            }
            token = lexer.next();
        } else if token.is_word("AS") {
            name(lexer.next())?;
            token = lexer.next();
        } else if name(token).is_some() {
            token = lexer.next();
        }
        if !token.is_symbol(b',') {
            return (single_end(&mut lexer, token) && is_sure(&lexer)).then_some(calls);
        }
    }
}

fn lock_call(lexer: &mut Lexer<'_>) -> Option<LockCall> {
    let function = lexer.next();
    if !lexer.next().is_symbol(b'(') {
        return None;
    }
    if function.is_word("RELEASE_ALL_LOCKS") {
        return lexer.next().is_symbol(b')').then_some(LockCall::ReleaseAll);
    }
    let literal = lexer.next();
    let is_plain =
        literal.kind == TokenKind::Text && literal.text.is_ascii() && !literal.text.contains(&b'\\');
    let lock = is_plain.then(|| unquote(literal.text))?;
    let mut token = lexer.next();
    let call = if function.is_word("RELEASE_LOCK") {
        LockCall::Release(lock)
    } else if function.is_word("GET_LOCK") && token.is_symbol(b',') {
        token = lexer.next();
        while matches!(token.text, b"-" | b".") || token.kind == TokenKind::Number {
            token = lexer.next();
        }
        LockCall::Get(lock)
    } else {
        return None;
    };
    token.is_symbol(b')').then_some(call)
}

/// The table that a `CREATE TEMPORARY TABLE` creates, if `schema` is the default one.
#[must_use]
pub fn created_temporary_table(query: &[u8], schema: Option<&[u8]>) -> Option<TableName> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.take_any(&["CREATE"]) || (lexer.take_any(&["OR"]) && !lexer.take_any(&["REPLACE"])) {
        return None;
    }
    if !lexer.take_any(&["TEMPORARY"]) || !lexer.take_any(&["TABLE"]) {
        return None;
    }
    if lexer.take_any(&["IF"]) && !(lexer.take_any(&["NOT"]) && lexer.take_any(&["EXISTS"])) {
        return None;
    }
    let (name, _) = table_name(&mut lexer, schema)?;
    while lexer.next().kind != TokenKind::End {}
    is_sure(&lexer).then_some(name)
}

/// The tables that are no longer temporary tables once this `DROP [TEMPORARY] TABLE` has succeeded, if `schema` is the
/// default one.
#[must_use]
pub fn dropped_tables(query: &[u8], schema: Option<&[u8]>) -> Option<Vec<TableName>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.take_any(&["DROP"]) {
        return None;
    }
    lexer.take_any(&["TEMPORARY"]);
    if !lexer.take_any(&["TABLE", "TABLES"]) {
        return None;
    }
    if lexer.take_any(&["IF"]) && !lexer.take_any(&["EXISTS"]) {
        return None;
    }
    let mut names = Vec::new();
    loop {
        let (name, mut token) = table_name(&mut lexer, schema)?;
        names.push(name);
        if token.is_symbol(b',') {
            continue;
        }
        if token.is_any(&["RESTRICT", "CASCADE"]) {
            token = lexer.next();
        }
        return (single_end(&mut lexer, token) && is_sure(&lexer)).then_some(names);
    }
}

/// `table` or `schema.table`, and the token after it.
fn table_name<'a>(lexer: &mut Lexer<'a>, schema: Option<&[u8]>) -> Option<(TableName, Token<'a>)> {
    let first = name(lexer.next())?;
    let token = lexer.next();
    if !token.is_symbol(b'.') {
        return Some((
            TableName { schema: schema.filter(|name| name.is_ascii())?.to_vec(), table: first },
            token,
        ));
    }
    let table = name(lexer.next())?;
    Some((TableName { schema: first, table }, lexer.next()))
}

/// What a token names, if it can be a name at all. A string in double quotes can be one with `ANSI_QUOTES`; without it,
/// a server does not accept it as a name.
fn name(token: Token<'_>) -> Option<Vec<u8>> {
    let names = match token.kind {
        TokenKind::Word | TokenKind::QuotedName | TokenKind::Number => true,
        TokenKind::Text => token.text.starts_with(b"\""),
        _ => false,
    };
    (names && token.text.is_ascii() && !token.text.contains(&b'\\')).then(|| unquote(token.text))
}

/// Whether every server reads the whole text as it was read here.
fn is_sure(lexer: &Lexer<'_>) -> bool {
    !lexer.oddities.unterminated && !lexer.oddities.executable_comment
}

/// Whether a statement may call a function that is not built in, which may set variables or take locks. Statements that
/// only define something have parentheses after names that are not calls.
#[must_use]
pub fn may_call(query: &[u8], statement: &Statement) -> bool {
    if !statement.flags.intersects(Flags::FUNCTION_CALL_UNKNOWN) {
        return false;
    }
    match statement.kind {
        Kind::Alter
        | Kind::Drop
        | Kind::DropTable
        | Kind::DropTemporaryTable
        | Kind::Grant
        | Kind::Rename
        | Kind::Truncate => false,
        Kind::Create | Kind::CreateTemporaryTable => makes_table_of_rows(query),
        _ => true,
    }
}

/// Whether a statement may be a `CREATE TABLE` followed by a query.
fn makes_table_of_rows(query: &[u8]) -> bool {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    lexer.next();
    while lexer.take_any(&["OR", "REPLACE", "TEMPORARY"]) {}
    lexer.take_any(&["TABLE"]) && (says(query, b"select") || says(query, b"values"))
}

/// Whether an `ALTER` may give something another name.
#[must_use]
pub fn may_rename(query: &[u8]) -> bool {
    says(query, b"rename")
}

/// Whether a statement may have a text parsed while it runs, and so give a parse error though some of it has run.
#[must_use]
pub fn may_parse_later(query: &[u8]) -> bool {
    [&b"execute"[..], b"call", b"prepare", b"against"].iter().any(|word| says(query, word))
}

/// The `index`th token of a statement, counted from 0, in upper case; empty if there is none. Comments do not count.
#[must_use]
pub fn word_at(query: &[u8], index: usize) -> Cow<'_, [u8]> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    for _ in 0..index {
        lexer.next();
    }
    let text = lexer.next().text;
    match text.iter().any(u8::is_ascii_lowercase) {
        true => Cow::Owned(text.to_ascii_uppercase()),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    fn calls(query: &str) -> Option<Vec<LockCall>> {
        lock_calls(query.as_bytes())
    }

    #[test]
    fn reads_calls_that_are_made_once() {
        let get = |name: &str| LockCall::Get(name.into());
        let release = |name: &str| LockCall::Release(name.into());
        for (query, expected) in [
            ("SELECT GET_LOCK('a', 10)", vec![get("a")]),
            ("do get_lock ( \"it''s\" , -1 ) ;", vec![get("it''s")]),
            ("/* x */ SELECT GET_LOCK('it''s', 0.5) AS got -- y", vec![get("it's")]),
            ("SELECT RELEASE_LOCK('a') FROM DUAL", vec![release("a")]),
            ("SELECT RELEASE_LOCK('a') `freed`, RELEASE_LOCK('b')", vec![release("a"), release("b")]),
            ("DO RELEASE_ALL_LOCKS()", vec![LockCall::ReleaseAll]),
        ] {
            assert_eq!(calls(query), Some(expected), "{query}");
        }
    }

    #[test]
    fn reads_no_calls_that_may_be_made_never_or_twice() {
        for query in [
            "",
            "SELECT 1",
            "SELECT RELEASE_LOCK('a') FROM t WHERE 1 = 0",
            "SELECT RELEASE_LOCK('a') LIMIT 0",
            "SELECT RELEASE_LOCK('a') WHERE 0",
            "SELECT RELEASE_LOCK('a') INTO @b",
            "SELECT RELEASE_LOCK('a') + 1",
            "SELECT 1 OR RELEASE_LOCK('a')",
            "SELECT RELEASE_LOCK('a'), 1",
            "SELECT RELEASE_LOCK('a'); SELECT 1",
            "SELECT RELEASE_LOCK('a') /*! FROM t WHERE 0 */",
            "SELECT /*!99999 RELEASE_LOCK('a') */",
            "SELECT RELEASE_LOCK(_latin1'a')",
            "SELECT RELEASE_LOCK('a' 'b')",
            "SELECT RELEASE_LOCK('a\\'')",
            "SELECT RELEASE_LOCK('\u{e9}')",
            "SELECT RELEASE_LOCK(a)",
            "SELECT RELEASE_LOCK('a'",
            "SELECT RELEASE_ALL_LOCKS('a')",
            "SELECT `RELEASE_LOCK`('a')",
            "SELECT db.RELEASE_LOCK('a')",
            "SELECT SQL_CALC_FOUND_ROWS RELEASE_LOCK('a')",
            "SELECT GET_LOCK('a')",
            "SELECT GET_LOCK('a', ?)",
            "EXPLAIN SELECT RELEASE_LOCK('a')",
        ] {
            assert_eq!(calls(query), None, "{query}");
        }
    }

    #[test]
    fn names_tables_with_their_schemas() {
        let table = |schema: &str, table: &str| TableName { schema: schema.into(), table: table.into() };
        let created = |query: &str| created_temporary_table(query.as_bytes(), Some(b"now"));
        for (query, expected) in [
            ("CREATE TEMPORARY TABLE a (n INT)", table("now", "a")),
            ("create or replace temporary table if not exists `A b`.`c``d` like e", table("A b", "c`d")),
            ("CREATE TEMPORARY TABLE \"x\".2y SELECT 1", table("x", "2y")),
        ] {
            assert_eq!(created(query), Some(expected), "{query}");
        }
        assert_eq!(created_temporary_table(b"CREATE TEMPORARY TABLE a (n INT)", None), None);
        for query in [
            "CREATE TABLE a (n INT)",
            "CREATE TEMPORARY SEQUENCE a",
            "CREATE TEMPORARY TABLE /*!99999 b */ a (n INT)",
            "CREATE TEMPORARY TABLE \u{e9} (n INT)",
            "CREATE TEMPORARY TABLE",
        ] {
            assert_eq!(created(query), None, "{query}");
        }
        let dropped = |query: &str| dropped_tables(query.as_bytes(), Some(b"now"));
        for (query, expected) in [
            ("DROP TEMPORARY TABLE a", vec![table("now", "a")]),
            ("drop tables if exists a, `b c` . d cascade;", vec![table("now", "a"), table("b c", "d")]),
        ] {
            assert_eq!(dropped(query), Some(expected), "{query}");
        }
        for query in [
            "DROP TABLE",
            "DROP TABLE a b",
            "DROP TABLE a; SELECT 1",
            "/*!99999 DROP TABLE a */",
            "DROP VIEW a",
        ] {
            assert_eq!(dropped(query), None, "{query}");
        }
    }

    #[test]
    fn definitions_call_nothing() {
        let calls = |query: &str| may_call(query.as_bytes(), &classify(query.as_bytes()));
        for query in [
            "SELECT f(1)",
            "INSERT INTO t VALUES (f())",
            "SET @a = f()",
            "SHOW TABLES WHERE f()",
            "CREATE TABLE t SELECT f()",
            "CREATE TEMPORARY TABLE t (n INT) AS (SELECT db.f() AS n)",
            "LOAD DATA INFILE 'x' INTO TABLE t SET a = f()",
            "KILL f()",
        ] {
            assert!(calls(query), "{query}");
        }
        for query in [
            "CREATE INDEX i ON t (a)",
            "CREATE TABLE t (kind ENUM('a'), FOREIGN KEY (a) REFERENCES u (b))",
            "CREATE VIEW v AS SELECT f()",
            "CREATE PROCEDURE p() SELECT f()",
            "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0), ADD COLUMN b SET('x')",
            "INSERT INTO t (a) VALUES (1)",
            "INSERT t (a) VALUES (1)",
            "INSERT INTO db.t (a) VALUES (UUID_SHORT())",
            "SELECT COUNT(*) FROM t",
        ] {
            assert!(!calls(query), "{query}");
        }
    }

    #[test]
    fn what_may_rename_or_parse_is_told_in_any_case() {
        assert!(may_rename(b"ALTER TABLE t ReName u") && !may_rename(b"ALTER TABLE t ADD n INT"));
        assert!(may_parse_later(b"BEGIN NOT ATOMIC Execute IMMEDIATE @a; END"));
        assert!(!may_parse_later(b"BEGIN NOT ATOMIC SELECT 1; END"));
    }

    #[test]
    fn words_are_counted_without_comments() {
        assert_eq!(&*word_at(b"/* x */ lock /* y */ instance FOR BACKUP", 1), b"INSTANCE");
        assert_eq!(&*word_at(b"LOCK", 1), b"");
    }
}

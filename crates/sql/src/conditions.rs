//! Warnings and errors of earlier statements: what `SHOW WARNINGS` requests, and which statements keep them in MariaDB.

use crate::flags::Flags;
use crate::found_rows::shows_by_select;
use crate::kind::Kind;
use crate::statement::{Statement, classify};
use crate::substitute::Dialect;
use crate::token::{Escapes, Lexer, Token, TokenKind, unquote};

/// What a `SHOW WARNINGS`, a `SHOW ERRORS` or a count of either requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownConditions {
    /// `COUNT(*)`: how many there are.
    pub counts: bool,
    /// Only errors.
    pub errors_only: bool,
    /// Rows that its `LIMIT` skips.
    pub offset: usize,
    /// The most rows that its `LIMIT` allows.
    pub limit: usize,
}

/// Parses a statement of [`Kind::ShowWarnings`].
#[must_use]
pub fn shown_conditions(query: &[u8]) -> ShownConditions {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let mut shown = ShownConditions { counts: false, errors_only: false, offset: 0, limit: usize::MAX };
    loop {
        let token = lexer.next();
        if token.ends_statement() {
            return shown;
        }
        shown.counts |= token.is_word("COUNT");
        shown.errors_only |= token.is_word("ERRORS");
        if token.is_word("LIMIT") {
            (shown.offset, shown.limit) = limit(&mut lexer);
            return shown;
        }
    }
}

/// After `LIMIT`: the rows to skip, and those to show.
fn limit(lexer: &mut Lexer<'_>) -> (usize, usize) {
    let number = |token: Token<'_>| std::str::from_utf8(token.text).ok()?.parse::<usize>().ok();
    let Some(first) = number(lexer.next()) else { return (0, usize::MAX) };
    let between = lexer.next();
    if between.is_symbol(b',') {
        (first, number(lexer.next()).unwrap_or(usize::MAX))
    } else if between.is_word("OFFSET") {
        (number(lexer.next()).unwrap_or_default(), first)
    } else {
        (0, first)
    }
}

/// What a statement without conditions of its own does to those of the statement before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// They stay.
    Kept,
    /// They are gone.
    Cleared,
    /// That depends on what its text does not show.
    Unknown,
}

/// What becomes of earlier conditions on MySQL: only some stored programs keep them when they are created.
#[must_use]
pub fn earlier_conditions_on_mysql(query: &[u8], statement: &Statement) -> Earlier {
    let keeps = statement.kind == Kind::Create
        && words(query).any(|word| word.is_word("DECLARE"))
        && words(query).any(|word| word.is_any(&["CONDITION", "HANDLER"]));
    if keeps { Earlier::Kept } else { Earlier::Cleared }
}

/// What becomes of earlier conditions on MariaDB: statements that use a table clear them.
#[must_use]
pub fn earlier_conditions_on_mariadb(query: &[u8], statement: &Statement) -> Earlier {
    use Earlier::{Cleared, Kept, Unknown};
    let by_table = |uses: bool| if uses { Cleared } else { Kept };
    match statement.kind {
        Kind::Select | Kind::Do | Kind::Set | Kind::ExplainAnalyze => reads(query, statement),
        Kind::SetStatement => match reads(query, statement) {
            Kept if words(query).any(|word| word.is_any(OTHER_THAN_SELECT)) => Unknown,
            found => found,
        },
        Kind::Explain => explains(query, statement),
        Kind::Insert
        | Kind::Replace
        | Kind::Update
        | Kind::Delete
        | Kind::LoadData
        | Kind::LoadDataLocal
        | Kind::LockTables
        | Kind::FlushTablesWithReadLock
        | Kind::CreateTemporaryTable
        | Kind::DropTemporaryTable
        | Kind::DropTable
        | Kind::Truncate
        | Kind::Handler => Cleared,
        Kind::Use | Kind::SetTransaction | Kind::UnlockTables | Kind::Kill => Kept,
        Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Xa | Kind::Empty => Kept,
        Kind::Savepoint | Kind::ReleaseSavepoint | Kind::RollbackToSavepoint => Kept,
        Kind::Deallocate => Kept,
        // Its text is read, and its tables are opened.
        Kind::Prepare => match prepared_text(query) {
            Some(text) => {
                let statement = classify(&text);
                match statement.kind {
                    Kind::ShowWarnings | Kind::GetDiagnostics => Kept,
                    Kind::Prepare => Unknown,
                    _ => earlier_conditions_on_mariadb(&text, &statement),
                }
            }
            None => Unknown,
        },
        Kind::Create | Kind::Alter | Kind::Drop | Kind::Rename => {
            let object = words(query).find_map(|word| {
                let of = |words: &[&str]| word.is_any(words);
                match statement.kind {
                    Kind::Create if of(&["EVENT"]) => Some(Unknown),
                    Kind::Create if of(&["TRIGGER"]) => Some(Cleared),
                    _ if of(WITHOUT_TABLES) => Some(Kept),
                    _ if of(WITH_TABLES) => Some(Cleared),
                    _ => None,
                }
            });
            object.unwrap_or(Unknown)
        }
        Kind::Flush => {
            let mut after = words(query).skip_while(|word| !word.is_any(&["TABLE", "TABLES"])).skip(1);
            by_table(after.next().is_some() || query.contains(&b'`'))
        }
        // `ON t` in the place of `ON shop.*` and of `ON PROCEDURE p`.
        Kind::Grant => {
            let named = words(query).skip_while(|word| !word.is_word("ON")).nth(1);
            by_table(named.is_some_and(|word| !word.is_any(WITHOUT_TABLES)) && !query.contains(&b'*'))
        }
        Kind::Show => {
            let names = words(query).any(|word| word.is_any(&["TABLE", "VIEW"]));
            by_table(shows_by_select(query, statement) || names)
        }
        Kind::Admin => {
            let of = |first: &[&str]| words(query).next().is_some_and(|word| word.is_any(first));
            match () {
                () if of(&["CHECK", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECKSUM", "CACHE"]) => Cleared,
                () if of(&["PURGE", "RESET", "CHANGE", "START", "STOP"]) => Kept,
                () => Unknown,
            }
        }
        Kind::Other if words(query).next().is_some_and(|word| word.is_word("HELP")) => Kept,
        _ => Unknown,
    }
}

/// The text in `PREPARE .. FROM '..'`.
fn prepared_text(query: &[u8]) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let (_prepare, _name, from, text) = (lexer.next(), lexer.next(), lexer.next(), lexer.next());
    let alone = text.kind == TokenKind::Text && lexer.peek().ends_statement();
    (from.is_word("FROM") && alone).then(|| unquote(text.text))
}

/// What `CREATE`, `ALTER`, `DROP` and `RENAME` may be about: without a table.
const WITHOUT_TABLES: &[&str] = &[
    "DATABASE",
    "SCHEMA",
    "USER",
    "ROLE",
    "PROCEDURE",
    "FUNCTION",
    "PACKAGE",
    "EVENT",
    "SERVER",
    // Of a trigger that is dropped, the table is found by the server.
    "TRIGGER",
];

/// The same with a table.
const WITH_TABLES: &[&str] = &["TABLE", "TABLES", "VIEW", "INDEX", "SEQUENCE"];

/// In a `SET STATEMENT`, words of statements that are none of those for which a `FROM` decides.
const OTHER_THAN_SELECT: &[&str] =
    &["INTO", "UPDATE", "TABLE", "REPLACE", "CALL", "EXECUTE", "ALTER", "CREATE", "DROP", "DESC", "DESCRIBE"];

/// A statement for which only its text decides whether it uses a table.
fn reads(query: &[u8], statement: &Statement) -> Earlier {
    let statement = statement.on(Dialect::MariaDb);
    let draws = statement.flags.intersects(Flags::LAST_VALUE)
        || statement.flags.intersects(Flags::FUNCTION_CALL_UNKNOWN)
            && words(query).any(|word| word.is_any(&["NEXTVAL", "SETVAL", "NEXT"]));
    if draws || statement.flags.intersects(Flags::FROM) && reads_a_table(query) {
        Earlier::Cleared
    } else if statement.flags.intersects(Flags::FUNCTION_CALL_UNKNOWN) {
        Earlier::Unknown
    } else {
        Earlier::Kept
    }
}

/// `EXPLAIN` of a statement, or `DESCRIBE` of a table.
fn explains(query: &[u8], statement: &Statement) -> Earlier {
    let first = first_explained(query);
    if first.is_word("FOR") {
        Earlier::Unknown
    } else if first.is_symbol(b'(') || first.is_any(&["SELECT", "WITH", "VALUES"]) {
        reads(query, statement)
    } else {
        Earlier::Cleared
    }
}

/// What an `EXPLAIN` or a `DESCRIBE` is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explained {
    /// The columns of a table, as `SHOW COLUMNS` shows them.
    Table,
    /// The plan of a statement.
    Statement,
}

/// What a statement of [`Kind::Explain`] is about.
pub(crate) fn explained(query: &[u8]) -> Explained {
    const BEGIN: &[&str] = &[
        "SELECT", "WITH", "VALUES", "TABLE", "INSERT", "REPLACE", "UPDATE", "DELETE", "FOR", "INTO",
        "SCHEMA", "DATABASE",
    ];
    let first = first_explained(query);
    match first.is_symbol(b'(') || first.is_any(BEGIN) {
        true => Explained::Statement,
        false => Explained::Table,
    }
}

/// The first token of what is explained.
fn first_explained(query: &[u8]) -> Token<'_> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    lexer.next();
    loop {
        let token = lexer.next();
        if token.is_word("FORMAT") {
            // `= JSON`.
            lexer.next();
            lexer.next();
        } else if !token.is_any(&["EXTENDED", "PARTITIONS"]) {
            return token;
        }
    }
}

/// Whether a `FROM` names a table: not `DUAL`, and not that of `EXTRACT(.. FROM ..)`, `TRIM(.. FROM ..)` and
/// `SUBSTRING(.. FROM ..)`.
fn reads_a_table(query: &[u8]) -> bool {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    // Whether each open parenthesis is that of such a function. The outermost ones of very deep texts do not count.
    let mut open: Vec<bool> = Vec::new();
    let mut after_function = false;
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return false;
        }
        if token.is_symbol(b'(') {
            if open.len() == DEEPEST {
                return true;
            }
            open.push(after_function);
        } else if token.is_symbol(b')') {
            open.pop();
        } else if token.is_word("FROM") && open.last() != Some(&true) && !lexer.peek().is_word("DUAL") {
            return true;
        }
        after_function = token.is_any(&["EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "MID"]);
    }
}

/// Parentheses that are followed; a text with more of them is taken for one that reads a table.
const DEEPEST: usize = 256;

fn words(query: &[u8]) -> impl Iterator<Item = Token<'_>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let tokens = std::iter::from_fn(move || Some(lexer.next()).filter(|token| token.kind != TokenKind::End));
    tokens.filter(|token| token.kind == TokenKind::Word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    #[test]
    fn reads_what_is_shown() {
        for (query, counts, errors_only, offset, limit) in [
            ("SHOW WARNINGS", false, false, 0, usize::MAX),
            ("show /* ERRORS LIMIT 1 */ warnings limit 3", false, false, 0, 3),
            ("SHOW ERRORS LIMIT 2,3;", false, true, 2, 3),
            ("SHOW ERRORS LIMIT 3 OFFSET 2 -- a", false, true, 2, 3),
            ("SHOW COUNT(*) ERRORS", true, true, 0, usize::MAX),
            ("SHOW count ( * ) WARNINGS", true, false, 0, usize::MAX),
            ("SHOW WARNINGS LIMIT ?", false, false, 0, usize::MAX),
            ("SHOW WARNINGS; SHOW ERRORS", false, false, 0, usize::MAX),
        ] {
            let expected = ShownConditions { counts, errors_only, offset, limit };
            assert_eq!(shown_conditions(query.as_bytes()), expected, "{query}");
        }
    }

    #[test]
    fn statements_without_tables_keep_conditions_on_mariadb() {
        const KEPT: &[&str] = &[
            "SELECT 1",
            "SELECT 'a FROM t' -- FROM t",
            "SELECT 1 FROM DUAL",
            "SELECT 1 WHERE 1 IN (SELECT 1 FROM dual)",
            "SELECT EXTRACT(YEAR FROM NOW()), TRIM(LEADING 'a' FROM 'ab'), SUBSTRING('abc' FROM 2)",
            "VALUES (1)",
            "EXPLAIN SELECT 1",
            "EXPLAIN FORMAT = JSON SELECT 1 FROM DUAL",
            "ANALYZE SELECT 1",
            "DO 1",
            "SET @a = 1",
            "SET STATEMENT max_statement_time = 0 FOR SELECT 1",
            "USE shop",
            "COMMIT",
            "DEALLOCATE PREPARE p",
            "PREPARE p FROM 'SELECT ''a'''",
            "PREPARE p FROM 'SHOW WARNINGS'",
            "create or replace /* a */ procedure p() SELECT 1",
            "CREATE DEFINER = root@localhost FUNCTION f() RETURNS INT RETURN 1",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'a')",
            "ALTER EVENT e COMMENT 'a'",
            "ALTER PROCEDURE p COMMENT 'a'",
            "ALTER FUNCTION f COMMENT 'a'",
            "ALTER DATABASE shop CHARACTER SET latin1",
            "ALTER USER u IDENTIFIED BY 'a'",
            "DROP EVENT e",
            "DROP SERVER s",
            "DROP TRIGGER g",
            "DROP DATABASE shop",
            "RENAME USER u TO v",
            "HELP 'SELECT'",
            "SHOW GRANTS",
            "SHOW CREATE DATABASE shop",
            "GRANT SELECT ON shop.* TO u",
            "REVOKE r FROM u",
            "GRANT EXECUTE ON PROCEDURE p TO u",
            "FLUSH TABLES",
            "FLUSH STATUS",
            "PURGE BINARY LOGS BEFORE '2000-01-01'",
        ];
        const CLEARED: &[&str] = &[
            "SELECT 1 FROM t",
            "SELECT 1 FROM (SELECT 1) t",
            "SELECT (SELECT 1 FROM t)",
            "SELECT EXTRACT(YEAR FROM (SELECT d FROM t))",
            "SELECT TRIM(LEADING 'a' FROM 'ab') FROM t",
            "SELECT NEXTVAL(s)",
            "SELECT LASTVAL(s)",
            "DESCRIBE t",
            "DESC t a",
            "EXPLAIN t",
            "EXPLAIN EXTENDED SELECT 1 FROM t",
            "EXPLAIN UPDATE t SET a = 1",
            "EXPLAIN INSERT INTO t VALUES (1)",
            "SET @a = (SELECT 1 FROM t)",
            "SET STATEMENT max_statement_time = 0 FOR SELECT 1 FROM t",
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE user (n INT)",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
            "CREATE VIEW v AS SELECT 1",
            "ALTER TABLE t ADD n INT",
            "DROP TABLE t",
            "RENAME TABLE t TO u",
            "PREPARE p FROM 'SELECT 1 FROM t'",
            "SHOW TABLES",
            "SHOW CREATE TABLE t",
            "SHOW CREATE/* a */VIEW v",
            "GRANT SELECT ON t TO u",
            "FLUSH TABLES t",
            "LOCK TABLES t READ",
            "CHECK TABLE t",
            "HANDLER t OPEN",
        ];
        const UNKNOWN: &[&str] = &[
            "SELECT f()",
            "CALL p()",
            "EXECUTE p",
            "PREPARE p FROM @a",
            "PREPARE p FROM 'SELECT f()'",
            "SET STATEMENT max_statement_time = 0 FOR INSERT INTO t VALUES (1)",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
            "BEGIN NOT ATOMIC SELECT 1; END",
        ];
        for (queries, expected) in
            [(KEPT, Earlier::Kept), (CLEARED, Earlier::Cleared), (UNKNOWN, Earlier::Unknown)]
        {
            for query in queries {
                let statement = classify(query.as_bytes());
                let found = earlier_conditions_on_mariadb(query.as_bytes(), &statement);
                assert_eq!(found, expected, "{query}: {:?}", statement.kind);
            }
        }
    }

    #[test]
    fn stored_programs_with_conditions_keep_earlier_ones_on_mysql() {
        for (query, expected) in [
            ("CREATE PROCEDURE p() BEGIN DECLARE c CONDITION FOR 1062; END", Earlier::Kept),
            (
                "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN DECLARE EXIT HANDLER FOR 1 SET @a = 1; END",
                Earlier::Kept,
            ),
            ("CREATE PROCEDURE p() BEGIN DECLARE n INT; END", Earlier::Cleared),
            ("SELECT 1", Earlier::Cleared),
        ] {
            let found = earlier_conditions_on_mysql(query.as_bytes(), &classify(query.as_bytes()));
            assert_eq!(found, expected, "{query}");
        }
    }
}

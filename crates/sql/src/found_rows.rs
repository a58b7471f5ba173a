//! What `FOUND_ROWS()` counts for a statement, as far as its text shows.

use crate::conditions::{Explained, explained};
use crate::flags::Flags;
use crate::kind::Kind;
use crate::leftovers::word_at;
use crate::set::Assignment;
use crate::statement::{Statement, classify};
use crate::substitute::Dialect;
use crate::token::Escapes;
use crate::words::says;

/// Whether a `SELECT` may end in a `LIMIT` with an offset: servers include the rows that it skips, as many as there
/// are.
#[must_use]
pub fn has_offset(query: &[u8], statement: &Statement) -> bool {
    // In the last two cases it is not certain where a string ends.
    if !statement.flags.intersects(Flags::OFFSET | Flags::ESCAPED_QUOTE | Flags::UNTERMINATED) {
        return false;
    }
    let tail = tail(query);
    (0..tail.len()).any(|start| {
        let rest = tail.get(start..).unwrap_or_default();
        let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
        begins(b"OFFSET") || begins(b"LIMIT") && rest.contains(&b',')
    })
}

/// The offset in the `LIMIT` at the end of a `SELECT`, if it is a plain number and there can be no other result.
#[must_use]
pub fn literal_offset(query: &[u8]) -> Option<u64> {
    let tail = std::str::from_utf8(tail(query)).ok()?;
    let tail = tail.trim_end_matches(|end: char| end.is_ascii_whitespace() || end == ';').replace(',', " , ");
    let mut words = tail.split_ascii_whitespace().rev();
    let (last, between, first, limit) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (last, first): (u64, u64) = (last.parse().ok()?, first.parse().ok()?);
    match between {
        _ if !limit.eq_ignore_ascii_case("limit") || says(query, b"union") => None,
        "," => Some(first),
        word => word.eq_ignore_ascii_case("offset").then_some(last),
    }
}

/// The end of a statement, which is searched for a `LIMIT`.
fn tail(query: &[u8]) -> &[u8] {
    query.get(query.len().saturating_sub(LIMIT_LENGTH)..).unwrap_or_default()
}

/// The maximum length of a `LIMIT`, with what may follow it.
const LIMIT_LENGTH: usize = 80;

/// Whether an `INSERT`, or a statement that creates a table, has a `SELECT`.
#[must_use]
pub fn has_select(query: &[u8]) -> bool {
    // After `VALUES` the word may be in a literal.
    let word = |text: &[u8]| match text {
        _ if text.eq_ignore_ascii_case(b"SELECT") => Some(true),
        [start @ .., _] if start.eq_ignore_ascii_case(b"VALUE") => Some(false),
        _ => None,
    };
    query.windows(6).find_map(word).unwrap_or(false)
}

/// What `FOUND_ROWS()` is after a statement that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundRowsAfter {
    /// The number of rows in its answer; if that has none, only the connection knows.
    Answer,
    /// What it was before.
    Kept,
    /// 1.
    One,
    /// The first number in the information text of its OK packet.
    Reported,
    /// Another number, which only the connection knows.
    Untold,
    /// Its text does not show whether it sets the value: only the connection knows, if that had the value before.
    Unknown,
}

/// Whether `FOUND_ROWS()` is the number of rows in the answer of a statement, as of most. A statement for which it is
/// [`FoundRowsAfter::Answer`] may be none of these.
#[inline]
#[must_use]
pub fn counts_its_answer(query: &[u8], statement: &Statement) -> bool {
    statement.kind == Kind::Select
        && statement.is_plain()
        && query.first().is_some_and(|first| first.eq_ignore_ascii_case(&b's'))
}

/// What a statement does to `FOUND_ROWS()`. For statements other than `SELECT` the manual calls the value undefined; this
/// is what MySQL 9.7 and MariaDB 10.11 do.
#[must_use]
pub fn counted(query: &[u8], statement: &Statement, dialect: Dialect) -> FoundRowsAfter {
    use FoundRowsAfter::{Answer, Kept, One, Reported, Unknown, Untold};
    let on_mariadb = dialect == Dialect::MariaDb;
    if statement.flags.intersects(Flags::MULTI) {
        let mut parts = crate::parts(query, Escapes::Backslash);
        let keeps = parts.all(|(one, statement)| {
            !statement.flags.intersects(Flags::MULTI) && counted(one, &statement, dialect) == Kept
        });
        return if keeps { Kept } else { Unknown };
    }
    match statement.kind {
        Kind::Select if statement.flags.intersects(Flags::SQL_CALC_FOUND_ROWS) => Untold,
        Kind::Select if has_offset(query, statement) => Untold,
        Kind::Select if on_mariadb && is_table_of_values(query) => {
            if says(query, b"union") {
                Unknown
            } else {
                Kept
            }
        }
        Kind::Select => Answer,
        Kind::Show | Kind::ShowWarnings if shows_by_select(query, statement) => Answer,
        Kind::Explain => match explained(query) {
            Explained::Table => Answer,
            // MariaDB runs a query without a table.
            Explained::Statement if on_mariadb => Unknown,
            Explained::Statement => Kept,
        },
        Kind::ExplainAnalyze => Unknown,
        Kind::Do if !on_mariadb => One,
        Kind::Do | Kind::Set if on_mariadb && says(query, b"select") => Unknown,
        Kind::Update if !on_mariadb => Reported,
        Kind::Insert | Kind::Replace if has_select(query) => Reported,
        Kind::Create | Kind::CreateTemporaryTable if on_mariadb && has_select(query) => Reported,
        Kind::SetStatement => match crate::set::parse(query).as_deref() {
            Ok([Assignment::Statement { offset, .. }]) => {
                let inner = query.get(*offset..).unwrap_or_default();
                let statement = classify(inner);
                // No server runs one in another.
                if statement.kind == Kind::SetStatement { Kept } else { counted(inner, &statement, dialect) }
            }
            _ => Unknown,
        },
        Kind::Call | Kind::Execute | Kind::Other => Unknown,
        _ => Kept,
    }
}

/// Whether a `SELECT` is a table of literal values, whose rows MariaDB does not count.
fn is_table_of_values(query: &[u8]) -> bool {
    // Mostly the first character is that of `SELECT`.
    !query.first().is_some_and(|first| first.eq_ignore_ascii_case(&b's')) && *word_at(query, 0) == *b"VALUES"
}

/// Whether servers rewrite a `SHOW` as a `SELECT`, whose rows `FOUND_ROWS()` counts.
#[must_use]
pub fn shows_by_select(query: &[u8], statement: &Statement) -> bool {
    match statement.kind {
        Kind::Show => {
            let what = word_at(query, 1);
            match &*what {
                b"FULL" => *word_at(query, 2) != *b"PROCESSLIST",
                what => !SHOWN_AS_THEY_ARE.contains(&what),
            }
        }
        // Of these only the counts.
        Kind::ShowWarnings => *word_at(query, 1) == *b"COUNT",
        _ => false,
    }
}

/// What `SHOW` shows without such a `SELECT`.
const SHOWN_AS_THEY_ARE: &[&[u8]] = &[
    // `ALL SLAVES STATUS`.
    b"ALL",
    b"AUTHORS",
    b"BINARY",
    b"BINLOG",
    b"CONTRIBUTORS",
    b"CREATE",
    b"ENGINE",
    b"GRANTS",
    b"MASTER",
    b"PRIVILEGES",
    b"PROCESSLIST",
    b"PROFILES",
    b"RELAYLOG",
    b"REPLICA",
    b"REPLICAS",
    b"SLAVE",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    #[test]
    fn offsets_are_seen_at_the_end() {
        let offset = |text: &str| has_offset(text.as_bytes(), &classify(text.as_bytes()));
        for text in [
            "SELECT n FROM t LIMIT 20, 10",
            "select n from t limit ? , ?",
            "SELECT n FROM t LIMIT 10 /* a */ OFFSET 20 -- b",
            "(SELECT n FROM t LIMIT 1, 2)",
        ] {
            assert!(offset(text), "{text}");
        }
        for text in [
            "SELECT a, b FROM t LIMIT 10",
            "SELECT n FROM t WHERE a = 'LIMIT 1, 2'",
            "SELECT n FROM t -- LIMIT 1, 2",
            "SELECT n FROM t",
            "",
        ] {
            assert!(!offset(text), "{text}");
        }
    }

    #[test]
    fn offsets_are_read_where_they_are_numbers_at_the_end() {
        let offset = |text: &str| literal_offset(text.as_bytes());
        assert_eq!(offset("SELECT n FROM t LIMIT 20, 10"), Some(20));
        assert_eq!(offset("SELECT n FROM t LIMIT 20,10 ;"), Some(20));
        assert_eq!(offset("SELECT n FROM t limit 10 offset 20"), Some(20));
        for text in [
            "SELECT n FROM t LIMIT 10",
            "SELECT n FROM t LIMIT ?, ?",
            "SELECT * FROM (SELECT n FROM t LIMIT 1, 2) x",
            "SELECT n FROM t UNION SELECT n FROM u LIMIT 1, 2",
            "SELECT offset FROM t",
            "",
        ] {
            assert_eq!(offset(text), None, "{text}");
        }
    }

    #[test]
    fn a_select_is_seen_before_the_values() {
        for text in
            ["INSERT INTO t SELECT 1", "replace t (a) select `b` from u", "CREATE TABLE t AS (SELECT 1)"]
        {
            assert!(has_select(text.as_bytes()), "{text}");
        }
        for text in
            ["INSERT INTO t VALUES ('SELECT')", "insert t value (1, (select 1))", "CREATE TABLE t (n INT)"]
        {
            assert!(!has_select(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn rows_of_a_show_are_counted_where_it_is_a_select() {
        let select = |text: &str| shows_by_select(text.as_bytes(), &classify(text.as_bytes()));
        for text in [
            "SHOW TABLES",
            "show/* a */columns from t",
            "SHOW COUNT(*) WARNINGS",
            "SHOW VARIABLES",
            "SHOW FULL COLUMNS FROM t",
            "show full/* a */tables",
            "SHOW EXTENDED FULL COLUMNS FROM t",
        ] {
            assert!(select(text), "{text}");
        }
        for text in [
            "SHOW CREATE TABLE t",
            "/* a */ show/**/grants",
            "SHOW WARNINGS",
            "SELECT 1",
            "SHOW FULL PROCESSLIST",
            "SHOW ALL SLAVES STATUS",
        ] {
            assert!(!select(text), "{text}");
        }
    }

    #[test]
    fn what_statements_do_to_the_count() {
        use FoundRowsAfter::{Answer, Kept, One, Reported, Unknown, Untold};
        for (text, on_mysql, on_mariadb) in [
            ("SELECT 1", Answer, Answer),
            (" (SELECT 1) UNION SELECT 2", Answer, Answer),
            ("SELECT SQL_CALC_FOUND_ROWS 1", Untold, Untold),
            ("SELECT n FROM t LIMIT 1, 2", Untold, Untold),
            ("VALUES (1), (2)", Answer, Kept),
            ("VALUES (1) UNION SELECT 2", Answer, Unknown),
            ("SHOW FULL COLUMNS FROM t", Answer, Answer),
            ("SHOW GRANTS", Kept, Kept),
            ("DESCRIBE t", Answer, Answer),
            ("DESC t a", Answer, Answer),
            ("EXPLAIN shop.t", Answer, Answer),
            ("EXPLAIN SELECT 1", Kept, Unknown),
            ("EXPLAIN (SELECT 1) UNION SELECT 2", Kept, Unknown),
            ("EXPLAIN FORMAT = JSON UPDATE t SET n = 1", Kept, Unknown),
            ("EXPLAIN FOR CONNECTION 5", Unknown, Unknown),
            ("EXPLAIN ANALYZE SELECT 1", Unknown, Unknown),
            ("ANALYZE SELECT 1", Unknown, Unknown),
            ("DO 1", One, Kept),
            ("DO (SELECT 1 FROM t)", One, Unknown),
            ("SET @a = 1", Kept, Kept),
            ("SET @a = (SELECT 1 FROM t)", Kept, Unknown),
            ("UPDATE t SET n = 1", Reported, Kept),
            ("INSERT INTO t SELECT 1", Reported, Reported),
            ("INSERT INTO t VALUES (1)", Kept, Kept),
            ("CREATE TABLE t AS SELECT 1", Kept, Reported),
            ("DELETE FROM t", Kept, Kept),
            ("CALL p()", Unknown, Unknown),
            ("EXECUTE p", Unknown, Unknown),
            ("SET STATEMENT max_statement_time = 1 FOR SELECT 1", Answer, Answer),
            ("SET STATEMENT max_statement_time = 1 FOR DELETE FROM t", Kept, Kept),
            ("SET @a = 1; COMMIT", Kept, Kept),
            ("SET @a = 1; SELECT 1", Unknown, Unknown),
        ] {
            let statement = classify(text.as_bytes());
            let found = |dialect| counted(text.as_bytes(), &statement, dialect);
            if counts_its_answer(text.as_bytes(), &statement) {
                assert_eq!((on_mysql, on_mariadb), (Answer, Answer), "{text}");
            }
            assert_eq!(
                (found(Dialect::MySql), found(Dialect::MariaDb)),
                (on_mysql, on_mariadb),
                "{text}: {:?}",
                statement.kind
            );
        }
    }
}

//! What `FOUND_ROWS()` counts for a statement, as far as its text shows.

use crate::flags::Flags;
use crate::kind::Kind;
use crate::leftovers::word_at;
use crate::statement::Statement;
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

/// Whether servers rewrite a `SHOW` as a `SELECT`, whose rows `FOUND_ROWS()` counts.
#[must_use]
pub fn shows_by_select(query: &[u8], statement: &Statement) -> bool {
    match statement.kind {
        Kind::Show => !SHOWN_AS_THEY_ARE.contains(&&*word_at(query, 1)),
        // Of these only the counts.
        Kind::ShowWarnings => *word_at(query, 1) == *b"COUNT",
        _ => false,
    }
}

/// What `SHOW` shows without such a `SELECT`.
const SHOWN_AS_THEY_ARE: &[&[u8]] = &[
    b"BINARY",
    b"BINLOG",
    b"CREATE",
    b"ENGINE",
    b"FULL",
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
        for text in ["SHOW TABLES", "show/* a */columns from t", "SHOW COUNT(*) WARNINGS", "SHOW VARIABLES"] {
            assert!(select(text), "{text}");
        }
        for text in ["SHOW CREATE TABLE t", "/* a */ show/**/grants", "SHOW WARNINGS", "SELECT 1"] {
            assert!(!select(text), "{text}");
        }
    }
}

//! What the text of a statement tells about the information functions after it.

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::charset::Family;

use super::relay::Outcome;

/// Whether a statement may set what `LAST_INSERT_ID()` answers, and its answer tell nothing of it, or another id: one that
/// was given explicitly.
pub(super) fn may_set_an_id(statement: &Statement) -> bool {
    let inserts = matches!(
        statement.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::LoadData
            | Kind::LoadDataLocal
            | Kind::Call
            | Kind::Execute
            | Kind::Other
    );
    (inserts || statement.flags.intersects(Flags::MULTI))
        && !statement.flags.intersects(Flags::LAST_INSERT_ID)
}

/// Whether the rows of an answer are what `FOUND_ROWS()` is from then on: servers count those of a `SELECT`, and of a
/// `SHOW` that they make one of. What other statements do to it is not defined.
pub(super) fn sets_found_rows(statement: &Statement, text: &[u8]) -> bool {
    match statement.kind {
        Kind::Select | Kind::Execute => true,
        Kind::ShowWarnings => text.contains(&b'('),
        Kind::Show => !is_shown_as_it_is(text),
        _ => false,
    }
}

/// What statements without rows make of `FOUND_ROWS()`. The manual calls it undefined; this is what servers do, seen on
/// MySQL 9.7 and MariaDB 10.11.
pub(super) fn found_besides(
    statement: &Statement,
    text: &[u8],
    family: Family,
    outcome: &Outcome,
) -> Option<u64> {
    // Behind `VALUES` the word may stand in a literal.
    let selects = || {
        let word = |text: &[u8]| match text {
            _ if text.eq_ignore_ascii_case(b"SELECT") => Some(true),
            [start @ .., _] if start.eq_ignore_ascii_case(b"VALUE") => Some(false),
            _ => None,
        };
        text.windows(6).find_map(word).unwrap_or(false)
    };
    match (statement.kind, family) {
        (Kind::Do, Family::MySql) => Some(1),
        (Kind::Update, Family::MySql) => outcome.counted,
        (Kind::Insert | Kind::Replace, _) if selects() => outcome.counted,
        (Kind::Create | Kind::CreateTemporaryTable, Family::MariaDb) if selects() => outcome.counted,
        _ => None,
    }
}

/// Whether a `SELECT` may end in a `LIMIT` with an offset: servers count the rows that it skips among those found, as
/// many as there are.
pub(super) fn has_offset(statement: &Statement, text: &[u8]) -> bool {
    // Where a string ends is not sure in the last two cases.
    if !statement.flags.intersects(Flags::LIMIT | Flags::ESCAPED_QUOTE | Flags::UNTERMINATED) {
        return false;
    }
    let tail = text.get(text.len().saturating_sub(LIMIT_LENGTH)..).unwrap_or_default();
    let limit = |start: usize| tail.get(start..).unwrap_or_default();
    (0..tail.len()).any(|start| {
        let rest = limit(start);
        let says = |word: &[u8]| rest.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
        says(b"OFFSET") || says(b"LIMIT") && rest.contains(&b',')
    })
}

/// The offset in the `LIMIT` that ends a `SELECT`, where it is a plain number, and no other result can be meant.
pub(super) fn literal_offset(text: &[u8]) -> Option<u64> {
    let tail = std::str::from_utf8(text.get(text.len().saturating_sub(LIMIT_LENGTH)..)?).ok()?;
    let tail = tail.trim_end_matches(|end: char| end.is_ascii_whitespace() || end == ';').replace(',', " , ");
    let unites = text.windows(5).any(|word| word.eq_ignore_ascii_case(b"union"));
    let mut words = tail.split_ascii_whitespace().rev();
    let (last, between, first, limit) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (last, first): (u64, u64) = (last.parse().ok()?, first.parse().ok()?);
    match between {
        _ if unites || !limit.eq_ignore_ascii_case("limit") => None,
        "," => Some(first),
        word => word.eq_ignore_ascii_case("offset").then_some(last),
    }
}

/// In so many bytes at the end of a statement `LIMIT` is looked for, with what may stand behind it.
const LIMIT_LENGTH: usize = 80;

/// Whether a `SHOW` has no `SELECT` behind it.
pub(super) fn is_shown_as_it_is(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let second = words.nth(1).unwrap_or_default().to_ascii_uppercase();
    SHOWN_AS_THEY_ARE.contains(&second.as_slice())
}

/// What `SHOW` shows without a `SELECT` behind it.
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
}

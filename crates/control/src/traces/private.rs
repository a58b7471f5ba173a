//! Texts that may leave the house: statements without their literals, and error messages without what they quote.

use narrows_sql::{DigestOptions, Kind, Scratch, bare_words, classify, digest_text};

/// How much of a statement is read, in bytes.
pub const READ_TEXT: usize = 16 << 10;

/// The most that is sent of a text, in bytes.
const SENT_TEXT: usize = 2 << 10;

/// The text of a statement with `?` for each literal and without comments, cut to 2 KiB. It is what the table of digests
/// shows with its defaults.
pub fn statement(query: &[u8]) -> String {
    let options = DigestOptions {
        max_query_length: READ_TEXT,
        max_digest_length: SENT_TEXT,
        ..DigestOptions::default()
    };
    let mut scratch = Scratch::default();
    lossy(digest_text(query, &options, &mut scratch))
}

/// The name of a statement's operation, such as `SELECT`; `None` if its first word is none of those that are known, so that
/// what clients send does not become names of spans.
pub fn operation(query: &[u8]) -> Option<&'static str> {
    let first = bare_words(query).next()?;
    let name = OPERATIONS.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(first))?;
    Some(match *name {
        "WITH" => match classify(query).kind {
            Kind::Update => "UPDATE",
            Kind::Delete => "DELETE",
            _ => "SELECT",
        },
        name => name,
    })
}

/// An error message. What stands between its first and its last quote may be a value or a part of the statement: only the
/// messages about names are sent whole.
pub fn message(errno: u16, text: &[u8]) -> String {
    let text = lossy(text.get(..SENT_TEXT).unwrap_or(text));
    if errno >= OF_NARROWS || ABOUT_NAMES.contains(&errno) {
        return text;
    }
    match (text.find('\''), text.rfind('\'')) {
        (Some(first), Some(last)) if first < last => {
            let (head, tail) = (text.get(..=first).unwrap_or_default(), text.get(last..).unwrap_or_default());
            format!("{head}?{tail}")
        }
        (Some(first), _) => text.get(..first).unwrap_or_default().to_owned(),
        (None, _) => text,
    }
}

/// Text in UTF-8. A character that was cut is left out.
pub fn lossy(text: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(text).into_owned();
    if text.len() > SENT_TEXT {
        let end = (0..=SENT_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    if text.ends_with(char::REPLACEMENT_CHARACTER) {
        text.pop();
    }
    text
}

/// The numbers from here on are Narrows' own, whose messages have no values in them.
const OF_NARROWS: u16 = 9_000;

/// The errors whose messages quote names of users, schemas, tables and columns.
const ABOUT_NAMES: &[u16] = &[
    1044, // access to a schema
    1045, // a login
    1048, // a column that cannot be NULL
    1049, // an unknown schema
    1050, // a table that exists
    1051, // an unknown table
    1054, // an unknown column
    1109, // an unknown table in a join
    1142, // access to a table
    1143, // access to a column
    1146, // a table that does not exist
    1264, // a value out of range, which names only the column
    1305, // an unknown routine
    1364, // a column without a default
    1406, // data too long, which names only the column
    1792, // a read-only transaction
];

/// The first words of statements.
const OPERATIONS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CALL",
    "CHECK",
    "CHECKSUM",
    "COMMIT",
    "CREATE",
    "DEALLOCATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DO",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "FLUSH",
    "GET",
    "GRANT",
    "HANDLER",
    "INSERT",
    "KILL",
    "LOAD",
    "LOCK",
    "OPTIMIZE",
    "PREPARE",
    "RELEASE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "SHOW",
    "START",
    "TABLE",
    "TRUNCATE",
    "UNLOCK",
    "UPDATE",
    "USE",
    "VALUES",
    "WITH",
    "XA",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_stay_here() {
        let text = statement(b"SELECT /* secret */ 'secret', \"secret\", 0xDEADBEEF, 42 FROM t -- secret");
        assert_eq!(text, "SELECT ?,?,?,? FROM t");
        // Whatever the place where a text is cut.
        let long = [&b"SELECT 1 FROM t WHERE a = 'secret"[..], &b"x".repeat(READ_TEXT), b"'"].concat();
        for cut in 0..60 {
            let text = statement(long.get(..cut).unwrap_or_default());
            assert!(!text.contains("secre"), "{text}");
        }
        assert!(!statement(&long).contains("secret"));
        assert!(statement(&b"SELECT 'a', \xFF\xFE FROM t ".repeat(900)).len() <= SENT_TEXT);
        assert!(statement("SELECT ü ".repeat(4_000).as_bytes()).len() <= SENT_TEXT);
    }

    #[test]
    fn operations_are_known_words() {
        for (query, expected) in [
            ("select 1", Some("SELECT")),
            ("/* a */ (SELECT 1)", Some("SELECT")),
            ("WITH a AS (SELECT 1) UPDATE t SET n = 1", Some("UPDATE")),
            ("WITH a AS (SELECT 1) SELECT 1", Some("SELECT")),
            ("SHUTDOWN12345", None),
            ("", None),
            ("'", None),
        ] {
            assert_eq!(operation(query.as_bytes()), expected, "{query}");
        }
    }

    #[test]
    fn messages_quote_no_values() {
        let sent = |errno, text: &str| message(errno, text.as_bytes());
        assert_eq!(sent(1062, "Duplicate entry 'a'b' for key 't.k'"), "Duplicate entry '?'");
        assert_eq!(sent(1064, "near 'x' = 'secret' at line 1"), "near '?' at line 1");
        assert_eq!(sent(1064, "near 'secret"), "near ");
        assert_eq!(sent(1146, "Table 'shop.t' doesn't exist"), "Table 'shop.t' doesn't exist");
        assert_eq!(sent(1205, "Lock wait timeout exceeded"), "Lock wait timeout exceeded");
        assert!(sent(1205, &"ü".repeat(5_000)).len() <= SENT_TEXT);
    }
}

//! Texts from browsers as parts of statements.

use crate::admin::statement::literal;

/// `text` as a literal of SQLite, in which a backslash is an ordinary character. `None` if it has a NUL, at which SQLite
/// would end the statement.
pub fn sql_text(text: &str) -> Option<String> {
    (!text.contains('\0')).then(|| literal(text))
}

/// `EXPLAIN ROUTE` for a statement; without a user it is that of the only account, and without a schema there is none.
/// `None` if a text has a NUL.
pub fn explain_route(statement: &str, user: &str, schema: &str) -> Option<String> {
    let mut question = format!("EXPLAIN ROUTE {}", quoted(statement)?);
    for (word, value) in [("AS", user), ("SCHEMA", schema)] {
        if !value.is_empty() {
            question.push_str(&format!(" {word} {}", quoted(value)?));
        }
    }
    Some(question)
}

/// A text between the quotes of `EXPLAIN ROUTE`, where a backslash before a quote or a backslash is not part of it.
fn quoted(text: &str) -> Option<String> {
    sql_text(&text.replace('\\', "\\\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "SELECT 'it''s', \"a\", `b`",
        "'",
        "''",
        "\\",
        "\\'",
        "'\\",
        "\\\\'' AS other",
        "x' AS root SCHEMA 'y",
        "x'; DROP TABLE mysql_servers; --",
        "a\\' AS root -- ",
        "/* ' */ SELECT 1 -- '\n",
        "<script>alert(1)</script>",
        "  blanks  \t and\nlines ; ",
        "日本 é",
    ];

    #[test]
    fn a_question_about_a_route_asks_for_exactly_these_texts() {
        for statement in HOSTILE {
            for name in HOSTILE {
                let question = explain_route(statement, name, name).unwrap();
                let asked = narrows_sql::asked_route(&question).unwrap_or_else(|| panic!("{question}"));
                assert_eq!(asked.statement, *statement, "{question}");
                assert_eq!(asked.user.as_deref(), Some(*name), "{question}");
                assert_eq!(asked.schema.as_deref(), Some(*name), "{question}");
                assert!(asked.others.is_empty(), "{question}");
            }
        }
        assert_eq!(explain_route("SELECT 1", "", "").unwrap(), "EXPLAIN ROUTE 'SELECT 1'");
        assert!(explain_route("a\0b", "", "").is_none() && explain_route("a", "\0", "").is_none());
    }

    #[test]
    fn a_literal_is_exactly_its_text() {
        let database = rusqlite::Connection::open_in_memory().unwrap();
        for text in HOSTILE {
            let query = format!("SELECT {}", sql_text(text).unwrap());
            let found: String = database.query_row(&query, [], |row| row.get(0)).unwrap();
            assert_eq!(found, *text);
        }
        assert_eq!(sql_text("\0"), None);
    }
}

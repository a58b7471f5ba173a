//! The counters for a `SET`, and properties of the whole statement.

use crate::token::{Escapes, Lexer, TokenKind};
use crate::words::says;

/// What is counted of `SET` statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// It sets `autocommit`.
    pub autocommit: bool,
    /// `SET NAMES`, `SET CHARACTER SET`, `SET CHARSET`.
    pub names: bool,
}

/// What is counted of a `SET`.
#[must_use]
pub fn counted(query: &[u8]) -> Counted {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let mut counted = Counted::default();
    loop {
        let token = lexer.next();
        match token.kind {
            TokenKind::End => return counted,
            TokenKind::Word => {
                counted.autocommit |= token.is_word("AUTOCOMMIT");
                counted.names |= token.is_any(&["NAMES", "CHARSET"])
                    || token.is_word("CHARACTER") && lexer.peek().is_word("SET");
            }
            TokenKind::SystemVariable => counted.autocommit |= says(token.text, b"autocommit"),
            _ => {}
        }
    }
}

/// Whether a `SET` may set `autocommit` and read a table: it begins a transaction that no status flag shows and no
/// `COMMIT` ends.
#[must_use]
pub fn may_begin_untold(query: &[u8]) -> bool {
    says(query, b"select") && says(query, b"autocommit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_set_and_not_what_is_said() {
        for (query, autocommit, names) in [
            ("SET autocommit = 0", true, false),
            ("set @@session.AutoCommit=1, names utf8mb4", true, true),
            ("SET @@`autocommit` = 1", true, false),
            ("SET CHARACTER/* a */SET latin1", false, true),
            ("set charset latin1", false, true),
            ("SET character_set_client = latin1", false, false),
            ("SET @a = 'autocommit, names' -- charset", false, false),
            ("SET @autocommit = 1", false, false),
        ] {
            assert_eq!(counted(query.as_bytes()), Counted { autocommit, names }, "{query}");
        }
    }

    #[test]
    fn a_set_of_autocommit_that_reads_a_table_is_told() {
        assert!(may_begin_untold(b"SET @a = (SELECT n FROM t), AUTOCOMMIT = 0"));
        assert!(!may_begin_untold(b"SET autocommit = 0") && !may_begin_untold(b"SET @a = (SELECT 1)"));
    }
}

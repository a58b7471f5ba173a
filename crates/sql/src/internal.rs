//! Statements to the data port that are for the proxy itself: `PROXYSQL INTERNAL ..`, and the question for a token.

use crate::statement::single_end;
use crate::token::{Escapes, Lexer};

/// A statement for Narrows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalCommand {
    /// `PROXYSQL INTERNAL SESSION`.
    Session,
    /// Any other.
    Unknown,
}

/// Parses `PROXYSQL INTERNAL ..`. `None` for anything else.
#[must_use]
pub fn internal_command(query: &[u8]) -> Option<InternalCommand> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.take_any(&["PROXYSQL"]) || !lexer.take_any(&["INTERNAL"]) {
        return None;
    }
    let is_session = lexer.take_any(&["SESSION"]);
    let after = lexer.next();
    Some(match is_session && single_end(&mut lexer, after) {
        true => InternalCommand::Session,
        false => InternalCommand::Unknown,
    })
}

/// Whether a query is `SELECT @@narrows_causal_token`, which Narrows answers.
#[must_use]
pub fn is_token_query(query: &[u8]) -> bool {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.take_any(&["SELECT"]) {
        return false;
    }
    let names_it = lexer.next().text.eq_ignore_ascii_case(b"@@narrows_causal_token");
    let after = lexer.next();
    names_it && single_end(&mut lexer, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_for_the_token_stands_alone() {
        for (query, is_one) in [
            ("SELECT @@narrows_causal_token", true),
            ("/* a */ select @@Narrows_Causal_Token;", true),
            ("SELECT @@narrows_causal_token, 1", false),
            ("SELECT '@@narrows_causal_token'", false),
            ("SELECT @narrows_causal_token", false),
            ("", false),
        ] {
            assert_eq!(is_token_query(query.as_bytes()), is_one, "{query}");
        }
    }

    #[test]
    fn tells_its_own_statements_from_others() {
        let command = |query: &str| internal_command(query.as_bytes());
        assert_eq!(command("proxysql  internal/* a */SESSION;"), Some(InternalCommand::Session));
        for query in ["PROXYSQL INTERNAL whatever", "PROXYSQL INTERNAL", "PROXYSQL INTERNAL SESSION 1"] {
            assert_eq!(command(query), Some(InternalCommand::Unknown), "{query}");
        }
        for query in
            ["PROXYSQL STOP", "SELECT 1", "SELECT 'PROXYSQL INTERNAL SESSION'", "`PROXYSQL` INTERNAL", ""]
        {
            assert_eq!(command(query), None, "{query}");
        }
    }
}

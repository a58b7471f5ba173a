//! `PROXYSQL INTERNAL ..`: ProxySQL's own statements to its data port.

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

#[cfg(test)]
mod tests {
    use super::*;

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

//! A statement with one parameter, which is put into its text as a literal.

use crate::token::{Escapes, Lexer, TokenKind};

/// The statement with `value` in the place of its only `?`; `None` if it has none, or several. Those in strings and comments
/// are no parameters. The value is written so that no `sql_mode` and no character set reads anything else.
#[must_use]
pub fn with_parameter(statement: &str, value: &str) -> Option<String> {
    let mut lexer = Lexer::new(statement.as_bytes(), Escapes::Backslash);
    let mut place = None;
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            break;
        }
        if token.is_symbol(b'?') && place.replace(token.start).is_some() {
            return None;
        }
    }
    let (before, after) = statement.split_at_checked(place?)?;
    let digits: String = value.bytes().map(|byte| format!("{byte:02X}")).collect();
    Some(format!("{before}_utf8mb4 X'{digits}'{}", after.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_parameter_becomes_a_literal() {
        let statement = "SELECT '?', `?` /* ? */ FROM t WHERE a = ? -- ?";
        let expected = "SELECT '?', `?` /* ? */ FROM t WHERE a = _utf8mb4 X'6127C3A9' -- ?";
        assert_eq!(with_parameter(statement, "a'é").as_deref(), Some(expected));
        assert_eq!(
            with_parameter("SELECT 1 WHERE a = ?", "").as_deref(),
            Some("SELECT 1 WHERE a = _utf8mb4 X''")
        );
        assert_eq!(with_parameter("SELECT 1", "a"), None);
        assert_eq!(with_parameter("SELECT ?, ?", "a"), None);
    }
}

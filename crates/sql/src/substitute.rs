//! Puts values in the place of functions and variables whose answer is known beforehand: `FOUND_ROWS()`,
//! `CONNECTION_ID()`, `@@warning_count`. Strings and comments are left alone.

use crate::token::{Escapes, Lexer, Token, TokenKind};

/// A function or a variable, and the value that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitute<'a> {
    /// `FOUND_ROWS` for `FOUND_ROWS()`; `@@warning_count` for that and `@@session.warning_count`.
    pub name: &'a str,
    /// A number.
    pub value: i64,
    /// What the answer says of its type.
    pub shape: Shape,
}

/// The type that the function or variable has in a result: its column must look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `BIGINT(21) NOT NULL`: functions that count.
    Signed,
    /// The same, of `FOUND_ROWS()`: it stays in the statement, so that servers say what they have to say of it.
    FoundRows,
    /// `BIGINT(21) UNSIGNED`: system variables, on MySQL.
    Variable,
    /// The same on MariaDB, which makes such a number one digit shorter.
    MariaDbVariable,
    /// `INT(10) UNSIGNED NOT NULL`: ids of connections.
    Id,
}

impl Substitute<'_> {
    /// An expression of that value and shape: servers take the length of a number from the string it is read from.
    fn expression(&self) -> String {
        let value = self.value;
        match self.shape {
            Shape::Signed => format!("CONVERT('{value:021}', SIGNED)"),
            Shape::FoundRows => format!("CAST({value}+0*FOUND_ROWS() AS SIGNED)"),
            Shape::MariaDbVariable => format!("(CONVERT(NULLIF('{value:021}', ''), UNSIGNED)+0)"),
            Shape::Variable => format!("CONVERT(NULLIF('{value:021}', ''), UNSIGNED)"),
            Shape::Id => format!("CONVERT('{value:010}', UNSIGNED)"),
        }
    }
}

/// The statement with each call of `substitutes` replaced; `None` when there is none.
///
/// Where the call is a whole column of a `SELECT`, the column keeps the name it would have had.
#[must_use]
pub fn substitute(query: &[u8], substitutes: &[Substitute<'_>]) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let mut out = Vec::new();
    let mut copied = 0;
    let mut depth = 0_usize;
    let mut begins_column = false;
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            break;
        }
        if let Some((value, end)) = replacement(&token, &lexer, substitutes) {
            while lexer.peek().start < end && lexer.peek().kind != TokenKind::End {
                lexer.next();
            }
            let written = lexer.span(token.start, end);
            out.extend_from_slice(lexer.span(copied, token.start));
            let ends_column = ends_column(&lexer.peek());
            if begins_column && depth == 0 && ends_column {
                out.extend_from_slice(format!("{value} AS `").as_bytes());
                out.extend_from_slice(written);
                out.push(b'`');
            } else {
                out.extend_from_slice(value.as_bytes());
            }
            copied = end;
            begins_column = false;
            continue;
        }
        match token.text {
            b"(" => depth += 1,
            b")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        begins_column = token.is_word("SELECT") || token.is_symbol(b',');
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(lexer.span(copied, query.len()));
    Some(out)
}

/// The value for what begins with `token`, and where that ends.
fn replacement(
    token: &Token<'_>,
    lexer: &Lexer<'_>,
    substitutes: &[Substitute<'_>],
) -> Option<(String, usize)> {
    match token.kind {
        TokenKind::Word => {
            let call = substitutes.iter().find(|substitute| token.is_word(substitute.name))?;
            let mut ahead = lexer.clone();
            let (open, close) = (ahead.next(), ahead.next());
            (open.is_symbol(b'(') && close.is_symbol(b')')).then(|| (call.expression(), close.end()))
        }
        TokenKind::SystemVariable => {
            let name = token.text.strip_prefix(b"@@")?;
            let scoped = name.get(..8).filter(|scope| scope.eq_ignore_ascii_case(b"session."));
            let bare = name.get(scoped.map_or(0, <[u8]>::len)..)?;
            let matches = |substitute: &&Substitute<'_>| {
                let wanted = substitute.name.strip_prefix("@@");
                wanted.is_some_and(|wanted| bare.eq_ignore_ascii_case(wanted.as_bytes()))
            };
            substitutes.iter().find(matches).map(|variable| (variable.expression(), token.end()))
        }
        _ => None,
    }
}

fn ends_column(next: &Token<'_>) -> bool {
    next.ends_statement()
        || next.is_symbol(b',')
        || next.is_any(&["FROM", "LIMIT", "UNION", "INTO", "WHERE", "ORDER"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(query: &str) -> Option<String> {
        let known = [
            Substitute { name: "FOUND_ROWS", value: 5, shape: Shape::Signed },
            Substitute { name: "@@warning_count", value: 2, shape: Shape::Variable },
        ];
        substitute(query.as_bytes(), &known).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_column_keeps_its_name() {
        assert_eq!(
            replaced("SELECT found_rows()").unwrap(),
            "SELECT CONVERT('000000000000000000005', SIGNED) AS `found_rows()`"
        );
        assert_eq!(
            replaced("SELECT 1, FOUND_ROWS( ), @@session.warning_count FROM t;").unwrap(),
            "SELECT 1, CONVERT('000000000000000000005', SIGNED) AS `FOUND_ROWS( )`, CONVERT(NULLIF('000000000000000000002', ''), UNSIGNED) AS `@@session.warning_count` FROM t;"
        );
    }

    #[test]
    fn inside_an_expression_or_behind_a_name_of_its_own() {
        assert_eq!(
            replaced("SELECT FOUND_ROWS() AS n").unwrap(),
            "SELECT CONVERT('000000000000000000005', SIGNED) AS n"
        );
        assert_eq!(
            replaced("SELECT IF(FOUND_ROWS()>3,1,0)").unwrap(),
            "SELECT IF(CONVERT('000000000000000000005', SIGNED)>3,1,0)"
        );
        assert_eq!(
            replaced("INSERT INTO t VALUES (FOUND_ROWS())").unwrap(),
            "INSERT INTO t VALUES (CONVERT('000000000000000000005', SIGNED))"
        );
    }

    #[test]
    fn leaves_everything_else_alone() {
        for query in ["SELECT 'FOUND_ROWS()'", "SELECT found_rows FROM t", "SELECT 1 /* FOUND_ROWS() */", ""]
        {
            assert_eq!(replaced(query), None, "{query}");
        }
    }
}

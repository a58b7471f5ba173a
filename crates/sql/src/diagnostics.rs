//! Parses `GET DIAGNOSTICS`, whose values may be known in advance or belong to another connection.

use crate::token::{Escapes, Lexer, TokenKind};

/// A `GET DIAGNOSTICS` statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics<'a> {
    /// The number of the condition it is about; `None`: the statement as a whole.
    pub condition: Option<usize>,
    /// The user variables, as written, and the item to assign to each.
    pub items: Vec<(&'a [u8], DiagnosticsItem)>,
}

/// The items that can be read. The words are those of the manual's "GET DIAGNOSTICS Statement".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticsItem {
    /// `NUMBER`: how many conditions there are.
    Number,
    /// `ROW_COUNT`.
    RowCount,
    /// `MYSQL_ERRNO`.
    MysqlErrno,
    /// `MESSAGE_TEXT`.
    MessageText,
    /// Any other.
    Other,
}

/// Parses `GET [CURRENT] DIAGNOSTICS [CONDITION number] @variable = ITEM, ..`. `None` for any other form.
#[must_use]
pub fn diagnostics(query: &[u8]) -> Option<Diagnostics<'_>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.next().is_word("GET") {
        return None;
    }
    let mut token = lexer.next();
    if token.is_word("CURRENT") {
        token = lexer.next();
    }
    if !token.is_word("DIAGNOSTICS") {
        return None;
    }
    let mut condition = None;
    token = lexer.next();
    if token.is_word("CONDITION") {
        condition = Some(std::str::from_utf8(lexer.next().text).ok()?.parse().ok()?);
        token = lexer.next();
    }
    let mut items = Vec::new();
    loop {
        let target = token;
        if target.kind != TokenKind::UserVariable || !lexer.next().is_symbol(b'=') {
            return None;
        }
        let item = lexer.next();
        let known = NAMES.iter().find(|(name, _)| item.is_word(name));
        items.push((target.text, known.map_or(DiagnosticsItem::Other, |(_, item)| *item)));
        let next = lexer.next();
        if !next.is_symbol(b',') {
            let ends = next.ends_statement() && lexer.next().kind == TokenKind::End;
            return ends.then_some(Diagnostics { condition, items });
        }
        token = lexer.next();
    }
}

const NAMES: &[(&str, DiagnosticsItem)] = &[
    ("NUMBER", DiagnosticsItem::Number),
    ("ROW_COUNT", DiagnosticsItem::RowCount),
    ("MYSQL_ERRNO", DiagnosticsItem::MysqlErrno),
    ("MESSAGE_TEXT", DiagnosticsItem::MessageText),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_asked_and_where_it_goes() {
        let asked = diagnostics(b"GET DIAGNOSTICS @a = NUMBER, @`b` = row_count;").unwrap();
        assert_eq!(asked.condition, None);
        let a: &[u8] = b"@a";
        assert_eq!(asked.items, [(a, DiagnosticsItem::Number), (b"@`b`", DiagnosticsItem::RowCount)]);
        let asked =
            diagnostics(b"get current diagnostics condition 2 @a=MESSAGE_TEXT, @b=CLASS_ORIGIN").unwrap();
        assert_eq!(asked.condition, Some(2));
        assert_eq!(asked.items[1].1, DiagnosticsItem::Other);
    }

    #[test]
    fn other_forms_are_not_read() {
        for query in [
            "GET STACKED DIAGNOSTICS @a = NUMBER",
            "GET DIAGNOSTICS a = NUMBER",
            "GET DIAGNOSTICS CONDITION @n @a = MYSQL_ERRNO",
            "GET DIAGNOSTICS @a = NUMBER; SELECT 1",
            "GET DIAGNOSTICS @a",
            "",
        ] {
            assert_eq!(diagnostics(query.as_bytes()), None, "{query}");
        }
    }
}

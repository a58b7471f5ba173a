//! `replace_pattern`: the replacement for what `match_pattern` has found.

use super::RuleRow;
use super::expression::Expression;

/// A replacement: literal text with groups between. `\1` is the first group, `\0` the whole match, `\\` a backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replacement {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Group(usize),
}

impl Replacement {
    /// Parses the text of a rule. `None` if a backslash precedes neither a digit nor another backslash; such a rule
    /// replaces nothing.
    pub(super) fn parse(text: &str) -> Option<Replacement> {
        let mut parts = Vec::new();
        let mut run = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => match bytes.next()? {
                    b'\\' => run.push(b'\\'),
                    digit @ b'0'..=b'9' => {
                        parts.push(Part::Text(std::mem::take(&mut run)));
                        parts.push(Part::Group(usize::from(digit - b'0')));
                    }
                    _ => return None,
                },
                byte => run.push(byte),
            }
        }
        parts.push(Part::Text(run));
        Some(Replacement { parts })
    }

    /// The last group that it refers to; 0 if it refers to none, or to the whole match.
    fn last_group(&self) -> usize {
        let number = |part: &Part| if let Part::Group(number) = part { *number } else { 0 };
        self.parts.iter().map(number).max().unwrap_or(0)
    }

    /// `text` with the first match replaced, or with all of them. `None` if nothing was found, or the expression does
    /// not have as many groups.
    pub(super) fn apply(&self, expression: &Expression, text: &[u8], all: bool) -> Option<Vec<u8>> {
        let mut written = Vec::with_capacity(text.len() + 32);
        let mut at = 0;
        for groups in expression.finds(text, all) {
            let find = (*groups.first()?)?;
            written.extend_from_slice(text.get(at..find.start)?);
            for part in &self.parts {
                match part {
                    Part::Text(text) => written.extend_from_slice(text),
                    Part::Group(number) => {
                        let group = *groups.get(*number)?;
                        written.extend_from_slice(
                            group.and_then(|span| text.get(span.range())).unwrap_or_default(),
                        );
                    }
                }
            }
            at = find.end;
        }
        if written.is_empty() && at == 0 {
            return None;
        }
        written.extend_from_slice(text.get(at..)?);
        Some(written)
    }
}

/// Why a rule replaces nothing although it has a `replace_pattern`.
pub fn why_nothing_is_replaced(row: &RuleRow) -> Option<&'static str> {
    let (text, pattern) = (row.replace_pattern.as_ref()?, row.match_pattern.as_ref()?);
    let Some(replacement) = Replacement::parse(text) else {
        return Some("a backslash must stand before a digit or another backslash");
    };
    // Every expression has the whole match. Compiling it to count its groups would take long with many rules.
    if replacement.last_group() == 0 {
        return None;
    }
    // An invalid expression is reported elsewhere.
    let (expression, _) = Expression::parse(pattern, false).ok()?;
    (replacement.last_group() >= expression.groups()).then_some("match_pattern does not have as many groups")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(pattern: &str, replacement: &str, text: &str, all: bool) -> Option<String> {
        let (expression, _) = Expression::parse(pattern, true).unwrap();
        let written = Replacement::parse(replacement)?.apply(&expression, text.as_bytes(), all)?;
        Some(String::from_utf8(written).unwrap())
    }

    #[test]
    fn says_why_nothing_is_replaced() {
        let why = |pattern: &str, replacement: &str| {
            let (pattern, replacement) = (Some(pattern.to_owned()), Some(replacement.to_owned()));
            let row = RuleRow { match_pattern: pattern, replace_pattern: replacement, ..RuleRow::default() };
            why_nothing_is_replaced(&row).is_some()
        };
        assert!(why("a(b)", r"\2") && why("a(b)(?!c)", r"\2") && why("a", r"\n") && why("a", "b\\"));
        assert!(!why("a(b)", r"\0 \1 \\9") && !why("a(b)(?!c)", r"\1") && !why("(", r"\2"));
    }

    #[test]
    fn groups_are_put_where_they_are_named() {
        let all = |pattern, replacement, text| replaced(pattern, replacement, text, true);
        let first = |pattern, replacement, text| replaced(pattern, replacement, text, false);
        assert_eq!(
            first(r"REWR (\d+)", r"REWRITTEN \1", "SELECT 'REWR 55'").as_deref(),
            Some("SELECT 'REWRITTEN 55'")
        );
        assert_eq!(first("a", "b", "aaa").as_deref(), Some("baa"));
        assert_eq!(all("a", "b", "aAa").as_deref(), Some("bbb"));
        assert_eq!(all(r"(\w)(\d)", r"\2\1\\\0", "a1 b2").as_deref(), Some(r"1a\a1 2b\b2"));
        assert_eq!(first("(a)|(b)", r"[\1\2]", "b").as_deref(), Some("[b]"));
        assert_eq!(all("x*", "-", "ab").as_deref(), Some("-a-b-"));
        assert_eq!(first("^", "/* x */ ", "SELECT 1").as_deref(), Some("/* x */ SELECT 1"));
        assert_eq!(first("SELECT 1", "", "SELECT 1").as_deref(), Some(""));
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        assert_eq!(replaced("x", "y", "abc", true), None);
        assert_eq!(replaced("a", r"\1", "abc", true), None);
        assert_eq!(replaced("a", r"\x", "abc", true), None);
        assert_eq!(replaced("a", r"\", "abc", true), None);
    }
}

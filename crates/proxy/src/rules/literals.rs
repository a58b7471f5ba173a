//! The literals that a text must contain for an expression to match it: most expressions are ruled out by a few
//! literals without being run.
//!
//! Literals are kept in lower case and searched for case-insensitively, so an expression may be tried unnecessarily but
//! is never skipped wrongly.

use fancy_regex::{Expr, LookAround};
use regex_syntax::hir::{Class, Hir, HirKind};

/// What a part of an expression requires of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    /// It matches exactly this text.
    Exactly(Vec<u8>),
    /// It only matches texts that contain one of these.
    OneOf(Vec<Vec<u8>>),
    /// Nothing is known.
    Nothing,
}

/// Literals of which a text must contain one for `expression` to match; `None` if it may match any text.
pub(super) fn of_linear(expression: &Hir) -> Option<Vec<Vec<u8>>> {
    of_hir(expression).into_alternatives()
}

/// The same for an expression of the back-tracking engine.
pub(super) fn of_backtracking(expression: &Expr) -> Option<Vec<Vec<u8>>> {
    of_tree(expression).into_alternatives()
}

fn of_hir(hir: &Hir) -> Need {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Need::Exactly(Vec::new()),
        HirKind::Literal(literal) => Need::Exactly(literal.0.to_ascii_lowercase()),
        HirKind::Class(class) => of_class(class),
        HirKind::Repetition(repetition) if repetition.min > 0 => of_hir(&repetition.sub).repeated(),
        HirKind::Repetition(_) => Need::Nothing,
        HirKind::Capture(capture) => of_hir(&capture.sub),
        HirKind::Concat(parts) => concat(parts.iter().map(of_hir)),
        HirKind::Alternation(parts) => alternate(parts.iter().map(of_hir)),
    }
}

/// A class of one letter in both cases is that letter.
fn of_class(class: &Class) -> Need {
    let Class::Bytes(class) = class else { return Need::Nothing };
    let mut letters = class.iter().flat_map(|range| range.start()..=range.end());
    let Some(first) = letters.next().map(|byte| byte.to_ascii_lowercase()) else { return Need::Nothing };
    match letters.all(|byte| byte.to_ascii_lowercase() == first) {
        true => Need::Exactly(vec![first]),
        false => Need::Nothing,
    }
}

fn of_tree(expr: &Expr) -> Need {
    match expr {
        Expr::Empty | Expr::Assertion(_) => Need::Exactly(Vec::new()),
        Expr::Literal { val, .. } if val.is_ascii() => Need::Exactly(val.to_ascii_lowercase().into_bytes()),
        Expr::Concat(parts) => concat(parts.iter().map(of_tree)),
        Expr::Alt(parts) => alternate(parts.iter().map(of_tree)),
        Expr::Group(part) => of_tree(part),
        Expr::AtomicGroup(part) => of_tree(part),
        Expr::Repeat { child, lo, .. } if *lo > 0 => of_tree(child).repeated(),
        // It matches no characters: what follows it comes directly after what precedes it.
        Expr::LookAround(_, LookAround::LookAheadNeg | LookAround::LookBehindNeg) => {
            Need::Exactly(Vec::new())
        }
        _ => Need::Nothing,
    }
}

/// Consecutive literals are one. Of the other needs, only the most selective counts.
fn concat(parts: impl Iterator<Item = Need>) -> Need {
    let mut exact = true;
    let mut run = Vec::new();
    let mut best = Need::Nothing;
    for part in parts {
        match part {
            Need::Exactly(text) => run.extend(text),
            other => {
                exact = false;
                best = best.better(Need::OneOf(vec![std::mem::take(&mut run)])).better(other);
            }
        }
    }
    if exact { Need::Exactly(run) } else { best.better(Need::OneOf(vec![run])) }
}

fn alternate(parts: impl Iterator<Item = Need>) -> Need {
    let mut all = Vec::new();
    for part in parts {
        let Some(alternatives) = part.into_alternatives() else { return Need::Nothing };
        all.extend(alternatives);
        if all.len() > MOST_ALTERNATIVES {
            return Need::Nothing;
        }
    }
    Need::OneOf(all)
}

impl Need {
    fn repeated(self) -> Need {
        match self {
            Need::Exactly(text) => Need::OneOf(vec![text]),
            other => other,
        }
    }

    fn better(self, other: Need) -> Need {
        if other.worth() > self.worth() { other } else { self }
    }

    /// How selective it is: the number of bytes outside of words that most statements contain. A list counts as much as
    /// its most common text.
    fn worth(&self) -> (usize, usize) {
        match self {
            Need::Exactly(text) => worth_of(text),
            Need::OneOf(texts) => texts.iter().map(|text| worth_of(text)).min().unwrap_or_default(),
            Need::Nothing => (0, 0),
        }
    }

    fn into_alternatives(self) -> Option<Vec<Vec<u8>>> {
        let texts = match self {
            Need::Exactly(text) => vec![text],
            Need::OneOf(texts) => texts,
            Need::Nothing => return None,
        };
        let short = |text: &Vec<u8>| text.len() < SHORTEST;
        if texts.iter().any(short) {
            return None;
        }
        Some(texts)
    }
}

fn worth_of(text: &[u8]) -> (usize, usize) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let rare = |word: &&[u8]| !COMMON.contains(word);
    let rare: usize = text.split(|byte| !is_word(byte)).filter(rare).map(<[u8]>::len).sum();
    (rare, text.len())
}

/// The minimum length of a literal: a single byte is in every other statement.
const SHORTEST: usize = 2;

/// The maximum number of literals: with more, so many texts contain one that nothing is saved.
const MOST_ALTERNATIVES: usize = 64;

/// Words that most statements contain.
#[rustfmt::skip]
const COMMON: &[&[u8]] = &[
    b"select", b"from", b"where", b"insert", b"into", b"values", b"update", b"set", b"delete", b"and", b"or", b"order",
    b"by", b"limit", b"for", b"id", b"join", b"on", b"as", b"in", b"group", b"count",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(pattern: &str, caseless: bool) -> Option<Vec<String>> {
        let mut parser = regex_syntax::ParserBuilder::new();
        let parser = parser.unicode(false).utf8(false).case_insensitive(caseless);
        let hir = parser.build().parse(pattern).unwrap();
        of_linear(&hir).map(texts)
    }

    fn backtracking(pattern: &str) -> Option<Vec<String>> {
        of_backtracking(&Expr::parse_tree(pattern).unwrap().expr).map(texts)
    }

    fn texts(literals: Vec<Vec<u8>>) -> Vec<String> {
        literals.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[test]
    fn the_part_that_says_most_is_needed() {
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(linear("^SELECT c FROM Users WHERE id=.$", true), one("select c from users where id="));
        assert_eq!(linear("^SELECT .* FROM t12 ", true), one(" from t12 "));
        assert_eq!(linear(r"^\s*INSERT\b.*", false), one("insert"));
        assert_eq!(linear("(abc)+d?", false), one("abc"));
        assert_eq!(linear("x(a|b)y", false), None);
        assert_eq!(linear("foo|bar.*baz1", true), Some(vec!["foo".to_owned(), "baz1".to_owned()]));
        for anything in ["", ".", "^", "a*", "[ab]cd?", "(foo|)", r"\d+"] {
            assert_eq!(linear(anything, false), None, "{anything}");
        }
    }

    #[test]
    fn look_around_is_passed_over() {
        assert_eq!(backtracking("^SELECT (?!.*FOR UPDATE).* FROM a1"), Some(vec![" from a1".to_owned()]));
        assert_eq!(backtracking(r"(ab)\1"), Some(vec!["ab".to_owned()]));
        assert_eq!(backtracking(r"(?=x)\w"), None);
    }
}

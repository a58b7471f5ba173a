//! One expression of a rule. The linear-time engine runs everything that it can; look-around and back-references need a
//! back-tracking engine, which gives up after a limited number of steps.
//!
//! Both work on bytes, as ProxySQL's engines do: a statement need not be UTF-8, and only ASCII letters have a case.

use std::sync::OnceLock;

use fancy_regex::{BytesMode, Expr, RegexBuilder};
use regex_automata::meta::{BuildError, Cache, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Input, Span};

use super::literals;

/// An expression, ready to be searched for.
#[derive(Debug)]
pub(super) struct Expression {
    pattern: String,
    caseless: bool,
    engine: Engine,
    /// Whether it can only match texts that contain one of a few literals.
    pub(super) screened: bool,
}

#[derive(Debug)]
enum Engine {
    /// Built when it is first needed: of ten thousand rules most are ruled out by their literals. `None` if it is too
    /// large, which is noticed when the rule is loaded.
    Linear(OnceLock<Option<Regex>>),
    Backtracking(Box<fancy_regex::Regex>),
}

/// The memory in which one worker searches for an expression; allocated when it is first used.
#[derive(Debug, Default)]
pub(super) struct Work(Option<Box<Cache>>);

/// Why an expression cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpressionError {
    /// The syntax is invalid.
    #[error("at character {character}: {reason}")]
    Syntax {
        /// The position in characters, counted from 1.
        character: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The expression would take too much memory.
    #[error("too large: {0}")]
    TooLarge(Box<BuildError>),
    /// The back-tracking engine does not support the expression.
    #[error("{0}")]
    Unsupported(String),
}

impl Expression {
    /// Parses `pattern`. The second value lists literals of which a text must contain one; if it is empty, the
    /// expression may match any text.
    pub(super) fn parse(
        pattern: &str,
        caseless: bool,
    ) -> Result<(Expression, Vec<Vec<u8>>), ExpressionError> {
        let mut parser = regex_syntax::ParserBuilder::new();
        let mut parser = parser.unicode(false).utf8(false).case_insensitive(caseless).build();
        let (engine, literals) = match parser.parse(pattern) {
            Ok(hir) => {
                let built = OnceLock::new();
                if !is_small(pattern) {
                    let regex = build(pattern, caseless).map_err(ExpressionError::TooLarge)?;
                    built.get_or_init(|| Some(regex));
                }
                (Engine::Linear(built), literals::of_linear(&hir))
            }
            Err(error) => {
                let regex = backtracking(pattern, caseless, &error)?;
                let tree = Expr::parse_tree(pattern).ok();
                let literals = tree.and_then(|tree| literals::of_backtracking(&tree.expr));
                (Engine::Backtracking(Box::new(regex)), literals)
            }
        };
        let expression =
            Expression { pattern: pattern.to_owned(), caseless, engine, screened: literals.is_some() };
        Ok((expression, literals.unwrap_or_default()))
    }

    /// Whether the expression matches `text`. A search that takes too many steps counts as no match.
    pub(super) fn is_match(&self, text: &[u8], work: &mut Work) -> bool {
        match &self.engine {
            Engine::Linear(_) => self.linear().is_some_and(|regex| {
                let cache = work.0.get_or_insert_with(|| Box::new(regex.create_cache()));
                regex.search_half_with(cache, &Input::new(text).earliest(true)).is_some()
            }),
            Engine::Backtracking(regex) => regex.is_match(text).unwrap_or(false),
        }
    }

    /// The groups of each match, the whole match first; without `all`, only those of the first match.
    pub(super) fn finds(&self, text: &[u8], all: bool) -> Vec<Vec<Option<Span>>> {
        let most = if all { usize::MAX } else { 1 };
        match &self.engine {
            Engine::Linear(_) => {
                let Some(regex) = self.linear() else { return Vec::new() };
                let groups = |found: Captures| found.iter().collect();
                regex.captures_iter(text).take(most).map(groups).collect()
            }
            Engine::Backtracking(regex) => {
                let finds = regex.captures_iter(text).take(most).map_while(Result::ok);
                finds
                    .map(|found| {
                        let group = |number| found.get(number).map(|group| Span::from(group.range()));
                        (0..found.len()).map(group).collect()
                    })
                    .collect()
            }
        }
    }

    /// The number of groups, including the whole match.
    pub(super) fn groups(&self) -> usize {
        match &self.engine {
            Engine::Linear(_) => self.linear().map_or(0, Regex::captures_len),
            Engine::Backtracking(regex) => regex.captures_len(),
        }
    }

    fn linear(&self) -> Option<&Regex> {
        let Engine::Linear(built) = &self.engine else { return None };
        built.get_or_init(|| build(&self.pattern, self.caseless).ok()).as_ref()
    }
}

/// Whether `pattern` can be a rule's expression.
///
/// # Errors
/// See [`ExpressionError`].
pub fn check_expression(pattern: &str) -> Result<(), ExpressionError> {
    Expression::parse(pattern, true).map(drop)
}

fn build(pattern: &str, caseless: bool) -> Result<Regex, Box<BuildError>> {
    let config =
        Regex::config().utf8_empty(false).nfa_size_limit(Some(SIZE_LIMIT)).hybrid_cache_capacity(CACHE_LIMIT);
    let syntax = syntax::Config::new().unicode(false).utf8(false).case_insensitive(caseless);
    Regex::builder().configure(config).syntax(syntax).build(pattern).map_err(Box::new)
}

/// Compiles the expression for the back-tracking engine. If neither engine supports it, the error is `linear`'s, unless
/// it is about a feature that only the back-tracking engine has.
fn backtracking(
    pattern: &str,
    caseless: bool,
    linear: &regex_syntax::Error,
) -> Result<fancy_regex::Regex, ExpressionError> {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(caseless).bytes_mode(BytesMode::Ascii).backtrack_limit(STEPS);
    builder.delegate_size_limit(SIZE_LIMIT);
    let error = match builder.build() {
        Ok(regex) => return Ok(regex),
        Err(error) => error,
    };
    let at = |offset: usize, reason: String| {
        let before = pattern.get(..offset).unwrap_or_default();
        ExpressionError::Syntax { character: before.chars().count() + 1, reason }
    };
    let syntax = match linear {
        regex_syntax::Error::Parse(error) => match error.kind() {
            regex_syntax::ast::ErrorKind::UnsupportedLookAround
            | regex_syntax::ast::ErrorKind::UnsupportedBackreference => None,
            kind => Some((error.span().start.offset, kind.to_string())),
        },
        regex_syntax::Error::Translate(error) => Some((error.span().start.offset, error.kind().to_string())),
        _ => None,
    };
    Err(match (syntax, error) {
        (Some((offset, reason)), _) => at(offset, reason),
        (None, fancy_regex::Error::ParseError(offset, reason)) => at(offset, reason.to_string()),
        (None, error) => ExpressionError::Unsupported(error.to_string()),
    })
}

/// Whether an expression certainly stays below [`SIZE_LIMIT`]: only counted repetitions make a short one large, and
/// building ten thousand of them takes seconds.
fn is_small(pattern: &str) -> bool {
    pattern.len() <= SHORT && !pattern.contains('{')
}

/// Up to this length, even the largest classes fit within the limit.
const SHORT: usize = 200;

/// Bytes that a compiled expression may take: the engine's default.
const SIZE_LIMIT: usize = 10 << 20;

/// Bytes that a worker uses to search for one expression before it clears them.
const CACHE_LIMIT: usize = 512 << 10;

/// The number of steps after which the back-tracking engine gives up: about a millisecond.
const STEPS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, caseless: bool, text: &[u8]) -> bool {
        let (expression, _) = Expression::parse(pattern, caseless).unwrap();
        expression.is_match(text, &mut Work::default())
    }

    #[test]
    fn expressions_are_searched_in_bytes() {
        assert!(found("^select", true, b"SELECT 1"));
        assert!(!found("^select", false, b"SELECT 1"));
        assert!(found("a.c", false, b"a\xffc"));
        assert!(found("^SELECT (?!.*FOR UPDATE)", false, b"SELECT 1"));
        assert!(!found("^SELECT (?!.*FOR UPDATE)", false, b"SELECT 1 FOR UPDATE"));
        assert!(found(r"(\w+) = \1", true, b"WHERE id = ID \xff"));
    }

    #[test]
    fn mistakes_have_their_place() {
        let said = |pattern| Expression::parse(pattern, true).unwrap_err().to_string();
        assert!(said("(").starts_with("at character 1: "), "{}", said("("));
        assert!(said("abc[z-a]").starts_with("at character 5: "), "{}", said("abc[z-a]"));
        assert!(said(r"(?=a)(").starts_with("at character "), "{}", said(r"(?=a)("));
        assert!(said(r"(a{1000}){1000}").starts_with("too large"), "{}", said(r"(a{1000}){1000}"));
    }

    #[test]
    fn a_search_without_end_is_given_up() {
        let bomb = r"^(a+)+\1$(?!b)";
        assert!(!found(bomb, false, format!("{}c", "a".repeat(60)).as_bytes()));
    }

    #[test]
    fn short_expressions_without_counts_are_never_too_large() {
        for piece in [r"\W", r"\w", r"\S*", r"(\W)", "[^a]", ".", r"\W|", r"(\w+)?"] {
            let pattern = piece.repeat(SHORT / piece.len());
            assert!(is_small(&pattern));
            assert!(build(&pattern, true).is_ok(), "{piece}");
        }
    }

    #[test]
    fn finds_have_their_groups() {
        let (expression, _) = Expression::parse(r"(\d)(x)?", false).unwrap();
        let spans = |all| -> Vec<usize> { expression.finds(b"a1b2x", all).iter().map(Vec::len).collect() };
        assert_eq!(spans(false), [3]);
        assert_eq!(spans(true), [3, 3]);
        assert_eq!(expression.finds(b"a1b2x", true)[1][2], Some(Span::from(4..5)));
        assert_eq!(expression.finds(b"a1b2x", true)[0][2], None);
    }
}

//! A statement prepared for matching: surrounding blanks and semicolons are removed, and it is compared with patterns.

use std::borrow::Cow;

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'a> {
    /// As typed, without surrounding blanks and trailing semicolons: this is passed to SQLite.
    pub sql: &'a str,
    /// The same with each run of blanks outside of quotes replaced by one, for recognising commands. A long statement
    /// is not a command, and is cut off.
    pub plain: Cow<'a, str>,
}

/// Commands are shorter than this, including a `SET` with a long value.
const LONGEST_COMMAND: usize = 256 * 1024;

/// How commands begin that may be longer.
const LONG_COMMAND: &str = "NARROWS PLAN CONFIGURATION ";

impl<'a> Statement<'a> {
    /// The statement in `text`.
    pub fn new(text: &'a str) -> Statement<'a> {
        let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
        let sql = text.trim_start_matches(is_blank).trim_end_matches(|c| is_blank(c) || c == ';');
        let plain = match sql.len() {
            length if length <= LONGEST_COMMAND => collapse(sql),
            // A configuration may be long; a program sends it, which writes one blank where one is needed.
            _ if sql.starts_with(LONG_COMMAND) => Cow::Borrowed(sql),
            _ => Cow::Borrowed(""),
        };
        Statement { sql, plain }
    }
}

/// Replaces each run of blanks outside of quotes by one blank.
fn collapse(sql: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(sql.len());
    let mut quote = None;
    for c in sql.chars() {
        match (quote, c) {
            (Some(open), _) => {
                out.push(c);
                quote = Some(open).filter(|open| *open != c);
            }
            (None, ' ' | '\t' | '\n' | '\r') => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            (None, _) => {
                quote = matches!(c, '\'' | '"' | '`').then_some(c);
                out.push(c);
            }
        }
    }
    if out == sql { Cow::Borrowed(sql) } else { Cow::Owned(out) }
}

/// Matches `pattern` against a statement; returns what its placeholders match.
///
/// | in a pattern | matches |
/// |---|---|
/// | `WORD` | that word, in any case |
/// | `A\|B` | one of the words |
/// | `<name>` | any one word |
/// | `<name...>` | the rest of the statement, which is not empty |
/// | `*` as the last character | anything, from there on |
pub fn captures<'a>(pattern: &str, plain: &'a str) -> Option<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut rest = Some(plain);
    for element in pattern.split(' ') {
        let text = rest?;
        if element.starts_with('<') && element.ends_with("...>") {
            found.push(text);
            return (!text.is_empty()).then_some(found);
        }
        if let Some(prefix) = element.strip_suffix('*') {
            return text.get(..prefix.len())?.eq_ignore_ascii_case(prefix).then_some(found);
        }
        let (word, behind) = match text.split_once(' ') {
            Some((word, behind)) => (word, Some(behind)),
            None => (text, None),
        };
        if element.starts_with('<') {
            if word.is_empty() {
                return None;
            }
            found.push(word);
        } else if !element.split('|').any(|one| one.eq_ignore_ascii_case(word)) {
            return None;
        }
        rest = behind;
    }
    rest.is_none().then_some(found)
}

/// A name without its quotes, which may be written `'x'`, `"x"`, `` `x` `` or bare.
pub fn unquoted(word: &str) -> Cow<'_, str> {
    for quote in ['\'', '"', '`'] {
        let inside = word.strip_prefix(quote).and_then(|word| word.strip_suffix(quote));
        if let Some(inside) = inside {
            let doubled: String = [quote, quote].iter().collect();
            return Cow::Owned(inside.replace(&doubled, &quote.to_string()));
        }
    }
    Cow::Borrowed(word)
}

/// `text` as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `name` as a quoted name of SQL.
pub fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The names in an SQL statement: every word and quoted name outside of strings and comments, in lower case.
pub fn names(sql: &str) -> Vec<String> {
    tokens(sql).filter_map(|token| token.name().map(|name| name.to_ascii_lowercase())).collect()
}

/// `sql` with the database `from` renamed to `to` wherever it qualifies a name.
pub fn requalify<'a>(sql: &'a str, from: &str, to: &str) -> Cow<'a, str> {
    let mut out = String::new();
    let mut tokens = tokens(sql).peekable();
    while let Some(token) = tokens.next() {
        let qualifies = tokens.peek().is_some_and(|next| next.0 == ".");
        let is_meant = qualifies && token.name().is_some_and(|name| name.eq_ignore_ascii_case(from));
        out.push_str(if is_meant { to } else { token.0 });
    }
    if out == sql { Cow::Borrowed(sql) } else { Cow::Owned(out) }
}

/// A piece of a statement: a word, something quoted, a comment, or one other character.
struct Token<'a>(&'a str);

impl<'a> Token<'a> {
    /// The name, if it is one.
    fn name(&self) -> Option<Cow<'a, str>> {
        let first = self.0.chars().next()?;
        match first {
            '"' | '`' => Some(unquoted(self.0)),
            '[' => Some(Cow::Borrowed(self.0.trim_start_matches('[').trim_end_matches(']'))),
            c if c.is_alphabetic() || c == '_' => Some(Cow::Borrowed(self.0)),
            _ => None,
        }
    }
}

fn tokens(sql: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match first {
            '\'' | '"' | '`' => closing(rest, first),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            c if c.is_alphabetic() || c == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        Some(Token(token))
    })
}

/// The length up to and including the closing quote; a doubled quote does not close.
fn closing(text: &str, quote: char) -> usize {
    let mut from = 1;
    while let Some(at) = text[from..].find(quote) {
        let end = from + at + 1;
        if !text[end..].starts_with(quote) {
            return end;
        }
        from = end + 1;
    }
    text.len()
}

/// The part of `text` that would make SQLite read more than one expression: a second assignment, other rows, another
/// statement.
pub fn beyond_an_expression(text: &str) -> Option<String> {
    let (mut depth, mut quote) = (0, None);
    let mut word = String::new();
    let mut previous = ' ';
    for c in text.chars().chain([' ']) {
        let is_letter = quote.is_none() && (c.is_alphanumeric() || c == '_');
        if is_letter {
            word.push(c);
        } else if depth == 0 && CLAUSES.iter().any(|clause| clause.eq_ignore_ascii_case(&word)) {
            return Some(word);
        } else {
            word.clear();
        }
        match (quote, c) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != c),
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',' | ';') if depth == 0 => return Some(c.to_string()),
            (None, '-') if previous == '-' => return Some("--".to_owned()),
            (None, '*') if previous == '/' => return Some("/*".to_owned()),
            _ => {}
        }
        if depth < 0 {
            return Some(")".to_owned());
        }
        previous = c;
    }
    None
}

/// Words that end an expression.
const CLAUSES: &[&str] = &[
    "where",
    "from",
    "returning",
    "group",
    "having",
    "window",
    "union",
    "except",
    "intersect",
    "order",
    "limit",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_away_what_stands_around_a_statement() {
        let statement = Statement::new(" \n SAVE  MYSQL\tUSERS\nTO  DISK ; ;\n");
        assert_eq!(statement.sql, "SAVE  MYSQL\tUSERS\nTO  DISK");
        assert_eq!(statement.plain, "SAVE MYSQL USERS TO DISK");
        assert_eq!(Statement::new(";;").sql, "");
    }

    #[test]
    fn leaves_blanks_in_quotes_alone() {
        assert_eq!(Statement::new("SELECT  'two  blanks' ").plain, "SELECT 'two  blanks'");
        assert_eq!(Statement::new("SELECT 'it''s  one',  1").plain, "SELECT 'it''s  one', 1");
    }

    #[test]
    fn a_pattern_fits_as_a_whole_and_in_any_case() {
        assert_eq!(captures("SHOW TABLES", "show Tables"), Some(vec![]));
        assert_eq!(captures("SHOW TABLES", "SHOW TABLES x"), None);
        assert_eq!(captures("SHOW TABLES FROM|IN <db>", "SHOW TABLES in x"), Some(vec!["x"]));
        assert_eq!(captures("SHOW TABLES FROM|IN <db>", "SHOW TABLES FROM"), None);
        assert_eq!(captures("LOGENTRY <text...>", "LOGENTRY a b"), Some(vec!["a b"]));
        assert_eq!(captures("SET NAMES*", "SET NAMES utf8"), Some(vec![]));
        assert_eq!(captures("SET AUTOCOMMIT*", "set autocommit=1"), Some(vec![]));
        assert_eq!(captures("BEGIN*", "BEG"), None);
    }

    #[test]
    fn finds_names_and_not_what_strings_and_comments_say() {
        let sql =
            "SELECT \"Stats_A\", 'stats_b', `c` FROM stats.stats_d -- stats_e\n/* stats_f */ WHERE x='it''s'";
        assert_eq!(names(sql), ["select", "stats_a", "c", "from", "stats", "stats_d", "where", "x"]);
        assert_eq!(names("SELECT 'never closed stats_a"), ["select"]);
    }

    #[test]
    fn calls_a_database_by_another_name() {
        let sql = "SELECT stats.a, 'stats.b', \"stats\".c FROM Stats.`d`, stats";
        assert_eq!(requalify(sql, "stats", "main"), "SELECT main.a, 'stats.b', main.c FROM main.`d`, stats");
    }

    #[test]
    fn an_expression_stays_one() {
        for text in [
            "5",
            "'a, b -- c'",
            "1+1",
            "max(1, 2)",
            "\"where\"",
            "true",
            "",
            "a IN (SELECT 1 FROM b WHERE 1)",
        ] {
            assert_eq!(beyond_an_expression(text), None, "{text}");
        }
        for text in [
            "1, variable_name='x'",
            "1 WHERE 1=1",
            "1 -- x",
            "1 /* x",
            "1) --",
            "'a' RETURNING 1",
            "1 UNION SELECT 2",
        ] {
            assert!(beyond_an_expression(text).is_some(), "{text}");
        }
    }
}

//! `EXPLAIN ROUTE 'statement' [AS user] [SCHEMA schema] [column value]...`, a command of the admin interface.

/// The parts of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedRoute {
    /// The statement, without its quotes.
    pub statement: String,
    /// `AS user`.
    pub user: Option<String>,
    /// `SCHEMA schema`.
    pub schema: Option<String>,
    /// Other rule columns that are conditions on the client, with the client's values.
    pub others: Vec<(String, String)>,
}

/// Parses the command from its first quote on. `None`: something else.
#[must_use]
pub fn asked_route(command: &str) -> Option<AskedRoute> {
    let start = command.find(['\'', '"', '`'])?;
    let (statement, mut rest) = quoted(command.get(start..)?)?;
    let mut asked = AskedRoute { statement, user: None, schema: None, others: Vec::new() };
    while let Some((word, after)) = rest.trim_start().split_once(' ') {
        let after = after.trim_start();
        let (name, left) = match quoted(after) {
            Some(quoted) => quoted,
            None => {
                let (name, left) = after.split_at_checked(after.find(' ').unwrap_or(after.len()))?;
                (name.to_owned(), left)
            }
        };
        match word.to_ascii_uppercase().as_str() {
            "AS" | "USERNAME" => asked.user = Some(name),
            "SCHEMA" | "SCHEMANAME" => asked.schema = Some(name),
            _ => asked.others.push((word.to_owned(), name)),
        }
        rest = left;
    }
    rest.trim().is_empty().then_some(asked)
}

/// A quoted text at the front, and what comes after it. A quote in it is doubled or escaped with a backslash; all other
/// backslashes belong to the statement.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        match (c, next) {
            ('\\', Some(next)) if next == quote || next == '\\' => {
                value.push(next);
                chars.next();
            }
            (c, Some(next)) if c == quote && next == quote => {
                value.push(quote);
                chars.next();
            }
            (c, _) if c == quote => return Some((value, text.get(at + c.len_utf8()..)?)),
            (c, _) => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Option<String>, Option<String>)> {
        asked_route(text).map(|asked| (asked.statement, asked.user, asked.schema))
    }

    #[test]
    fn takes_a_question_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parsed("EXPLAIN ROUTE 'SELECT 1'"), Some(("SELECT 1".to_owned(), None, None)));
        assert_eq!(parsed("'SELECT ''x''' AS app"), Some(("SELECT 'x'".to_owned(), some("app"), None)));
        assert_eq!(
            parsed("explain route \"SELECT 1\" schema `a b` as 'u'"),
            Some(("SELECT 1".to_owned(), some("u"), some("a b")))
        );
        assert_eq!(parsed("'SELECT \\'x\\''"), Some(("SELECT 'x'".to_owned(), None, None)));
        assert_eq!(
            parsed("'SELECT /* a */  \\n' AS app "),
            Some(("SELECT /* a */  \\n".to_owned(), some("app"), None))
        );
        for text in ["'SELECT 1", "'SELECT 1' FOR", "SELECT 1", ""] {
            assert_eq!(parsed(text), None, "{text}");
        }
        let asked = asked_route("'SELECT 1' client_addr 10.0.0.1 AS app").unwrap();
        assert_eq!(asked.others, [("client_addr".to_owned(), "10.0.0.1".to_owned())]);
    }
}

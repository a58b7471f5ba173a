//! Replaces functions and variables whose value is known in advance by that value: `FOUND_ROWS()`, `CONNECTION_ID()`,
//! `@@warning_count`. Strings and comments are left alone.

use crate::token::{Escapes, Lexer, Token, TokenKind};

/// A function or a variable, and the value that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitute<'a> {
    /// `FOUND_ROWS` for `FOUND_ROWS()`; `@@warning_count` for itself and `@@session.warning_count`.
    pub name: &'a str,
    /// A number.
    pub value: i64,
    /// The type in the result.
    pub shape: Shape,
}

/// The type of the function or variable in a result: the column must look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `BIGINT(21) NOT NULL`: functions that count.
    Signed,
    /// The same for `FOUND_ROWS()`: the call stays in the statement, so that servers still return their warning about
    /// it.
    FoundRows,
    /// `BIGINT(21) UNSIGNED`: system variables, on MySQL.
    Variable,
    /// The same on MariaDB, where such a number is one digit shorter.
    MariaDbVariable,
    /// `INT(10) UNSIGNED NOT NULL`: ids of connections.
    Id,
}

impl Substitute<'_> {
    /// An expression with that value and type: servers derive the length of a number from the string that it is read
    /// from.
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

/// The text with every call in `substitutes` replaced whose value depends on what happened before the text; `None` if
/// there is none.
///
/// Code that a text stores to be executed later keeps its calls: bodies of programs, views, defaults of columns. So do
/// calls about the last statement after a `;`, because that statement is part of the text. A column of a `SELECT` keeps
/// the name that it would have had.
#[must_use]
pub fn substitute(query: &[u8], substitutes: &[Substitute<'_>]) -> Option<Vec<u8>> {
    let mut rewriting = Rewriting {
        lexer: Lexer::new(query, Escapes::Backslash),
        substitutes,
        out: Vec::new(),
        copied: 0,
        stored: Stored::Nothing,
        has_run: false,
        has_found_rows: false,
        depth: 0,
        columns: None,
    };
    while rewriting.statement() {}
    let Rewriting { lexer, mut out, copied, .. } = rewriting;
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(lexer.span(copied, query.len()));
    Some(out)
}

/// How much of the statement is stored to be executed later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Nothing,
    /// Up to a `SELECT`: `CREATE TABLE .. SELECT`.
    UpToQuery,
    All,
}

struct Rewriting<'s, 'a> {
    lexer: Lexer<'a>,
    substitutes: &'s [Substitute<'s>],
    out: Vec<u8>,
    /// Up to which offset the text has been copied to `out`.
    copied: usize,
    stored: Stored,
    /// A statement of the text has run before this one.
    has_run: bool,
    /// One of them may have set the value of `FOUND_ROWS()`.
    has_found_rows: bool,
    /// Nesting depth of parentheses.
    depth: usize,
    /// The list of columns of a `SELECT` that is not in parentheses.
    columns: Option<Column<'a>>,
}

/// A column of a `SELECT`, as far as it has been read.
#[derive(Clone, Copy)]
struct Column<'a> {
    start: usize,
    end: usize,
    replaced: bool,
    named: bool,
    /// The last token that is not in parentheses.
    last: Option<Token<'a>>,
}

impl<'a> Rewriting<'_, 'a> {
    /// Reads one statement; returns whether another one follows.
    fn statement(&mut self) -> bool {
        let first = self.lexer.peek();
        if first.is_any(&["CREATE", "ALTER"]) {
            self.stored = stored(self.lexer.clone());
            if self.stored == Stored::All && has_body(self.lexer.clone()) {
                // The body continues after each `;`.
                return false;
            }
        } else {
            self.stored = Stored::Nothing;
        }
        // Their conditions are evaluated again after their bodies.
        self.has_run |= first.is_any(&["WHILE", "LOOP", "REPEAT", "FOR"]);
        (self.depth, self.columns) = (0, None);
        loop {
            let token = self.lexer.next();
            if token.ends_statement() {
                self.end_column();
                let runs = !first.ends_statement();
                self.has_run |= runs;
                self.has_found_rows |= runs && !first.is_any(KEEPS_FOUND_ROWS);
                return token.kind != TokenKind::End;
            }
            self.token(token);
        }
    }

    fn token(&mut self, token: Token<'a>) {
        if self.stored == Stored::UpToQuery && token.is_word("SELECT") {
            self.stored = Stored::Nothing;
        }
        if let Some((value, end)) = replacement(&token, &self.lexer, |wanted| self.find(wanted)) {
            while self.lexer.peek().start < end && self.lexer.peek().kind != TokenKind::End {
                self.lexer.next();
            }
            self.out.extend_from_slice(self.lexer.span(self.copied, token.start));
            self.out.extend_from_slice(value.as_bytes());
            self.copied = end;
            self.note(token, end, true);
            return;
        }
        match token.text {
            b")" => self.depth = self.depth.saturating_sub(1),
            b"," if self.depth == 0 => return self.next_column(),
            _ if self.depth > 0 => {}
            _ if token.is_word("SELECT") => self.columns = Some(Column::begin(token.end())),
            _ if token.is_any(AFTER_COLUMNS) => self.end_column(),
            _ => {}
        }
        self.note(token, token.end(), false);
        if token.is_symbol(b'(') {
            self.depth += 1;
        }
    }

    /// The replacement of a call, if it may be replaced.
    fn find(&self, wanted: &dyn Fn(&Substitute<'_>) -> bool) -> Option<String> {
        let substitute = self.substitutes.iter().find(|substitute| wanted(substitute))?;
        let holds = match substitute.shape {
            Shape::Id => true,
            Shape::FoundRows => !self.has_found_rows,
            Shape::Signed | Shape::Variable | Shape::MariaDbVariable => !self.has_run,
        };
        (holds && self.stored == Stored::Nothing).then(|| substitute.expression())
    }

    /// A token of a column.
    fn note(&mut self, token: Token<'a>, end: usize, replaced: bool) {
        let Some(column) = &mut self.columns else { return };
        if column.last.is_none() && token.is_any(BEFORE_COLUMNS) || token.is_word("SELECT") && self.depth == 0
        {
            column.start = end;
            return;
        }
        if column.last.is_none() {
            column.start = token.start;
        }
        (column.end, column.replaced) = (end, column.replaced || replaced);
        if self.depth == 0 {
            let operand = matches!(token.kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::Text);
            let follows = column.last.is_some_and(|last| ends_operand(&last));
            let is_name = operand && follows && !token.is_any(OPERATORS) && !token.is_word("END");
            column.named |= is_name || token.is_word("AS");
            column.last =
                Some(Token { kind: if replaced { TokenKind::Number } else { token.kind }, ..token });
        }
    }

    fn next_column(&mut self) {
        let is_list = self.columns.is_some();
        self.end_column();
        self.columns = is_list.then(|| Column::begin(self.lexer.peek().start));
    }

    /// Gives the column that ends here its original name, if something in it was replaced.
    fn end_column(&mut self) {
        let Some(column) = self.columns.take().filter(|column| column.replaced && !column.named) else {
            return;
        };
        let written = self.lexer.span(column.start, column.end);
        let is_comment = |pair: &[u8]| matches!(pair, b"/*" | b"--");
        if written.len() > LONGEST_NAME
            || !written.is_ascii()
            || written.contains(&b'#')
            || written.windows(2).any(is_comment)
        {
            return;
        }
        self.out.extend_from_slice(self.lexer.span(self.copied, column.end));
        self.copied = column.end;
        self.out.extend_from_slice(b" AS `");
        for byte in written {
            self.out.extend(std::iter::repeat_n(*byte, if *byte == b'`' { 2 } else { 1 }));
        }
        self.out.push(b'`');
    }
}

impl Column<'_> {
    fn begin(start: usize) -> Self {
        Column { start, end: start, replaced: false, named: false, last: None }
    }
}

/// How much of a `CREATE` or `ALTER` is stored.
fn stored(mut lexer: Lexer<'_>) -> Stored {
    let creates = lexer.next().is_word("CREATE");
    loop {
        let token = lexer.next();
        match token {
            _ if token.is_word("TABLE") && creates => return Stored::UpToQuery,
            _ if token.is_any(&["OR", "REPLACE", "TEMPORARY"]) => {}
            _ => return Stored::All,
        }
    }
}

/// Whether a `CREATE` or `ALTER` has a body of statements.
fn has_body(mut lexer: Lexer<'_>) -> bool {
    loop {
        let token = lexer.next();
        if token.ends_statement() || token.is_any(&["TABLE", "VIEW", "DATABASE", "SCHEMA", "USER", "INDEX"]) {
            return false;
        }
        if token.is_any(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"]) {
            return true;
        }
    }
}

/// Whether what follows `last` without an operator is a name.
fn ends_operand(last: &Token<'_>) -> bool {
    match last.kind {
        TokenKind::Symbol => last.is_symbol(b')'),
        TokenKind::Word => !last.is_any(OPERATORS),
        TokenKind::End => false,
        _ => true,
    }
}

/// The value for the call that begins with `token`, and where the call ends.
fn replacement(
    token: &Token<'_>,
    lexer: &Lexer<'_>,
    find: impl Fn(&dyn Fn(&Substitute<'_>) -> bool) -> Option<String>,
) -> Option<(String, usize)> {
    match token.kind {
        TokenKind::Word => {
            let value = find(&|substitute| token.is_word(substitute.name))?;
            let mut ahead = lexer.clone();
            let (open, close) = (ahead.next(), ahead.next());
            (open.is_symbol(b'(') && close.is_symbol(b')')).then(|| (value, close.end()))
        }
        TokenKind::SystemVariable => {
            let name = token.text.strip_prefix(b"@@")?;
            let scoped = name.get(..8).filter(|scope| scope.eq_ignore_ascii_case(b"session."));
            let bare = name.get(scoped.map_or(0, <[u8]>::len)..)?;
            let value = find(&|substitute| {
                let wanted = substitute.name.strip_prefix("@@");
                wanted.is_some_and(|wanted| bare.eq_ignore_ascii_case(wanted.as_bytes()))
            })?;
            Some((value, token.end()))
        }
        _ => None,
    }
}

/// What may appear between `SELECT` and its first column.
const BEFORE_COLUMNS: &[&str] = &[
    "ALL",
    "DISTINCT",
    "DISTINCTROW",
    "HIGH_PRIORITY",
    "STRAIGHT_JOIN",
    "SQL_SMALL_RESULT",
    "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT",
    "SQL_NO_CACHE",
    "SQL_CACHE",
    "SQL_CALC_FOUND_ROWS",
];

/// What ends the columns of a `SELECT`.
const AFTER_COLUMNS: &[&str] = &[
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "WINDOW",
    "PROCEDURE",
    "INTO",
    "FOR",
    "LOCK",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
];

/// Words after which an operand follows.
const OPERATORS: &[&str] = &[
    "AND", "OR", "XOR", "NOT", "DIV", "MOD", "IS", "IN", "LIKE", "RLIKE", "REGEXP", "SOUNDS", "BETWEEN",
    "COLLATE", "ESCAPE", "CASE", "WHEN", "THEN", "ELSE", "BINARY", "MEMBER", "OF", "OVER", "AS", "INTERVAL",
];

/// Statements that do not change the value of `FOUND_ROWS()`.
const KEEPS_FOUND_ROWS: &[&str] =
    &["SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"];

/// The longest name of a column without an alias; servers truncate longer ones, each in its own way.
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(query: &str) -> Option<String> {
        let known = [
            Substitute { name: "FOUND_ROWS", value: 5, shape: Shape::Signed },
            Substitute { name: "@@warning_count", value: 2, shape: Shape::Variable },
            Substitute { name: "CONNECTION_ID", value: 7, shape: Shape::Id },
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
            "SELECT IF(CONVERT('000000000000000000005', SIGNED)>3,1,0) AS `IF(FOUND_ROWS()>3,1,0)`"
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

    #[test]
    fn what_is_stored_keeps_its_calls() {
        for query in [
            "CREATE VIEW v AS SELECT CONNECTION_ID()",
            "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`a`@`b` SQL SECURITY DEFINER VIEW v AS SELECT FOUND_ROWS()",
            "ALTER VIEW v AS SELECT CONNECTION_ID()",
            "CREATE PROCEDURE p() BEGIN UPDATE t SET a=1; SELECT FOUND_ROWS(), CONNECTION_ID(); END",
            "CREATE DEFINER=CURRENT_USER TRIGGER g BEFORE INSERT ON t FOR EACH ROW INSERT INTO a VALUES (CONNECTION_ID())",
            "CREATE FUNCTION f() RETURNS INT RETURN CONNECTION_ID()",
            "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO INSERT INTO a VALUES (CONNECTION_ID())",
            "ALTER EVENT e DO INSERT INTO a VALUES (CONNECTION_ID())",
            "CREATE TABLE t (a INT, b BIGINT DEFAULT (CONNECTION_ID()))",
            "CREATE TEMPORARY TABLE t (b BIGINT AS (CONNECTION_ID()))",
            "ALTER TABLE t ADD COLUMN b BIGINT DEFAULT (CONNECTION_ID())",
        ] {
            assert_eq!(replaced(query), None, "{query}");
        }
        assert_eq!(
            replaced("CREATE TABLE t (b BIGINT DEFAULT (CONNECTION_ID())) SELECT CONNECTION_ID() AS c")
                .unwrap(),
            "CREATE TABLE t (b BIGINT DEFAULT (CONNECTION_ID())) SELECT CONVERT('0000000007', UNSIGNED) AS c"
        );
        assert_eq!(
            replaced("CREATE VIEW v AS SELECT CONNECTION_ID(); SELECT CONNECTION_ID() c").unwrap(),
            "CREATE VIEW v AS SELECT CONNECTION_ID(); SELECT CONVERT('0000000007', UNSIGNED) c"
        );
    }

    #[test]
    fn what_statements_of_the_same_text_decide_is_left_to_the_server() {
        for query in [
            "UPDATE t SET a=1; SELECT FOUND_ROWS(), @@warning_count",
            "SELECT 1; SELECT 2 FROM t WHERE FOUND_ROWS() = 1",
            "BEGIN NOT ATOMIC UPDATE t SET a=1; SELECT @@warning_count; END",
        ] {
            assert_eq!(replaced(query), None, "{query}");
        }
        assert_eq!(
            replaced("SELECT @@warning_count AS w; SELECT @@warning_count, CONNECTION_ID()").unwrap(),
            "SELECT CONVERT(NULLIF('000000000000000000002', ''), UNSIGNED) AS w; \
             SELECT @@warning_count, CONVERT('0000000007', UNSIGNED) AS `CONNECTION_ID()`"
        );
    }

    #[test]
    fn found_rows_are_those_from_before_until_rows_are_found() {
        let known = [Substitute { name: "FOUND_ROWS", value: 5, shape: Shape::FoundRows }];
        let replaced =
            |query: &str| substitute(query.as_bytes(), &known).map(|it| String::from_utf8(it).unwrap());
        assert_eq!(
            replaced("SET @a = 1; SELECT FOUND_ROWS() f; SELECT FOUND_ROWS() f").unwrap(),
            "SET @a = 1; SELECT CAST(5+0*FOUND_ROWS() AS SIGNED) f; SELECT FOUND_ROWS() f"
        );
    }

    #[test]
    fn an_expression_keeps_the_name_of_its_column() {
        let id = "CONVERT('0000000007', UNSIGNED)";
        for (query, expected) in [
            ("SELECT connection_id()>0", format!("SELECT {id}>0 AS `connection_id()>0`")),
            (
                "SELECT DISTINCT 1 + connection_id() FROM t",
                format!("SELECT DISTINCT 1 + {id} AS `1 + connection_id()` FROM t"),
            ),
            (
                "SELECT 1, md5(connection_id()) , 2",
                format!("SELECT 1, md5({id}) AS `md5(connection_id())` , 2"),
            ),
            ("SELECT connection_id() IS NULL x", format!("SELECT {id} IS NULL x")),
            (
                "SELECT connection_id() IS NOT NULL",
                format!("SELECT {id} IS NOT NULL AS `connection_id() IS NOT NULL`"),
            ),
            (
                "SELECT CASE WHEN connection_id() THEN 1 END",
                format!("SELECT CASE WHEN {id} THEN 1 END AS `CASE WHEN connection_id() THEN 1 END`"),
            ),
            (
                "SELECT CASE connection_id() WHEN 1 THEN 1 END x",
                format!("SELECT CASE {id} WHEN 1 THEN 1 END x"),
            ),
            ("SELECT `a b`+connection_id()", format!("SELECT `a b`+{id} AS ```a b``+connection_id()`")),
            ("SELECT connection_id()+1 `n`, 2", format!("SELECT {id}+1 `n`, 2")),
            ("SELECT connection_id()+1 'n'", format!("SELECT {id}+1 'n'")),
            ("SELECT a FROM t ORDER BY b, connection_id()", format!("SELECT a FROM t ORDER BY b, {id}")),
            ("SET @a = 1, @b = connection_id()", format!("SET @a = 1, @b = {id}")),
            ("UPDATE t SET a = 1, b = connection_id()", format!("UPDATE t SET a = 1, b = {id}")),
            ("SELECT /*x*/ connection_id() /*y*/ > 0", format!("SELECT /*x*/ {id} /*y*/ > 0")),
        ] {
            assert_eq!(replaced(query).unwrap(), expected);
        }
    }
}

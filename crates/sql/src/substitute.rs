//! Replaces functions and variables whose value is known in advance by that value: `FOUND_ROWS()`, `CONNECTION_ID()`,
//! `@@warning_count`. Strings and comments are left alone.
//!
//! Ids of connections are of two worlds: a proxy's own, which its clients know, and those of the server. A statement that
//! compares them must see one world only. `IS_USED_LOCK()` returns a server's id; if that is the id of the connection itself,
//! it is translated. A statement that reads the server's own tables, which have its ids, keeps its calls.

use crate::read::{is_of_server, name_of};
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

/// What the function or variable is: the value that replaces it must have the same type in a result and in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `ROW_COUNT()`: `BIGINT(21) NOT NULL`.
    RowCount,
    /// `FOUND_ROWS()`, of the same type. The call stays in the statement, so that servers still return their warning about
    /// it.
    FoundRows,
    /// A system variable that counts: `BIGINT(21) UNSIGNED`.
    Variable,
    /// `CONNECTION_ID()`: `INT(10) UNSIGNED NOT NULL` on MariaDB, `BIGINT(21) UNSIGNED NOT NULL` on MySQL.
    Id,
}

/// Whose types the values have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Substitute<'_> {
    /// An expression with that value and type.
    fn expression(&self, dialect: Dialect) -> String {
        let value = self.value;
        match (self.shape, dialect) {
            // A cast of text is as long as the text. MariaDB adds a digit for the sign when it calculates with one.
            (Shape::RowCount, Dialect::MySql) => format!("CAST({value}+0*ROW_COUNT() AS SIGNED)"),
            (Shape::FoundRows, Dialect::MySql) => format!("CAST({value}+0*FOUND_ROWS() AS SIGNED)"),
            (Shape::RowCount, Dialect::MariaDb) => {
                format!("(CONVERT('{value:019}', SIGNED)+0*(ROW_COUNT()=0))")
            }
            (Shape::FoundRows, Dialect::MariaDb) => {
                format!("(CONVERT('{value:019}', SIGNED)+0*(FOUND_ROWS()=0))")
            }
            (Shape::Variable, Dialect::MySql) => format!("CONVERT(NULLIF('{value:021}', ''), UNSIGNED)"),
            (Shape::Variable, Dialect::MariaDb) => {
                format!("(CONVERT(NULLIF('{value:021}', ''), UNSIGNED)+0)")
            }
            (Shape::Id, Dialect::MySql) => format!("CONVERT('{value:010}', UNSIGNED)"),
            // MariaDB has no cast to INT. The only other function of this type that can have any value is CRC32().
            (Shape::Id, Dialect::MariaDb) => match u32::try_from(value) {
                Ok(id) => format!("CRC32(0x{:08X})", with_crc32(id).swap_bytes()),
                Err(_) => format!("CONVERT('{value:010}', UNSIGNED)"),
            },
        }
    }

    /// `IS_USED_LOCK(argument)`, but with this id in the place of that of the server's connection.
    fn lock_owner(&self, argument: &[u8], dialect: Dialect) -> Vec<u8> {
        let own = match dialect {
            Dialect::MySql => self.expression(dialect),
            // Not unsigned there.
            Dialect::MariaDb => self.value.to_string(),
        };
        let mut lexer = Lexer::new(argument, Escapes::Backslash);
        let mut tokens = std::iter::from_fn(|| Some(lexer.next()).filter(|it| it.kind != TokenKind::End));
        // A parameter cannot be repeated. A column can, but is not seen in a derived table.
        if tokens.any(|token| token.is_symbol(b'?')) {
            let head = format!("(SELECT IF(v=CONNECTION_ID(),{own},v) FROM (SELECT IS_USED_LOCK(");
            return [head.as_bytes(), argument, b") AS v) AS l)"].concat();
        }
        let middle = format!(")=CONNECTION_ID(),{own},IS_USED_LOCK(");
        [b"IF(IS_USED_LOCK(", argument, middle.as_bytes(), argument, b"))"].concat()
    }
}

/// The number whose four bytes, the lowest first, have this CRC-32 (of IEEE 802.3): its steps taken back.
const fn with_crc32(crc: u32) -> u32 {
    let mut register = !crc;
    let mut step = 0;
    while step < 32 {
        register = if register >> 31 == 1 { (register ^ 0xEDB8_8320) << 1 | 1 } else { register << 1 };
        step += 1;
    }
    !register
}

/// The text with every call in `substitutes` replaced whose value depends on what happened before the text; `None` if
/// there is none.
///
/// Code that a text stores to be executed later keeps its calls: bodies of programs, views, defaults of columns. So do
/// calls about the last statement after a `;`, because that statement is part of the text. A column of a `SELECT` keeps
/// the name that it would have had.
#[must_use]
pub fn substitute(query: &[u8], substitutes: &[Substitute<'_>], dialect: Dialect) -> Option<Vec<u8>> {
    let mut rewriting = Rewriting {
        lexer: Lexer::new(query, Escapes::Backslash),
        substitutes,
        dialect,
        out: Vec::new(),
        copied: 0,
        stored: Stored::Nothing,
        has_run: false,
        has_found_rows: false,
        uses_server_schema: false,
        reads_server: false,
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
    dialect: Dialect,
    out: Vec<u8>,
    /// Up to which offset the text has been copied to `out`.
    copied: usize,
    stored: Stored,
    /// A statement of the text has run before this one.
    has_run: bool,
    /// One of them may have set the value of `FOUND_ROWS()`.
    has_found_rows: bool,
    /// A statement of the text has chosen a schema of the server's own.
    uses_server_schema: bool,
    /// The current statement reads tables with ids of the server.
    reads_server: bool,
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
        self.reads_server = self.uses_server_schema || reads_server(self.lexer.clone());
        let mut ahead = self.lexer.clone();
        let used = if ahead.next().is_word("USE") { name_of(ahead.next()) } else { None };
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
                if let Some(schema) = used {
                    self.uses_server_schema = is_of_server(schema);
                }
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
        let replaced = replacement(&token, &self.lexer, |wanted| self.find(wanted));
        let replaced = replaced.map(|(value, end)| (value.into_bytes(), end));
        if let Some((value, end)) = replaced.or_else(|| self.lock_owner(&token)) {
            while self.lexer.peek().start < end && self.lexer.peek().kind != TokenKind::End {
                self.lexer.next();
            }
            self.out.extend_from_slice(self.lexer.span(self.copied, token.start));
            self.out.extend_from_slice(&value);
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
            Shape::Id => !self.reads_server,
            Shape::FoundRows => !self.has_found_rows,
            Shape::RowCount | Shape::Variable => !self.has_run,
        };
        (holds && self.stored == Stored::Nothing).then(|| substitute.expression(self.dialect))
    }

    /// The replacement of an `IS_USED_LOCK(..)` that begins with `token`, and where the call ends.
    fn lock_owner(&self, token: &Token<'a>) -> Option<(Vec<u8>, usize)> {
        if !token.is_word("IS_USED_LOCK") || self.reads_server || self.stored != Stored::Nothing {
            return None;
        }
        let own_id = self.substitutes.iter().find(|substitute| substitute.shape == Shape::Id)?;
        let mut ahead = self.lexer.clone();
        let open = ahead.next();
        if !open.is_symbol(b'(') {
            return None;
        }
        let mut depth = 1_usize;
        let close = loop {
            let token = ahead.next();
            match token.text {
                _ if token.ends_statement() => return None,
                b"(" => depth += 1,
                b")" if depth == 1 => break token,
                b")" => depth -= 1,
                _ => {}
            }
        };
        let argument = self.lexer.span(open.end(), close.start);
        let rewritten = substitute(argument, std::slice::from_ref(own_id), self.dialect);
        let argument = rewritten.as_deref().unwrap_or(argument);
        Some((own_id.lock_owner(argument, self.dialect), close.end()))
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

/// Whether a statement reads what has ids of the server's connections: tables in the server's own schemas, some functions, and a
/// variable. What a view or a stored function reads cannot be seen.
fn reads_server(mut lexer: Lexer<'_>) -> bool {
    loop {
        let token = lexer.next();
        if token.ends_statement() {
            return false;
        }
        if token.kind == TokenKind::SystemVariable {
            let mut names = token.text.split(|byte| matches!(byte, b'@' | b'.'));
            if names.next_back().is_some_and(|name| name.eq_ignore_ascii_case(b"pseudo_thread_id")) {
                return true;
            }
        }
        let Some(name) = name_of(token) else { continue };
        let behind = lexer.peek();
        let is_schema = behind.is_symbol(b'.') && is_of_server(name);
        let asks = behind.is_symbol(b'(') && token.is_any(&["PS_THREAD_ID", "PS_CURRENT_THREAD_ID"]);
        if is_schema || asks {
            return true;
        }
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
const LONGEST_NAME: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(query: &str) -> Option<String> {
        let known = [
            Substitute { name: "ROW_COUNT", value: 5, shape: Shape::RowCount },
            Substitute { name: "@@warning_count", value: 2, shape: Shape::Variable },
            Substitute { name: "CONNECTION_ID", value: 7, shape: Shape::Id },
        ];
        substitute(query.as_bytes(), &known, Dialect::MySql).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_column_keeps_its_name() {
        assert_eq!(
            replaced("SELECT row_count()").unwrap(),
            "SELECT CAST(5+0*ROW_COUNT() AS SIGNED) AS `row_count()`"
        );
        assert_eq!(
            replaced("SELECT 1, ROW_COUNT( ), @@session.warning_count FROM t;").unwrap(),
            "SELECT 1, CAST(5+0*ROW_COUNT() AS SIGNED) AS `ROW_COUNT( )`, CONVERT(NULLIF('000000000000000000002', ''), UNSIGNED) AS `@@session.warning_count` FROM t;"
        );
    }

    #[test]
    fn inside_an_expression_or_behind_a_name_of_its_own() {
        assert_eq!(
            replaced("SELECT ROW_COUNT() AS n").unwrap(),
            "SELECT CAST(5+0*ROW_COUNT() AS SIGNED) AS n"
        );
        assert_eq!(
            replaced("SELECT IF(ROW_COUNT()>3,1,0)").unwrap(),
            "SELECT IF(CAST(5+0*ROW_COUNT() AS SIGNED)>3,1,0) AS `IF(ROW_COUNT()>3,1,0)`"
        );
        assert_eq!(
            replaced("INSERT INTO t VALUES (ROW_COUNT())").unwrap(),
            "INSERT INTO t VALUES (CAST(5+0*ROW_COUNT() AS SIGNED))"
        );
    }

    #[test]
    fn leaves_everything_else_alone() {
        for query in ["SELECT 'ROW_COUNT()'", "SELECT found_rows FROM t", "SELECT 1 /* ROW_COUNT() */", ""] {
            assert_eq!(replaced(query), None, "{query}");
        }
    }

    #[test]
    fn what_is_stored_keeps_its_calls() {
        for query in [
            "CREATE VIEW v AS SELECT CONNECTION_ID()",
            "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`a`@`b` SQL SECURITY DEFINER VIEW v AS SELECT ROW_COUNT()",
            "ALTER VIEW v AS SELECT CONNECTION_ID()",
            "CREATE PROCEDURE p() BEGIN UPDATE t SET a=1; SELECT ROW_COUNT(), CONNECTION_ID(); END",
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
            "UPDATE t SET a=1; SELECT ROW_COUNT(), @@warning_count",
            "SELECT 1; SELECT 2 FROM t WHERE ROW_COUNT() = 1",
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
        let replaced = |query: &str| {
            substitute(query.as_bytes(), &known, Dialect::MySql).map(|it| String::from_utf8(it).unwrap())
        };
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

    #[test]
    fn a_lock_of_the_session_has_its_own_id() {
        let own = "CONVERT('0000000007', UNSIGNED)";
        let lock =
            |name: &str| format!("IF(IS_USED_LOCK({name})=CONNECTION_ID(),{own},IS_USED_LOCK({name}))");
        for (query, expected) in [
            ("SELECT IS_USED_LOCK('x') u", format!("SELECT {} u", lock("'x'"))),
            (
                "SELECT is_used_lock('x') = CONNECTION_ID() AS me",
                format!("SELECT {} = {own} AS me", lock("'x'")),
            ),
            (
                "SELECT IS_USED_LOCK(CONCAT('a', CONNECTION_ID())) u",
                format!("SELECT {} u", lock(&format!("CONCAT('a', {own})"))),
            ),
            ("DO IS_USED_LOCK((SELECT MAX(n) FROM t))", format!("DO {}", lock("(SELECT MAX(n) FROM t)"))),
            (
                "SELECT IS_USED_LOCK(?) u, CONNECTION_ID() i",
                format!(
                    "SELECT (SELECT IF(v=CONNECTION_ID(),{own},v) FROM (SELECT IS_USED_LOCK(?) AS v) AS l) u, {own} i"
                ),
            ),
            ("SELECT IS_USED_LOCK('x')", format!("SELECT {} AS `IS_USED_LOCK('x')`", lock("'x'"))),
        ] {
            assert_eq!(replaced(query).unwrap(), expected);
        }
        for query in [
            "SELECT IS_USED_LOCK",
            "SELECT IS_USED_LOCK('x'",
            "SELECT is_used_lock FROM t",
            "SELECT IS_USED_LOCK('x'; SELECT 1)",
        ] {
            assert_eq!(replaced(query), None, "{query}");
        }
    }

    #[test]
    fn beside_ids_of_the_server_its_own_stay() {
        for query in [
            "SELECT * FROM information_schema.processlist WHERE id = CONNECTION_ID()",
            "SELECT trx_id FROM information_schema . innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()",
            "SELECT thread_id FROM `performance_schema`.threads WHERE processlist_id = connection_id()",
            "SELECT * FROM \"sys\".session WHERE conn_id = CONNECTION_ID()",
            "SELECT sys.ps_thread_id(CONNECTION_ID())",
            "SELECT PS_THREAD_ID(CONNECTION_ID()), PS_CURRENT_THREAD_ID()",
            "SELECT @@pseudo_thread_id = CONNECTION_ID(), @@SESSION.pseudo_thread_id",
            "SELECT IS_USED_LOCK('x') FROM performance_schema.metadata_locks",
            "SELECT CONNECTION_ID() IN (SELECT thread_id FROM mysql.general_log)",
            "USE performance_schema; SELECT * FROM threads WHERE processlist_id = CONNECTION_ID()",
        ] {
            assert_eq!(replaced(query), None, "{query}");
        }
        let id = "CONVERT('0000000007', UNSIGNED)";
        assert_eq!(
            replaced("USE sys; USE shop; SELECT CONNECTION_ID() i; SELECT CONNECTION_ID() i, a.b FROM sys.a")
                .unwrap(),
            format!("USE sys; USE shop; SELECT {id} i; SELECT CONNECTION_ID() i, a.b FROM sys.a")
        );
        assert_eq!(
            replaced("SELECT CONNECTION_ID() i FROM sys, mysql WHERE 'sys.x' = 'a'").unwrap(),
            format!("SELECT {id} i FROM sys, mysql WHERE 'sys.x' = 'a'")
        );
    }

    #[test]
    fn an_id_is_a_checksum_on_mariadb() {
        let crc32 = |bytes: &[u8]| {
            !bytes.iter().fold(u32::MAX, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 }
                })
            })
        };
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        for id in [0, 1, 7, 1 << 30, 1 << 30 | 1, 0x7FFF_FFFF, u32::MAX] {
            assert_eq!(crc32(&with_crc32(id).to_le_bytes()), id, "{id}");
        }
    }
}

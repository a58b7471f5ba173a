//! Parses `SET` statements into assignments.
//!
//! The parser implements the grammar of "SET Syntax for Variable Assignment", `SET NAMES`, `SET CHARACTER SET` and `SET
//! TRANSACTION` of the MySQL manual, and MariaDB's `SET STATEMENT .. FOR`. It does not evaluate expressions: a value
//! that is not a plain literal or word is kept as [`Value::Expression`].

mod counted;
mod for_one_statement;

use crate::statement::single_end;
use crate::token::{Escapes, Lexer, Token, TokenKind, unquote, unquote_with};

pub use counted::{Counted, counted, may_begin_untold};
pub use for_one_statement::{ForOneStatement, for_one_statement, settings_of_parts};

/// One assignment of a `SET` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// A system variable.
    System {
        /// Its scope. A `GLOBAL` or `SESSION` keyword also applies to the bare names after it.
        scope: Scope,
        /// Lower case, without quotes; `cache.key_buffer_size` keeps its dot.
        name: String,
        /// The new value.
        value: Value,
    },
    /// `@@name` without a scope, of a variable with the characteristics of transactions: it holds for the next transaction
    /// only, like [`TransactionScope::Next`], and servers do not report it.
    NextTransaction {
        /// Lower case, without quotes.
        name: String,
        /// The new value.
        value: Value,
    },
    /// A user variable.
    User {
        /// Lower case, without `@` and quotes.
        name: String,
        /// The new value.
        value: Value,
    },
    /// `SET NAMES charset [COLLATE collation]`.
    Names {
        /// [`Value::Default`], [`Value::Word`] or [`Value::Text`].
        charset: Value,
        /// The collation, if one is given.
        collation: Option<Value>,
    },
    /// `SET CHARACTER SET charset`, `SET CHARSET charset`.
    CharacterSet(Value),
    /// `SET [GLOBAL | SESSION] TRANSACTION ..`.
    Transaction {
        /// Which transactions are meant.
        scope: TransactionScope,
        /// The isolation level, if one is given.
        isolation: Option<Isolation>,
        /// Read only or read write, if given.
        access_mode: Option<AccessMode>,
    },
    /// `SET STATEMENT a=1, b=2 FOR statement`: applies to one statement.
    Statement {
        /// The settings while it runs.
        variables: Vec<Assignment>,
        /// Offset of the statement in the query.
        offset: usize,
    },
    /// `SET PASSWORD`, `SET ROLE`, `SET DEFAULT ROLE`, `SET RESOURCE GROUP`.
    Other(OtherSet),
}

/// The scope of a system variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// This session: `SESSION`, `LOCAL`, `@@session.`, `@@local.`, `@@`, or nothing.
    Session,
    /// The server: `GLOBAL`, `@@global.`.
    Global,
    /// The server and its persisted file: `PERSIST`.
    Persist,
    /// Only the persisted file: `PERSIST_ONLY`.
    PersistOnly,
}

/// The transactions to which `SET TRANSACTION` applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionScope {
    /// The next one of this session.
    Next,
    /// All later ones of this session.
    Session,
    /// Those of later sessions.
    Global,
}

/// A transaction isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// `READ UNCOMMITTED`
    ReadUncommitted,
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// `READ ONLY`
    ReadOnly,
    /// `READ WRITE`
    ReadWrite,
}

/// Forms of `SET` that assign no variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OtherSet {
    /// `SET PASSWORD ..`
    Password,
    /// `SET ROLE ..`
    Role,
    /// `SET DEFAULT ROLE ..`
    DefaultRole,
    /// `SET RESOURCE GROUP ..`
    ResourceGroup,
}

/// The right-hand side of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `DEFAULT`.
    Default,
    /// `NULL`.
    Null,
    /// A number as written, with its sign.
    Number(String),
    /// A quoted string, its escapes undone.
    Text(Vec<u8>),
    /// A word or quoted name: `ON`, `utf8mb4`.
    Word(String),
    /// Anything else, as written.
    Expression(Vec<u8>),
}

/// Why a statement is not a `SET` this parser understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// It does not begin with `SET`.
    #[error("not a SET statement")]
    NotSet,
    /// Another statement follows.
    #[error("another statement follows the SET")]
    Multi,
    /// A string, quoted name or comment is not terminated.
    #[error("a quote or comment of the SET has no end")]
    Unterminated,
    /// The grammar does not allow what is at this offset.
    #[error("unexpected text in SET at byte {at}")]
    Unexpected {
        /// Offset in the query.
        at: usize,
    },
}

/// Parses `query` as a `SET` statement, reading backslashes in strings as escapes.
pub fn parse(query: &[u8]) -> Result<Vec<Assignment>, NotUnderstood> {
    parse_with(query, Escapes::Backslash)
}

/// Parses `query` as a `SET` statement, reading backslashes as told.
pub fn parse_with(query: &[u8], escapes: Escapes) -> Result<Vec<Assignment>, NotUnderstood> {
    let mut lexer = Lexer::new(query, escapes);
    if !lexer.next().is_word("SET") {
        return Err(NotUnderstood::NotSet);
    }
    let assignments = Parser { lexer: &mut lexer, scope: Scope::Session, escapes }.statement()?;
    if lexer.oddities.unterminated { Err(NotUnderstood::Unterminated) } else { Ok(assignments) }
}

struct Parser<'p, 'a> {
    lexer: &'p mut Lexer<'a>,
    /// The scope of a bare name: that of the statement's last scope keyword.
    scope: Scope,
    escapes: Escapes,
}

impl Assignment {
    /// Whether the value may set a user variable: `SET sql_mode = IF((@a := 5), '', 'ANSI')`.
    pub fn may_assign_by_value(&self) -> bool {
        let assigns = |value: &Value| matches!(value, Value::Expression(text) if text.windows(2).any(|pair| pair == b":="));
        match self {
            Assignment::System { value, .. }
            | Assignment::NextTransaction { value, .. }
            | Assignment::User { value, .. }
            | Assignment::CharacterSet(value) => assigns(value),
            Assignment::Names { charset, collation } => {
                assigns(charset) || collation.as_ref().is_some_and(assigns)
            }
            Assignment::Statement { variables, .. } => variables.iter().any(Assignment::may_assign_by_value),
            Assignment::Transaction { .. } | Assignment::Other(_) => false,
        }
    }
}

impl<'a> Parser<'_, 'a> {
    fn statement(&mut self) -> Result<Vec<Assignment>, NotUnderstood> {
        if let Some(other) = self.other() {
            return self.alone(other);
        }
        if let Some(transaction) = self.transaction()? {
            self.end()?;
            return Ok(vec![transaction]);
        }
        if self.is_set_statement() {
            self.lexer.next();
            let variables = self.list(&["FOR"])?;
            self.lexer.next();
            let offset = self.lexer.peek().start;
            return Ok(vec![Assignment::Statement { variables, offset }]);
        }
        let assignments = self.list(&[])?;
        self.end()?;
        Ok(assignments)
    }

    fn is_set_statement(&self) -> bool {
        let mut ahead = self.lexer.clone();
        ahead.next().is_word("STATEMENT") && !ahead.next().is_symbol(b'=')
    }

    fn other(&self) -> Option<OtherSet> {
        let mut ahead = self.lexer.clone();
        let (first, second) = (ahead.next(), ahead.next());
        let assigns = second.is_symbol(b'=') || second.is_symbol(b':');
        if first.is_word("PASSWORD") {
            Some(OtherSet::Password)
        } else if first.is_word("ROLE") && !assigns {
            Some(OtherSet::Role)
        } else if first.is_word("DEFAULT") && second.is_word("ROLE") {
            Some(OtherSet::DefaultRole)
        } else if first.is_word("RESOURCE") && second.is_word("GROUP") {
            Some(OtherSet::ResourceGroup)
        } else {
            None
        }
    }

    /// A form that assigns no variable. MariaDB allows assignments of any kind after it, separated by commas; elsewhere
    /// a comma separates roles or accounts.
    fn alone(&mut self, other: OtherSet) -> Result<Vec<Assignment>, NotUnderstood> {
        loop {
            let token = self.lexer.peek();
            if token.ends_statement() {
                return Ok(vec![Assignment::Other(other)]);
            }
            if token.is_symbol(b',') {
                return Err(NotUnderstood::Unexpected { at: token.start });
            }
            self.lexer.next();
        }
    }

    fn end(&mut self) -> Result<(), NotUnderstood> {
        let token = self.lexer.next();
        if !token.ends_statement() {
            return Err(NotUnderstood::Unexpected { at: token.start });
        }
        if single_end(self.lexer, token) { Ok(()) } else { Err(NotUnderstood::Multi) }
    }

    /// Assignments separated by commas, up to the end or one of `stops`.
    fn list(&mut self, stops: &[&str]) -> Result<Vec<Assignment>, NotUnderstood> {
        let mut assignments = Vec::new();
        loop {
            assignments.push(self.assignment(stops)?);
            let token = self.lexer.peek();
            if token.is_any(stops) || (stops.is_empty() && token.ends_statement()) {
                return Ok(assignments);
            }
            if !token.is_symbol(b',') {
                return Err(NotUnderstood::Unexpected { at: token.start });
            }
            self.lexer.next();
        }
    }

    fn assignment(&mut self, stops: &[&str]) -> Result<Assignment, NotUnderstood> {
        if let Some(charset) = self.charset(stops)? {
            return Ok(charset);
        }
        let worded = self.scope_word();
        if let Some(scope) = worded {
            self.scope = scope;
        }
        let token = self.lexer.next();
        match token.kind {
            TokenKind::UserVariable if worded.is_none() => {
                let name = user_name(token)?;
                Ok(Assignment::User { name, value: self.value(stops)? })
            }
            TokenKind::SystemVariable if worded.is_none() => {
                let (scope, name) = system_name(token)?;
                let value = self.value(stops)?;
                Ok(match scope {
                    None if OF_TRANSACTIONS.contains(&name.as_str()) => {
                        Assignment::NextTransaction { name, value }
                    }
                    scope => Assignment::System { scope: scope.unwrap_or(Scope::Session), name, value },
                })
            }
            TokenKind::Word | TokenKind::QuotedName => {
                let mut name = lower(token.text, token)?;
                while self.lexer.peek().is_symbol(b'.') {
                    self.lexer.next();
                    let part = self.lexer.next();
                    if !matches!(part.kind, TokenKind::Word | TokenKind::QuotedName) {
                        return Err(NotUnderstood::Unexpected { at: part.start });
                    }
                    name.push('.');
                    name.push_str(&lower(part.text, part)?);
                }
                Ok(Assignment::System { scope: self.scope, name, value: self.value(stops)? })
            }
            _ => Err(NotUnderstood::Unexpected { at: token.start }),
        }
    }

    /// Consumes `GLOBAL`, `SESSION` and similar if a name follows.
    fn scope_word(&mut self) -> Option<Scope> {
        let mut ahead = self.lexer.clone();
        let scope = scope_of(ahead.next().text)?;
        let name = ahead.peek();
        matches!(name.kind, TokenKind::Word | TokenKind::QuotedName).then(|| {
            *self.lexer = ahead;
            scope
        })
    }

    /// `NAMES ..` and `CHARACTER SET ..`, if they are here.
    fn charset(&mut self, stops: &[&str]) -> Result<Option<Assignment>, NotUnderstood> {
        let mut ahead = self.lexer.clone();
        let first = ahead.next();
        let second = ahead.peek();
        if first.is_word("NAMES") && !second.is_symbol(b'=') && !second.is_symbol(b':') {
            *self.lexer = ahead;
            let charset = self.charset_name()?;
            let collated = charset != Value::Default && self.lexer.take_any(&["COLLATE"]);
            let collation = if collated { Some(self.charset_name()?) } else { None };
            return self.ends_assignment(stops, Assignment::Names { charset, collation }).map(Some);
        }
        let two_words = first.is_any(&["CHARACTER", "CHAR"]) && second.is_word("SET");
        if two_words || (first.is_word("CHARSET") && !second.is_symbol(b'=')) {
            if two_words {
                ahead.next();
            }
            *self.lexer = ahead;
            let charset = self.charset_name()?;
            return self.ends_assignment(stops, Assignment::CharacterSet(charset)).map(Some);
        }
        Ok(None)
    }

    fn ends_assignment(&self, stops: &[&str], assignment: Assignment) -> Result<Assignment, NotUnderstood> {
        let token = self.lexer.peek();
        if token.ends_statement() || token.is_symbol(b',') || token.is_any(stops) {
            Ok(assignment)
        } else {
            Err(NotUnderstood::Unexpected { at: token.start })
        }
    }

    fn charset_name(&mut self) -> Result<Value, NotUnderstood> {
        let token = self.lexer.next();
        match simple(token, self.escapes) {
            Some(value @ (Value::Default | Value::Word(_) | Value::Text(_))) => Ok(value),
            _ => Err(NotUnderstood::Unexpected { at: token.start }),
        }
    }

    /// `= value` or `:= value`, up to a comma outside parentheses, the end, or one of `stops`.
    fn value(&mut self, stops: &[&str]) -> Result<Value, NotUnderstood> {
        let mut token = self.lexer.next();
        if token.is_symbol(b':') {
            token = self.lexer.next();
        }
        if !token.is_symbol(b'=') {
            return Err(NotUnderstood::Unexpected { at: token.start });
        }
        let mut depth = 0usize;
        let mut tokens = 0usize;
        let mut first: Option<Token<'a>> = None;
        let mut end = token.end();
        loop {
            let token = self.lexer.peek();
            let outside = depth == 0 && (token.is_symbol(b',') || token.is_any(stops));
            if token.ends_statement() || outside {
                break;
            }
            self.lexer.next();
            match token.text {
                b"(" => depth += 1,
                b")" if depth == 0 => return Err(NotUnderstood::Unexpected { at: token.start }),
                b")" => depth -= 1,
                _ => {}
            }
            first.get_or_insert(token);
            tokens += 1;
            end = token.end();
        }
        let Some(first) = first.filter(|_| depth == 0) else {
            return Err(NotUnderstood::Unexpected { at: end });
        };
        let span = self.lexer.span(first.start, end);
        Ok(literal(first, tokens, span, self.escapes).unwrap_or_else(|| Value::Expression(span.to_vec())))
    }

    /// `[GLOBAL | SESSION | LOCAL] TRANSACTION characteristic [, characteristic]`.
    fn transaction(&mut self) -> Result<Option<Assignment>, NotUnderstood> {
        let mut ahead = self.lexer.clone();
        let scope = if ahead.take_any(&["GLOBAL"]) {
            TransactionScope::Global
        } else if ahead.take_any(&["SESSION", "LOCAL"]) {
            TransactionScope::Session
        } else {
            TransactionScope::Next
        };
        if !ahead.take_any(&["TRANSACTION"]) {
            return Ok(None);
        }
        *self.lexer = ahead;
        let (mut isolation, mut access_mode) = (None, None);
        loop {
            let token = self.lexer.next();
            let unexpected = NotUnderstood::Unexpected { at: token.start };
            if token.is_word("ISOLATION") && isolation.is_none() {
                isolation = Some(self.isolation().ok_or(unexpected)?);
            } else if token.is_word("READ") && access_mode.is_none() {
                access_mode = Some(self.access_mode().ok_or(unexpected)?);
            } else {
                return Err(unexpected);
            }
            if !self.lexer.peek().is_symbol(b',') {
                return Ok(Some(Assignment::Transaction { scope, isolation, access_mode }));
            }
            self.lexer.next();
        }
    }

    fn isolation(&mut self) -> Option<Isolation> {
        if !self.lexer.take_any(&["LEVEL"]) {
            return None;
        }
        let first = self.lexer.next();
        if first.is_word("SERIALIZABLE") {
            return Some(Isolation::Serializable);
        }
        let second = self.lexer.next();
        match (first.is_word("READ"), first.is_word("REPEATABLE")) {
            (true, _) if second.is_word("UNCOMMITTED") => Some(Isolation::ReadUncommitted),
            (true, _) if second.is_word("COMMITTED") => Some(Isolation::ReadCommitted),
            (_, true) if second.is_word("READ") => Some(Isolation::RepeatableRead),
            _ => None,
        }
    }

    fn access_mode(&mut self) -> Option<AccessMode> {
        let token = self.lexer.next();
        if token.is_word("ONLY") {
            Some(AccessMode::ReadOnly)
        } else if token.is_word("WRITE") {
            Some(AccessMode::ReadWrite)
        } else {
            None
        }
    }
}

fn scope_of(word: &[u8]) -> Option<Scope> {
    let is = |wanted: &str| word.eq_ignore_ascii_case(wanted.as_bytes());
    if is("SESSION") || is("LOCAL") {
        Some(Scope::Session)
    } else if is("GLOBAL") {
        Some(Scope::Global)
    } else if is("PERSIST") {
        Some(Scope::Persist)
    } else if is("PERSIST_ONLY") {
        Some(Scope::PersistOnly)
    } else {
        None
    }
}

/// The variables that hold for one transaction if `@@name` has no scope.
const OF_TRANSACTIONS: [&str; 4] =
    ["transaction_isolation", "transaction_read_only", "tx_isolation", "tx_read_only"];

/// The scope, if there is one, and the name of `@@name` or `@@scope.name`.
fn system_name(token: Token<'_>) -> Result<(Option<Scope>, String), NotUnderstood> {
    let name = token.text.get(2..).unwrap_or_default();
    let dot = memchr::memchr(b'.', name).and_then(|dot| name.split_at_checked(dot));
    if let Some((first, rest)) = dot
        && let Some(scope) = scope_of(first)
    {
        return Ok((Some(scope), lower(rest.get(1..).unwrap_or_default(), token)?));
    }
    Ok((None, lower(name, token)?))
}

/// The name of a user variable. It is an error if another `sql_mode`, character set or server would change how it is read.
fn user_name(token: Token<'_>) -> Result<String, NotUnderstood> {
    let refused = Err(NotUnderstood::Unexpected { at: token.start });
    if !token.text.is_ascii() || token.text.contains(&b'\\') {
        return refused;
    }
    let name = lower(token.text.get(1..).unwrap_or_default(), token)?;
    // MySQL takes it for the name without the blank, MariaDB for another one.
    if name.ends_with(' ') { refused } else { Ok(name) }
}

/// A name in lower case without its quotes; an error if it is empty or not UTF-8.
fn lower(name: &[u8], token: Token<'_>) -> Result<String, NotUnderstood> {
    match String::from_utf8(unquote(name)) {
        Ok(name) if !name.is_empty() => Ok(name.to_lowercase()),
        _ => Err(NotUnderstood::Unexpected { at: token.start }),
    }
}

/// The value of `tokens` tokens starting with `first`, if it is a plain one.
fn literal(first: Token<'_>, tokens: usize, span: &[u8], escapes: Escapes) -> Option<Value> {
    let signed = first.is_symbol(b'-') || first.is_symbol(b'+');
    if first.kind == TokenKind::Number || signed || first.is_symbol(b'.') {
        return number(span).map(Value::Number);
    }
    if tokens == 1 { simple(first, escapes) } else { None }
}

fn simple(token: Token<'_>, escapes: Escapes) -> Option<Value> {
    match token.kind {
        TokenKind::Text => Some(Value::Text(unquote_with(token.text, escapes))),
        TokenKind::Word if token.is_word("DEFAULT") => Some(Value::Default),
        TokenKind::Word if token.is_word("NULL") => Some(Value::Null),
        TokenKind::Word | TokenKind::QuotedName => {
            String::from_utf8(unquote(token.text)).ok().map(Value::Word)
        }
        _ => None,
    }
}

/// A decimal number with an optional sign, fraction and exponent, or a hexadecimal one; blanks after the sign are
/// dropped.
fn number(span: &[u8]) -> Option<String> {
    let (sign, body) = match span {
        [sign @ (b'-' | b'+'), body @ ..] => (Some(*sign), body.trim_ascii_start()),
        body => (None, body),
    };
    let text = std::str::from_utf8(body).ok()?;
    let hexadecimal = text.strip_prefix("0x").is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && sign.is_none()
    });
    let begins = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let decimal = begins && text.parse::<f64>().is_ok();
    (hexadecimal || decimal).then(|| match sign {
        Some(b'-') => format!("-{text}"),
        _ => text.to_owned(),
    })
}

#[cfg(test)]
mod tests;

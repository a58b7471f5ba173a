//! Classifies a statement: its kind, and the facts about it that routing and keeping a connection need.
//!
//! One pass over the tokens, without allocation. The reading errs on the safe side: what is not recognised is
//! [`Kind::Other`], and a flag is set when in doubt. It is not a validating parser; a text the server will refuse
//! may be classified as anything.

use crate::flags::Flags;
use crate::functions;
use crate::kind::Kind;
use crate::token::{Escapes, LONG, Lexer, Token, TokenKind, packed, quoted_body, unquote};
use std::borrow::Cow;

/// What a statement is and what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The kind of the first statement of the text.
    pub kind: Kind,
    /// Facts about the whole text.
    pub flags: Flags,
}

/// Classifies `query`, reading backslashes in strings as escapes.
///
/// When [`Flags::ESCAPED_QUOTE`] is set and the session has `NO_BACKSLASH_ESCAPES` in its `sql_mode`, use
/// [`classify_with`]: in that mode strings end elsewhere.
#[must_use]
pub fn classify(query: &[u8]) -> Statement {
    classify_with(query, Escapes::Backslash)
}

/// Classifies `query`, reading backslashes as told.
#[must_use]
pub fn classify_with(query: &[u8], escapes: Escapes) -> Statement {
    let mut lexer = Lexer::new(query, escapes);
    let mut first = lexer.next();
    while first.is_symbol(b'(') {
        first = lexer.next();
    }
    let (kind, flags) = kind_of(first, lexer.clone());
    let mut scan = Scan { kind, flags, previous: Previous::Other, name_expected: false };
    scan.run(&mut lexer, first);
    Statement { kind, flags: scan.flags | oddities(&lexer) }
}

/// The schema of a `USE` statement, without its quotes. `None` when `query` is not a single, plain `USE`.
#[must_use]
pub fn use_schema(query: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.next().is_word("USE") {
        return None;
    }
    let name = lexer.next();
    let after = lexer.next();
    let bare = matches!(name.kind, TokenKind::Word | TokenKind::Number);
    if !single_end(&mut lexer, after) || lexer.oddities.unterminated {
        return None;
    }
    match name.kind {
        _ if bare => Some(Cow::Borrowed(name.text)),
        TokenKind::QuotedName => Some(Cow::Owned(unquote(name.text))),
        TokenKind::Text if name.text.starts_with(b"\"") => Some(Cow::Owned(unquote(name.text))),
        _ => None,
    }
}

/// What a `KILL` statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillKind {
    /// The connection.
    Connection,
    /// Only the statement it runs.
    Query,
}

/// A `KILL` statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillTarget {
    /// What to end.
    pub kind: KillKind,
    /// The connection id as the client knows it.
    pub id: u64,
}

/// Reads `KILL [HARD | SOFT] [CONNECTION | QUERY] id`. `None` for any other form, such as MariaDB's
/// `KILL QUERY ID n` (a query id, which the proxy does not hand out) and `KILL USER name`.
#[must_use]
pub fn kill_target(query: &[u8]) -> Option<KillTarget> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    if !lexer.next().is_word("KILL") {
        return None;
    }
    let mut token = lexer.next();
    if token.is_any(&["HARD", "SOFT"]) {
        token = lexer.next();
    }
    let kind = if token.is_word("QUERY") { KillKind::Query } else { KillKind::Connection };
    if token.is_any(&["CONNECTION", "QUERY"]) {
        token = lexer.next();
    }
    let digits = (token.kind == TokenKind::Number).then_some(token.text)?;
    let id = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let after = lexer.next();
    single_end(&mut lexer, after).then_some(KillTarget { kind, id })
}

/// The statements of a text that holds several, split at each `;` outside strings and comments, without the `;`.
/// Empty ones are left out. The body of a stored program is split too.
pub fn statements(query: &[u8], escapes: Escapes) -> impl Iterator<Item = &[u8]> {
    let mut lexer = Lexer::new(query, escapes);
    std::iter::from_fn(move || {
        let mut bounds: Option<(usize, usize)> = None;
        loop {
            let token = lexer.next();
            match (token.ends_statement(), bounds) {
                (true, Some((start, end))) => return Some(lexer.span(start, end)),
                (true, None) if token.kind == TokenKind::End => return None,
                (true, None) => {}
                (false, _) => bounds = Some((bounds.map_or(token.start, |(start, _)| start), token.end())),
            }
        }
    })
}

/// Whether from `token` on there is nothing but `;`.
pub(crate) fn single_end<'a>(lexer: &mut Lexer<'a>, mut token: Token<'a>) -> bool {
    while token.is_symbol(b';') {
        token = lexer.next();
    }
    token.kind == TokenKind::End
}

fn oddities(lexer: &Lexer<'_>) -> Flags {
    let mut flags = Flags::NONE;
    let odd = lexer.oddities;
    for (seen, flag) in [
        (odd.unterminated, Flags::UNTERMINATED),
        (odd.escaped_quote, Flags::ESCAPED_QUOTE),
        (odd.executable_comment, Flags::EXECUTABLE_COMMENT),
    ] {
        if seen {
            flags |= flag;
        }
    }
    flags
}

/// The kind of the statement whose first token is `first`; `ahead` stands behind it.
fn kind_of(first: Token<'_>, ahead: Lexer<'_>) -> (Kind, Flags) {
    let kind = match first.packed {
        SELECT => Kind::Select,
        INSERT => Kind::Insert,
        UPDATE => Kind::Update,
        DELETE => Kind::Delete,
        _ => return kind_of_rare(first, ahead),
    };
    (kind, Flags::NONE)
}

fn kind_of_rare(first: Token<'_>, mut ahead: Lexer<'_>) -> (Kind, Flags) {
    let mut upper = [0u8; 16];
    let word = match first.kind {
        TokenKind::Word => upper.get_mut(..first.text.len()),
        _ if first.ends_statement() => return (Kind::Empty, Flags::NONE),
        _ => None,
    };
    let Some(word) = word else { return (Kind::Other, Flags::NONE) };
    word.copy_from_slice(first.text);
    word.make_ascii_uppercase();
    let kind = match &*word {
        b"TABLE" | b"VALUES" => Kind::Select,
        b"REPLACE" => Kind::Replace,
        b"WITH" => return kind_behind_with(ahead),
        b"CALL" => Kind::Call,
        b"DO" => Kind::Do,
        b"SET" => kind_of_set(ahead),
        b"USE" => Kind::Use,
        b"SHOW" => kind_of_show(ahead),
        b"EXPLAIN" | b"DESCRIBE" | b"DESC" => kind_of_explain(ahead),
        b"BEGIN" => {
            ahead.take_any(&["WORK"]);
            if ahead.next().ends_statement() { Kind::Begin } else { Kind::Other }
        }
        b"START" => return kind_of_start(ahead),
        b"COMMIT" | b"ROLLBACK" => return kind_of_end(word == b"COMMIT", ahead),
        b"SAVEPOINT" => Kind::Savepoint,
        b"RELEASE" if ahead.take_any(&["SAVEPOINT"]) => Kind::ReleaseSavepoint,
        b"XA" => Kind::Xa,
        b"LOCK" | b"UNLOCK" | b"BACKUP" => kind_of_lock(word, ahead),
        b"FLUSH" => kind_of_flush(ahead),
        b"CREATE" => kind_of_create(ahead),
        b"DROP" => kind_of_drop(ahead),
        b"ALTER" => Kind::Alter,
        b"TRUNCATE" => Kind::Truncate,
        b"RENAME" => Kind::Rename,
        b"PREPARE" => Kind::Prepare,
        b"EXECUTE" => Kind::Execute,
        b"DEALLOCATE" => Kind::Deallocate,
        b"KILL" => Kind::Kill,
        b"LOAD" => kind_of_load(ahead),
        b"HANDLER" => Kind::Handler,
        b"GET" if ahead.next().is_any(&["DIAGNOSTICS", "CURRENT", "STACKED"]) => Kind::GetDiagnostics,
        b"SIGNAL" | b"RESIGNAL" => Kind::Signal,
        b"GRANT" | b"REVOKE" => Kind::Grant,
        b"ANALYZE" if !ahead.next().is_any(&["TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"]) => {
            Kind::ExplainAnalyze
        }
        b"ANALYZE" | b"OPTIMIZE" | b"CHECK" | b"REPAIR" | b"CHECKSUM" | b"CACHE" | b"CHANGE" | b"RESET"
        | b"STOP" | b"PURGE" | b"INSTALL" | b"UNINSTALL" | b"SHUTDOWN" | b"RESTART" | b"BINLOG"
        | b"CLONE" | b"IMPORT" => Kind::Admin,
        b"PROXYSQL" => Kind::Proxy,
        _ => Kind::Other,
    };
    (kind, Flags::NONE)
}

/// Behind `WITH`: the first word outside parentheses that is a statement decides.
fn kind_behind_with(mut ahead: Lexer<'_>) -> (Kind, Flags) {
    let mut depth = 0usize;
    let mut writes = Flags::NONE;
    let mut opens = false;
    loop {
        let token = ahead.next();
        if token.ends_statement() {
            return (Kind::Other, writes);
        }
        let writing = token.is_any(&["INSERT", "UPDATE", "DELETE", "REPLACE"]);
        if (depth == 0 || opens) && writing {
            writes = Flags::WRITING_CTE;
        }
        opens = token.is_symbol(b'(');
        match token.text {
            b"(" => depth += 1,
            b")" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ if writing => return (kind_of(token, ahead).0, writes),
            _ if token.is_any(&["SELECT", "TABLE", "VALUES"]) => return (Kind::Select, writes),
            _ => {}
        }
    }
}

fn kind_of_set(mut ahead: Lexer<'_>) -> Kind {
    if ahead.take_any(&["STATEMENT"]) && !ahead.peek().is_symbol(b'=') {
        return Kind::SetStatement;
    }
    ahead.take_any(&["GLOBAL", "SESSION", "LOCAL"]);
    if ahead.take_any(&["TRANSACTION"]) { Kind::SetTransaction } else { Kind::Set }
}

fn kind_of_show(mut ahead: Lexer<'_>) -> Kind {
    let token = ahead.next();
    if token.is_any(&["WARNINGS", "ERRORS"]) {
        return Kind::ShowWarnings;
    }
    let counts = token.is_word("COUNT")
        && ahead.next().is_symbol(b'(')
        && ahead.next().is_symbol(b'*')
        && ahead.next().is_symbol(b')')
        && ahead.next().is_any(&["WARNINGS", "ERRORS"]);
    if counts { Kind::ShowWarnings } else { Kind::Show }
}

fn kind_of_explain(mut ahead: Lexer<'_>) -> Kind {
    loop {
        let token = ahead.next();
        if token.is_word("ANALYZE") {
            return Kind::ExplainAnalyze;
        }
        if token.is_word("FOR") {
            // FOR CONNECTION n names a connection of one server.
            return Kind::Other;
        }
        let option = token.is_any(&["EXTENDED", "PARTITIONS", "FORMAT", "TRADITIONAL", "JSON", "TREE"]);
        if !option && !token.is_symbol(b'=') {
            return Kind::Explain;
        }
    }
}

fn kind_of_start(mut ahead: Lexer<'_>) -> (Kind, Flags) {
    let token = ahead.next();
    if token.is_any(&["SLAVE", "REPLICA", "ALL", "GROUP_REPLICATION"]) {
        return (Kind::Admin, Flags::NONE);
    }
    if !token.is_word("TRANSACTION") {
        return (Kind::Other, Flags::NONE);
    }
    let mut flags = Flags::NONE;
    loop {
        let token = ahead.next();
        if token.ends_statement() {
            return (Kind::Begin, flags);
        }
        if token.is_word("ONLY") {
            flags |= Flags::READ_ONLY;
        } else if token.is_word("SNAPSHOT") {
            flags |= Flags::CONSISTENT_SNAPSHOT;
        }
    }
}

/// `COMMIT` and `ROLLBACK`, with `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]` or `TO [SAVEPOINT] name` behind.
fn kind_of_end(commit: bool, mut ahead: Lexer<'_>) -> (Kind, Flags) {
    let kind = if commit { Kind::Commit } else { Kind::Rollback };
    let mut flags = Flags::NONE;
    let mut negated = false;
    loop {
        let token = ahead.next();
        if token.ends_statement() {
            return (kind, flags);
        }
        if !commit && token.is_word("TO") {
            return (Kind::RollbackToSavepoint, flags);
        }
        if !token.is_any(&["WORK", "AND", "NO", "CHAIN", "RELEASE"]) {
            return (Kind::Other, flags);
        }
        if token.is_word("CHAIN") && !negated {
            flags |= Flags::AND_CHAIN;
        } else if token.is_word("RELEASE") && !negated {
            flags |= Flags::RELEASE;
        }
        negated = token.is_word("NO");
    }
}

fn kind_of_lock(first: &[u8], mut ahead: Lexer<'_>) -> Kind {
    let token = ahead.next();
    let tables = token.is_any(&["TABLE", "TABLES"]);
    let instance = token.is_word("INSTANCE");
    match first {
        b"LOCK" if tables => Kind::LockTables,
        b"UNLOCK" if tables => Kind::UnlockTables,
        b"LOCK" if instance => Kind::LockInstance,
        b"UNLOCK" if instance => Kind::UnlockInstance,
        b"BACKUP" if token.is_any(&["LOCK", "STAGE"]) => Kind::LockInstance,
        b"BACKUP" if token.is_word("UNLOCK") => Kind::UnlockInstance,
        _ => Kind::Other,
    }
}

fn kind_of_flush(mut ahead: Lexer<'_>) -> Kind {
    ahead.take_any(&["LOCAL", "NO_WRITE_TO_BINLOG"]);
    if !ahead.take_any(&["TABLE", "TABLES"]) {
        return Kind::Flush;
    }
    loop {
        let token = ahead.next();
        if token.ends_statement() {
            return Kind::Flush;
        }
        if token.is_any(&["WITH", "FOR"]) {
            return Kind::FlushTablesWithReadLock;
        }
    }
}

fn kind_of_create(mut ahead: Lexer<'_>) -> Kind {
    if ahead.take_any(&["OR"]) {
        ahead.take_any(&["REPLACE"]);
    }
    if ahead.take_any(&["TEMPORARY"]) { Kind::CreateTemporaryTable } else { Kind::Create }
}

fn kind_of_drop(mut ahead: Lexer<'_>) -> Kind {
    let token = ahead.next();
    if token.is_word("TEMPORARY") {
        Kind::DropTemporaryTable
    } else if token.is_any(&["TABLE", "TABLES"]) {
        Kind::DropTable
    } else if token.is_word("PREPARE") {
        Kind::Deallocate
    } else {
        Kind::Drop
    }
}

fn kind_of_load(mut ahead: Lexer<'_>) -> Kind {
    if !ahead.take_any(&["DATA", "XML"]) {
        return if ahead.take_any(&["INDEX"]) { Kind::Admin } else { Kind::Other };
    }
    while ahead.take_any(&["LOW_PRIORITY", "CONCURRENT"]) {}
    if ahead.take_any(&["LOCAL"]) { Kind::LoadDataLocal } else { Kind::LoadData }
}

/// What the token before was, as far as the next one needs to know.
#[derive(Clone, Copy)]
enum Previous<'a> {
    Other,
    /// A bare word; not behind a dot.
    Word(&'a [u8], Keyword),
    /// A name that is quoted or stands behind a dot: followed by `(` it is a stored function.
    Name,
    /// A string or quoted name that ends at this offset: an `@` right behind it makes an account name.
    Quoted {
        end: usize,
        /// What is in the quotes, if a `(` behind it makes it a call.
        callable: Option<&'a [u8]>,
    },
    Dot,
    UserVariable,
    /// `;` with nothing behind it so far.
    Semicolon,
    /// `:` behind a user variable.
    Colon,
}

/// Words that mean something to [`Scan`] wherever they stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    None,
    For,
    Lock,
    Into,
    Create,
    Next,
    Value,
    /// What follows is a name, so a parenthesis behind it is not a call.
    BeforeName,
}

/// The pass over the tokens behind the first one.
struct Scan<'a> {
    kind: Kind,
    flags: Flags,
    previous: Previous<'a>,
    /// The name being read is that of a table or an alias, not of a function.
    name_expected: bool,
}

impl<'a> Scan<'a> {
    fn run(&mut self, lexer: &mut Lexer<'a>, first: Token<'a>) {
        let mut token = first;
        while token.kind != TokenKind::End {
            if matches!(self.previous, Previous::Semicolon) && !token.is_symbol(b';') {
                self.flags |= Flags::MULTI;
            }
            self.previous = match token.kind {
                TokenKind::Word => self.word(token),
                TokenKind::Symbol => self.symbol(token),
                TokenKind::UserVariable => self.user_variable(token),
                TokenKind::SystemVariable => self.system_variable(token),
                TokenKind::QuotedName => self.quoted_name(token),
                TokenKind::Text => {
                    // A name, if sql_mode has ANSI_QUOTES.
                    let callable = token.text.starts_with(b"\"").then(|| body_of(token.text));
                    Previous::Quoted { end: token.end(), callable }
                }
                // `1a` may be a name; a stored function may be called so.
                TokenKind::Number if token.text.iter().any(u8::is_ascii_alphabetic) => Previous::Name,
                TokenKind::Number | TokenKind::End => Previous::Other,
            };
            if matches!(token.text, [b',' | b'(']) {
                lexer.skip_values();
            }
            token = lexer.advance();
        }
    }

    #[inline]
    fn word(&mut self, token: Token<'a>) -> Previous<'a> {
        if self.flags.contains(Flags::SYSTEM_VARIABLE) {
            // `@@session . identity` may be written with blanks.
            self.flags |= variable_flags(token.text);
        }
        let before = match self.previous {
            Previous::Dot => {
                if token.packed == NEXTVAL {
                    // With sql_mode ORACLE `s.nextval` takes a value from a sequence.
                    self.flags |= Flags::FUNCTION_CALL_UNKNOWN;
                }
                return Previous::Name;
            }
            Previous::Word(_, keyword) => keyword,
            _ => Keyword::None,
        };
        let mut keyword = Keyword::None;
        match token.packed {
            FOR => {
                keyword = Keyword::For;
                if before == Keyword::Value {
                    self.flags |= Flags::FUNCTION_CALL_UNKNOWN;
                }
            }
            UPDATE | SHARE if before == Keyword::For => self.flags |= Flags::FOR_UPDATE,
            LOCK => keyword = Keyword::Lock,
            IN if before == Keyword::Lock => self.flags |= Flags::FOR_UPDATE,
            INTO => keyword = Keyword::Into,
            OUTFILE | DUMPFILE if before == Keyword::Into => self.flags |= Flags::INTO_OUTFILE,
            CREATE | DROP | REPLACE => keyword = Keyword::Create,
            NEXT | PREVIOUS => keyword = Keyword::Next,
            VALUE if before == Keyword::Next => keyword = Keyword::Value,
            AS | CALL | TABLE | WITH | EXISTS | INDEX | KEY | UPDATE => keyword = Keyword::BeforeName,
            LONG => keyword = self.long_word(token, before),
            _ if before == Keyword::Into && self.kind == Kind::Select => self.flags |= Flags::INTO_VARIABLE,
            _ => {}
        }
        self.name_expected = matches!(before, Keyword::Into | Keyword::BeforeName);
        Previous::Word(token.text, keyword)
    }

    fn quoted_name(&mut self, token: Token<'a>) -> Previous<'a> {
        let name = body_of(token.text);
        if self.flags.contains(Flags::SYSTEM_VARIABLE) {
            self.flags |= variable_flags(name);
        }
        if !matches!(self.previous, Previous::Dot) {
            let name_follows = |keyword| matches!(keyword, Keyword::Into | Keyword::BeforeName);
            self.name_expected = matches!(self.previous, Previous::Word(_, keyword) if name_follows(keyword));
        }
        Previous::Quoted { end: token.end(), callable: Some(name) }
    }

    /// Words of more than eight letters.
    fn long_word(&mut self, token: Token<'_>, before: Keyword) -> Keyword {
        if token.is_word("RECURSIVE") {
            return before;
        }
        if token.is_word("SQL_CALC_FOUND_ROWS") {
            self.flags |= Flags::SQL_CALC_FOUND_ROWS;
        } else if token.is_word("SQL_NO_CACHE") {
            self.flags |= Flags::SQL_NO_CACHE;
        } else if before == Keyword::Create && token.is_word("TEMPORARY") {
            self.flags |= Flags::TEMPORARY;
        } else if before == Keyword::Into && self.kind == Kind::Select {
            self.flags |= Flags::INTO_VARIABLE;
        }
        Keyword::None
    }

    fn symbol(&mut self, token: Token<'a>) -> Previous<'a> {
        match token.text {
            b"(" => {
                self.call();
                Previous::Other
            }
            b"." => Previous::Dot,
            b";" => Previous::Semicolon,
            b":" if matches!(self.previous, Previous::UserVariable) => Previous::Colon,
            b"=" => {
                let set = matches!(self.kind, Kind::Set | Kind::SetStatement | Kind::GetDiagnostics);
                let assigns = match self.previous {
                    Previous::Colon => true,
                    Previous::UserVariable => set || self.flags.contains(Flags::MULTI),
                    _ => false,
                };
                if assigns {
                    self.flags |= Flags::ASSIGNS_USER_VARIABLE;
                }
                Previous::Other
            }
            _ => Previous::Other,
        }
    }

    /// At a `(`: what stands before it may be the name of a function.
    fn call(&mut self) {
        let flags = match self.previous {
            Previous::Word(name, _) if !self.name_expected => functions::flags_of(name),
            Previous::Name if !self.name_expected => Flags::FUNCTION_CALL_UNKNOWN,
            // Built-in functions may be called by their quoted names.
            Previous::Quoted { callable: Some(name), .. } if !self.name_expected => {
                Flags::FUNCTION_CALL_UNKNOWN | functions::flags_of(name)
            }
            _ => Flags::NONE,
        };
        self.flags |= flags;
        self.name_expected = false;
    }

    fn user_variable(&mut self, token: Token<'a>) -> Previous<'a> {
        match self.previous {
            // 'user'@'host'
            Previous::Quoted { end, .. } if end == token.start => return Previous::Name,
            Previous::Word(_, Keyword::Into) => {
                self.flags |= Flags::INTO_VARIABLE | Flags::ASSIGNS_USER_VARIABLE;
            }
            _ => {}
        }
        self.flags |= Flags::USER_VARIABLE;
        let takes_values = matches!(self.kind, Kind::Call | Kind::LoadData | Kind::LoadDataLocal);
        if takes_values || self.flags.contains(Flags::MULTI) {
            self.flags |= Flags::ASSIGNS_USER_VARIABLE;
        }
        Previous::UserVariable
    }

    fn system_variable(&mut self, token: Token<'a>) -> Previous<'a> {
        self.flags |= Flags::SYSTEM_VARIABLE;
        let name = token.text.rsplit(|byte| matches!(byte, b'.' | b'@')).next().unwrap_or_default();
        self.flags |= variable_flags(body_of(name));
        Previous::Other
    }
}

/// What stands in the quotes of `name`, or all of it when it has none.
fn body_of(name: &[u8]) -> &[u8] {
    quoted_body(name).map_or(name, |(_, body)| body)
}

/// What reading the system variable `name` adds to a statement.
fn variable_flags(name: &[u8]) -> Flags {
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
    if is("IDENTITY") || is("LAST_INSERT_ID") {
        Flags::LAST_INSERT_ID
    } else if is("WARNING_COUNT") || is("ERROR_COUNT") {
        Flags::WARNING_COUNT
    } else {
        Flags::NONE
    }
}

const AS: u64 = packed(b"AS");
const CALL: u64 = packed(b"CALL");
const CREATE: u64 = packed(b"CREATE");
const DELETE: u64 = packed(b"DELETE");
const DROP: u64 = packed(b"DROP");
const DUMPFILE: u64 = packed(b"DUMPFILE");
const EXISTS: u64 = packed(b"EXISTS");
const FOR: u64 = packed(b"FOR");
const IN: u64 = packed(b"IN");
const INDEX: u64 = packed(b"INDEX");
const INSERT: u64 = packed(b"INSERT");
const INTO: u64 = packed(b"INTO");
const KEY: u64 = packed(b"KEY");
const LOCK: u64 = packed(b"LOCK");
const NEXT: u64 = packed(b"NEXT");
const NEXTVAL: u64 = packed(b"NEXTVAL");
const OUTFILE: u64 = packed(b"OUTFILE");
const PREVIOUS: u64 = packed(b"PREVIOUS");
const REPLACE: u64 = packed(b"REPLACE");
const SELECT: u64 = packed(b"SELECT");
const SHARE: u64 = packed(b"SHARE");
const TABLE: u64 = packed(b"TABLE");
const UPDATE: u64 = packed(b"UPDATE");
const VALUE: u64 = packed(b"VALUE");
const WITH: u64 = packed(b"WITH");

#[cfg(test)]
mod tests;

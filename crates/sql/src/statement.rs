//! Classifies a statement: its kind, and the facts about it that routing and pinning need.
//!
//! One pass over the tokens, without allocation. The classification errs on the safe side: what is not recognised is
//! [`Kind::Other`], and a flag is set when in doubt. It is not a validating parser; a text that the server will refuse
//! may be classified as anything.

mod keyword;
mod scan;

use crate::flags::Flags;
use crate::kind::Kind;
use crate::substitute::Dialect;
use crate::token::{Escapes, Lexer, Oddities, Token, TokenKind, Versions, unquote};
use crate::words::{names_kill, spells_kill};
use keyword::{DELETE, INSERT, SELECT, UPDATE};
use scan::Scan;
use std::borrow::Cow;

/// What a statement is and what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The kind of the first statement of the text.
    pub kind: Kind,
    /// Facts about the whole text.
    pub flags: Flags,
}

impl Statement {
    /// What it is on a server of that family, which may not have each function that it calls: the name is then that of a stored
    /// function.
    #[inline]
    #[must_use]
    pub fn on(self, dialect: Dialect) -> Statement {
        let of_others = match dialect {
            Dialect::MySql => Flags::OF_MARIADB,
            Dialect::MariaDb => Flags::OF_MYSQL,
        };
        match self.flags.intersects(of_others) {
            true => Statement { flags: self.flags | Flags::FUNCTION_CALL_UNKNOWN, ..self },
            false => self,
        }
    }
}

/// Classifies `query`, reading backslashes in strings as escapes.
///
/// If [`Flags::ESCAPED_QUOTE`] is set and the session has `NO_BACKSLASH_ESCAPES` in its `sql_mode`, use
/// [`classify_with`]: in that mode strings end elsewhere.
#[must_use]
pub fn classify(query: &[u8]) -> Statement {
    classify_with(query, Escapes::Backslash)
}

/// Classifies `query`, reading backslashes as told.
#[must_use]
pub fn classify_with(query: &[u8], escapes: Escapes) -> Statement {
    classify_nested(query, escapes, 0)
}

/// Classifies a text that is nested in `nesting` literals, each of which is a text to be executed.
fn classify_nested(query: &[u8], escapes: Escapes, nesting: u8) -> Statement {
    let (statement, odd) = read_as(query, escapes, nesting, Versions::Run);
    if odd.version_comment || odd.unsure {
        in_both_ways(query, escapes, nesting, (statement, odd))
    } else {
        statement
    }
}

/// Whether a literal with its quotes is a text with a `KILL` in it, where it stands in a text in `nesting` others.
pub(crate) fn text_kills(quoted: &[u8], nesting: u8) -> bool {
    // Few texts contain the word at all.
    spells_kill(quoted)
        && (nesting == DEEPEST
            || classify_nested(&unquote(quoted), Escapes::Backslash, nesting + 1)
                .flags
                .intersects(Flags::KILL))
}

/// How deeply nested executable texts are read. Each may be read in two ways, and so may each one inside it: deeper
/// ones count as kills if they contain the word. No server executes more than one inside another.
const DEEPEST: u8 = 2;

/// Classifies `query` with one reading of the comments that some servers execute and others skip.
#[inline]
fn read_as(query: &[u8], escapes: Escapes, nesting: u8, versions: Versions) -> (Statement, Oddities) {
    let mut lexer = Lexer::with(query, escapes, versions);
    let mut first = lexer.next();
    while first.is_symbol(b'(') {
        first = lexer.next();
    }
    let (kind, flags) = kind_of(first, lexer.clone());
    let flags = Scan::new(kind, flags, nesting, text_kills).run(&mut lexer, first);
    (Statement { kind, flags: flags | oddities(&lexer) }, lexer.oddities)
}

/// What a text may do that was classified as `run` with all comments read as code, if some servers skip some of them.
#[cold]
fn in_both_ways(query: &[u8], escapes: Escapes, nesting: u8, (run, odd): (Statement, Oddities)) -> Statement {
    let (skipped, odd_when_skipped) = read_as(query, escapes, nesting, Versions::Skip);
    let mut flags = run.flags | skipped.flags;
    // The comment is the whole text: what does no harm when executed does none when skipped. But a user variable is
    // recorded as set, and no server reports that it was not.
    let is_harmless = match run.kind {
        Kind::Select | Kind::Show => true,
        Kind::Set => !run.flags.contains(Flags::ASSIGNS_USER_VARIABLE),
        _ => false,
    };
    let is_all = skipped.kind == Kind::Empty && is_harmless;
    // What is set is later read from the text, and only in one way.
    let sets = matches!(run.kind, Kind::Set | Kind::SetStatement | Kind::SetTransaction);
    let alike = is_all || run.kind == skipped.kind && !sets;
    let several = flags.intersects(Flags::MULTI | Flags::UNTERMINATED);
    if alike && !several && !odd.unsure && !odd_when_skipped.unsure {
        return Statement { kind: run.kind, flags };
    }
    flags |= Flags::UNSURE;
    if names_kill(query) {
        flags |= Flags::KILL;
    }
    Statement { kind: Kind::Call, flags }
}

/// The schema of a `USE` statement, without its quotes. `None` if `query` is not a single, plain `USE`.
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

/// The statements of a text with several, split at each `;` outside strings and comments, without the `;`. Empty ones
/// are left out. The body of a stored program is split too. A text with a comment that some servers execute and others
/// skip is one statement: where its parts begin depends on the server.
pub fn statements(query: &[u8], escapes: Escapes) -> impl Iterator<Item = &[u8]> {
    let mut lexer = Lexer::new(query, escapes);
    let mut ahead = lexer.clone();
    while ahead.next().kind != TokenKind::End {}
    let mut whole = (ahead.oddities.version_comment || ahead.oddities.unsure).then_some(query);
    std::iter::from_fn(move || {
        if let Some(query) = whole.take() {
            lexer = ahead.clone();
            return Some(query);
        }
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

/// The statements of a text with several, as split by [`statements`], and what each of them is. None has
/// [`Flags::MULTI`]: a text that cannot be split, because where its parts begin depends on the server, may do anything
/// ([`Flags::UNSURE`]). So a caller has to split a text only once.
pub fn parts(query: &[u8], escapes: Escapes) -> impl Iterator<Item = (&[u8], Statement)> {
    statements(query, escapes).map(move |part| {
        let Statement { kind, flags } = classify_with(part, escapes);
        let statement = match flags.contains(Flags::MULTI) {
            true => Statement { kind: Kind::Call, flags: flags.without(Flags::MULTI) | Flags::UNSURE },
            false => Statement { kind, flags },
        };
        (part, statement)
    })
}

/// Whether there is nothing but `;` from `token` on.
pub(crate) fn single_end<'a>(lexer: &mut Lexer<'a>, mut token: Token<'a>) -> bool {
    while token.is_symbol(b';') {
        token = lexer.next();
    }
    token.kind == TokenKind::End
}

fn oddities(lexer: &Lexer<'_>) -> Flags {
    let mut flags = Flags::NONE;
    let odd = lexer.oddities;
    if odd.escaped_double_quote {
        flags |= Flags::ESCAPED_DOUBLE_QUOTE;
    }
    for (seen, flag) in [
        (odd.unterminated, Flags::UNTERMINATED),
        (odd.escaped_quote, Flags::ESCAPED_QUOTE),
        (odd.executable_comment, Flags::EXECUTABLE_COMMENT),
        (odd.comment, Flags::COMMENT),
        (odd.unknown_hint, Flags::UNKNOWN_HINT),
    ] {
        if seen {
            flags |= flag;
        }
    }
    flags
}

/// The kind of the statement whose first token is `first`; `ahead` is after it.
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
        b"SET" => return kind_of_set(ahead),
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
        | b"STOP" | b"PURGE" | b"INSTALL" | b"UNINSTALL" | b"SHUTDOWN" | b"RESTART" | b"CLONE"
        | b"IMPORT" => Kind::Admin,
        b"PROXYSQL" => Kind::Proxy,
        _ => Kind::Other,
    };
    (kind, Flags::NONE)
}

/// After `WITH`: the first word outside parentheses that begins a statement decides.
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

fn kind_of_set(mut ahead: Lexer<'_>) -> (Kind, Flags) {
    if ahead.take_any(&["STATEMENT"]) && !ahead.peek().is_symbol(b'=') {
        return (Kind::SetStatement, Flags::NONE);
    }
    let has_scope = ahead.take_any(&["GLOBAL", "SESSION", "LOCAL"]);
    match ahead.take_any(&["TRANSACTION"]) {
        true if has_scope => (Kind::SetTransaction, Flags::NONE),
        true => (Kind::SetTransaction, Flags::NEXT_TRANSACTION),
        false => (Kind::Set, Flags::NONE),
    }
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
            // FOR CONNECTION n refers to a connection of one server.
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

/// `COMMIT` and `ROLLBACK`, with `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]` or `TO [SAVEPOINT] name` after it.
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
        } else if token.is_word("RELEASE") {
            flags |= Flags::NO_RELEASE;
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
        return kind_of_flush_without_tables(ahead);
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

/// What MariaDB's plugins add may be anything: `FLUSH USER_VARIABLES` forgets those of the session.
fn kind_of_flush_without_tables(mut ahead: Lexer<'_>) -> Kind {
    const KNOWN: &[&str] = &[
        "LOGS",
        "STATUS",
        "PRIVILEGES",
        "HOSTS",
        "BINARY",
        "ENGINE",
        "ERROR",
        "GENERAL",
        "RELAY",
        "SLOW",
        "FOR",
        "CHANNEL",
        "MASTER",
        "SLAVE",
        "REPLICA",
        "ALL",
        "GLOBAL",
        "SESSION",
        "LOCAL",
        "QUERY",
        "CACHE",
        "SSL",
        "DES_KEY_FILE",
        "OPTIMIZER_COSTS",
        "USER_RESOURCES",
        "CLIENT_STATISTICS",
        "INDEX_STATISTICS",
        "TABLE_STATISTICS",
        "USER_STATISTICS",
        "QUERY_RESPONSE_TIME",
    ];
    loop {
        let token = ahead.next();
        if token.ends_statement() {
            return Kind::Flush;
        }
        if !(token.is_any(KNOWN) || token.is_symbol(b',') || token.kind == TokenKind::Text) {
            return Kind::Other;
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

#[cfg(test)]
mod tests;

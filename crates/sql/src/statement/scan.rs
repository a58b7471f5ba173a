//! The pass over the tokens of a statement that collects its [`Flags`].

use super::keyword::*;
use crate::flags::Flags;
use crate::functions;
use crate::kind::Kind;
use crate::token::{LONG, Lexer, Token, TokenKind, quoted_body};
use crate::words::says;

/// What the previous token was, as far as it matters to the next one.
#[derive(Clone, Copy)]
enum Previous<'a> {
    Other,
    /// A bare word, not after a dot.
    Word(&'a [u8], Keyword),
    /// A name that is quoted or follows a dot: followed by `(` it is a stored function.
    Name,
    /// A string or quoted name that ends at this offset: an `@` directly after it makes it an account name.
    Quoted {
        end: usize,
        /// What is in the quotes, if a `(` after it makes it a call.
        callable: Option<&'a [u8]>,
    },
    Dot,
    /// `)`.
    Closing,
    UserVariable,
    /// `;` with nothing after it so far.
    Semicolon,
    /// `:` after a user variable.
    Colon,
}

/// Words that matter to [`Scan`] anywhere in a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    None,
    For,
    Lock,
    Into,
    Create,
    Next,
    NextValue,
    Previous,
    PreviousValue,
    /// What follows is a name, so a parenthesis after it is not a call.
    BeforeName,
    /// A word of a clause at a place where no function can be called: `MATCH (a) AGAINST (..)`.
    OfClause,
    /// `PREPARE`: the name of a statement follows.
    Prepare,
    /// That name.
    Prepared,
    /// `EXECUTE`: a name follows, or `IMMEDIATE`.
    Execute,
}

/// The pass over the tokens after the first one.
pub(super) struct Scan<'a> {
    kind: Kind,
    flags: Flags,
    previous: Previous<'a>,
    /// The name being read is that of a table or an alias, not of a function.
    name_expected: bool,
    /// Up to the end of the statement, literals are texts to be executed.
    runs_texts: bool,
    /// In how many such literals this text is nested.
    nesting: u8,
    text_kills: TextKills,
}

/// Whether a literal is a text with a `KILL` in it, by the literal and its nesting: such a text is classified like any other.
type TextKills = fn(&[u8], u8) -> bool;

impl<'a> Scan<'a> {
    pub(super) fn new(kind: Kind, flags: Flags, nesting: u8, text_kills: TextKills) -> Scan<'a> {
        let previous = Previous::Other;
        Scan { kind, flags, previous, name_expected: false, runs_texts: false, nesting, text_kills }
    }

    /// Reads from `first` to the end of the text; returns what was found.
    pub(super) fn run(mut self, lexer: &mut Lexer<'a>, first: Token<'a>) -> Flags {
        let mut token = first;
        while token.kind != TokenKind::End {
            if matches!(self.previous, Previous::Semicolon) && !token.is_symbol(b';') {
                self.flags |= Flags::MULTI;
            }
            self.previous = match token.kind {
                TokenKind::Word => self.word(token),
                TokenKind::Symbol => self.symbol(token, lexer),
                TokenKind::UserVariable => self.user_variable(token),
                TokenKind::SystemVariable => self.system_variable(token),
                TokenKind::QuotedName => self.quoted_name(token),
                TokenKind::Text => self.text(token),
                // `1a` and `1_` may be names, even of stored functions, and so may `1` after a dot.
                TokenKind::Number if matches!(self.previous, Previous::Dot) || !is_number(token.text) => {
                    Previous::Name
                }
                TokenKind::Number | TokenKind::End => Previous::Other,
            };
            if matches!(token.text, [b',' | b'(']) {
                if self.flags.contains(Flags::LIMIT) && token.text == b"," {
                    self.flags |= Flags::OFFSET;
                }
                lexer.skip_values();
            }
            token = lexer.advance();
        }
        self.flags
    }

    #[inline]
    fn word(&mut self, token: Token<'a>) -> Previous<'a> {
        if self.flags.contains(Flags::SYSTEM_VARIABLE) {
            // `@@session . identity` may be written with blanks.
            self.flags |= variable_flags(token.text);
        }
        if token.text.len() >= SHORTEST_OF_REPORTS {
            self.flags |= report_flags(token.text);
        }
        let before = match self.previous {
            Previous::Dot => {
                self.flags |= member_flags(token.text);
                return Previous::Name;
            }
            Previous::Word(_, keyword) => keyword,
            _ => Keyword::None,
        };
        let mut keyword = Keyword::None;
        match token.packed {
            FOR => {
                keyword = Keyword::For;
                self.flags |= match before {
                    Keyword::NextValue => Flags::FUNCTION_CALL_UNKNOWN,
                    Keyword::PreviousValue => Flags::FUNCTION_CALL_UNKNOWN | Flags::LAST_VALUE,
                    _ => Flags::NONE,
                };
            }
            UPDATE | SHARE if before == Keyword::For => self.flags |= Flags::FOR_UPDATE,
            LOCK => keyword = Keyword::Lock,
            LIMIT => self.flags |= Flags::LIMIT,
            OFFSET => self.flags |= Flags::LIMIT | Flags::OFFSET,
            IN if before == Keyword::Lock => self.flags |= Flags::FOR_UPDATE,
            INTO => keyword = Keyword::Into,
            OUTFILE | DUMPFILE if before == Keyword::Into => self.flags |= Flags::INTO_OUTFILE,
            CREATE | DROP | REPLACE => keyword = Keyword::Create,
            NEXT => keyword = Keyword::Next,
            PREVIOUS => keyword = Keyword::Previous,
            VALUE if before == Keyword::Next => keyword = Keyword::NextValue,
            VALUE if before == Keyword::Previous => keyword = Keyword::PreviousValue,
            AS | CALL | TABLE | WITH | EXISTS | INDEX | INSERT | KEY | UPDATE => {
                keyword = Keyword::BeforeName
            }
            _ if before == Keyword::Prepare => keyword = Keyword::Prepared,
            LONG => keyword = self.long_word(token, before),
            AGAINST if matches!(self.previous, Previous::Closing) => keyword = Keyword::OfClause,
            COLUMNS if matches!(self.previous, Previous::Quoted { .. }) => keyword = Keyword::OfClause,
            KILL => self.flags |= Flags::KILL,
            PREPARE => keyword = Keyword::Prepare,
            EXECUTE => keyword = Keyword::Execute,
            FROM => {
                self.flags |= Flags::FROM;
                self.runs_texts |= before == Keyword::Prepared;
            }
            _ if before == Keyword::Into && self.kind == Kind::Select => self.flags |= Flags::INTO_VARIABLE,
            _ => {}
        }
        self.name_expected = matches!(before, Keyword::Into | Keyword::BeforeName);
        Previous::Word(token.text, keyword)
    }

    fn quoted_name(&mut self, token: Token<'a>) -> Previous<'a> {
        let name = body_of(token.text);
        self.flags |= report_flags(name);
        if matches!(self.previous, Previous::Word(_, Keyword::Prepare)) {
            return Previous::Word(name, Keyword::Prepared);
        }
        if self.flags.contains(Flags::SYSTEM_VARIABLE) {
            self.flags |= variable_flags(name);
        }
        if matches!(self.previous, Previous::Dot) {
            self.flags |= member_flags(name);
        } else {
            let name_follows = |keyword| matches!(keyword, Keyword::Into | Keyword::BeforeName);
            self.name_expected = matches!(self.previous, Previous::Word(_, keyword) if name_follows(keyword));
        }
        Previous::Quoted { end: token.end(), callable: Some(name) }
    }

    /// A string; a name, if `sql_mode` has `ANSI_QUOTES`.
    fn text(&mut self, token: Token<'a>) -> Previous<'a> {
        if self.runs_texts {
            if (self.text_kills)(token.text, self.nesting) {
                self.flags |= Flags::KILL;
            }
            self.flags |= last_value_flags(token.text);
        }
        let name = token.text.starts_with(b"\"").then(|| body_of(token.text));
        self.flags |= name.map_or(Flags::NONE, report_flags);
        if matches!(self.previous, Previous::Dot) {
            self.flags |= name.map_or(Flags::NONE, member_flags);
        }
        Previous::Quoted { end: token.end(), callable: name }
    }

    /// Handles words of more than eight letters.
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
        } else if before == Keyword::Execute && token.is_word("IMMEDIATE") {
            self.runs_texts = true;
        } else if (self.kind == Kind::Show || self.flags.contains(Flags::MULTI)) && token.is_word("VARIABLES")
        {
            self.flags |= Flags::LAST_INSERT_ID | Flags::REPORT_VARIABLE;
        }
        Keyword::None
    }

    fn symbol(&mut self, token: Token<'a>, after: &Lexer<'_>) -> Previous<'a> {
        match token.text {
            b"(" => {
                self.call(token, after);
                Previous::Other
            }
            b")" => Previous::Closing,
            b"." => Previous::Dot,
            b";" => {
                self.runs_texts = false;
                Previous::Semicolon
            }
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

    /// At a `(`: what precedes it may be the name of a function.
    fn call(&mut self, parenthesis: Token<'_>, after: &Lexer<'_>) {
        let flags = match self.previous {
            Previous::Word(_, Keyword::OfClause) => Flags::NONE,
            Previous::Word(name, _) if !self.name_expected => {
                let follows_directly = std::ptr::eq(name.as_ptr_range().end, parenthesis.text.as_ptr());
                functions::named(name).flags_of_call(follows_directly, after)
            }
            Previous::Name if !self.name_expected => Flags::FUNCTION_CALL_UNKNOWN,
            // Built-in functions may be called by their quoted names.
            Previous::Quoted { callable: Some(name), .. } if !self.name_expected => {
                Flags::FUNCTION_CALL_UNKNOWN | functions::named(name).flags()
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
        let name = body_of(name);
        self.flags |= variable_flags(name) | report_flags(name);
        if !token.text.contains(&b'.') && is_of_transactions(name) {
            self.flags |= Flags::NEXT_TRANSACTION;
        }
        Previous::Other
    }
}

/// Whether a token that begins with a digit is nothing but a number.
fn is_number(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// What is in the quotes of `name`, or all of it if it has none.
fn body_of(name: &[u8]) -> &[u8] {
    quoted_body(name).map_or(name, |(_, body)| body)
}

/// What `s.name` adds to a statement: with `sql_mode` `ORACLE` it consumes a value of a sequence, or reads the last
/// one; as a table of a server's own it has the session's user variables.
fn member_flags(name: &[u8]) -> Flags {
    if matches!(name.len(), 14 | 24)
        && name.get(..14).is_some_and(|it| it.eq_ignore_ascii_case(b"user_variables"))
    {
        Flags::USER_VARIABLE
    } else if name.len() != 7 {
        Flags::NONE
    } else if name.eq_ignore_ascii_case(b"NEXTVAL") {
        Flags::FUNCTION_CALL_UNKNOWN
    } else if name.eq_ignore_ascii_case(b"CURRVAL") {
        Flags::FUNCTION_CALL_UNKNOWN | Flags::LAST_VALUE
    } else {
        Flags::NONE
    }
}

/// What a prepared text may do with a sequence: the word anywhere in it is enough.
fn last_value_flags(text: &[u8]) -> Flags {
    match says(text, b"LASTVAL") || says(text, b"PREVIOUS") || says(text, b"CURRVAL") {
        true => Flags::LAST_VALUE,
        false => Flags::NONE,
    }
}

/// What a name adds to a statement that may be that of a variable about reports, or of a table that has their values.
fn report_flags(name: &[u8]) -> Flags {
    let begins = |with: &[u8]| name.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    let is_of_reports = name.len() >= SHORTEST_OF_REPORTS
        && (begins(b"session_track_")
            || begins(b"session_variables")
            || begins(b"system_variables")
            || begins(b"variables_by_thread"));
    if is_of_reports { Flags::REPORT_VARIABLE } else { Flags::NONE }
}

/// Bytes of the shortest name that [`report_flags`] knows.
const SHORTEST_OF_REPORTS: usize = 16;

/// Whether a variable can be set for the next transaction only.
fn is_of_transactions(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] =
        [b"transaction_isolation", b"transaction_read_only", b"tx_isolation", b"tx_read_only"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The flags that reading the system variable `name` adds to a statement.
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

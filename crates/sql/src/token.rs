//! The lexer: bytes of a statement in, tokens out. It knows where strings, names and comments end; it does not
//! know grammar. `statement.rs`, `set.rs` and `comment.rs` read its tokens; `digest.rs` shares its byte classes.
//!
//! An executable comment (`/*! .. */`, `/*!40101 .. */`) is code here. One that not every server executes, because of
//! its version number or because it is MariaDB's (`/*M! .. */`), is read as [`Versions`] says, and marks the text as
//! odd: to know what such a text does, it must be read in both ways. Plain comments, `-- ` and `#` are skipped. See
//! "Comments" and "Literal Values" in the MySQL manual.
//!
//! `class.rs` has the classes of bytes, `comments.rs` the comments, `quoted.rs` the contents of quotes, `values.rs`
//! long lists of values.

mod class;
mod comments;
mod quoted;
pub(crate) mod values;

use class::{Class, class_of, is_blank_or_control};

pub(crate) use class::{blanks, is_word_byte};
pub(crate) use quoted::{quoted_body, unquote, unquote_with};
use values::plain_null;
pub(crate) use values::{letters_and_blanks, plain_literal};

/// How backslashes inside strings are read.
///
/// The server decides by the session's `sql_mode` and reports it with `SERVER_STATUS_NO_BACKSLASH_ESCAPES` in
/// every OK packet, so the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Escapes {
    /// `'it\'s'` is one string: the default of every server.
    #[default]
    Backslash,
    /// `NO_BACKSLASH_ESCAPES` is in `sql_mode`: a backslash is an ordinary character.
    None,
}

/// How the text in a comment that some servers execute and others skip is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// It is code.
    Run,
    /// It is a comment.
    Skip,
}

/// What a token is. Quoted kinds include their quotes in [`Token::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A keyword or a bare identifier.
    Word,
    /// `` `name` ``.
    QuotedName,
    /// `'...'` or `"..."`.
    Text,
    /// Begins with a digit: a number, or an identifier such as `1a`.
    Number,
    /// `@name`, `@'name'`, or a single `@`.
    UserVariable,
    /// `@@name`, `@@session.name`: everything up to the end of the last part.
    SystemVariable,
    /// Any other single byte.
    Symbol,
    /// The end of the statement text.
    End,
}

/// One token, borrowed from the statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    /// The bytes as written, including quotes and at-signs.
    pub(crate) text: &'a [u8],
    /// Offset of the first byte.
    pub(crate) start: usize,
    /// For a word: its [`packed`] form.
    pub(crate) packed: u64,
}

impl Token<'_> {
    /// Offset after the last byte.
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether this is the symbol `byte`.
    pub(crate) fn is_symbol(&self, byte: u8) -> bool {
        self.kind == TokenKind::Symbol && self.text == [byte]
    }

    /// Whether this is the bare word `word` (given in upper case).
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether this is one of the bare words `words` (given in upper case).
    pub(crate) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    /// Whether nothing follows in this statement: the end of the text or a `;`.
    pub(crate) fn ends_statement(&self) -> bool {
        self.kind == TokenKind::End || self.is_symbol(b';')
    }
}

/// Oddities that the lexer found in the text. Read after the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// A string, quoted name or comment is not terminated.
    pub(crate) unterminated: bool,
    /// A string has a backslash before its own quote: with the other [`Escapes`] it ends elsewhere.
    pub(crate) escaped_quote: bool,
    /// Such a string is in double quotes.
    pub(crate) escaped_double_quote: bool,
    /// A comment was opened that ends with `*/`.
    pub(crate) comment: bool,
    /// An executable comment was opened.
    pub(crate) executable_comment: bool,
    /// One was opened that some servers execute and others skip.
    pub(crate) version_comment: bool,
    /// It is a list of optimizer hints, one of which may leave something on the connection.
    pub(crate) unknown_hint: bool,
    /// These two readings are not enough: there are several such comments, one that ends elsewhere if skipped, or bytes
    /// that begin a comment in some character sets.
    pub(crate) unsure: bool,
}

/// Iterates over the tokens of a statement. At the end it returns [`TokenKind::End`] forever.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    escapes: Escapes,
    versions: Versions,
    in_executable_comment: bool,
    pub(crate) oddities: Oddities,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8], escapes: Escapes) -> Lexer<'a> {
        Lexer::with(text, escapes, Versions::Run)
    }

    pub(crate) fn with(text: &'a [u8], escapes: Escapes, versions: Versions) -> Lexer<'a> {
        let oddities = Oddities::default();
        Lexer { text, at: 0, escapes, versions, in_executable_comment: false, oddities }
    }

    /// The next token.
    #[inline(never)]
    pub(crate) fn next(&mut self) -> Token<'a> {
        self.advance()
    }

    /// The same as [`Lexer::next`], but inlined, for the one loop that reads whole statements.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Token<'a> {
        loop {
            let start = self.at;
            let Some(byte) = self.byte(start) else { return self.token(TokenKind::End, start, start) };
            match class_of(byte) {
                Class::Space => self.at += 1,
                Class::Word => {
                    let mut token = self.run(TokenKind::Word);
                    token.packed = self.packed(token);
                    return token;
                }
                Class::Digit => return self.run(TokenKind::Number),
                Class::Quote => {
                    let end = self.end_of_string(start, byte);
                    return self.token(TokenKind::Text, start, end);
                }
                Class::Symbol => return self.token(TokenKind::Symbol, start, start + 1),
                Class::Special => {
                    if let Some(token) = self.special(byte) {
                        return token;
                    }
                }
            }
        }
    }

    /// After a `,` or `(`: skips numbers, strings, NULLs and the commas and parentheses between them, as far as they
    /// go, and stops after a `,` or `(` again. Most of a long `INSERT` is skipped here, eight bytes at a time.
    #[inline]
    pub(crate) fn skip_values(&mut self) {
        let mut at = self.at;
        // After the last `,` or `(`: where the lexer continues.
        let mut boundary = at;
        while let Some(rest) = self.text.get(at..) {
            let Some(ahead) = rest.first_chunk::<8>() else { break };
            let plain = values::length(u64::from_le_bytes(*ahead));
            if let Some(last) = ahead.get(..plain).and_then(values::last_separator) {
                boundary = at + last + 1;
            }
            at += plain;
            if plain == 8 {
                continue;
            }
            // Anything other than a number may only be where a value begins.
            let begins = || boundary == at || values::only_blanks(self.span(boundary, at));
            match rest.get(plain).copied() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => at += 1,
                Some(b'-') if rest.get(plain + 1).is_some_and(u8::is_ascii_digit) => at += 1,
                Some(b'\'' | b'"' | b'n' | b'N') if begins() => {
                    let value = self.span(at, self.text.len());
                    let Some(length) = plain_literal(value).or_else(|| plain_null(value)) else { break };
                    at += length;
                }
                _ => break,
            }
        }
        self.at = boundary;
    }

    /// The next token, without consuming it.
    pub(crate) fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    /// Consumes the next token if it is one of `words`.
    pub(crate) fn take_any(&mut self, words: &[&str]) -> bool {
        let mut ahead = self.clone();
        let taken = ahead.next().is_any(words);
        if taken {
            *self = ahead;
        }
        taken
    }

    /// The bytes from `start` to `end`.
    pub(crate) fn span(&self, start: usize, end: usize) -> &'a [u8] {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Bytes that begin a comment, a quoted name or a variable. `None`: a comment was skipped.
    fn special(&mut self, byte: u8) -> Option<Token<'a>> {
        let start = self.at;
        let following = self.byte(start + 1);
        match (byte, following) {
            (b'`', _) => {
                let end = self.end_of_name(start);
                Some(self.token(TokenKind::QuotedName, start, end))
            }
            (b'@', Some(b'@')) => {
                let end = self.end_of_system_variable(start + 2);
                Some(self.token(TokenKind::SystemVariable, start, end))
            }
            (b'@', Some(quote @ (b'\'' | b'"'))) => {
                let end = self.end_of_string(start + 1, quote);
                Some(self.token(TokenKind::UserVariable, start, end))
            }
            (b'@', Some(b'`')) => {
                let end = self.end_of_name(start + 1);
                Some(self.token(TokenKind::UserVariable, start, end))
            }
            (b'@', _) => {
                let end = self.end_of_run(start + 1, |byte| is_word_byte(byte) || byte == b'.');
                Some(self.token(TokenKind::UserVariable, start, end))
            }
            (b'#', _) => {
                self.skip_line();
                None
            }
            (b'-', Some(b'-')) if self.byte(start + 2).is_none_or(is_blank_or_control) => {
                self.skip_line();
                None
            }
            (b'/', Some(b'*')) => {
                self.enter_comment();
                None
            }
            (b'*', Some(b'/')) if self.in_executable_comment => {
                self.in_executable_comment = false;
                self.at = start + 2;
                None
            }
            _ => {
                // A control character, or a blank, in some character sets: `-- ` then.
                self.oddities.unsure |= byte == b'-'
                    && following == Some(b'-')
                    && self.byte(start + 2).is_some_and(|byte| !byte.is_ascii());
                Some(self.token(TokenKind::Symbol, start, start + 1))
            }
        }
    }

    /// Offset after the string whose opening `quote` is at `start`. A doubled quote stays inside.
    fn end_of_string(&mut self, start: usize, quote: u8) -> usize {
        let mut at = start + 1;
        loop {
            let rest = self.span(at, self.text.len());
            let Some(found) = memchr::memchr2(quote, b'\\', rest) else {
                self.oddities.unterminated = true;
                return self.text.len();
            };
            let following = rest.get(found + 1).copied();
            if rest.get(found) == Some(&quote) {
                if following != Some(quote) {
                    return at + found + 1;
                }
                at += found + 2;
                continue;
            }
            // `\\'` ends the string in both readings if there is an even number of backslashes; after a backslash read
            // as an escape, the next byte is skipped, so only odd runs get here.
            if following == Some(quote) {
                self.oddities.escaped_quote = true;
                self.oddities.escaped_double_quote |= quote == b'"';
            }
            at += found + 1 + usize::from(self.escapes == Escapes::Backslash && following.is_some());
        }
    }

    /// Offset after the quoted name whose backtick is at `start`.
    fn end_of_name(&mut self, start: usize) -> usize {
        let mut at = start + 1;
        loop {
            let rest = self.span(at, self.text.len());
            let Some(found) = memchr::memchr(b'`', rest) else {
                self.oddities.unterminated = true;
                return self.text.len();
            };
            if rest.get(found + 1) != Some(&b'`') {
                return at + found + 1;
            }
            at += found + 2;
        }
    }

    /// Offset after `name`, `` `name` ``, `scope.name` and so on, from directly after the `@@`.
    fn end_of_system_variable(&mut self, start: usize) -> usize {
        let mut at = start;
        loop {
            at = match self.byte(at) {
                Some(b'`') => self.end_of_name(at),
                _ => self.end_of_run(at, is_word_byte),
            };
            if self.byte(at) != Some(b'.') {
                return at;
            }
            at += 1;
        }
    }

    #[inline]
    fn run(&mut self, kind: TokenKind) -> Token<'a> {
        let start = self.at;
        let end = self.end_of_run(start + 1, is_word_byte);
        self.token(kind, start, end)
    }

    #[inline]
    fn end_of_run(&self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = self.span(from, self.text.len());
        from + rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len())
    }

    #[inline]
    fn token(&mut self, kind: TokenKind, start: usize, end: usize) -> Token<'a> {
        self.at = end;
        Token { kind, text: self.span(start, end), start, packed: 0 }
    }

    /// The same as the function [`packed`], reading eight bytes at once if the text has them.
    #[inline]
    fn packed(&self, word: Token<'_>) -> u64 {
        let ahead = self.text.get(word.start..).and_then(|rest| rest.first_chunk::<8>());
        match (ahead, word.text.len()) {
            (Some(bytes), length @ 1..=8) => {
                (u64::from_le_bytes(*bytes) | LOWER) & (u64::MAX >> (64 - 8 * length))
            }
            _ => packed(word.text),
        }
    }

    #[inline]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }
}

/// A word of up to eight bytes as one number, letters in lower case; [`LONG`] for longer ones.
pub(crate) const fn packed(word: &[u8]) -> u64 {
    if word.len() > 8 {
        return LONG;
    }
    let mut value = 0u64;
    let mut rest = word;
    let mut shift = 0;
    while let [byte, tail @ ..] = rest {
        value |= ((*byte | 0x20) as u64) << shift;
        shift += 8;
        rest = tail;
    }
    value
}

/// The bit that makes a letter lower case, set in every byte.
pub(crate) const LOWER: u64 = 0x2020_2020_2020_2020;

/// The result of [`packed`] for words of more than eight bytes.
pub(crate) const LONG: u64 = u64::MAX;

#[cfg(test)]
mod tests;

//! The lexer: bytes of a statement in, tokens out. It knows where strings, names and comments end; it does not
//! know grammar. `statement.rs`, `set.rs` and `comment.rs` read its tokens; `digest.rs` shares its byte classes.
//!
//! An executable comment (`/*! .. */`, `/*!40101 .. */`) is code here. One that not every server runs, by its version
//! number or because it is MariaDB's (`/*M! .. */`), is read as [`Versions`] says, and makes the text odd: whoever wants
//! to know what the text does reads it in both ways. Plain comments, `-- ` and `#` are skipped.
//! See "Comments" and "Literal Values" in the MySQL manual.

pub(crate) mod values;

/// How backslashes inside strings are read.
///
/// The server decides by the session's `sql_mode` and reports it with `SERVER_STATUS_NO_BACKSLASH_ESCAPES` in
/// every OK packet, so the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Escapes {
    /// `'it\'s'` is one string: the default of every server.
    #[default]
    Backslash,
    /// `NO_BACKSLASH_ESCAPES` is in `sql_mode`: a backslash is a letter like any other.
    None,
}

/// What becomes of the text in a comment that some servers run and others skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// It is code.
    Run,
    /// It is a comment.
    Skip,
}

/// What a token is. Quoted kinds hold their quotes in [`Token::text`].
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
    /// `@name`, `@'name'`, or a lone `@`.
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
    /// The bytes as written, quotes and at-signs included.
    pub(crate) text: &'a [u8],
    /// Offset of the first byte.
    pub(crate) start: usize,
    /// Of a word: its [`packed`] form.
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

/// Where the lexer found the text odd. Read after the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// A string, a quoted name or a comment has no end.
    pub(crate) unterminated: bool,
    /// A string holds a backslash before its own quote: with the other [`Escapes`] it ends elsewhere.
    pub(crate) escaped_quote: bool,
    /// A comment was opened that ends with `*/`.
    pub(crate) comment: bool,
    /// An executable comment was opened.
    pub(crate) executable_comment: bool,
    /// One was opened that some servers run and others skip.
    pub(crate) version_comment: bool,
    /// There is more to it than these two readings: several such comments, one that ends elsewhere when it is skipped, or
    /// bytes that begin a comment in some character sets.
    pub(crate) unsure: bool,
}

/// Iterates over the tokens of a statement. At the end it gives [`TokenKind::End`] for ever.
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

    /// The same as [`Lexer::next`], written out where it is called: for the one loop that reads whole statements.
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

    /// Behind a `,` or `(`: skips numbers, strings, NULLs and the commas and parentheses between them, as far as they go,
    /// and stops behind a `,` or `(` again. Most of a long `INSERT` goes by here, eight bytes at a time.
    #[inline]
    pub(crate) fn skip_values(&mut self) {
        let mut at = self.at;
        // Behind the last `,` or `(`: where the lexer goes on.
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
            // What is no number may only stand where a value begins.
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

    /// The next token, without taking it.
    pub(crate) fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    /// Takes the next token if it is one of `words`.
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

    /// What stands in the first `/* */` comment, without the marks of an executable comment or a hint.
    pub(crate) fn first_comment(mut self) -> Option<&'a [u8]> {
        loop {
            while self.byte(self.at).is_some_and(|byte| class_of(byte) == Class::Space) {
                self.at += 1;
            }
            let rest = self.span(self.at, self.text.len());
            if let Some(body) = rest.strip_prefix(b"/*") {
                let body = body.get(..memchr::memmem::find(body, b"*/")?)?;
                let marks: [&[u8]; 3] = [b"!", b"M!", b"+"];
                return Some(marks.iter().find_map(|mark| body.strip_prefix(*mark)).unwrap_or(body));
            }
            if matches!(rest, [b'#', ..] | [b'-', b'-', ..=b' ', ..] | [b'-', b'-']) {
                self.skip_line();
            } else if self.next().kind == TokenKind::End {
                return None;
            }
        }
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

    /// At `/*`: skips the comment, or only its opening when it is an executable one.
    fn enter_comment(&mut self) {
        let rest = self.span(self.at + 2, self.text.len());
        let marker = match rest {
            [b'!', ..] => 1,
            [b'M' | b'm', b'!', ..] => 2,
            _ => 0,
        };
        self.oddities.comment = true;
        if marker > 0 {
            self.oddities.executable_comment = true;
            let code = self.at + 2 + marker;
            let version = version_digits(self.span(code, self.text.len()));
            if marker == 2 || version.len() > 5 || version > OLDEST_IN_DOUBT {
                self.enter_version_comment(code + version.len());
                return;
            }
            self.in_executable_comment = true;
            self.at = code + version.len();
            return;
        }
        match memchr::memmem::find(rest, b"*/") {
            Some(length) => self.at += length + 4,
            None => {
                self.oddities.unterminated = true;
                self.at = self.text.len();
            }
        }
    }

    /// At a comment that some servers run and others skip; `code` is behind its version number.
    #[cold]
    fn enter_version_comment(&mut self, code: usize) {
        let nested = self.in_executable_comment || self.oddities.version_comment;
        if nested && self.versions == Versions::Run {
            // Where it ends does not matter any more, and is not looked for: there may be thousands.
            self.oddities.unsure = true;
            self.in_executable_comment = true;
            self.at = code;
            return;
        }
        let body = self.span(code, self.text.len());
        let length = memchr::memmem::find(body, b"*/");
        let body = body.get(..length.unwrap_or(body.len())).unwrap_or_default();
        self.oddities.unsure |= nested || length.is_none() || !ends_the_same(body, self.escapes);
        self.oddities.version_comment = true;
        match (self.versions, length) {
            (Versions::Run, _) => {
                self.in_executable_comment = true;
                self.at = code;
            }
            (Versions::Skip, Some(length)) => self.at = code + length + 2,
            (Versions::Skip, None) => {
                self.oddities.unterminated = true;
                self.at = self.text.len();
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = self.span(self.at, self.text.len());
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |length| length + 1);
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
            // `\\'` ends the string in both readings when an even number of backslashes stands there; after
            // one that is read as an escape the next byte is not looked at, so only odd runs come here.
            self.oddities.escaped_quote |= following == Some(quote);
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

    /// Offset after `name`, `` `name` ``, `scope.name` and so on, from just behind the `@@`.
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

    /// The same as the function [`packed`], reading eight bytes at once where the text has them.
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

/// The version number in front of the code of an executable comment: five digits, or six. Fewer are code.
fn version_digits(code: &[u8]) -> &[u8] {
    let digits = code.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 5 { &[] } else { code.get(..digits).unwrap_or_default() }
}

/// The largest version number that every server runs: MariaDB skips those of MySQL 5.7 and later, and servers skip
/// those of servers later than themselves.
const OLDEST_IN_DOUBT: &[u8] = b"50699";

/// Whether the code of a comment ends where the comment ends, and so the rest of the text does not depend on whether it is run.
fn ends_the_same(code: &[u8], escapes: Escapes) -> bool {
    let opens = |mark: &[u8]| memchr::memmem::find(code, mark).is_some();
    if opens(b"/*") || opens(b"--") || opens(b"#") {
        return false;
    }
    let mut lexer = Lexer::new(code, escapes);
    while lexer.next().kind != TokenKind::End {}
    !lexer.oddities.unterminated && !lexer.oddities.escaped_quote
}

/// Whether `--` before this byte begins a comment.
fn is_blank_or_control(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7F
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

/// The bit that makes a letter lower case, in every byte.
const LOWER: u64 = 0x2020_2020_2020_2020;

/// What [`packed`] gives for words of more than eight bytes.
pub(crate) const LONG: u64 = u64::MAX;

/// Removes the quotes of a quoted name or string and undoes what quoting did. Bare text is returned as it is.
pub(crate) fn unquote(text: &[u8]) -> Vec<u8> {
    unquote_with(text, Escapes::Backslash)
}

/// The same, reading backslashes as told.
pub(crate) fn unquote_with(text: &[u8], escapes: Escapes) -> Vec<u8> {
    let Some((quote, body)) = quoted_body(text) else { return text.to_vec() };
    let mut bytes = body.iter().copied();
    let mut plain = Vec::with_capacity(body.len());
    while let Some(byte) = bytes.next() {
        if byte == quote {
            bytes.next();
            plain.push(quote);
        } else if byte == b'\\' && quote != b'`' && escapes == Escapes::Backslash {
            unescape(bytes.next(), &mut plain);
        } else {
            plain.push(byte);
        }
    }
    plain
}

/// The bytes a backslash followed by `escaped` stands for ("String Literals" in the MySQL manual).
fn unescape(escaped: Option<u8>, plain: &mut Vec<u8>) {
    match escaped {
        Some(b'0') => plain.push(0),
        Some(b'b') => plain.push(8),
        Some(b'n') => plain.push(b'\n'),
        Some(b'r') => plain.push(b'\r'),
        Some(b't') => plain.push(b'\t'),
        Some(b'Z') => plain.push(0x1a),
        // These two keep their backslash outside LIKE patterns as well.
        Some(wildcard @ (b'%' | b'_')) => plain.extend([b'\\', wildcard]),
        Some(other) => plain.push(other),
        None => plain.push(b'\\'),
    }
}

/// The quote of `text` and what stands between it and its closing twin.
pub(crate) fn quoted_body(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [quote @ (b'\'' | b'"' | b'`'), body @ .., last] if quote == last => Some((*quote, body)),
        _ => None,
    }
}

/// The length of a number or string that a `,` or `)` follows and that holds nothing to look at twice: no exponent,
/// no backslash, no doubled quote. Most of a long `INSERT` is made of these.
#[inline]
pub(crate) fn plain_literal(rest: &[u8]) -> Option<usize> {
    let length = match *rest.first()? {
        quote @ (b'\'' | b'"') => plain_string(rest, quote)?,
        b'0'..=b'9' => rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.'))?,
        _ => return None,
    };
    matches!(rest.get(length), Some(b',' | b')')).then_some(length)
}

/// The length of a `NULL` that a `,` or `)` follows.
#[inline]
pub(crate) fn plain_null(rest: &[u8]) -> Option<usize> {
    let (word, after) = rest.split_first_chunk::<4>()?;
    let null = (u32::from_le_bytes(*word) | 0x2020_2020) == u32::from_le_bytes(*b"null");
    (null && matches!(after.first(), Some(b',' | b')'))).then_some(4)
}

/// The length of the string at the start of `rest`, up to the first quote or backslash; `None` if that is no quote.
#[inline]
fn plain_string(rest: &[u8], quote: u8) -> Option<usize> {
    let body = rest.get(1..)?;
    let length = match values::quote_or_backslash(body, quote) {
        Some(length) => length,
        // Short strings are over before a vector search has begun.
        None => values::SHORT + memchr::memchr2(quote, b'\\', body.get(values::SHORT..)?)?,
    };
    (body.get(length) == Some(&quote)).then_some(length + 2)
}

/// How many blanks `rest` begins with.
#[inline]
pub(crate) fn blanks(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count()
}

/// What a byte can begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Symbol,
    Space,
    Word,
    Digit,
    Quote,
    /// Needs a look at the byte behind it: `` ` @ # - / * ``.
    Special,
}

/// Whether `byte` continues a word: letters, digits, `_`, `$` and everything outside ASCII.
#[inline]
pub(crate) fn is_word_byte(byte: u8) -> bool {
    matches!(class_of(byte), Class::Word | Class::Digit)
}

#[inline]
fn class_of(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Symbol)
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Symbol; 256];
    let mut byte = 0u8;
    loop {
        #[allow(clippy::indexing_slicing)] // Evaluated by the compiler; a byte is always below 256.
        let class = &mut classes[byte as usize];
        *class = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0 => Class::Space,
            b'0'..=b'9' => Class::Digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xff => Class::Word,
            b'\'' | b'"' => Class::Quote,
            b'`' | b'@' | b'#' | b'-' | b'/' | b'*' => Class::Special,
            _ => Class::Symbol,
        };
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(TokenKind, String)> {
        let mut lexer = Lexer::new(text.as_bytes(), Escapes::Backslash);
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next();
            if token.kind == TokenKind::End {
                return tokens;
            }
            tokens.push((token.kind, String::from_utf8_lossy(token.text).into_owned()));
        }
    }

    fn texts(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn keeps_strings_whole_whatever_they_hold() {
        assert_eq!(texts(r"a'it''s'b"), ["a", "'it''s'", "b"]);
        assert_eq!(texts(r"'it\'s; -- @x' ;"), [r"'it\'s; -- @x'", ";"]);
        assert_eq!(texts(r#""a""b" 'a\\' c"#), [r#""a""b""#, r"'a\\'", "c"]);
        assert_eq!(texts("`a``b`.c"), ["`a``b`", ".", "c"]);
    }

    #[test]
    fn skips_plain_comments_and_opens_executable_ones() {
        assert_eq!(texts("a/* ' */b -- ' \nc # '\nd"), ["a", "b", "c", "d"]);
        assert_eq!(texts("/*!40101 SET a */ b"), ["SET", "a", "b"]);
        assert_eq!(texts("/*M!100100 SET */*/"), ["SET", "*", "/"]);
        assert_eq!(texts("/*! a /* b */ c */ d"), ["a", "c", "d"]);
        assert_eq!(texts("1--1"), ["1", "-", "-", "1"]);
        assert_eq!(texts("a--"), ["a"]);
    }

    #[test]
    fn reads_variables_with_their_scope() {
        assert_eq!(
            tokens("@a.b @'x y' @@session.`sql_mode` @@x"),
            [
                (TokenKind::UserVariable, "@a.b".to_owned()),
                (TokenKind::UserVariable, "@'x y'".to_owned()),
                (TokenKind::SystemVariable, "@@session.`sql_mode`".to_owned()),
                (TokenKind::SystemVariable, "@@x".to_owned()),
            ]
        );
    }

    #[test]
    fn reports_what_is_odd() {
        let odd = |text: &str| {
            let mut lexer = Lexer::new(text.as_bytes(), Escapes::Backslash);
            while lexer.next().kind != TokenKind::End {}
            lexer.oddities
        };
        assert!(odd("'abc").unterminated);
        assert!(odd("/* abc").unterminated);
        assert!(odd(r"'a\").unterminated);
        assert!(odd(r"'a\'b'").escaped_quote);
        assert!(!odd(r"'a\\'").escaped_quote);
        assert!(odd("/*!x*/").executable_comment);
    }

    #[test]
    fn reads_comments_of_versions_in_both_ways() {
        let skipped = |text: &str| {
            let mut lexer = Lexer::with(text.as_bytes(), Escapes::Backslash, Versions::Skip);
            let words = std::iter::from_fn(|| Some(lexer.next()).filter(|it| it.kind != TokenKind::End));
            words.map(|token| String::from_utf8_lossy(token.text).into_owned()).collect::<Vec<_>>()
        };
        for (text, run, skip) in [
            ("a /*!99999 b */ c", &["a", "b", "c"][..], &["a", "c"][..]),
            ("a /*M! b */ c", &["a", "b", "c"], &["a", "c"]),
            ("a /*!50700b */ c", &["a", "b", "c"], &["a", "c"]),
            ("a /*!050000 b */ c", &["a", "b", "c"], &["a", "c"]),
            ("a /*!50699 b */ c", &["a", "b", "c"], &["a", "b", "c"]),
            ("a /*!1234 b */ c", &["a", "1234", "b", "c"], &["a", "1234", "b", "c"]),
        ] {
            assert_eq!((texts(text), skipped(text)), (own(run), own(skip)), "{text}");
        }
    }

    fn own(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn is_unsure_where_two_readings_are_not_enough() {
        let unsure = |text: &[u8]| {
            let mut lexer = Lexer::new(text, Escapes::Backslash);
            while lexer.next().kind != TokenKind::End {}
            lexer.oddities.unsure
        };
        for text in [
            &b"a /*!99999 ' */ b -- '"[..],
            b"a /*!99999 # */ b",
            b"a /*!99999 -- */ b",
            b"a /*!99999 /* */ b */",
            b"a /*!99999 b",
            b"/*!99999 a */ /*!50700 b */",
            b"/*! /*!99999 a */ */",
            b"a --\xA0b",
        ] {
            let text = String::from_utf8_lossy(text).replace("\\xA0", "\u{a0}");
            assert!(unsure(text.as_bytes()), "{text}");
        }
        for text in ["a /*!99999 'b' */ c", "/*!40101 ' */ b -- '", "a -- \u{a0}", "/*!80016 x='N' */"] {
            assert!(!unsure(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn reads_strings_without_escapes_when_told() {
        let mut lexer = Lexer::new(br"'a\' b", Escapes::None);
        assert_eq!(lexer.next().text, br"'a\'");
        assert_eq!(lexer.next().text, b"b");
    }

    #[test]
    fn unquotes() {
        assert_eq!(unquote(br"'it\'s a''b\n'"), b"it's a'b\n");
        assert_eq!(unquote(b"`a``b`"), b"a`b");
        assert_eq!(unquote(b"plain"), b"plain");
    }
}

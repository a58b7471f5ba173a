//! Whether all readers understand a text in the same way: the digest, which follows ProxySQL, the lexer, and servers of
//! any kind and setting. Code that permits texts by their digest must not permit one that means something else to the
//! server.
//!
//! This check is the strictest: anything unusual is in doubt, even if a server may well agree with us on it.

use crate::token::{Escapes, Lexer, TokenKind, blanks};

/// The session settings that affect how texts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writing<'a> {
    /// The character set in which the server reads texts; `None`: its own, which is not known.
    pub charset: Option<&'a str>,
    /// A backslash may be an ordinary character in strings (`NO_BACKSLASH_ESCAPES`).
    pub plain_backslash: bool,
}

/// Why another reader may understand a text differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// A comment that some servers execute and others skip, or that a digest treats differently.
    #[error(
        "an executable comment that not every server executes, or that does not end at the same place for all readers"
    )]
    ExecutableComment,
    /// A comment contains the marker of another one, or ends halfway for a digest because of a line end, or servers
    /// differ on whether it is one.
    #[error("a comment that does not end at the same place for all readers")]
    Comment,
    /// A string, quoted name or comment is not terminated.
    #[error("an unterminated string, name or comment")]
    Unterminated,
    /// A quoted name contains something that begins a string or a comment for a digest.
    #[error("a quoted name that contains a quote or a comment")]
    Name,
    /// A backslash precedes a quote, and settings decide what that means.
    #[error("a backslash before a quote, whose meaning depends on sql_mode")]
    Backslash,
    /// Non-ASCII bytes that, in this character set, are part of what follows, or a blank.
    #[error("non-ASCII bytes, whose meaning depends on the character set")]
    Charset,
    /// A control character outside strings.
    #[error("a control character")]
    Control,
    /// It is longer than the part that is read, or its digest exceeds the maximum length.
    #[error("a text longer than what its digest covers")]
    Cut,
    /// There is no text: it is a different kind of command.
    #[error("a command without a text")]
    NoText,
}

/// Whether a digest, the lexer and every server read `query` in the same way.
///
/// # Errors
/// Why they may not.
pub fn reads_surely(query: &[u8], writing: Writing<'_>) -> Result<(), Doubt> {
    check_charset(query, writing.charset)?;
    let mut reading = Reading { query, at: 0, writing };
    while let Some(byte) = reading.byte(reading.at) {
        reading.step(byte)?;
    }
    Ok(())
}

/// Non-ASCII bytes are UTF-8 letters, or are in strings of a single-byte character set, or of one whose characters
/// contain no ASCII bytes.
fn check_charset(query: &[u8], charset: Option<&str>) -> Result<(), Doubt> {
    if query.is_ascii() {
        return Ok(());
    }
    match charset {
        Some(charset) if !WITH_ASCII.contains(&charset) => Ok(()),
        _ => Err(Doubt::Charset),
    }
}

/// Character sets whose characters may contain an ASCII byte.
const WITH_ASCII: [&str; 5] = ["big5", "gbk", "gb18030", "sjis", "cp932"];

/// Character sets in which no non-ASCII byte is a blank or a control character.
const UTF8: [&str; 3] = ["utf8mb4", "utf8mb3", "utf8"];

/// Whether non-ASCII bytes in `query` may give it a different meaning in this character set than in UTF-8: they hide a
/// backslash or a quote, or are blanks outside strings.
#[must_use]
pub fn charset_matters(query: &[u8], charset: &str) -> bool {
    if UTF8.contains(&charset) || query.is_ascii() {
        return false;
    }
    let hides = |pair: &[u8]| matches!(pair, [lead, b'\\' | b'`'] if !lead.is_ascii());
    if WITH_ASCII.contains(&charset) && query.windows(2).any(hides) {
        return true;
    }
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    loop {
        let token = lexer.next();
        match token.kind {
            TokenKind::End => return false,
            TokenKind::Text | TokenKind::QuotedName => {}
            _ if token.text.is_ascii() => {}
            _ => return true,
        }
    }
}

struct Reading<'a> {
    query: &'a [u8],
    at: usize,
    writing: Writing<'a>,
}

impl Reading<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.query.get(at).copied()
    }

    fn rest(&self, from: usize) -> &[u8] {
        self.query.get(from..).unwrap_or_default()
    }

    /// Skips what begins with `byte`.
    fn step(&mut self, byte: u8) -> Result<(), Doubt> {
        self.at = match (byte, self.byte(self.at + 1)) {
            (b'\'' | b'"', _) => self.string(byte)?,
            (b'`', _) => self.name()?,
            (b'/', Some(b'*')) => self.comment()?,
            (b'#', _) => self.line(self.at + 1)?,
            (b'-', Some(b'-')) => self.dashes()?,
            (b' ' | b'\t' | b'\n' | b'\r', _) => self.at + blanks(self.rest(self.at)),
            (0..=0x1F | 0x7F, _) => return Err(Doubt::Control),
            (0x80.., _) if !self.writing.charset.is_some_and(|charset| UTF8.contains(&charset)) => {
                return Err(Doubt::Charset);
            }
            _ => self.at + 1,
        };
        Ok(())
    }

    fn string(&self, quote: u8) -> Result<usize, Doubt> {
        let mut at = self.at + 1;
        loop {
            let found = memchr::memchr2(quote, b'\\', self.rest(at)).ok_or(Doubt::Unterminated)?;
            at += found;
            if self.byte(at) == Some(b'\\') {
                // In double quotes it is also an ordinary character with ANSI_QUOTES, which servers do not report. An
                // even number of them before a quote means the same to all readers that support doubled ones, but not
                // to the others.
                let may_be_letter = self.writing.plain_backslash || quote == b'"';
                let backslashes = self.rest(at).iter().take_while(|byte| **byte == b'\\').count();
                let after = self.byte(at + backslashes).ok_or(Doubt::Unterminated)?;
                if may_be_letter && after == quote {
                    return Err(Doubt::Backslash);
                }
                // The last of an odd number escapes the next byte.
                at += backslashes + backslashes % 2;
            } else if self.byte(at + 1) == Some(quote) {
                at += 2;
            } else {
                return Ok(at + 1);
            }
        }
    }

    /// For a digest, a quoted name is ordinary text.
    fn name(&self) -> Result<usize, Doubt> {
        let body = self.rest(self.at + 1);
        let length = memchr::memchr(b'`', body).ok_or(Doubt::Unterminated)?;
        let body = body.get(..length).unwrap_or_default();
        let marks = |pair: &[u8]| matches!(pair, b"/*" | b"--");
        let odd = |byte: &u8| matches!(byte, b'\'' | b'"' | b'#' | b'\\' | 0..=0x1F | 0x7F);
        if body.iter().any(odd) || body.windows(2).any(marks) {
            return Err(Doubt::Name);
        }
        Ok(self.at + 1 + length + 1)
    }

    fn comment(&self) -> Result<usize, Doubt> {
        let body = self.rest(self.at + 2);
        let length = memchr::memmem::find(body, b"*/").ok_or(Doubt::Unterminated)?;
        let body = body.get(..length).unwrap_or_default();
        match body {
            [b'!', code @ ..] => self.executable(code)?,
            [b'M' | b'm', b'!', ..] => return Err(Doubt::ExecutableComment),
            _ => {}
        }
        // For a digest this begins another comment; so would `/*/`, with the star that ends this one.
        if body.windows(2).any(|pair| pair == b"/*") || body.last() == Some(&b'/') {
            return Err(Doubt::Comment);
        }
        Ok(self.at + 2 + length + 2)
    }

    /// The code of an executable comment, which a digest shows unchanged, except for leading blanks and digits.
    fn executable(&self, code: &[u8]) -> Result<(), Doubt> {
        let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (version, code) = code.split_at_checked(digits).unwrap_or_default();
        let known = matches!(digits, 0 | 5) && version <= b"50699".as_slice();
        let begins = code.get(blanks(code)..).and_then(|code| code.first());
        let plain =
            |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'"' | b'`' | b'#' | b'\\');
        let marks = |pair: &[u8]| matches!(pair, b"/*" | b"--");
        let shown = begins.is_some_and(|byte| !byte.is_ascii_digit()) && code.iter().all(plain);
        if !known || !shown || code.windows(2).any(marks) {
            return Err(Doubt::ExecutableComment);
        }
        Ok(())
    }

    /// At `--`.
    fn dashes(&self) -> Result<usize, Doubt> {
        let begins = match self.byte(self.at + 2) {
            Some(b' ' | b'\t') => true,
            // For a digest the line ends after this byte.
            Some(b'\r') if self.byte(self.at + 3) == Some(b'\n') => true,
            Some(0..=0x1F | 0x7F.. | b'#' | b'/') | None => return Err(Doubt::Comment),
            Some(_) => false,
        };
        if begins { self.line(self.at + 2) } else { Ok(self.at + 1) }
    }

    /// After the marker of a comment that extends to the end of the line: for servers that is a line feed, for a digest
    /// also a carriage return.
    fn line(&self, from: usize) -> Result<usize, Doubt> {
        let rest = self.rest(from);
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        let returns =
            memchr::memchr(b'\r', line).is_some_and(|place| place + 1 < line.len() || length == rest.len());
        // For a digest there is nothing between what precedes the marker and what follows the line; and `--- ` is not a
        // comment.
        let before = self.at.checked_sub(1).and_then(|before| self.byte(before));
        let joins = !matches!(before, None | Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b'('));
        let follows =
            || rest.iter().skip(length).any(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b';'));
        if returns || line.contains(&0) || before == Some(b'-') || joins && follows() {
            return Err(Doubt::Comment);
        }
        Ok(from + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(query: &[u8], charset: &str, plain_backslash: bool) -> Option<Doubt> {
        let writing = Writing { charset: Some(charset), plain_backslash };
        reads_surely(query, writing).err()
    }

    #[test]
    fn says_why_a_text_is_in_doubt() {
        for (query, why) in [
            (&b"SELECT 1 /*!99999 */"[..], Doubt::ExecutableComment),
            (b"SELECT 1 /*M! a */", Doubt::ExecutableComment),
            (b"SELECT 1 /*! 1 */", Doubt::ExecutableComment),
            (b"SELECT 1 /*!40101 ' */ '", Doubt::ExecutableComment),
            (b"SELECT 1 /* /* */", Doubt::Comment),
            (b"SELECT 1 /* /*/ */", Doubt::Comment),
            (b"SELECT 1 /*/*/", Doubt::Comment),
            (b"SELECT 1 -- \r2", Doubt::Comment),
            (b"SELECT 1 -- 2\r", Doubt::Comment),
            (b"SELECT 1 --- 2", Doubt::Comment),
            (b"SELECT 1 --\x0b2", Doubt::Comment),
            (b"SELECT 1 --", Doubt::Comment),
            (b"SELECT \"\"--\na; INSERT INTO t VALUES (1)", Doubt::Comment),
            (b"SELECT 1 --\n", Doubt::Comment),
            (b"SELECT 1 --\r2", Doubt::Comment),
            (b"SELECT a-- \nb", Doubt::Comment),
            (b"SELECT a#\nb", Doubt::Comment),
            (b"SELECT 'a", Doubt::Unterminated),
            (b"SELECT /* a", Doubt::Unterminated),
            (b"SELECT `a", Doubt::Unterminated),
            (b"SELECT `'`", Doubt::Name),
            (b"SELECT `--`", Doubt::Name),
            (b"SELECT \"a\\\"b\"", Doubt::Backslash),
            (b"SELECT 1\0", Doubt::Control),
            (b"SELECT\x0b1", Doubt::Control),
        ] {
            assert_eq!(doubt(query, "utf8mb4", false), Some(why), "{}", query.escape_ascii());
        }
        assert_eq!(doubt(b"SELECT 'a\\'b'", "utf8mb4", true), Some(Doubt::Backslash));
        assert_eq!(doubt(b"SELECT '\x95\\'", "gbk", false), Some(Doubt::Charset));
        assert_eq!(doubt(b"SELECT 1\xA0", "latin1", false), Some(Doubt::Charset));
        let unknown = Writing { charset: None, plain_backslash: false };
        assert_eq!(reads_surely(b"'\xE4'", unknown), Err(Doubt::Charset));
    }

    #[test]
    fn knows_where_the_character_set_matters() {
        for (query, charset, matters) in [
            (&b"SELECT '\x95\\'"[..], "gbk", true),
            (b"SELECT '\x95a'", "gbk", false),
            (b"SELECT '\x95\\'", "latin1", false),
            (b"\xA0LOCK TABLES t READ", "latin1", true),
            (b"SELECT '\xE4' -- \xE4", "latin1", false),
            (b"SELECT gr\xC3\xB6\xC3\x9Fe", "utf8mb4", false),
            (b"SELECT 1", "gbk", false),
        ] {
            assert_eq!(charset_matters(query, charset), matters, "{charset}: {}", query.escape_ascii());
        }
    }

    /// The text as the lexer reads it: everything that is not a token is replaced by a blank.
    fn without_comments(query: &[u8]) -> Vec<u8> {
        let mut lexer = Lexer::new(query, Escapes::Backslash);
        let (mut bare, mut end) = (Vec::new(), 0);
        loop {
            let token = lexer.next();
            if token.start > end && !bare.is_empty() {
                bare.push(b' ');
            }
            if token.kind == TokenKind::End {
                return bare;
            }
            bare.extend_from_slice(token.text);
            end = token.end();
        }
    }

    fn digest(query: &[u8]) -> String {
        let mut scratch = crate::Scratch::new();
        crate::digest_text(query, &crate::DigestOptions::default(), &mut scratch).escape_ascii().to_string()
    }

    /// Calls the function with every text made of up to `most` of these pieces.
    fn each_text(most: usize, pieces: &[&[u8]], check: &mut impl FnMut(&[u8])) {
        let mut chosen = vec![0; most];
        loop {
            let text: Vec<u8> = chosen.iter().flat_map(|piece| pieces[*piece].iter().copied()).collect();
            check(&[b"SELECT", &text[..]].concat());
            check(&[b"SELECT '", &text[..]].concat());
            let Some(place) = chosen.iter().position(|piece| piece + 1 < pieces.len()) else { return };
            chosen[place] += 1;
            chosen[..place].fill(0);
        }
    }

    /// If there is no doubt, the digest equals that of what the lexer has read.
    #[test]
    fn a_text_without_doubt_has_the_digest_of_what_is_read() {
        let marks: &[&[u8]] = &[
            b"",
            b"--",
            b"-",
            b"#",
            b"/*",
            b"*/",
            b"/",
            b"*",
            b"\n",
            b"\r",
            b"\r\n",
            b"\t",
            b" ",
            b"\0",
            b"\x0b",
            b"\x0c",
            b"\x01",
            b"\x7f",
            "\u{a0}".as_bytes(),
            b"'",
            b"\"",
            b"`",
            b"\\",
            b"a",
            b";",
            b"1",
            b"-- ",
            b"--\n",
            b"/**/",
            b"@",
        ];
        let (mut sure, mut wrong) = (0, Vec::new());
        each_text(4, marks, &mut |query| {
            if doubt(query, "utf8mb4", false).is_some() {
                return;
            }
            sure += 1;
            let (shown, read) = (digest(query), digest(&without_comments(query)));
            if shown != read && wrong.len() < 40 {
                wrong.push(format!("{}: {shown} is shown, {read} is read", query.escape_ascii()));
            }
        });
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(sure > 10_000, "{sure}");
    }

    #[test]
    fn has_no_doubt_about_usual_texts() {
        for query in [
            "SELECT 'it''s', 'it\\'s', \"a\", `b`, 1-1, 1 - -1, a--1 FROM t -- a comment\r\nWHERE c = 'ä'",
            "SELECT /* a comment */ 1 # another\n",
            "INSERT /*! DELAYED */ INTO t VALUES (1, 'x\\\\')",
            "/*!40101 SET NAMES utf8 */;",
            "SELECT 'ß' AS größe",
        ] {
            assert_eq!(doubt(query.as_bytes(), "utf8mb4", false), None, "{query}");
        }
        assert_eq!(doubt(b"SELECT '\xE4'", "latin1", false), None);
        assert_eq!(doubt(b"SELECT 'a\\n'", "utf8mb4", true), None);
    }
}

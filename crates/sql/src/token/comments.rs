//! Comments: plain ones are skipped, executable ones are entered, and those that some servers execute and others skip
//! are marked as an oddity of the text. See "Comments" in the MySQL manual.

use super::class::{Class, class_of};
use super::{Escapes, Lexer, TokenKind, Versions};
use crate::hints;

impl<'a> Lexer<'a> {
    /// The contents of the first `/* */` comment, without the markers of an executable comment or a hint.
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

    /// At `/*`: skips the comment, or only its opening if it is executable.
    pub(super) fn enter_comment(&mut self) {
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
            Some(length) => {
                if let Some(hints) = rest.get(..length).and_then(|body| body.strip_prefix(b"+")) {
                    self.oddities.unknown_hint |= !hints::leave_nothing(hints);
                }
                self.at += length + 4;
            }
            None => {
                self.oddities.unterminated = true;
                self.at = self.text.len();
            }
        }
    }

    /// At a comment that some servers execute and others skip; `code` is after its version number.
    #[cold]
    fn enter_version_comment(&mut self, code: usize) {
        let nested = self.in_executable_comment || self.oddities.version_comment;
        if nested && self.versions == Versions::Run {
            // Where it ends no longer matters, and is not searched for: there may be thousands.
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

    pub(super) fn skip_line(&mut self) {
        let rest = self.span(self.at, self.text.len());
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |length| length + 1);
    }
}

/// The version number before the code of an executable comment: five or six digits. Fewer digits are code.
fn version_digits(code: &[u8]) -> &[u8] {
    let digits = code.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 5 { &[] } else { code.get(..digits).unwrap_or_default() }
}

/// The largest version number that every server executes: MariaDB skips those of MySQL 5.7 and later, and servers skip
/// versions newer than themselves.
const OLDEST_IN_DOUBT: &[u8] = b"50699";

/// Whether the code of a comment ends where the comment ends, so that the rest of the text does not depend on whether
/// it is executed.
fn ends_the_same(code: &[u8], escapes: Escapes) -> bool {
    let opens = |mark: &[u8]| memchr::memmem::find(code, mark).is_some();
    if opens(b"/*") || opens(b"--") || opens(b"#") {
        return false;
    }
    let mut lexer = Lexer::new(code, escapes);
    while lexer.next().kind != TokenKind::End {}
    !lexer.oddities.unterminated && !lexer.oddities.escaped_quote
}

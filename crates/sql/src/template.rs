//! What texts have in common that differ in their values only.
//!
//! Applications that do not prepare their statements send `WHERE id=17` and `WHERE id=18`: other texts, of the same class and
//! with the same digest. Their template is found in one pass that costs a fraction of either. It is not a digest: it is never
//! shown, and blanks, signs and lists stay as they are.

use crate::token::{LOWER, is_word_byte, letters_and_blanks};

/// Writes the template of a `SELECT`, `INSERT`, `UPDATE`, `DELETE` or `REPLACE` to `out`; returns whether it has one.
///
/// All texts with the same template have the same [`classify`](crate::classify), and the same
/// [`digest_text`](crate::digest_text) where that reads them whole
/// ([`DigestOptions::max_query_length`](crate::DigestOptions)). Only plain numbers and strings are left out. A text has no
/// template if it has comments, variables, double quotes, backslashes or several statements, or characters beyond ASCII
/// outside of strings: what those are depends on more than the text. Nor if it prepares or executes a text: then it matters
/// what a string says.
#[must_use]
pub fn template(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    is_common(text) && Template { text, copied: 0, has_string: false, out }.run().is_some()
}

/// Whether a text is of one of the kinds that have a template. They begin with a word of six or seven letters.
#[inline]
fn is_common(text: &[u8]) -> bool {
    let Some(first) = text.first_chunk::<8>() else { return false };
    let lower = u64::from_le_bytes(*first) | LOWER;
    let is = |word: &[u8; 8], bits: u32| lower << (64 - bits) == u64::from_le_bytes(*word) << (64 - bits);
    let six = [b"select  ", b"insert  ", b"update  ", b"delete  "].into_iter().any(|word| is(word, 56));
    six || is(b"replace ", 64)
}

struct Template<'t> {
    text: &'t [u8],
    /// Everything before this is in `out`.
    copied: usize,
    has_string: bool,
    out: &'t mut Vec<u8>,
}

impl Template<'_> {
    /// `None`: there is no template.
    #[inline]
    fn run(mut self) -> Option<()> {
        let text = self.text;
        let mut at = 0;
        // A digit or quote at `at` continues a word.
        let mut in_word = false;
        while let Some(&byte) = text.get(at) {
            let ahead = text.get(at..).and_then(|rest| rest.first_chunk::<8>());
            if let Some(ahead) = ahead
                && let length @ 1.. = letters_and_blanks(u64::from_le_bytes(*ahead))
            {
                in_word = ahead.get(length - 1).is_some_and(u8::is_ascii_alphabetic);
                at += length;
                continue;
            }
            match kind_of(byte) {
                Kind::Other => (in_word, at) = (false, at + 1),
                Kind::Word => (in_word, at) = (true, at + 1),
                Kind::Digit if in_word => at += 1,
                Kind::Digit => (in_word, at) = self.number(at),
                // x'41', N'a', _utf8'a'.
                Kind::String if in_word => return None,
                Kind::String => at = self.string(at)?,
                // A name stays, whatever is in it.
                Kind::Name => (in_word, at) = (true, at + memchr::memchr(b'`', text.get(at + 1..)?)? + 2),
                Kind::Comment if begins_comment(text.get(at..)?) => return None,
                Kind::Comment => (in_word, at) = (false, at + 1),
                Kind::Never => return None,
            }
        }
        if self.has_string && runs_texts(text) {
            return None;
        }
        self.out.extend_from_slice(text.get(self.copied..).unwrap_or_default());
        Some(())
    }

    /// The number at `at`, possibly with decimals. What continues like a word or another number stays. Returns whether a word
    /// continues after it, and where it ends.
    #[inline]
    fn number(&mut self, at: usize) -> (bool, usize) {
        let follows = |at: usize| self.text.get(at).copied();
        let digits = |mut at: usize| {
            while follows(at).is_some_and(|byte| byte.is_ascii_digit()) {
                at += 1;
            }
            at
        };
        let end = digits(at);
        let is_plain = |byte: u8| byte != b'.' && !is_word_byte(byte);
        if follows(end).is_none_or(is_plain) {
            self.leave_out(at, end, NUMBER);
            return (false, end);
        }
        let decimals = digits(end + 1);
        // The digest of a number with decimals depends on whether it is the end of the text.
        let ends = matches!(follows(decimals), Some(b',' | b')' | b' '));
        if follows(end) == Some(b'.') && decimals > end + 1 && ends {
            self.leave_out(at, decimals, DECIMAL);
            return (false, decimals);
        }
        (true, end)
    }

    /// The string at `at`; returns where it ends.
    #[inline]
    fn string(&mut self, at: usize) -> Option<usize> {
        let rest = self.text.get(at + 1..)?;
        let end = memchr::memchr3(b'\'', b'\\', 0, rest)?;
        let is_plain = rest.get(end) == Some(&b'\'') && rest.get(end + 1) != Some(&b'\'');
        let end = at + end + 2;
        is_plain.then(|| {
            self.has_string = true;
            self.leave_out(at, end, STRING);
            end
        })
    }

    /// What is between `start` and `end` is a value.
    #[inline]
    fn leave_out(&mut self, start: usize, end: usize, mark: u8) {
        self.out.extend_from_slice(self.text.get(self.copied..start).unwrap_or_default());
        self.out.push(mark);
        self.copied = end;
    }
}

/// Whether a text has a word after which a string may be a text to be executed.
fn runs_texts(text: &[u8]) -> bool {
    let begins = |at: usize, word: &[u8; 7]| {
        text.get(at..)
            .and_then(|rest| rest.first_chunk::<7>())
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    memchr::memchr2_iter(b'x', b'X', text).any(|at| at > 0 && begins(at - 1, b"EXECUTE"))
        || memchr::memchr2_iter(b'p', b'P', text).any(|at| begins(at, b"PREPARE"))
}

/// Whether `rest` begins or ends a comment.
fn begins_comment(rest: &[u8]) -> bool {
    matches!(rest, [b'-', b'-', ..] | [b'/', b'*', ..] | [b'*', b'/', ..])
}

/// What takes the place of values: bytes that are in no text with a template, except in names.
const NUMBER: u8 = 1;
const DECIMAL: u8 = 2;
const STRING: u8 = 3;

/// What a byte means for a template.
#[derive(Clone, Copy)]
enum Kind {
    /// It continues a word, or begins one; so does a dot, after which digits are decimals or a name.
    Word,
    Digit,
    String,
    Name,
    /// It may begin or end a comment.
    Comment,
    Other,
    Never,
}

#[inline]
fn kind_of(byte: u8) -> Kind {
    KINDS.get(usize::from(byte)).copied().unwrap_or(Kind::Never)
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Never; 256];
    let mut byte = 0u8;
    loop {
        #[allow(clippy::indexing_slicing)] // Evaluated at compile time; a byte is always below 256.
        let kind = &mut kinds[byte as usize];
        *kind = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'.' => Kind::Word,
            b'0'..=b'9' => Kind::Digit,
            b'\'' => Kind::String,
            b'`' => Kind::Name,
            b'-' | b'/' | b'*' => Kind::Comment,
            b' ' | b'\t' | b'\n' | b'\r' | b'!' | b'%' | b'&' | b'(' | b')' | b'+' | b',' | b':' | b'<'
            | b'=' | b'>' | b'?' | b'[' | b']' | b'^' | b'{' | b'|' | b'}' | b'~' => Kind::Other,
            _ => Kind::Never,
        };
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        let mut out = Vec::new();
        template(text.as_bytes(), &mut out).then(|| {
            let shown: Vec<u8> = out
                .iter()
                .flat_map(|byte| match *byte {
                    NUMBER => b"<n>".to_vec(),
                    DECIMAL => b"<d>".to_vec(),
                    STRING => b"<s>".to_vec(),
                    other => vec![other],
                })
                .collect();
            String::from_utf8(shown).expect("texts of this test")
        })
    }

    #[test]
    fn plain_values_are_left_out() {
        for (text, wanted) in [
            ("SELECT c FROM t1 WHERE id=5000", "SELECT c FROM t1 WHERE id=<n>"),
            ("select 1", "select <n>"),
            ("INSERT INTO `t 1` VALUES (1,'it',2.50, -3)", "INSERT INTO `t 1` VALUES (<n>,<s>,<d>, -<n>)"),
            ("UPDATE t SET a = a+1 WHERE b='Jörg'", "UPDATE t SET a = a+<n> WHERE b=<s>"),
            ("DELETE FROM db1.t2 WHERE x IN (1, 2,3)", "DELETE FROM db1.t2 WHERE x IN (<n>, <n>,<n>)"),
            ("SELECT 1e5, 0x1F, 1a, 1.5", "SELECT 1e5, 0x1F, 1a, 1.5"),
            ("SELECT .5, 1.2.3, 1.", "SELECT .5, 1.2.3, 1."),
        ] {
            assert_eq!(of(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn a_text_that_depends_on_more_than_its_bytes_has_none() {
        for text in [
            "SET autocommit=0",
            "KILL 5",
            " SELECT 1",
            "SELECT 1; SELECT 2",
            "SELECT /* c */ 1",
            "SELECT 1 -- c",
            "SELECT 1 # c",
            "SELECT @a",
            "SELECT \"a\"",
            "SELECT 'it''s'",
            "SELECT 'it\\'s'",
            "SELECT 'open",
            "SELECT `open",
            "SELECT x'41'",
            "SELECT _utf8'a'",
            "SELECT ä",
            "SELECT '\0'",
            "SELECT EXECUTE IMMEDIATE 'KILL 5'",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

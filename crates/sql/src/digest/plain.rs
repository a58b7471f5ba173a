//! First pass: removes comments, collapses blanks, replaces literals by `?`, drops the signs of literals.

use super::DigestOptions;
use crate::token::{blanks, is_word_byte, plain_literal};

/// Copies a statement without its literals.
pub(super) struct Plain<'a> {
    query: &'a [u8],
    at: usize,
    options: &'a DigestOptions,
    out: Output<'a>,
    /// The maximum length of `out`: it never gets longer than the statement.
    limit: usize,
    /// The last two bytes written, including dropped signs; the latest first.
    raw: [u8; 2],
    /// If If `out` ends with a sign that may be dropped: the two bytes before it.
    sign: Option<[u8; 2]>,
    /// At this length, `out` ends with the blank after a kept comment, which stays.
    unjoined: usize,
    placeholders: usize,
    /// Bytes written that no shortening removes: once they fill the digest, the rest of the statement does not matter.
    lasting: usize,
}

/// The value of `Plain::raw` for bytes before the first one: a byte after which no sign is dropped.
const NOTHING: u8 = b')';

impl<'a> Plain<'a> {
    /// Will write the plain text of `query` to `out`, replacing what it holds.
    pub(super) fn new(query: &'a [u8], options: &'a DigestOptions, out: &'a mut Vec<u8>) -> Plain<'a> {
        let limit = query.len().min(options.max_query_length);
        let out = Output::new(out, limit);
        Plain {
            query,
            at: 0,
            options,
            out,
            limit,
            raw: [NOTHING; 2],
            sign: None,
            unjoined: 0,
            placeholders: 0,
            lasting: 0,
        }
    }

    /// Does the work; returns the length of the text, how many `?` were written, and how many bytes of the statement
    /// were read. After the text, the contents of the buffer are undefined.
    pub(super) fn run(mut self) -> (usize, usize, usize) {
        while self.out.length < self.limit
            && self.lasting <= self.options.max_digest_length
            && let Some(byte) = self.byte(self.at)
        {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    self.blank();
                    self.at += 1;
                }
                b'\'' | b'"' => self.string(byte),
                b'0'..=b'9' if !self.in_word() => self.number(),
                b'n' | b'N' if self.options.replace_null && self.is_null() => {
                    self.placeholder();
                    self.at += 4;
                }
                _ if is_name_byte(byte) => self.word(byte),
                b'/' if self.byte(self.at + 1) == Some(b'*') => self.comment(),
                b'#' => self.line_comment(self.at + 1),
                b'-' if self.begins_dash_comment() => self.line_comment(self.at + 3),
                // For ProxySQL the statement is a C string.
                0 => break,
                _ => self.copy(byte),
            }
        }
        self.finish();
        (self.out.length, self.placeholders, self.at)
    }

    fn finish(&mut self) {
        if self.out.length > self.limit {
            self.out.length = self.limit;
        } else {
            self.settle_sign(None);
        }
        while self.out.length > 1 && matches!(self.out.last(0), Some(b' ' | b';')) {
            self.out.pop();
        }
        if self.out.length == 1 && self.ends_with_blank() {
            self.out.pop();
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.query.get(at).copied()
    }

    /// The byte of the statement before this one.
    fn before(&self) -> Option<u8> {
        self.at.checked_sub(1).and_then(|at| self.byte(at))
    }

    fn ends_with_blank(&self) -> bool {
        self.out.last(0) == Some(b' ')
    }

    /// Whether the byte before is part of a word, so that a digit here is too.
    fn in_word(&self) -> bool {
        self.before().is_some_and(is_name_byte)
    }

    /// Writes `byte`, and decides whether a sign before it stays.
    fn emit(&mut self, byte: u8) {
        self.settle_sign(Some(byte));
        if is_sign(byte) {
            self.sign = Some(self.raw);
        }
        self.out.push(byte);
        self.raw = [byte, self.raw[0]];
    }

    fn settle_sign(&mut self, after: Option<u8>) {
        if let Some(before) = self.sign.take()
            && drops_sign(before, after)
        {
            self.out.pop();
        }
    }

    fn blank(&mut self) {
        if !matches!(self.out.last(0), None | Some(b' ' | b',' | b'(')) {
            self.emit(b' ');
        }
    }

    /// Removes a blank at the end.
    fn pop_blank(&mut self) {
        self.out.pop();
        let [first, second, third] = [0, 1, 2].map(|back| self.out.last(back).unwrap_or(NOTHING));
        self.raw = [first, second];
        if is_sign(first) {
            self.sign = Some([second, third]);
        }
    }

    fn placeholder(&mut self) {
        self.join_operator();
        self.emit(b'?');
        self.placeholders += 1;
    }

    /// Before a literal: removes the blank after an arithmetic operator.
    fn join_operator(&mut self) {
        let joins = self.ends_with_blank() && self.out.length != self.unjoined;
        if joins && (self.out.last(1).is_some_and(is_operator) || is_operator(self.raw[1])) {
            self.pop_blank();
        }
    }

    /// Handles a byte that begins nothing special.
    fn copy(&mut self, byte: u8) {
        match byte {
            b'?' => self.placeholder(),
            _ => {
                self.trim_before(byte);
                self.emit(byte);
            }
        }
        self.at += 1;
        if matches!(byte, b',' | b'(') {
            self.values();
        }
    }

    /// After a `,` or `(`: handles plain literals and the commas and parentheses between them, as far as they go.
    #[inline]
    fn values(&mut self) {
        let mut values = 0;
        let mut since_row = 0;
        while self.out.length < self.limit {
            let rest = self.query.get(self.at..).unwrap_or_default();
            let blanks = blanks(rest);
            let rest = rest.get(blanks..).unwrap_or_default();
            let Some(length) = plain_literal(rest) else {
                self.note_lasting(since_row, rest);
                break;
            };
            let (read, written) = match rest.get(length..).unwrap_or_default() {
                [b',', ..] => (1, 2),
                [b')', b',', b'(', ..] => (3, 4),
                [b')', b',', b' ' | b'\n', b'(', ..] => (4, 4),
                _ => break,
            };
            self.out.extend_four(if written == 2 { *b"?,  " } else { *b"?),(" }, written);
            self.at += blanks + length + read;
            values += 1;
            since_row = if written == 2 { since_row + 1 } else { 0 };
        }
        if values > 0 {
            self.placeholders += values;
            self.raw = [0, 1].map(|back| self.out.last(back).unwrap_or(NOTHING));
        }
    }

    /// A list of `values` ends before a word, as in `(1,2,NULL`: at least its shortened form stays, because groups are
    /// only merged if they contain nothing else.
    fn note_lasting(&mut self, values: usize, rest: &[u8]) {
        let word = matches!(rest, [b'a'..=b'z' | b'A'..=b'Z', byte, ..] if is_name_byte(*byte));
        if word && !self.options.replace_null {
            let limit = self.options.grouping_limit;
            self.lasting += values.min(limit + 1) * 2;
        }
    }

    /// Removes the blank if there must be none before `byte`.
    fn trim_before(&mut self, byte: u8) {
        if !self.ends_with_blank() {
            return;
        }
        match byte {
            b',' | b')' => self.pop_blank(),
            _ if is_operator(byte) && self.out.last(1) == Some(b'?') => self.pop_blank(),
            _ => {}
        }
    }

    /// From here to the end of the word, and further over words separated by single blanks: none of this needs to be
    /// changed later.
    #[inline]
    fn word(&mut self, first: u8) {
        let rest = self.query.get(self.at..).unwrap_or_default();
        let null = if self.options.replace_null { b'n' } else { 0 };
        let mut length = 1;
        while let Some(&byte) = rest.get(length) {
            if !is_name_byte(byte) {
                let begins_word =
                    |next: &u8| (next.is_ascii_alphabetic() || *next == b'_') && *next | 0x20 != null;
                if byte != b' ' || !rest.get(length + 1).is_some_and(begins_word) {
                    break;
                }
            }
            length += 1;
        }
        self.word_bytes(first, length.min(self.limit - self.out.length));
    }

    /// Writes the next `length` bytes unchanged, except as the options require.
    fn word_bytes(&mut self, first: u8, length: usize) {
        // A single letter may be read as the last value of a list.
        if !self.options.no_digits && length > 1 {
            self.lasting += length;
        }
        let rest = self.query.get(self.at..).unwrap_or_default();
        let word = rest.get(..length).unwrap_or_default();
        if self.options.no_digits || self.options.lowercase {
            self.changed_word(word);
        } else {
            self.settle_sign(Some(first));
            self.out.extend(rest, length);
            self.raw = match *word {
                [.., before, last] => [last, before],
                _ => [first, self.raw[0]],
            };
        }
        self.at += length;
    }

    /// Writes `word` in lower case, or with `?` for each run of digits, as the options say.
    fn changed_word(&mut self, word: &[u8]) {
        let mut before = self.before().unwrap_or_default();
        for &byte in word {
            if !self.options.no_digits || !byte.is_ascii_digit() {
                self.emit(if self.options.lowercase { byte.to_ascii_lowercase() } else { byte });
            } else if !before.is_ascii_digit() {
                self.emit(b'?');
            }
            before = byte;
        }
    }

    /// An unterminated string is dropped, and nothing follows.
    fn string(&mut self, quote: u8) {
        let mut at = self.at + 1;
        loop {
            let rest = self.query.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr2(quote, b'\\', rest) else {
                self.at = self.query.len();
                return;
            };
            // A backslash escapes the next byte, a doubled quote is part of the string.
            let hides = rest.get(found) == Some(&b'\\') || rest.get(found + 1) == Some(&quote);
            at += found + 1 + usize::from(hides);
            if !hides {
                break;
            }
        }
        self.at = at;
        self.placeholder();
    }

    fn number(&mut self) {
        let rest = self.query.get(self.at..).unwrap_or_default();
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if matches!(rest.get(digits), Some(b',' | b')' | b' ')) {
            // The simple case, decided at once.
            self.placeholder();
            self.at += digits;
            return;
        }
        let mut length = number_like(rest);
        let mut run = rest.get(..length).unwrap_or_default();
        if let (true, [head @ .., last]) = (length == rest.len() && length > 1, run) {
            // At the very end of the statement the last byte is not read.
            run = head;
            length -= usize::from(!is_name_byte(*last));
        }
        if is_number(run) {
            self.placeholder();
            self.at += length;
        } else {
            self.not_a_number(length);
        }
    }

    /// Writes `length` bytes that begin with a digit but are not a number.
    fn not_a_number(&mut self, length: usize) {
        let end = self.at + length;
        while self.at < end
            && let Some(byte) = self.byte(self.at)
        {
            match byte {
                _ if is_name_byte(byte) => self.word_bytes(byte, 1),
                _ => self.copy(byte),
            }
        }
    }

    fn begins_dash_comment(&self) -> bool {
        self.byte(self.at + 1) == Some(b'-')
            && matches!(self.byte(self.at + 2), Some(b' ' | b'\t' | b'\n' | b'\r'))
            && self.before() != Some(b'-')
    }

    fn line_comment(&mut self, from: usize) {
        let rest = self.query.get(from..).unwrap_or_default();
        self.at = memchr::memchr2(b'\n', b'\r', rest).map_or(self.query.len(), |length| from + length + 1);
    }

    fn comment(&mut self) {
        let Some((start, end)) = self.comment_body() else { return };
        self.at = end + 2;
        let (executable, body) = match self.query.get(start..end).unwrap_or_default() {
            [b'!', code @ ..] => (true, code),
            body => (false, body),
        };
        // If it begins with a version number, its text follows that; without text it is dropped.
        let text = body.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b' '));
        let text = text.and_then(|from| body.get(from..));
        if self.options.keep_comment && text.is_some() {
            for part in [b"/*", body, b"*/"] {
                self.copy_raw(part);
            }
            self.blank();
            self.unjoined = self.out.length;
            return;
        }
        if let (true, Some(text)) = (executable, text) {
            self.copy_raw(text);
        }
        self.blank();
    }

    /// The position of the text of the comment that begins here. A `/*` inside starts it again. If it is not
    /// terminated, everything but a single byte is skipped.
    fn comment_body(&mut self) -> Option<(usize, usize)> {
        let mut start = self.at + 2;
        let mut at = start;
        loop {
            let rest = self.query.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr(b'*', rest) else {
                let only = self.query.get(start..);
                self.at = self.query.len();
                if let Some([byte @ 1..=u8::MAX]) = only {
                    self.trim_before(*byte);
                    self.emit(*byte);
                }
                return None;
            };
            let star = at + found;
            if star > start && self.byte(star - 1) == Some(b'/') {
                start = star + 1;
            } else if self.byte(star + 1) == Some(b'/') {
                return Some((start, star));
            }
            at = star + 1;
        }
    }

    /// Copies the text of a comment: blanks stay, and the rules for commas, operators and digits apply.
    fn copy_raw(&mut self, text: &[u8]) {
        let mut before = 0u8;
        for &byte in text {
            match byte {
                // For other programs a digest is a C string.
                0 => {}
                b' ' if matches!(self.out.last(0), Some(b',' | b'(')) => {}
                b'0'..=b'9' if self.options.no_digits => {
                    if !before.is_ascii_digit() {
                        self.emit(b'?');
                    }
                }
                _ => {
                    self.trim_before(byte);
                    self.emit(byte);
                }
            }
            before = byte;
        }
    }

    fn is_null(&self) -> bool {
        let word = self.query.get(self.at..self.at + 4).unwrap_or_default();
        let ends = !self.byte(self.at + 4).is_some_and(is_name_byte);
        word.eq_ignore_ascii_case(b"NULL") && !self.in_word() && ends
    }
}

/// Whether a sign after `before` (the nearest byte first) and before `after` is dropped.
///
/// After a word and a blank always (`SELECT -a` gives `SELECT a`), after an operator, bracket or comma if a placeholder
/// or a blank follows (`= -1` gives `= ?`).
fn drops_sign([near, far]: [u8; 2], after: Option<u8>) -> bool {
    if near == b' ' && (is_name_byte(far) || far == b'`') {
        return true;
    }
    let before = if near == b' ' { far } else { near };
    matches!(after, Some(b'?' | b' ')) && !is_name_byte(before) && !matches!(before, b'?' | b')')
}

/// The length of the longest run that looks like a number: name bytes, dots, and the sign of an exponent.
fn number_like(rest: &[u8]) -> usize {
    let mut before = 0u8;
    let ends = |byte: &u8| {
        let exponent_sign = is_sign(*byte) && matches!(before, b'e' | b'E');
        before = *byte;
        !is_name_byte(*byte) && *byte != b'.' && !exponent_sign
    };
    rest.iter().position(ends).unwrap_or(rest.len())
}

/// Whether a run that begins with a digit counts as a number.
fn is_number(run: &[u8]) -> bool {
    if let [b'0', b'x' | b'X', digits @ ..] = run {
        return digits.iter().all(u8::is_ascii_hexdigit);
    }
    run.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
}

fn is_sign(byte: u8) -> bool {
    matches!(byte, b'+' | b'-')
}

fn is_operator(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b'*' | b'/' | b'%')
}

/// Letters, digits, `_` and `$`. For ProxySQL, non-ASCII bytes are not letters.
fn is_name_byte(byte: u8) -> bool {
    byte < 0x80 && is_word_byte(byte)
}

/// The text being written: the beginning of a buffer that is always longer than any text, so that short words can be
/// copied many bytes at a time.
struct Output<'a> {
    buffer: &'a mut Vec<u8>,
    length: usize,
}

/// How many bytes are copied at once.
const STRIDE: usize = 32;

impl<'a> Output<'a> {
    /// Begins an empty text that will have about `limit` bytes.
    fn new(buffer: &'a mut Vec<u8>, limit: usize) -> Output<'a> {
        if buffer.len() < limit + STRIDE {
            buffer.resize(limit + STRIDE, 0);
        }
        Output { buffer, length: 0 }
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        match self.buffer.get_mut(self.length) {
            Some(slot) => *slot = byte,
            None => self.buffer.push(byte),
        }
        self.length += 1;
    }

    #[inline]
    fn pop(&mut self) {
        self.length = self.length.saturating_sub(1);
    }

    /// The byte written `back` bytes before the last one.
    #[inline]
    fn last(&self, back: usize) -> Option<u8> {
        self.length.checked_sub(back + 1).and_then(|at| self.buffer.get(at)).copied()
    }

    /// Writes the first `length` bytes of `from`, which may be longer.
    #[inline]
    fn extend(&mut self, from: &[u8], length: usize) {
        let to = self.buffer.get_mut(self.length..).and_then(|rest| rest.first_chunk_mut::<STRIDE>());
        match (to, from.first_chunk::<STRIDE>()) {
            (Some(to), Some(from)) if length <= STRIDE => *to = *from,
            _ => self.extend_slowly(from.get(..length).unwrap_or_default()),
        }
        self.length += length;
    }

    /// Writes the first `length` of four bytes.
    #[inline]
    fn extend_four(&mut self, bytes: [u8; 4], length: usize) {
        match self.buffer.get_mut(self.length..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            Some(to) => {
                *to = bytes;
                self.length += length;
            }
            None => bytes.iter().take(length).for_each(|byte| self.push(*byte)),
        }
    }

    fn extend_slowly(&mut self, from: &[u8]) {
        let end = self.length + from.len();
        if self.buffer.len() < end + STRIDE {
            self.buffer.resize(end + STRIDE, 0);
        }
        if let Some(to) = self.buffer.get_mut(self.length..end) {
            to.copy_from_slice(from);
        }
    }
}

//! Lists of values, eight bytes at a time: the bytes are examined in parallel within one machine word.

use super::LOWER;

/// The high bit of every byte.
const HIGH: u64 = 0x8080_8080_8080_8080;
/// The value one in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// How many of the eight bytes, counted from the first, are digits or separate values: `0-9 . , ( ) +`.
///
/// These are the bytes from `(` to `9` except `*`, `-` and `/`, which may begin a comment or belong to an expression.
#[inline]
pub(crate) fn length(word: u64) -> usize {
    // Each of these has the high bit set in every byte that is not one of these; only the lowest such bit counts, and
    // below it no byte has borrowed from the next.
    let below = !((word | HIGH).wrapping_sub(ONES * 0x28));
    let above = (word & !HIGH).wrapping_add(ONES * (0x7f - 0x39));
    let others = zeros(word ^ (ONES * 0x2a)) | zeros(word ^ (ONES * 0x2d)) | zeros(word ^ (ONES * 0x2f));
    ((word | below | above | others) & HIGH).trailing_zeros() as usize / 8
}

/// How many of the eight bytes, counted from the first, are letters or blanks. A `!` after a blank may count as another blank.
#[inline]
pub(crate) fn letters_and_blanks(word: u64) -> usize {
    let lower = word | LOWER;
    let below = !((lower | HIGH).wrapping_sub(ONES * 0x61));
    let above = (lower & !HIGH).wrapping_add(ONES * (0x7f - 0x7a));
    let blanks = zeros(word ^ (ONES * 0x20));
    ((word | below | above) & HIGH & !blanks).trailing_zeros() as usize / 8
}

/// The high bit of the lowest byte that is zero, and possibly of some above it.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// The position of the last `,` or `(` in these few bytes.
#[inline]
pub(crate) fn last_separator(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| matches!(byte, b',' | b'('))
}

/// Whether there is nothing but blanks.
#[inline]
pub(crate) fn only_blanks(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r'))
}

/// How many bytes [`quote_or_backslash`] examines.
pub(crate) const SHORT: usize = 24;

/// The position of the first `quote` or backslash in the first [`SHORT`] bytes.
#[inline]
pub(crate) fn quote_or_backslash(bytes: &[u8], quote: u8) -> Option<usize> {
    let (words, rest) = bytes.get(..SHORT).unwrap_or(bytes).as_chunks::<8>();
    let quotes = ONES * u64::from(quote);
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ quotes) | zeros(word ^ (ONES * 0x5c));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| *byte == quote || *byte == b'\\')?;
    Some(words.len() * 8 + found)
}

/// The length of a number or string followed by a `,` or `)` and without anything special: no exponent, no backslash,
/// no doubled quote. Most of a long `INSERT` consists of these.
#[inline]
pub(crate) fn plain_literal(rest: &[u8]) -> Option<usize> {
    let length = match *rest.first()? {
        quote @ (b'\'' | b'"') => plain_string(rest, quote)?,
        b'0'..=b'9' => rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.'))?,
        _ => return None,
    };
    matches!(rest.get(length), Some(b',' | b')')).then_some(length)
}

/// The length of a `NULL` followed by a `,` or `)`.
#[inline]
pub(crate) fn plain_null(rest: &[u8]) -> Option<usize> {
    let (word, after) = rest.split_first_chunk::<4>()?;
    let null = (u32::from_le_bytes(*word) | 0x2020_2020) == u32::from_le_bytes(*b"null");
    (null && matches!(after.first(), Some(b',' | b')'))).then_some(4)
}

/// The length of the string at the start of `rest`, up to the first quote or backslash; `None` if that is not a quote.
#[inline]
fn plain_string(rest: &[u8], quote: u8) -> Option<usize> {
    let body = rest.get(1..)?;
    let length = match quote_or_backslash(body, quote) {
        Some(length) => length,
        // Short strings end before a vector search has started.
        None => SHORT + memchr::memchr2(quote, b'\\', body.get(SHORT..)?)?,
    };
    (body.get(length) == Some(&quote)).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_in_every_place_is_told_apart() {
        for byte in 0..=u8::MAX {
            let ours = matches!(byte, b'0'..=b'9' | b'.' | b',' | b'(' | b')' | b'+');
            for place in 0..8 {
                for around in [b'0', b',', b'9', b'('] {
                    let mut bytes = [around; 8];
                    bytes[place] = byte;
                    let expected = if ours { 8 } else { place };
                    assert_eq!(length(u64::from_le_bytes(bytes)), expected, "{byte} at {place}");
                }
            }
        }
    }

    #[test]
    fn letters_and_blanks_are_told_from_other_bytes() {
        for byte in 0..=u8::MAX {
            let ours = byte.is_ascii_alphabetic() || byte == b' ';
            for place in 0..8 {
                for around in [b'a', b'Z', b'm'] {
                    let mut bytes = [around; 8];
                    bytes[place] = byte;
                    let expected = if ours { 8 } else { place };
                    assert_eq!(letters_and_blanks(u64::from_le_bytes(bytes)), expected, "{byte} at {place}");
                }
            }
            let after_blank = letters_and_blanks(u64::from_le_bytes([b'a', b' ', byte, b'b', b'(', 0, 0, 0]));
            assert_eq!(after_blank, if ours || byte == b'!' { 4 } else { 2 }, "{byte} after a blank");
        }
    }

    #[test]
    fn quotes_are_found_where_they_are() {
        for text in
            ["", "'", "abc'", "abcdefg'h", "abcdefgh'", "abcdefghijklmnopqrstuvw'", r"ab\'", "abcdefghij\\"]
        {
            let found = text.bytes().position(|byte| byte == b'\'' || byte == b'\\');
            assert_eq!(quote_or_backslash(text.as_bytes(), b'\''), found, "{text}");
        }
        assert_eq!(quote_or_backslash(&[b'a'; 100], b'"'), None);
    }
}

//! Words anywhere in a text, including strings, comments and longer words: for questions where a false yes does no
//! harm. And the words of a statement, outside of strings and comments.

use crate::token::{Escapes, Lexer, TokenKind, is_word_byte};

/// Whether a text has `word` somewhere, in upper or lower case.
pub(crate) fn says(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

/// Whether a backslash is anywhere in a text.
#[must_use]
pub fn has_backslash(query: &[u8]) -> bool {
    memchr::memchr(b'\\', query).is_some()
}

/// Whether a text has one of these names somewhere.
#[must_use]
pub fn names_any(query: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| says(query, name.as_bytes()))
}

/// Whether `name` is in a list, in any case.
pub(crate) fn is_in(list: &[&str], name: &[u8]) -> bool {
    list.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Keywords and names without quotes, in order. Comments have none.
pub fn bare_words(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let tokens = std::iter::from_fn(move || Some(lexer.next()).filter(|token| token.kind != TokenKind::End));
    tokens.filter(|token| token.kind == TokenKind::Word).map(|token| token.text)
}

/// Whether the word `KILL` is anywhere in a text, even in a string or a comment.
#[must_use]
pub fn names_kill(query: &[u8]) -> bool {
    let is_letter = |place: Option<usize>| {
        place.and_then(|place| query.get(place)).is_some_and(|byte| byte.is_ascii() && is_word_byte(*byte))
    };
    let mut words = query.windows(4).enumerate();
    words.any(|(at, word)| {
        word.eq_ignore_ascii_case(b"kill") && !is_letter(at.checked_sub(1)) && !is_letter(Some(at + 4))
    })
}

/// Whether its letters appear somewhere, possibly with backslashes between them, which disappear in a literal.
pub(crate) fn spells_kill(text: &[u8]) -> bool {
    let mut letters = text.iter().filter(|byte| **byte != b'\\').map(u8::to_ascii_lowercase);
    let mut last = [0; 4];
    letters.any(|letter| {
        last = [last[1], last[2], last[3], letter];
        last == *b"kill"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_word_anywhere_in_any_case() {
        assert!(says(b"ALTER TABLE t /* ReName */ 'x'", b"rename"));
        assert!(says(b"renamed", b"rename"));
        assert!(!says(b"ren ame", b"rename"));
        assert!(!says(b"", b"rename"));
    }

    #[test]
    fn bare_words_are_in_no_string_and_no_comment() {
        let words: Vec<_> = bare_words(b"create/* or */VIEW `a b` as select 'x' -- y\n, @z, c1").collect();
        assert_eq!(words, [&b"create"[..], b"VIEW", b"as", b"select", b"c1"]);
        assert!(
            names_any(b"SELECT @@Rand_Seed1", &["other", "rand_seed1"]) && !names_any(b"SELECT 1", &["a"])
        );
    }

    #[test]
    fn finds_kill_as_a_word_and_as_letters() {
        for text in ["KILL 5", "/* kill */", "'x;kill'"] {
            assert!(names_kill(text.as_bytes()) && spells_kill(text.as_bytes()), "{text}");
        }
        assert!(!names_kill(b"skill") && !names_kill(b"kills") && !names_kill(b"KI\\LL"));
        assert!(spells_kill(b"KI\\LL 5") && !spells_kill(b"K ILL"));
    }
}

//! What a byte can begin, and what it can belong to.

/// What a byte can begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Symbol,
    Space,
    Word,
    Digit,
    Quote,
    /// Needs a look at the next byte: `` ` @ # - / * ``.
    Special,
}

/// Whether `byte` continues a word: letters, digits, `_`, `$` and all non-ASCII bytes.
#[inline]
pub(crate) fn is_word_byte(byte: u8) -> bool {
    matches!(class_of(byte), Class::Word | Class::Digit)
}

#[inline]
pub(super) fn class_of(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Symbol)
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Symbol; 256];
    let mut byte = 0u8;
    loop {
        #[allow(clippy::indexing_slicing)] // Evaluated at compile time; a byte is always below 256.
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

/// Whether `--` followed by this byte begins a comment.
pub(super) fn is_blank_or_control(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7F
}

/// How many blanks `rest` begins with.
#[inline]
pub(crate) fn blanks(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count()
}

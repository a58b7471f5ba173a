//! The contents of quotes, and their meaning. See "String Literals" in the MySQL manual.

use super::Escapes;

/// Removes the quotes of a quoted name or string and undoes what quoting did. Bare text is returned unchanged.
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

/// The quote of `text`, and what is between it and the closing quote.
pub(crate) fn quoted_body(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [quote @ (b'\'' | b'"' | b'`'), body @ .., last] if quote == last => Some((*quote, body)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquotes() {
        assert_eq!(unquote(br"'it\'s a''b\n'"), b"it's a'b\n");
        assert_eq!(unquote(b"`a``b`"), b"a`b");
        assert_eq!(unquote(b"plain"), b"plain");
    }
}

//! The fields of a query string or of a form, and texts for links.

use std::fmt::Write;

/// Names and values, decoded.
#[derive(Debug, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads the format that browsers send forms in (`application/x-www-form-urlencoded`). What is not UTF-8 becomes
    /// replacement characters.
    pub fn read(encoded: &str) -> Fields {
        let pairs = encoded.split('&').filter(|pair| !pair.is_empty()).take(MOST_FIELDS);
        Fields(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// The first value with that name; empty if there is none.
    pub fn value(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let (byte, left) = match (first, behind.split_first_chunk::<2>()) {
            (b'+', _) => (b' ', behind),
            (b'%', Some((digits, left))) => match hexadecimal(digits) {
                Some(byte) => (byte, left),
                None => (b'%', behind),
            },
            (byte, _) => (*byte, behind),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hexadecimal(digits: &[u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}

/// A text as a value in a link.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
    out
}

/// No page has as many.
const MOST_FIELDS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let fields = Fields::read("q=a+b%26c&empty=&flag&q=second&&bad=%zz%4&utf=%C3%A9%FF");
        assert_eq!(fields.value("q"), "a b&c");
        assert_eq!((fields.value("empty"), fields.value("flag"), fields.value("none")), ("", "", ""));
        assert_eq!(fields.value("bad"), "%zz%4");
        assert_eq!(fields.value("utf"), "é\u{fffd}");
        assert_eq!(Fields::read(&"a&".repeat(1_000)).0.len(), MOST_FIELDS);
    }

    #[test]
    fn what_is_encoded_comes_back() {
        for text in ["SELECT '<a>&\"' + 1 # % \\ é \0\r\n", "", "a=b&c=d"] {
            let link = encoded(text);
            assert!(link.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~%".contains(c)), "{link}");
            assert_eq!(Fields::read(&format!("x={link}")).value("x"), text);
        }
    }
}

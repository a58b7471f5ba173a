//! Annotations in the first comment of a statement: `/* hostgroup=1; cache_ttl=500 */`.
//!
//! This file only finds and splits them. The rules decide which keys have a meaning.

use crate::token::{Escapes, Lexer};

/// The pairs in the first `/* */` comment of `query`, in their original order.
///
/// Executable comments and optimizer hints count as comments here, as they do in ProxySQL.
#[must_use]
pub fn annotations(query: &[u8]) -> Annotations<'_> {
    // Hardly any statement has a comment; finding that out must cost nothing.
    let rest = match memchr::memmem::find(query, b"/*") {
        Some(_) => Lexer::new(query, Escapes::Backslash).first_comment().unwrap_or_default(),
        None => &[],
    };
    Annotations { rest }
}

/// Iterates over `(key, value)`; see [`annotations`]. Pairs end with `;` alone, and parts without a value are left out.
/// Several `=` count as one, and anything after a second value is left out, as in ProxySQL.
#[derive(Clone, Debug)]
pub struct Annotations<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Annotations<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let length = memchr::memchr(b';', self.rest).unwrap_or(self.rest.len());
            let (part, rest) = self.rest.split_at_checked(length)?;
            self.rest = rest.get(1..).unwrap_or_default();
            let mut words = part.split(|byte| *byte == b'=').filter(|word| !word.is_empty());
            if let (Some(key), Some(value)) = (words.next(), words.next())
                && !key.trim_ascii().is_empty()
            {
                return Some((key.trim_ascii(), value.trim_ascii()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        annotations(query.as_bytes()).map(|(key, value)| (text(key), text(value))).collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn reads_pairs_of_the_first_comment() {
        assert_eq!(
            pairs("/* hostgroup=1; cache_ttl = 500 */ SELECT 1"),
            [pair("hostgroup", "1"), pair("cache_ttl", "500")]
        );
        assert_eq!(pairs("SELECT /*;hostgroup=2;*/ 1 /* hostgroup=3 */"), [pair("hostgroup", "2")]);
        assert_eq!(pairs("SELECT /*+ mirror=4 */ 1"), [pair("mirror", "4")]);
        assert_eq!(pairs("/*!hostgroup=5*/"), [pair("hostgroup", "5")]);
        assert_eq!(
            pairs("/* hostgroup=0, trace=77;=a==b=c;;d=; e; =f=1 */"),
            [pair("hostgroup", "0, trace"), pair("a", "b")]
        );
    }

    #[test]
    fn ignores_text_that_is_no_comment() {
        assert!(pairs("SELECT '/* hostgroup=1 */'").is_empty());
        assert!(pairs("-- /* hostgroup=1 */\nSELECT 1").is_empty());
        assert!(pairs("SELECT 1 /* plain */ /* hostgroup=1 */").is_empty());
        assert!(pairs("SELECT 1 /* hostgroup=1").is_empty());
    }
}

//! Digest text: a statement with its literals replaced by `?`, equal to what ProxySQL 2.7 makes of it.

use crate::token::{Escapes, Lexer, TokenKind};

/// How digest text is made; the `mysql-query_digests_*` variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestOptions {
    /// Bytes of the statement that are looked at.
    pub max_query_length: usize,
    /// Bytes of digest text at most.
    pub max_digest_length: usize,
    /// Literals of a list that are kept before `...`.
    pub grouping_limit: usize,
    /// Groups of literals that are kept before `...`; 0 keeps all.
    pub groups_grouping_limit: usize,
    /// Fold the whole text to lower case.
    pub lowercase: bool,
    /// Replace `NULL` by `?`.
    pub replace_null: bool,
    /// Replace digits in names by `?`.
    pub no_digits: bool,
    /// Keep `/* */` comments.
    pub keep_comment: bool,
}

impl Default for DigestOptions {
    fn default() -> DigestOptions {
        DigestOptions {
            max_query_length: 65_000,
            max_digest_length: 2_048,
            grouping_limit: 3,
            groups_grouping_limit: 10,
            lowercase: false,
            replace_null: false,
            no_digits: false,
            keep_comment: false,
        }
    }
}

/// Reusable buffers, so that making digest text allocates nothing once warm.
#[derive(Debug, Default)]
pub struct Scratch {
    text: Vec<u8>,
}

impl Scratch {
    /// Empty buffers; they grow with use.
    #[must_use]
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

/// Makes the digest text of `query` in `scratch`.
pub fn digest_text<'s>(query: &[u8], options: &DigestOptions, scratch: &'s mut Scratch) -> &'s [u8] {
    let query = query.get(..options.max_query_length).unwrap_or(query);
    scratch.text.clear();
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let mut end = 0;
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            break;
        }
        if token.start > end && !scratch.text.is_empty() && !matches!(token.text, b"," | b")") {
            scratch.text.push(b' ');
        }
        end = token.end();
        match token.kind {
            TokenKind::Number | TokenKind::Text => scratch.text.push(b'?'),
            _ => scratch.text.extend_from_slice(token.text),
        }
    }
    scratch.text.truncate(options.max_digest_length);
    &scratch.text
}

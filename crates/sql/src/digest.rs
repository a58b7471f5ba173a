//! Digest text: a statement with its literals replaced by `?`, equal to ProxySQL 2.7's digest text.
//!
//! Rules, whitelists and exported statistics name statements by this text and its hash, so ProxySQL's behaviour is
//! reproduced, including its oddities; `docs/compatibility.md` lists the differences. Two passes: `plain.rs` removes
//! comments and replaces literals, `group.rs` shortens lists. The second one is skipped if there is nothing to shorten.

mod group;
mod plain;

use plain::Plain;

/// How digest text is made; the `mysql-query_digests_*` variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestOptions {
    /// How many bytes of the statement are read.
    pub max_query_length: usize,
    /// The maximum length of digest text in bytes.
    pub max_digest_length: usize,
    /// How many literals of a list are kept before `...`.
    pub grouping_limit: usize,
    /// How many groups of literals are kept before `...`; 0 keeps all.
    pub groups_grouping_limit: usize,
    /// Convert the whole text to lower case.
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

/// Reusable buffers, so that computing digest text allocates nothing once warm.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The text with literals replaced.
    plain: Vec<u8>,
    /// The text with lists shortened.
    grouped: Vec<u8>,
    /// One shortened list, to search for.
    pattern: Vec<u8>,
    /// The last text does not represent its whole statement.
    cut: bool,
}

impl Scratch {
    /// Empty buffers; they grow with use, to about [`DigestOptions::max_query_length`] each.
    #[must_use]
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Whether the last digest text does not represent its whole statement, because one of the two was longer than the
    /// options allow, or because the statement has a zero byte.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

/// Computes the digest text of `query` in `scratch`.
pub fn digest_text<'s>(query: &[u8], options: &DigestOptions, scratch: &'s mut Scratch) -> &'s [u8] {
    let Scratch { plain, grouped, pattern, cut } = scratch;
    let (length, placeholders, read) = Plain::new(query, options, plain).run();
    let plain_text = plain.get(..length).unwrap_or_default();
    let shortened = placeholders >= options.grouping_limit.saturating_add(2)
        && group::shorten_lists(plain_text, options, grouped);
    // Each list of a group still has `grouping_limit` placeholders.
    let needed = options.grouping_limit.saturating_mul(options.groups_grouping_limit);
    let text = if options.groups_grouping_limit > 0 && placeholders > needed {
        let text = if shortened { grouped } else { plain };
        if !shortened {
            text.truncate(length);
        }
        group::shorten_groups(text, options, pattern);
        text.as_slice()
    } else if shortened {
        grouped
    } else {
        plain.get(..length).unwrap_or_default()
    };
    *cut = read < query.len() || text.len() > options.max_digest_length;
    text.get(..options.max_digest_length).unwrap_or(text)
}

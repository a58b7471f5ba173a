//! Second pass: a long list of literals becomes `?,?,?,...`, a long row of such lists becomes `(?,?,?,...),...`.

use super::DigestOptions;

/// Writes `plain` to `out` with its long lists shortened. Returns false, and writes nothing, if it has none.
///
/// Only lists in parentheses count, and only up to the first `)`: in `(NOW(),?,?,?,?,?)` none is shortened. A list is a
/// run of `?,`; the last value may be any single byte before a `)`, as in `(?,?,?,?,a)`. It is shortened if it has at
/// least two values more than the limit.
pub(super) fn shorten_lists(plain: &[u8], options: &DigestOptions, out: &mut Vec<u8>) -> bool {
    out.clear();
    let byte = |at: usize| plain.get(at).copied();
    let mut written = 0;
    let mut inside = false;
    let mut at = 0;
    while let Some(current) = byte(at) {
        match current {
            b'(' => inside = true,
            b')' => inside = false,
            b'?' if inside && !follows_operator(plain, at) => {
                let (values, end) = list(plain, at);
                if values >= options.grouping_limit.saturating_add(2) {
                    out.extend_from_slice(plain.get(written..at).unwrap_or_default());
                    (0..options.grouping_limit).for_each(|_| out.extend_from_slice(b"?,"));
                    out.extend_from_slice(b"...");
                    written = end;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    if written > 0 {
        out.extend_from_slice(plain.get(written..).unwrap_or_default());
    }
    written > 0
}

/// In `?+?,?` the second `?` does not begin a list.
fn follows_operator(plain: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| plain.get(before));
    matches!(before, Some(b'+' | b'-' | b'*' | b'/' | b'%'))
}

/// How many values the list that begins at the `?` at `at` has, and the offset after its last value.
fn list(plain: &[u8], at: usize) -> (usize, usize) {
    let rest = plain.get(at..).unwrap_or_default();
    let pairs = rest.as_chunks::<2>().0.iter().take_while(|pair| **pair == *b"?,").count();
    let end = at + 2 * pairs;
    match plain.get(end..end + 2) {
        Some([last, b')']) if *last != b')' => (pairs + 1, end + 1),
        // The comma before `end` belongs to what follows.
        _ => (pairs, if pairs == 0 { at + 1 } else { end - 1 }),
    }
}

/// Keeps the first `groups_grouping_limit` of several shortened lists in a row and writes `...` for the others.
pub(super) fn shorten_groups(text: &mut Vec<u8>, options: &DigestOptions, pattern: &mut Vec<u8>) {
    pattern.clear();
    pattern.push(b'(');
    (0..options.grouping_limit).for_each(|_| pattern.extend_from_slice(b"?,"));
    pattern.extend_from_slice(b"...)");
    let finder = memchr::memmem::Finder::new(pattern);
    let mut from = 0;
    while let Some(found) = finder.find(text.get(from..).unwrap_or_default()) {
        let mut end = from + found + pattern.len();
        let mut groups = 1;
        let mut kept = end;
        while text
            .get(end..)
            .unwrap_or_default()
            .strip_prefix(b",")
            .is_some_and(|next| next.starts_with(pattern))
        {
            end += 1 + pattern.len();
            groups += 1;
            if groups == options.groups_grouping_limit {
                kept = end;
            }
        }
        if groups > options.groups_grouping_limit {
            const MORE: &[u8; 4] = b",...";
            // A comma after the last group is removed too: ProxySQL's recorded digest of `(..),(..),1` is `(..),...?`.
            end += usize::from(text.get(end) == Some(&b','));
            text.splice(kept..end, *MORE);
            end = kept + MORE.len();
        }
        from = end;
    }
}

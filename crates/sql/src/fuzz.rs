//! What must hold for any bytes. Property tests and fuzz targets call these functions; each panics if its promise is
//! broken.

use crate::set::Assignment;
use crate::{
    DigestOptions, Escapes, Flags, Kind, Scratch, annotations, classify, classify_with, digest_hash,
    digest_text, kill_target, set, statements, use_schema,
};

/// Digest text keeps its limits with any options, and is the same with a used scratch.
pub fn digest(query: &[u8], options: &DigestOptions, used: &mut Scratch) {
    let mut fresh = Scratch::new();
    let text = digest_text(query, options, used);
    assert!(text.len() <= options.max_digest_length);
    assert!(!text.contains(&0));
    assert_eq!(text, digest_text(query, options, &mut fresh));
    let _ = digest_hash(query);
}

/// A text of several statements is flagged, and the reading of backslashes only matters if that is flagged.
pub fn classification(query: &[u8]) {
    let found = classify(query);
    if found.flags.contains(Flags::UNSURE) {
        // How servers read it is not known, so nothing is promised about another reading.
        assert_eq!(found.kind, Kind::Call);
        return;
    }
    if statements(query, Escapes::Backslash).nth(1).is_some() {
        assert!(found.flags.contains(Flags::MULTI));
    }
    if !found.flags.contains(Flags::ESCAPED_QUOTE) {
        let mut other = classify_with(query, Escapes::None);
        other.flags = other.flags.without(Flags::ESCAPED_QUOTE | Flags::ESCAPED_DOUBLE_QUOTE);
        assert_eq!(found, other);
    }
    for part in statements(query, Escapes::Backslash) {
        assert!(part.len() <= query.len());
    }
}

/// Whatever a parser for one kind of statement accepts is classified as that kind, and is a single statement.
pub fn parsers(query: &[u8]) {
    let found = classify(query);
    if found.flags.contains(Flags::UNSURE) {
        return;
    }
    if use_schema(query).is_some() {
        assert_eq!(found.kind, Kind::Use);
        assert!(!found.flags.contains(Flags::MULTI));
    }
    if kill_target(query).is_some() {
        assert_eq!(found.kind, Kind::Kill);
        assert!(!found.flags.contains(Flags::MULTI));
    }
    match set::parse(query).as_deref() {
        Ok([Assignment::Statement { offset, .. }]) => {
            assert_eq!(found.kind, Kind::SetStatement);
            assert!(*offset <= query.len());
        }
        Ok([Assignment::Transaction { .. }]) => assert_eq!(found.kind, Kind::SetTransaction),
        Ok([Assignment::Other(_)]) => assert_eq!(found.kind, Kind::Set),
        Ok(assignments) => {
            assert!(!assignments.is_empty());
            assert_eq!(found.kind, Kind::Set);
            assert!(!found.flags.contains(Flags::MULTI));
        }
        Err(_) => {}
    }
}

/// Annotations lie inside the statement.
pub fn comments(query: &[u8]) {
    for (key, value) in annotations(query) {
        assert!(key.len() + value.len() < query.len());
    }
}

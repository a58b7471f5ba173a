//! `FOUND_ROWS()`.

use super::Left;

/// What `FOUND_ROWS()` answers, and who knows.
#[derive(Debug, Default)]
pub(in super::super) enum FoundRows {
    /// Nothing was found yet: 0.
    #[default]
    Unknown,
    /// The protocol told it. `by_last`: the last statement set it, so that the connection which ran it answers the same.
    Known { rows: u64, by_last: bool },
    /// The leased connection knows.
    Here,
    /// A connection that was returned knows.
    Left(Left),
}

impl FoundRows {
    /// A statement ran. `found`: what its answer told; `only_here`: it has set the value, and its answer does not tell.
    pub(super) fn after_statement(&mut self, found: Option<u64>, only_here: bool) {
        match (found, &mut *self) {
            (Some(rows), _) => *self = FoundRows::Known { rows, by_last: true },
            (None, _) if only_here => *self = FoundRows::Here,
            (None, FoundRows::Known { by_last, .. }) => *by_last = false,
            (None, _) => {}
        }
    }

    /// Whether the value must be put into a statement even if the connection ran the last one: that did not set it.
    pub(super) fn is_stale(&self) -> bool {
        !matches!(self, FoundRows::Here | FoundRows::Known { by_last: true, .. })
    }

    pub(super) fn leave(&mut self, left: &Left) {
        if let FoundRows::Here = self {
            *self = FoundRows::Left(left.clone());
        }
    }

    pub(super) fn meet(&mut self, is_there: impl Fn(&Left) -> bool) {
        match self {
            FoundRows::Left(left) if is_there(left) => *self = FoundRows::Here,
            FoundRows::Here => *self = FoundRows::Unknown,
            _ => {}
        }
    }

    pub(super) fn forget_here(&mut self) {
        if let FoundRows::Here = self {
            *self = FoundRows::Unknown;
        }
    }
}

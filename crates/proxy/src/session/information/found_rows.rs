//! `FOUND_ROWS()`.

use super::Left;

/// The value of `FOUND_ROWS()`, and where it is.
#[derive(Debug, Default)]
pub(in super::super) enum FoundRows {
    /// No rows were counted yet: 0.
    #[default]
    Unknown,
    /// The protocol reported it. `by_last`: the last statement set it, so that the connection that ran it has the same value.
    Known { rows: u64, by_last: bool },
    /// On the leased connection.
    Here,
    /// On a connection that was given back.
    Left(Left),
}

impl FoundRows {
    /// A statement ran. `found`: what its answer reported; `only_here`: it has set the value, and its answer does not report
    /// it.
    pub(super) fn after_statement(&mut self, found: Option<u64>, only_here: bool) {
        match (found, &mut *self) {
            (Some(rows), _) => *self = FoundRows::Known { rows, by_last: true },
            (None, _) if only_here => *self = FoundRows::Here,
            (None, FoundRows::Known { by_last, .. }) => *by_last = false,
            (None, _) => {}
        }
    }

    /// Whether the value must be inserted into a statement even if the connection ran the last one, which did not set it.
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

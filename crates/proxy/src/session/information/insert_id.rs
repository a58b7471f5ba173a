//! `LAST_INSERT_ID()`.
//!
//! An OK packet has an id whether it was generated or given explicitly, but only a generated one is what the function
//! returns. So several connections may have set it; the last one is asked first, and the others only if it did not.

use narrows_sql::{Flags, Kind, Statement};

use super::Left;
use crate::backend::InsertId;

/// The value of `LAST_INSERT_ID()`, and where it is.
#[derive(Debug, Default)]
pub(in super::super) struct LastInsertId {
    /// The id in the last OK packet that had one.
    named: u64,
    /// The value when it was last known exactly, before later OK packets had ids.
    known: u64,
    /// The leased connection may have set it; the ids in its OK packets.
    here: Option<Vec<u64>>,
    /// The connections that may have set it, the last one at the end.
    left: Vec<Left>,
    /// The process that had it has died.
    pub(super) is_lost: bool,
}

impl LastInsertId {
    /// The id in the last OK packet that had one.
    pub(in super::super) fn named(&self) -> u64 {
        self.named
    }

    /// Whether the value may differ from 0.
    pub(in super::super) fn may_be_set(&self) -> bool {
        self.named != 0 || self.known != 0 || self.is_here() || !self.left.is_empty() || self.is_lost
    }

    /// Whether the leased connection may have set it.
    pub(in super::super) fn is_here(&self) -> bool {
        self.here.is_some()
    }

    /// An OK packet has an id.
    pub(super) fn is_named(&mut self, id: u64) {
        self.named = id;
        let named = self.here.get_or_insert_default();
        if named.len() == REMEMBERED {
            named.remove(0);
        }
        named.push(id);
    }

    /// The leased connection may have set it.
    pub(in super::super) fn may_be_here(&mut self) {
        self.here.get_or_insert_default();
    }

    /// The session has set it to `id` on the leased connection.
    pub(in super::super) fn set(&mut self, id: u64) {
        (self.named, self.known) = (id, id);
        self.left.clear();
        self.may_be_here();
    }

    /// The leased connection has the same value as before the session used it, so the session has not changed it there.
    pub(super) fn is_unchanged(&mut self, before: u64) {
        if self.here.as_ref().is_some_and(|named| !named.contains(&before)) {
            self.here = None;
        }
    }

    pub(super) fn leave(&mut self, left: &Left) {
        let Some(named) = self.here.take() else { return };
        if self.left.len() == REMEMBERED {
            self.left.remove(0);
        }
        self.left.push(Left { named, ..left.clone() });
    }

    pub(super) fn meet(&mut self, is_there: impl Fn(&Left) -> bool) {
        self.here = self.left.pop_if(|left| is_there(left)).map(|left| left.named);
    }

    pub(super) fn forget_here(&mut self) {
        if self.here.take().is_some() {
            self.known = self.named;
            self.left.clear();
        }
    }

    /// The connections that may have set it, the last one at the end.
    pub(super) fn left(&self) -> &[Left] {
        &self.left
    }

    /// Whether another session is collecting it, or will, so that this one must wait.
    pub(in super::super) fn is_awaited(&self) -> bool {
        !self.is_here() && self.left.iter().any(|left| !left.receiver.has_arrived())
    }

    /// The value, if a connection's answer decides it; `None` if that connection did not set it.
    pub(super) fn decided_by(&self, left: &Left, answer: Option<InsertId>) -> Option<u64> {
        match answer {
            Some(InsertId::Is(id)) => Some(id),
            // Another client's id may happen to be the same.
            Some(InsertId::Unchanged(id)) => left.named.contains(&id).then_some(id),
            Some(InsertId::Lost) | None => Some(self.named),
        }
    }

    /// All connections were asked: the value is `decided`, or the one before them.
    pub(super) fn settle(&mut self, decided: Option<u64>) -> u64 {
        self.known = decided.unwrap_or(self.known);
        self.named = self.known;
        self.left.clear();
        self.known
    }
}

/// Connections and ids that are remembered, so that a client that inserts and never asks does not use ever more memory.
const REMEMBERED: usize = 8;

/// Whether a statement may set `LAST_INSERT_ID()` without reporting the value: its answer has no id, or one that was given
/// explicitly.
pub(super) fn may_set_an_id(statement: &Statement) -> bool {
    let inserts = matches!(
        statement.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::LoadData
            | Kind::LoadDataLocal
            | Kind::Call
            | Kind::Execute
            | Kind::Other
    );
    (inserts || statement.flags.intersects(Flags::MULTI))
        && !statement.flags.intersects(Flags::LAST_INSERT_ID)
}

//! `LAST_INSERT_ID()`.
//!
//! An OK packet has an id whether it was generated or given explicitly, but only a generated one is what the function
//! returns. So several connections may have set it; the last one is asked first, and the others only if it did not. A
//! connection that changes its client has 0, as a new one, which no insert generates: if it is still 0 later, the client has
//! not set it there. So nothing but the client's own value and 0 is ever on its connection.

use narrows_sql::{Flags, Kind, Statement};

use super::Left;
use crate::backend::InsertId;
use crate::session::outcome::Outcome;

/// The value of `LAST_INSERT_ID()`, and where it is.
#[derive(Debug, Default)]
pub(in super::super) struct LastInsertId {
    /// The id in the last OK packet that had one.
    named: u64,
    /// The value when it was last known exactly, before later OK packets had ids.
    known: u64,
    /// The leased connection may have set it.
    here: bool,
    /// The connections that may have set it, the last one at the end.
    left: Vec<LeftId>,
    /// The process that had it has died.
    pub(super) is_lost: bool,
}

/// A connection that may have set it.
#[derive(Debug)]
pub(in super::super) struct LeftId {
    pub(in super::super) left: Left,
    /// The id in the last OK packet when the client left it: the value, as far as is known, if the connection is lost.
    named: u64,
}

impl LeftId {
    /// The value, if the connection's answer decides it; `None` if it did not set it.
    pub(super) fn decided_by(&self, answer: Option<InsertId>) -> Option<u64> {
        match answer {
            Some(InsertId::Is(id)) => Some(id),
            Some(InsertId::Unchanged) => None,
            Some(InsertId::Lost) | None => Some(self.named),
        }
    }
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
        self.here
    }

    /// An OK packet has an id.
    pub(super) fn is_named(&mut self, id: u64) {
        self.named = id;
        self.here = true;
    }

    /// The leased connection may have set it.
    pub(in super::super) fn may_be_here(&mut self) {
        self.here = true;
    }

    /// The session has set it to `id` on the leased connection.
    pub(in super::super) fn set(&mut self, id: u64) {
        (self.named, self.known) = (id, id);
        self.left.clear();
        self.may_be_here();
    }

    /// The session has not set it on the leased connection.
    pub(super) fn is_not_here(&mut self) {
        self.here = false;
    }

    pub(super) fn leave(&mut self, left: &Left) {
        if !std::mem::take(&mut self.here) {
            return;
        }
        if self.left.len() == REMEMBERED {
            self.forget_oldest();
        }
        self.left.push(LeftId { left: left.clone(), named: self.named });
    }

    /// Makes room: the answer of the oldest connection is taken into account, or, if it has not arrived, what the connection has
    /// named, as if it were lost.
    fn forget_oldest(&mut self) {
        let oldest = self.left.remove(0);
        let answer = oldest.left.receiver.arrived().map(|collected| collected.insert_id);
        self.known = oldest.decided_by(answer).unwrap_or(self.known);
    }

    pub(super) fn meet(&mut self, is_there: impl Fn(&Left) -> bool) {
        self.here = self.left.pop_if(|it| is_there(&it.left)).is_some();
    }

    pub(super) fn forget_here(&mut self) {
        if std::mem::take(&mut self.here) {
            self.known = self.named;
            self.left.clear();
        }
    }

    /// Whether its value may be on another connection than the leased one, or nowhere but here.
    pub(super) fn may_be_elsewhere(&self) -> bool {
        self.known != 0 || !self.left.is_empty()
    }

    /// The connections that may have set it, the last one at the end.
    pub(super) fn left(&self) -> &[LeftId] {
        &self.left
    }

    /// Whether another session is collecting it, or will, so that this one must wait.
    pub(in super::super) fn is_awaited(&self) -> bool {
        !self.is_here() && self.left.iter().any(|it| !it.left.receiver.has_arrived())
    }

    /// All connections were asked: the value is `decided`, or the one before them.
    pub(super) fn settle(&mut self, decided: Option<u64>) -> u64 {
        self.known = decided.unwrap_or(self.known);
        self.named = self.known;
        self.left.clear();
        self.known
    }
}

/// Connections that are remembered, so that a client that inserts and never asks does not use ever more memory.
const REMEMBERED: usize = 8;

/// Whether a statement may have set `LAST_INSERT_ID()` although its answer does not report an id.
#[inline]
pub(super) fn may_set_untold(statement: &Statement, text: &[u8], outcome: &Outcome) -> bool {
    let has_rows = outcome.affected_rows.is_none();
    // Rows before the failed one may have set it.
    let has_failed = outcome.error.is_some();
    // `LAST_INSERT_ID(5)` sets it; `@@identity` and `SHOW VARIABLES` only read it.
    if statement.flags.intersects(Flags::LAST_INSERT_ID_CALL | Flags::MULTI) {
        return true;
    }
    match statement.kind {
        // `INSERT .. RETURNING` answers with rows, and the packet that ends them has no id.
        Kind::Insert | Kind::Replace => has_failed || has_rows,
        Kind::SetStatement => has_failed || has_rows && narrows_sql::names_any(text, &["RETURNING", "CALL"]),
        Kind::LoadData | Kind::LoadDataLocal => true,
        _ => !statement.is_certain(text),
    }
}

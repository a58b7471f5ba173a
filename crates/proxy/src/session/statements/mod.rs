//! The prepared statements that a client has open, by its own numbers.

mod derived;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use narrows_wire::Errno;
use narrows_wire::response::Expect;

use crate::prepared::{ClientShare, Identity};
use crate::route::Ruled;
use crate::snapshot::Snapshot;

pub(super) use derived::Derived;

/// The statements that a client has open.
#[derive(Debug, Default)]
pub(super) struct ClientStatements {
    pub(super) open: BTreeMap<u32, Rc<ClientStatement>>,
    /// Bytes that they take.
    pub(super) bytes: usize,
    /// The number given last. Servers count attempts, and go on counting after a reset.
    pub(super) last_id: u32,
    /// The statement that was prepared last, which MariaDB's clients may call -1.
    pub(super) last_prepared: Option<u32>,
}

/// One statement of a client.
#[derive(Debug)]
pub(super) struct ClientStatement {
    /// The client's number for it.
    pub(super) id: u32,
    /// What it is.
    pub(super) prepared: ClientShare,
    /// Its placeholders; known when a server has prepared it.
    pub(super) params: Cell<u16>,
    /// The types of parameters that the client has bound last.
    pub(super) types: RefCell<Vec<u8>>,
    /// What a server that goes by former values takes its parameters for.
    pub(super) derived: RefCell<Derived>,
    /// It can be executed only on the connection that prepared it.
    pub(super) tied: bool,
    /// What the rules say of it.
    pub(super) ruled: RefCell<Option<Remembered>>,
    /// Why its next execution fails: a part of a parameter did not arrive.
    pub(super) failed: RefCell<Option<(Errno, String)>>,
}

/// What a statement takes besides its text: two maps, types of parameters, what the rules said of it.
pub(super) const BYTES_OF_STATEMENT: usize = 1024;

/// What the rules said of a statement, and when that holds.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) snapshot: Weak<Arc<Snapshot>>,
    /// What [`changing`] said of the client.
    pub(super) client: Box<[u8]>,
    /// The places of the rules that match.
    pub(super) matched: Vec<u32>,
    pub(super) ruled: Ruled,
}

impl ClientStatements {
    /// Whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn add(&mut self, statement: Rc<ClientStatement>) {
        self.close(statement.id);
        self.bytes += statement.bytes();
        self.last_prepared = Some(statement.id);
        self.open.insert(statement.id, statement);
    }

    pub(super) fn close(&mut self, id: u32) {
        if let Some(closed) = self.open.remove(&id) {
            self.bytes -= closed.bytes();
        }
        self.last_prepared.take_if(|last| *last == id);
    }

    /// The client's numbers for them.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.open.keys().copied()
    }

    /// The server has forgotten all of them.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.bytes = 0;
        self.last_prepared = None;
    }
}

impl ClientStatement {
    /// Bytes that it takes, as if no other client had it too.
    pub(super) fn bytes(&self) -> usize {
        BYTES_OF_STATEMENT + self.prepared.text.len()
    }

    /// Its identity on connections, for executions with or without a cursor.
    pub(super) fn identity(&self, expect: Expect) -> Identity {
        self.identity_with(self.derived.borrow().key(), expect)
    }

    /// Shows what an execution goes by that does not say it: the types bound before, and what was derived of parameters.
    pub(super) fn with_bound<T>(&self, show: impl FnOnce(&[u8], u64) -> T) -> T {
        show(&self.types.borrow(), self.derived.borrow().key())
    }

    /// The same, if this was derived of its parameters.
    pub(super) fn identity_with(&self, derived: u64, expect: Expect) -> Identity {
        let identity = self.prepared.identity.with_derived(derived);
        if expect == Expect::Cursor { identity.with_cursor() } else { identity }
    }
}

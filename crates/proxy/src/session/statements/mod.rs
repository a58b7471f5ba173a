//! The prepared statements that a client has open, by the ids that it knows.

mod derived;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use narrows_wire::Errno;
use narrows_wire::response::Expect;

use crate::backend::Statements;
use crate::prepared::{ClientShare, Identity};
use crate::route::Ruled;
use crate::snapshot::{LocalSnapshot, Snapshot};
use crate::state::SharedState;

pub(super) use derived::Derived;

/// The statements that a client has open.
#[derive(Debug, Default)]
pub(super) struct ClientStatements {
    pub(super) open: BTreeMap<u32, Rc<ClientStatement>>,
    /// Bytes that they take.
    pub(super) bytes: usize,
    /// The last id. Servers count attempts to prepare, and continue to count after a reset.
    pub(super) last_id: u32,
    /// The statement that was prepared last, which MariaDB's clients may refer to as -1.
    pub(super) last_prepared: Option<u32>,
}

/// One statement of a client.
#[derive(Debug)]
pub(super) struct ClientStatement {
    /// The id that the client knows.
    pub(super) id: u32,
    /// What it shares with other clients.
    pub(super) prepared: ClientShare,
    /// The number of its parameters; known once a server has prepared it.
    pub(super) params: Cell<u16>,
    /// The number of its columns, as the client received it last; 0: none.
    pub(super) columns_told: Cell<u16>,
    /// The parameter types that the client bound last.
    pub(super) types: RefCell<Vec<u8>>,
    /// The types that a server has derived from earlier values.
    pub(super) derived: RefCell<Derived>,
    /// Whether other clients may execute what servers have prepared for it.
    pub(super) sharing: Cell<Sharing>,
    /// Parts of values were sent for its next execution.
    pub(super) has_long_data: Cell<bool>,
    /// A part was for a parameter that it does not have: no execution succeeds until it is reset.
    pub(super) has_wrong_part: Cell<bool>,
    /// It can be executed only on the connection that prepared it.
    pub(super) tied: bool,
    /// The remembered output of the rules.
    pub(super) ruled: RefCell<Option<Remembered>>,
    /// The same of the rules of a dry run.
    pub(super) dry_run: RefCell<Option<Box<Remembered>>>,
    /// The error of its next execution, because part of a parameter was not sent.
    pub(super) failed: RefCell<Option<(Errno, String)>>,
}

/// Who executes what servers have prepared for a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sharing {
    /// All clients that have prepared the same.
    #[default]
    All,
    /// So far, all. This client has other settings now than those of the preparation, and takes the one of the connection that
    /// it gets next.
    Leaving(u32),
    /// This client alone.
    Client(u32),
}

/// Bytes that a statement takes besides its text: two maps, parameter types, the output of the rules.
pub(super) const BYTES_OF_STATEMENT: usize = 1024;

/// The output of the rules for a statement, and for which client it holds.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) snapshot: Weak<Arc<Snapshot>>,
    /// What [`changing`] returned for the client.
    pub(super) client: Box<[u8]>,
    /// The indexes of the rules that match.
    pub(super) matched: Vec<u32>,
    pub(super) ruled: Ruled,
}

impl Remembered {
    /// Whether it holds for this configuration and a client for which [`changing`] returns `client`.
    ///
    /// [`changing`]: super::query::changing
    pub(super) fn holds(&self, snapshot: &LocalSnapshot, client: &[u8]) -> bool {
        self.snapshot.as_ptr() == Rc::as_ptr(snapshot) && *self.client == *client
    }
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

    /// Their ids.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.open.keys().copied()
    }

    /// Closes all of them.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.bytes = 0;
        self.last_prepared = None;
    }
}

impl ClientStatement {
    /// Bytes that it takes, counted as if no other client shared it.
    pub(super) fn bytes(&self) -> usize {
        BYTES_OF_STATEMENT + self.prepared.text.len()
    }

    /// `client` is about to use it in this state.
    pub(super) fn note_state(&self, state: &SharedState, client: u32) {
        if self.sharing.get() == Sharing::All && !state.has_settings_of(&self.prepared.state) {
            self.sharing.set(Sharing::Leaving(client));
        }
    }

    /// Makes the server's statement that it has shared until now its own, if the connection has it: MySQL prepares one again for
    /// the types of its first parameters, which must not happen with the settings of now.
    pub(super) fn take_over(&self, statements: &mut Statements, expect: Expect) {
        if let Sharing::Leaving(client) = self.sharing.get() {
            let shared = self.identity(expect);
            self.sharing.set(Sharing::Client(client));
            statements.rename(shared, self.identity(expect));
        }
    }

    /// Its identity on connections, for executions with or without a cursor.
    pub(super) fn identity(&self, expect: Expect) -> Identity {
        self.identity_with(self.derived.borrow().key(), expect)
    }

    /// Passes on what an execution depends on besides its packet: the types bound before, and the derived ones.
    pub(super) fn with_bound<T>(&self, show: impl FnOnce(&[u8], u64) -> T) -> T {
        show(&self.types.borrow(), self.derived.borrow().key())
    }

    /// The same, with this key of derived types.
    pub(super) fn identity_with(&self, derived: u64, expect: Expect) -> Identity {
        let identity = self.prepared.identity.with_derived(derived);
        let identity = match self.sharing.get() {
            Sharing::All | Sharing::Leaving(_) => identity,
            Sharing::Client(client) => identity.of_client(client, self.id),
        };
        if expect == Expect::Cursor { identity.with_cursor() } else { identity }
    }
}

//! Prepared statements shared between clients and servers: their text, and the state in which they were prepared.
//!
//! A client has its own ids for its statements, and every backend connection has the ids assigned by its server.
//! Between them is a [`Prepared`]: one for all clients of a worker that have prepared the same text in the same state,
//! so that they share the server's statement. Executing looks one up by its [`Identity`] and changes no shared
//! counters; preparing and closing do the bookkeeping.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use narrows_sql::Statement;

use crate::hash::{self, AsTheyAre};
use crate::state::SharedState;

/// The identity of a statement for a server: a hash of the account, the text, and the state; see [`hash::wide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(u128);

impl Identity {
    fn of(username: &str, state: &SharedState, text: &[u8]) -> Identity {
        Identity(hash::wide(|hasher| {
            username.hash(hasher);
            state.hash_for_prepare(hasher);
            text.hash(hasher);
        }))
    }

    /// The identity for executions with a cursor. MySQL 9 does not answer properly if a statement is executed with a
    /// cursor and then without, so a client without a cursor must not get a statement that was executed with one.
    #[must_use]
    pub fn with_cursor(self) -> Identity {
        Identity(self.0 ^ 1)
    }

    /// The identity of a client's own one, by the client's id and the statement's: it executes it with other settings than
    /// those that it was prepared with. A server that prepares a statement again, because a table has changed, does so with the settings
    /// of the session that executes it: it then means something else to all who use it.
    #[must_use]
    pub fn of_client(self, client: u32, statement: u32) -> Identity {
        // Spread, so that it is none of the others.
        let key = (u64::from(client) << 32 | u64::from(statement)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Identity(self.0 ^ (u128::from(key) << 64 | u128::from(key)))
    }

    /// The identity once a server has derived something from the parameters; see `session/prepared/derived.rs`.
    #[must_use]
    pub fn with_derived(self, key: u64) -> Identity {
        Identity(self.0 ^ u128::from(key) << 1)
    }
}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64);
    }
}

/// A map with identities as keys.
pub type ByIdentity<T> = HashMap<Identity, T, AsTheyAre>;

/// A prepared statement, independent of the client that prepared it.
#[derive(Debug)]
pub struct Prepared {
    /// Its identity.
    pub identity: Identity,
    /// The id shown to operators.
    pub number: u64,
    /// The user who prepared it.
    pub username: Box<str>,
    /// The state in which it was prepared.
    pub state: SharedState,
    /// The text, as sent to servers.
    pub text: Box<[u8]>,
    /// The result of lexing the text.
    pub statement: Statement,
    /// The number of columns in its result, as last reported by a server.
    pub columns: AtomicU16,
    /// The number of its placeholders.
    pub params: AtomicU16,
    /// What a server derived from its parameters in its last use by clients.
    pub derived: AtomicU64,
    /// How many times clients have it open.
    clients: AtomicU32,
    /// How many backend connections have it prepared.
    servers: AtomicU32,
}

impl Prepared {
    fn new(
        identity: Identity,
        username: &str,
        state: &SharedState,
        text: &[u8],
        statement: Statement,
    ) -> Arc<Prepared> {
        LIVING.fetch_add(1, Ordering::Relaxed);
        Arc::new(Prepared {
            identity,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            username: username.into(),
            state: Arc::clone(state),
            text: text.into(),
            statement,
            columns: AtomicU16::new(0),
            params: AtomicU16::new(0),
            derived: AtomicU64::new(0),
            clients: AtomicU32::new(0),
            servers: AtomicU32::new(0),
        })
    }

    /// Records that an execution had a result with this many columns: tables change, and servers then prepare
    /// statements again by themselves. For `CALL`, servers do not announce the results in advance.
    pub fn note_columns(&self, columns: u64) {
        let known = self.columns.load(Ordering::Relaxed);
        if known != 0 && columns != 0 && columns != u64::from(known) {
            self.columns.store(u16::try_from(columns).unwrap_or(u16::MAX), Ordering::Relaxed);
        }
    }

    /// Its size in bytes in this process, however many have it open.
    pub fn bytes(&self) -> usize {
        size_of::<Prepared>() + self.text.len() + self.username.len() + REGISTERED
    }

    /// How often clients have it open.
    pub fn clients(&self) -> u32 {
        self.clients.load(Ordering::Relaxed)
    }

    /// How many backend connections have it prepared.
    pub fn servers(&self) -> u32 {
        self.servers.load(Ordering::Relaxed)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client's share in a statement.
#[derive(Debug)]
pub struct ClientShare(Arc<Prepared>);

/// A backend connection's share in a statement.
#[derive(Debug)]
pub struct ServerShare(Arc<Prepared>);

impl ClientShare {
    /// Counts one more client that has it open.
    pub fn new(prepared: Arc<Prepared>) -> ClientShare {
        prepared.clients.fetch_add(1, Ordering::Relaxed);
        ClientShare(prepared)
    }
}

impl Drop for ClientShare {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::ops::Deref for ClientShare {
    type Target = Arc<Prepared>;

    fn deref(&self) -> &Arc<Prepared> {
        &self.0
    }
}

impl ServerShare {
    /// Counts one more backend connection that has it prepared.
    pub fn new(prepared: Arc<Prepared>) -> ServerShare {
        prepared.servers.fetch_add(1, Ordering::Relaxed);
        ServerShare(prepared)
    }
}

impl Drop for ServerShare {
    fn drop(&mut self) {
        self.0.servers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::ops::Deref for ServerShare {
    type Target = Arc<Prepared>;

    fn deref(&self) -> &Arc<Prepared> {
        &self.0
    }
}

/// The statements that clients and backend connections of one worker hold. The registry owns none: a statement is
/// dropped with its last holder.
#[derive(Debug, Default)]
pub struct Registry {
    known: RefCell<ByIdentity<Weak<Prepared>>>,
    /// The number of entries at which stale ones are removed.
    sweep_at: Cell<usize>,
}

impl Registry {
    /// The statement that `username` prepares in `state`.
    pub fn prepared(
        &self,
        username: &str,
        state: &SharedState,
        text: &[u8],
        statement: Statement,
    ) -> Arc<Prepared> {
        let identity = Identity::of(username, state, text);
        let mut known = self.known.borrow_mut();
        if let Some(prepared) = known.get(&identity).and_then(Weak::upgrade) {
            return prepared;
        }
        let prepared = Prepared::new(identity, username, state, text, statement);
        if known.len() >= self.sweep_at.get() {
            known.retain(|_, prepared| prepared.strong_count() > 0);
            let living = known.len();
            known.shrink_to(living * 2);
            self.sweep_at.set(living * 2 + SWEEP_LEAST);
        }
        known.insert(identity, Arc::downgrade(&prepared));
        prepared
    }

    /// A statement of which only the beginning is known, and which is therefore never shared.
    pub fn unshared(
        &self,
        username: &str,
        state: &SharedState,
        beginning: &[u8],
        statement: Statement,
    ) -> Arc<Prepared> {
        let identity = Identity(rand::random());
        let beginning = beginning.get(..SHOWN).unwrap_or(beginning);
        let prepared = Prepared::new(identity, username, state, beginning, statement);
        self.known.borrow_mut().insert(identity, Arc::downgrade(&prepared));
        prepared
    }

    /// Every statement that is held.
    pub fn all(&self) -> Vec<Arc<Prepared>> {
        self.known.borrow().values().filter_map(Weak::upgrade).collect()
    }
}

/// The highest id assigned to a statement so far.
pub fn highest_number() -> u64 {
    NEXT_NUMBER.load(Ordering::Relaxed) - 1
}

/// The number of statements that clients or backend connections of the process hold.
pub fn living() -> u64 {
    LIVING.load(Ordering::Relaxed)
}

static LIVING: AtomicU64 = AtomicU64::new(0);

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// The size of a statement's entry in the worker's table: identity, pointer, and the overhead of an allocation.
const REGISTERED: usize = 16 + 8 + 16;

/// How many bytes are kept of a text that was not read.
const SHOWN: usize = 256;

/// The registry is swept when it has this many entries more than twice the live ones.
const SWEEP_LEAST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SessionState;

    fn prepared(registry: &Registry, state: &SharedState, text: &str) -> Arc<Prepared> {
        registry.prepared("app", state, text.as_bytes(), narrows_sql::classify(text.as_bytes()))
    }

    fn in_schema(schema: &str) -> SessionState {
        let mut state = SessionState::default();
        state.schema = Some(schema.as_bytes().into());
        state
    }

    #[test]
    fn the_same_text_under_the_same_state_is_one_statement() {
        let registry = Registry::default();
        let state = Arc::new(in_schema("shop"));
        let first = prepared(&registry, &state, "SELECT 1");
        let mut other = in_schema("shop");
        other.set_text("autocommit", b"0");
        assert!(Arc::ptr_eq(&first, &prepared(&registry, &Arc::new(other.clone()), "SELECT 1")));
        other.set_user_variable("a", "1");
        let typed = prepared(&registry, &Arc::new(other.clone()), "SELECT 1");
        assert!(!Arc::ptr_eq(&first, &typed));
        other.set_user_variable("a", "2");
        assert!(Arc::ptr_eq(&typed, &prepared(&registry, &Arc::new(other), "SELECT 1")));
        assert!(!Arc::ptr_eq(&first, &prepared(&registry, &state, "SELECT 2")));
    }

    #[test]
    fn schema_and_sql_mode_make_it_another_statement() {
        let registry = Registry::default();
        let first = prepared(&registry, &Arc::new(in_schema("shop")), "SELECT 1");
        let elsewhere = prepared(&registry, &Arc::new(in_schema("shop2")), "SELECT 1");
        let mut ansi = in_schema("shop");
        ansi.set_text("sql_mode", b"ANSI");
        let ansi = prepared(&registry, &Arc::new(ansi), "SELECT 1");
        assert!(first.identity != elsewhere.identity && first.identity != ansi.identity);
        assert_ne!(first.identity, first.identity.with_cursor());
    }

    #[test]
    fn keeps_nothing_of_statements_that_are_gone() {
        let registry = Registry::default();
        let state = Arc::new(SessionState::default());
        for number in 0..10_000 {
            prepared(&registry, &state, &format!("SELECT {number}"));
        }
        assert!(registry.known.borrow().len() <= SWEEP_LEAST, "{}", registry.known.borrow().len());
    }
}

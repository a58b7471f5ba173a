//! The handle of a session for others, who interrupt it and see what it does.
//!
//! A session writes down what it does in plain cells; text and names are copied when somebody asks.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::backend::Card;
use crate::figures::{ClientLine, Doing, PinLine, ProcessBackend, ProcessLine};
use crate::hostgroup::Server;
use crate::pin_reason::PinReason;
use crate::rows::HostgroupId;
use crate::rt::Instant;
use crate::state::SharedState;

/// The handle by which others reach a session: kills, deadlines, process lists, the end of the process.
pub struct Handle {
    /// Its id for `KILL`.
    pub id: u32,
    /// Whose it is.
    pub username: RefCell<String>,
    /// From where.
    pub peer: (String, u16),
    /// When it is to be interrupted, and why.
    pub deadline: Cell<Option<(Instant, Interrupt)>>,
    pending: Cell<Interrupts>,
    /// The session's task, while it waits for an interrupt among other things.
    waiting: RefCell<Option<Waker>>,
    /// When it logged in.
    since_login: Instant,
    pub(super) doing: Cell<Doing>,
    /// Since when it does that.
    since: Cell<Instant>,
    commands: Cell<u64>,
    hostgroup: Cell<Option<HostgroupId>>,
    /// The current backend connection.
    pub(super) card: RefCell<Option<Rc<Card>>>,
    /// The state after its last command.
    state: RefCell<SharedState>,
    /// The beginning of the statement that runs; no memory is held while none does.
    text: RefCell<Vec<u8>>,
    pub(super) pins: RefCell<Vec<Pinning>>,
    /// Backend connections that are set aside, and whether a transaction is open on them.
    pub(super) aside: RefCell<Vec<(Rc<Card>, bool)>>,
}

/// One reason for which a session is pinned, and what caused it.
#[derive(Debug, Clone)]
pub struct Pinning {
    /// The reason.
    pub reason: PinReason,
    /// Since when.
    pub since: Instant,
    /// Hash of the digest text of the statement that caused it.
    pub digest: u64,
    /// That text; `None`: it is in the table of digests, if anywhere.
    pub text: Option<Arc<[u8]>>,
}

/// Why a session is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// `KILL`.
    KillConnection,
    /// `KILL QUERY`.
    KillQuery,
    /// Idle for `wait_timeout`.
    Idle,
    /// Idle in a transaction for `max_transaction_idle_time`.
    TransactionIdle,
    /// In a transaction for `max_transaction_time`.
    TransactionTime,
    /// Logged in for the account's `max_connection_age_s`.
    Aged,
    /// A statement has run for `default_query_timeout`.
    QueryTime,
    /// A server has not ended a killed statement for `kill_timeout_server`.
    KillTime,
    /// No command has followed the last one for a while.
    LongRest,
    /// Narrows is about to stop: the session ends as soon as it has no transaction open.
    Drain,
    /// Narrows stops.
    Shutdown,
}

/// Reasons that a session has not acted on yet: none takes the place of another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Interrupts(u16);

impl Interrupts {
    fn with(self, reason: Interrupt) -> Interrupts {
        Interrupts(self.0 | 1 << reason as u16)
    }

    /// The one that comes first, and the others.
    fn split_first(self) -> (Option<Interrupt>, Interrupts) {
        // Nearly always.
        if self.0 == 0 {
            return (None, self);
        }
        let first = Interrupt::IN_ORDER.into_iter().find(|reason| self.0 >> *reason as u16 & 1 == 1);
        (first, first.map_or(self, |first| Interrupts(self.0 & !(1 << first as u16))))
    }
}

impl Interrupt {
    /// What ends the session comes first.
    const IN_ORDER: [Interrupt; 11] = [
        Interrupt::KillConnection,
        Interrupt::Shutdown,
        Interrupt::Idle,
        Interrupt::TransactionIdle,
        Interrupt::Aged,
        Interrupt::TransactionTime,
        Interrupt::KillTime,
        Interrupt::KillQuery,
        Interrupt::QueryTime,
        Interrupt::Drain,
        Interrupt::LongRest,
    ];
}

impl Handle {
    pub(crate) fn new(id: u32, username: &str, peer: (String, u16), state: &SharedState) -> Rc<Handle> {
        let now = Instant::now();
        Rc::new(Handle {
            id,
            username: RefCell::new(username.to_owned()),
            peer,
            deadline: Cell::default(),
            pending: Cell::default(),
            waiting: RefCell::default(),
            since_login: now,
            doing: Cell::default(),
            since: Cell::new(now),
            commands: Cell::default(),
            hostgroup: Cell::default(),
            card: RefCell::default(),
            state: RefCell::new(Arc::clone(state)),
            text: RefCell::default(),
            pins: RefCell::default(),
            aside: RefCell::default(),
        })
    }

    /// Interrupts the session; it acts on that at its next wait.
    pub fn interrupt(&self, reason: Interrupt) {
        self.pending.set(self.pending.get().with(reason));
        if let Some(task) = &*self.waiting.borrow() {
            task.wake_by_ref();
        }
    }

    pub(crate) async fn interrupted(&self) -> Interrupt {
        poll_fn(|context| {
            if let (Some(reason), rest) = self.pending.get().split_first() {
                self.pending.set(rest);
                return Poll::Ready(reason);
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                *waiting = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// A command begins.
    pub(crate) fn begins(&self, command: &'static str, now: Instant) {
        self.doing.set(Doing::Command(command));
        self.since.set(now);
        self.commands.set(self.commands.get() + 1);
    }

    /// The current command waits for a backend connection, or has one.
    pub(crate) fn does(&self, doing: Doing) {
        self.doing.set(doing);
    }

    /// What the session does.
    pub(crate) fn doing(&self) -> Doing {
        self.doing.get()
    }

    /// The command has ended; the session is in `state`. Returns whether that is another value than before.
    pub(crate) fn rests(&self, state: &SharedState, now: Instant) -> bool {
        self.doing.set(Doing::Sleep);
        self.since.set(now);
        let mut known = self.state.borrow_mut();
        let is_another = !Arc::ptr_eq(&known, state);
        if is_another {
            *known = Arc::clone(state);
        }
        is_another
    }

    /// When the client logged in.
    pub(crate) fn logged_in(&self) -> Instant {
        self.since_login
    }

    /// When the current command began, or the last one ended.
    pub(crate) fn since(&self) -> Instant {
        self.since.get()
    }

    /// Shows a running statement; `text` gives back the memory that was used before.
    pub(crate) fn show(&self, text: Vec<u8>) -> Vec<u8> {
        self.text.replace(text)
    }

    /// Sets the current backend connection.
    pub(crate) fn has_backend(&self, card: &Rc<Card>) {
        self.hostgroup.set(Some(card.server.row.hostgroup));
        self.card.replace(Some(Rc::clone(card)));
    }

    /// There is no current backend connection any more, so nothing pins the session to it.
    pub(crate) fn lets_go(&self) {
        self.pins.borrow_mut().clear();
        self.card.take();
    }

    /// Whether there is a current backend connection.
    pub(crate) fn holds_backend(&self) -> bool {
        self.card.borrow().is_some()
    }

    /// Commands that have begun.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.get()
    }

    /// A statement goes to that hostgroup.
    pub(crate) fn goes_to(&self, hostgroup: HostgroupId) {
        self.hostgroup.set(Some(hostgroup));
    }

    /// Nothing ties the session to its connection but these.
    pub(crate) fn keep_pins(&self, reasons: PinReason) {
        let mut pins = self.pins.borrow_mut();
        if !pins.is_empty() {
            pins.retain(|pin| reasons.intersects(pin.reason));
        }
    }

    /// Takes all of them, while another connection is the current one.
    pub(crate) fn take_pins(&self) -> Vec<Pinning> {
        self.pins.take()
    }

    /// Puts back what was taken out.
    pub(crate) fn put_pins(&self, pins: Vec<Pinning>) {
        self.pins.replace(pins);
    }

    /// Something ties the session to its connection.
    pub(crate) fn add_pin(&self, pin: Pinning) {
        self.pins.borrow_mut().push(pin);
    }

    /// Whether a command of it runs.
    pub fn is_busy(&self) -> bool {
        self.doing.get() != Doing::Sleep
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.pins.borrow().iter().any(|pin| pin.reason == PinReason::TRANSACTION)
    }

    /// Ends the current backend connection, and those set aside, if `why` gives a reason, of its server and of whether
    /// a transaction is open.
    pub fn cut_off(&self, why: impl Fn(&Server, bool) -> Option<&'static str>) {
        let card = self.card.borrow();
        if let Some(card) = &*card
            && let Some(reason) = why(&card.server, self.is_in_transaction())
        {
            card.cut_off(reason);
        }
        for (card, in_transaction) in &*self.aside.borrow() {
            if let Some(reason) = why(&card.server, *in_transaction) {
                card.cut_off(reason);
            }
        }
    }

    /// These are set aside now.
    pub(crate) fn has_aside(&self, cards: Vec<(Rc<Card>, bool)>) {
        self.aside.replace(cards);
    }

    /// The session as a process list shows it.
    pub fn process(&self, worker: usize, now: Instant) -> ProcessLine {
        let text = self.text.borrow();
        ProcessLine {
            worker,
            id: self.id,
            username: self.username.borrow().clone(),
            schema: self.schema(),
            client_host: self.peer.0.clone(),
            client_port: self.peer.1,
            hostgroup: self.hostgroup(),
            backend: self.backend(),
            doing: self.doing.get(),
            time_ms: milliseconds(now, self.since.get()),
            info: (self.is_busy() && !text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned()),
            pins: self.pin_reasons(),
            age_ms: milliseconds(now, self.since_login),
            commands: self.commands.get(),
        }
    }

    /// What the client has in common with others.
    pub fn client_line(&self) -> ClientLine {
        ClientLine {
            username: self.username.borrow().clone(),
            schema: self.schema(),
            client_host: self.peer.0.clone(),
            hostgroup: self.hostgroup(),
            pins: self.pin_reasons(),
        }
    }

    fn pin_reasons(&self) -> PinReason {
        let mut pins = PinReason::default();
        self.pins.borrow().iter().for_each(|pin| pins.add(pin.reason));
        pins
    }

    /// Why the session is pinned, a line for each reason. `text_of` finds the texts of digests.
    pub fn pin_lines(
        &self,
        worker: usize,
        now: Instant,
        text_of: impl Fn(u64) -> Option<Arc<[u8]>>,
    ) -> Vec<PinLine> {
        let line = |pin: &Pinning| PinLine {
            worker,
            id: self.id,
            username: self.username.borrow().clone(),
            schema: self.schema(),
            client_host: self.peer.0.clone(),
            hostgroup: self.hostgroup(),
            backend: self.backend(),
            reason: pin.reason.name(),
            age_ms: milliseconds(now, pin.since),
            digest: pin.digest,
            digest_text: pin
                .text
                .clone()
                .or_else(|| text_of(pin.digest))
                .map(|text| String::from_utf8_lossy(&text).into_owned())
                .unwrap_or_default(),
        };
        self.pins.borrow().iter().map(line).collect()
    }

    fn schema(&self) -> Option<String> {
        let state = self.state.borrow();
        state.schema.as_deref().map(|schema| String::from_utf8_lossy(schema).into_owned())
    }

    /// The hostgroup of the server that the session is connected to, or else the one that its statement goes to.
    pub(crate) fn hostgroup(&self) -> Option<HostgroupId> {
        let card = self.card.borrow();
        card.as_ref().map(|card| card.server.row.hostgroup).or_else(|| self.hostgroup.get())
    }

    fn backend(&self) -> Option<ProcessBackend> {
        self.card.borrow().as_ref().map(|card| ProcessBackend {
            hostname: card.server.row.hostname.clone(),
            port: card.server.row.port,
            local_host: card.local.0.clone(),
            local_port: card.local.1,
            thread_id: card.thread_id,
        })
    }
}

fn milliseconds(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interrupt_is_lost_to_another_one() {
        let all = Interrupt::IN_ORDER.into_iter().rev().fold(Interrupts::default(), Interrupts::with);
        let mut left = all;
        for wanted in Interrupt::IN_ORDER {
            let (first, rest) = left.split_first();
            assert_eq!(first, Some(wanted));
            left = rest;
        }
        assert_eq!(left.split_first(), (None, Interrupts::default()));
    }
}

//! One core: accepts clients, reads its mailbox, keeps time, and owns its sessions and backend connections.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use narrows_sql::KillKind;

use crate::backend::Use;
use crate::buffer::BufferPool;
use crate::cache::{self, Cache};
use crate::client;
use crate::descriptors::{self, Reserve};
use crate::figures::{Counters, Figures};
use crate::hostgroup::ServerFigures;
use crate::keep::Heritage;
use crate::log_limit::Limiter;
use crate::mirror::Mirror;
use crate::pool::{Lent, Pool};
use crate::prepared::Registry;
use crate::query_log::QueryLog;
use crate::rt::{
    BoundListener, Instant, JoinHandle, Listener, MailboxReceiver, MailboxSender, oneshot, sleep, spawn_local,
};
use crate::rules;
use crate::seldom::Seldom;
use crate::session::{Handle, Interrupt};
use crate::snapshot::{HostgroupId, Snapshot};
use crate::state::{SessionState, SharedState};
use crate::stats::{Question, SESSION_BYTES};
use crate::stream::{DetachedStream, Stream};
use crate::threads::Threads;

/// What a worker is told.
#[derive(Debug)]
pub enum Message {
    /// A client that another worker has accepted.
    Client(DetachedStream, Admission, Place),
    /// A client that a process which has died has served.
    Adopt(DetachedStream, Box<Heritage>, Place),
    /// The configuration is now this one.
    Publish(Arc<Snapshot>),
    /// Another worker has waiters of a hostgroup; lend it an idle connection.
    Borrow {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// The worker that asks.
        to: usize,
    },
    /// A connection that was asked for, or is wanted more here.
    Backend(Lent),
    /// A waiter of the hostgroup should look again.
    Poke(HostgroupId),
    /// A client waits for what a connection keeps for it; where that is idle, it is to be asked.
    Fetch {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// Its last use, which was the client's.
        last_use: Use,
    },
    /// End a session or its statement.
    Kill {
        /// The session.
        id: u32,
        /// What of it.
        kind: KillKind,
        /// Who asks; nobody else's sessions are touched.
        username: String,
        /// Whether the session is here, and whose it is.
        answer: oneshot::Sender<KillAnswer>,
    },
    /// The server has too many prepared statements; idle connections to it close theirs.
    CloseStatements(Arc<ServerFigures>),
    /// An answer of the query cache is asked for, or has come.
    Cache(cache::Delivery),
    /// Answer a question of the control plane.
    Ask(Question),
    /// Tell this log what rules have logged.
    LogTo(QueryLog),
    /// Accept clients on these too.
    Listen(Vec<BoundListener>),
    /// Accept no clients any more; the answer says that the listeners are closed.
    Unlisten(oneshot::Sender<()>),
    /// Tell when there is no client any more.
    Drain(oneshot::Sender<()>),
    /// The same, and end each session at its next moment between two transactions.
    DrainNow(oneshot::Sender<()>),
    /// End all sessions and stop.
    Stop,
}

/// Whether there is room for a client under `mysql-max_connections`, as it was when the client came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// There is.
    Granted,
    /// It is one too many, and is told so.
    Full,
}

/// How clients leave a worker that accepts none any more.
#[derive(Debug)]
struct Draining {
    /// Is told when the last one has left.
    gone: oneshot::Sender<()>,
    /// Whether sessions are ended between two transactions.
    hurries: bool,
}

/// A client's place in the count of a worker, from its acceptance to its end: of many that come at once none has logged
/// in yet, and they are to be spread all the same. Given back when dropped.
#[derive(Debug)]
pub struct Place {
    peers: Arc<Peers>,
    worker: usize,
}

impl Place {
    fn take(peers: &Arc<Peers>, worker: usize) -> Place {
        if let Some(clients) = peers.clients.get(worker) {
            clients.fetch_add(1, Ordering::Relaxed);
        }
        Place { peers: Arc::clone(peers), worker }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(clients) = self.peers.clients.get(self.worker) {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What became of a wish to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillAnswer {
    /// Done.
    Done,
    /// The session is another user's.
    NotOwner,
    /// No such session on this worker.
    Unknown,
}

/// The mailboxes of all workers, and what they share of clients.
#[derive(Debug)]
pub struct Peers {
    mailboxes: Box<[MailboxSender<Message>]>,
    clients: Box<[AtomicU32]>,
    /// How often each worker has come to keep time.
    beats: Box<[AtomicU64]>,
    next_connection_id: AtomicU32,
    /// Connections accepted since the start.
    pub accepted: AtomicU64,
    /// When the process started.
    pub started: Instant,
    /// Makes logins of unknown users look like those of known ones.
    pub decoy_key: [u8; 32],
    /// Where what takes long at a login is done.
    pub(crate) threads: Threads,
    /// Failed logins by client address.
    pub client_hosts: client::ClientHosts,
    /// What the workers' caches share.
    pub cache: cache::Shared,
    /// Bytes of buffers for long commands that are taken in.
    pub upload_bytes: AtomicU64,
}

impl Peers {
    /// The peers behind these mailboxes.
    pub fn new(mailboxes: Vec<MailboxSender<Message>>) -> Peers {
        Peers {
            clients: mailboxes.iter().map(|_| AtomicU32::new(0)).collect(),
            beats: mailboxes.iter().map(|_| AtomicU64::new(0)).collect(),
            next_connection_id: AtomicU32::new(FIRST_ID + 1),
            accepted: AtomicU64::new(0),
            started: Instant::now(),
            decoy_key: rand::random(),
            threads: Threads::for_logins(mailboxes.len()),
            client_hosts: client::ClientHosts::default(),
            cache: cache::Shared::default(),
            upload_bytes: AtomicU64::new(0),
            mailboxes: mailboxes.into(),
        }
    }

    /// Puts a message into every worker's mailbox.
    pub fn send_all(&self, message: impl Fn() -> Message) {
        (0..self.workers()).for_each(|worker| self.send(worker, message()));
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// Puts a message into a worker's mailbox; a worker that has stopped needs none.
    pub fn send(&self, worker: usize, message: Message) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            let _ = mailbox.send(message);
        }
    }

    /// Tells the cache of a worker something.
    pub(crate) fn deliver(&self, worker: usize, delivery: cache::Delivery) {
        self.send(worker, Message::Cache(delivery));
    }

    /// Client connections in all, those included that have not logged in yet.
    pub fn clients(&self) -> u32 {
        self.clients.iter().map(|clients| clients.load(Ordering::Relaxed)).sum()
    }

    /// How often each worker has come to keep time since the start; one that hangs stands still.
    pub fn beats(&self) -> Vec<u64> {
        self.beats.iter().map(|beats| beats.load(Ordering::Relaxed)).collect()
    }

    /// Those of one worker.
    fn clients_of(&self, worker: usize) -> u32 {
        self.clients.get(worker).map_or(0, |clients| clients.load(Ordering::Relaxed))
    }

    /// Has a worker go on with a client of a process that has died.
    pub fn adopt(self: &Arc<Peers>, stream: DetachedStream, heritage: Box<Heritage>) {
        let worker = self.least_loaded(0);
        let place = Place::take(self, worker);
        self.send(worker, Message::Adopt(stream, heritage, place));
    }

    /// No client connection has this id yet, nor a greater one.
    pub fn begin_ids_at(&self, id: u32) {
        self.next_connection_id.fetch_max(id, Ordering::Relaxed);
    }

    /// The id of the next client connection: from [`FIRST_ID`] up, below what clients take for negative.
    ///
    /// Servers count from 1. A number of theirs that a client takes for one of ours, or the other way round, where nobody
    /// can translate it (a routine that kills), so names nobody instead of somebody else.
    pub fn next_connection_id(&self) -> u32 {
        FIRST_ID | self.next_connection_id.fetch_add(1, Ordering::Relaxed) & (FIRST_ID - 1)
    }

    /// The worker with the fewest clients; `preferred` when it is among them.
    fn least_loaded(&self, preferred: usize) -> usize {
        let load = |worker: &usize| self.clients.get(*worker).map_or(u32::MAX, |n| n.load(Ordering::Relaxed));
        let least = (0..self.workers()).min_by_key(load).unwrap_or(preferred);
        if load(&preferred) <= load(&least) { preferred } else { least }
    }
}

/// The lowest id of a client connection.
pub const FIRST_ID: u32 = 1 << 30;

/// The configuration as one worker holds it: handing it on counts in a cell, and touches no atomic.
pub type LocalSnapshot = Rc<Arc<Snapshot>>;

/// One worker.
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// The others, and itself.
    pub peers: Arc<Peers>,
    /// Its backend connections.
    pub pool: Pool,
    /// Its part of the query cache.
    pub cache: Cache,
    /// Its spare buffers.
    pub buffers: BufferPool,
    /// Schemas that need not be asked for at a login.
    pub known_schemas: client::KnownSchemas,
    /// The prepared statements of its clients and backend connections.
    pub prepared: Registry,
    /// Its counters.
    pub counters: RefCell<Counters>,
    /// Hints in comments that were ignored.
    pub(crate) ignored_hints: Seldom,
    /// Who is told of statements that are logged.
    pub query_log: RefCell<Option<QueryLog>>,
    /// Its mirrored statements.
    pub mirror: Mirror,
    /// What it remembers of the query rules.
    pub rules: RefCell<rules::Memory>,
    /// What it counts beside them.
    pub figures: Figures,
    /// Keeps failed logins from filling the log.
    pub failed_logins: Rc<Limiter>,
    /// Buffers of the lexer.
    pub scratch: RefCell<narrows_sql::Scratch>,
    snapshot: RefCell<LocalSnapshot>,
    sessions: RefCell<HashMap<u32, Rc<Handle>>>,
    /// The tasks that accept clients.
    acceptors: RefCell<Vec<JoinHandle<()>>>,
    /// Who waits for the last client to leave.
    draining: RefCell<Option<Draining>>,
    /// The states that logins led to last; see [`Worker::shared_state`].
    login_states: RefCell<VecDeque<SharedState>>,
    /// No session's deadline is before this.
    next_deadline: Cell<Instant>,
    /// See [`Worker::long_rest`].
    long_rest: Cell<Instant>,
    /// How many sessions keep the room for commands.
    rooms: Rc<Cell<usize>>,
}

impl Worker {
    fn new(index: usize, peers: Arc<Peers>, snapshot: Arc<Snapshot>) -> Worker {
        let figures = Figures::new(peers.workers(), peers.started);
        Worker {
            index,
            pool: Pool::new(index, Arc::clone(&peers), Rc::clone(&figures.errors)),
            cache: Cache::new(index, Arc::clone(&peers), &snapshot.variables),
            figures,
            peers,
            buffers: BufferPool::default(),
            ignored_hints: Seldom::default(),
            known_schemas: client::KnownSchemas::default(),
            prepared: Registry::default(),
            counters: RefCell::default(),
            query_log: RefCell::default(),
            mirror: Mirror::default(),
            rules: RefCell::default(),
            failed_logins: Limiter::new(|left_out| tracing::info!(left_out, "more logins have failed")),
            scratch: RefCell::default(),
            snapshot: RefCell::new(Rc::new(snapshot)),
            sessions: RefCell::default(),
            acceptors: RefCell::default(),
            draining: RefCell::default(),
            login_states: RefCell::default(),
            next_deadline: Cell::new(Instant::now() + FAR),
            long_rest: Cell::new(Instant::now() + 2 * LONG_REST),
            rooms: Rc::default(),
        }
    }

    /// Runs until told to stop. Accepts on `listeners`; other workers' clients come by mail.
    pub async fn run(
        index: usize,
        peers: Arc<Peers>,
        snapshot: Arc<Snapshot>,
        listeners: Vec<BoundListener>,
        mut mailbox: MailboxReceiver<Message>,
    ) {
        let worker = Rc::new(Worker::new(index, peers, snapshot));
        worker.listen(listeners);
        spawn_local(Rc::clone(&worker).keep_time());
        while let Some(message) = mailbox.recv().await {
            match message {
                Message::Stop => break,
                message => worker.receive(message),
            }
        }
        worker.interrupt_all(Interrupt::Shutdown);
        worker.pool.close_idle();
    }

    /// The configuration in force. Cheap: no atomic is touched.
    pub fn snapshot(&self) -> LocalSnapshot {
        Rc::clone(&self.snapshot.borrow())
    }

    /// The state of a login as a value that is shared with clients that have logged in alike: thousands do, and each
    /// copy takes a kilobyte.
    pub fn shared_state(&self, state: SessionState) -> SharedState {
        let mut recent = self.login_states.borrow_mut();
        if let Some(known) = recent.iter().find(|known| ***known == state) {
            return Arc::clone(known);
        }
        if recent.len() == LOGIN_STATES {
            recent.pop_front();
        }
        let state = Arc::new(state);
        recent.push_back(Arc::clone(&state));
        state
    }

    /// Enters a session into the list that kills and deadlines go by.
    pub fn enter(&self, handle: &Rc<Handle>) {
        self.sessions.borrow_mut().insert(handle.id, Rc::clone(handle));
    }

    /// The session of that id.
    pub(crate) fn session(&self, id: u32) -> Option<Rc<Handle>> {
        self.sessions.borrow().get(&id).map(Rc::clone)
    }

    /// The ids of all sessions.
    pub(crate) fn session_ids(&self) -> Vec<u32> {
        self.sessions.borrow().keys().copied().collect()
    }

    /// How many sessions there are.
    pub(crate) fn sessions_in_all(&self) -> usize {
        self.sessions.borrow().len()
    }

    /// What is counted, with the gauges as they are now.
    pub(crate) fn count(&self) -> Counters {
        let mut counters = self.counters.borrow().clone();
        self.pool.count_into(&mut counters);
        self.cache.count_into(&mut counters);
        for handle in self.sessions.borrow().values() {
            counters.active_transactions += u64::from(handle.is_in_transaction());
            counters.busy_clients += u64::from(handle.is_busy());
        }
        counters.session_bytes = (self.sessions_in_all() * SESSION_BYTES) as u64;
        for prepared in self.prepared.all() {
            counters.client_statements += u64::from(prepared.clients());
            counters.client_statements_unique += u64::from(prepared.clients() > 0);
            counters.backend_statements += u64::from(prepared.servers());
            counters.backend_statements_unique += u64::from(prepared.servers() > 0);
        }
        let (client_bytes, backend_bytes) = self.buffers.in_use();
        counters.client_buffer_bytes = client_bytes;
        counters.backend_buffer_bytes = backend_bytes;
        counters.digests_dropped = self.figures.digests.borrow().dropped();
        counters
    }

    /// Takes it out again.
    pub fn leave(&self, handle: &Handle) {
        self.sessions.borrow_mut().remove(&handle.id);
    }

    /// Has `handle` interrupted at `deadline` for that reason, instead of whatever was set before.
    pub fn set_deadline(&self, handle: &Handle, deadline: Instant, reason: Interrupt) {
        handle.deadline.set(Some((deadline, reason)));
        if deadline < self.next_deadline.get() {
            self.next_deadline.set(deadline);
        }
    }

    /// The right to keep the room for commands between them; `None` when enough sessions have it.
    pub(crate) fn keep_room(&self) -> Option<Room> {
        let rooms = self.rooms.get();
        (rooms < MOST_ROOMS).then(|| {
            self.rooms.set(rooms + 1);
            Room(Rc::clone(&self.rooms))
        })
    }

    /// When a client that rests now has done so for a while: one to two seconds. The same for many, which are swept at once.
    pub(crate) fn long_rest(&self) -> Instant {
        self.long_rest.get()
    }

    fn listen(self: &Rc<Worker>, listeners: Vec<BoundListener>) {
        for listener in listeners {
            let address = listener.address();
            match listener.attach() {
                Ok(listener) => {
                    let task = spawn_local(Rc::clone(self).accept(listener));
                    self.acceptors.borrow_mut().push(task);
                }
                Err(error) => tracing::error!(%error, address, "cannot accept on a listener"),
            }
        }
    }

    /// Closes the listeners; clients that were accepted stay.
    fn unlisten(&self, closed: oneshot::Sender<()>) {
        let acceptors = self.acceptors.take();
        acceptors.iter().for_each(JoinHandle::abort);
        spawn_local(async move {
            for acceptor in acceptors {
                // Its end is all that is waited for: with it the socket is closed.
                let _ = acceptor.await;
            }
            let _ = closed.send(());
        });
    }

    async fn accept(self: Rc<Worker>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(socket) => self.place(Stream::accepted(socket)),
                Err(error) => {
                    // Out of descriptors, usually: others close theirs meanwhile.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Hands a new client to the worker that has fewest.
    fn place(self: &Rc<Worker>, stream: Stream) {
        self.peers.accepted.fetch_add(1, Ordering::Relaxed);
        let worker = self.peers.least_loaded(self.index);
        let place = Place::take(&self.peers, worker);
        let full = self.peers.clients() > self.snapshot().variables.max_connections
            || descriptors::is_for(stream.descriptor(), Reserve::Backends);
        let admission = if full { Admission::Full } else { Admission::Granted };
        if worker == self.index {
            return self.serve(stream, admission, place);
        }
        match stream.detach() {
            Ok(stream) => self.peers.send(worker, Message::Client(stream, admission, place)),
            Err(error) => tracing::warn!(%error, "a client was lost between two workers"),
        }
    }

    fn serve(self: &Rc<Worker>, stream: Stream, admission: Admission, place: Place) {
        let worker = Rc::clone(self);
        spawn_local(async move {
            let _place = place;
            let _witness = PanicWitness(Rc::clone(&worker));
            client::serve(worker, stream, admission).await;
        });
    }

    /// Goes on with a client of another process.
    fn adopt(self: &Rc<Worker>, stream: DetachedStream, heritage: Box<Heritage>, place: Place) {
        let stream = match stream.attach() {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a client of the former process was lost"),
        };
        let worker = Rc::clone(self);
        spawn_local(async move {
            let _place = place;
            let _witness = PanicWitness(Rc::clone(&worker));
            client::go_on(worker, stream, Admission::Granted, heritage).await;
        });
    }

    fn receive(self: &Rc<Worker>, message: Message) {
        match message {
            Message::Adopt(stream, heritage, place) => self.adopt(stream, heritage, place),
            Message::Client(stream, admission, place) => match stream.attach() {
                Ok(stream) => self.serve(stream, admission, place),
                Err(error) => tracing::warn!(%error, "a client was lost between two workers"),
            },
            Message::Publish(snapshot) => {
                self.take_over(Arc::clone(&snapshot));
                self.known_schemas.forget();
                self.pool.take_over(snapshot);
            }
            Message::Borrow { hostgroup, to } => self.pool.lend_idle(hostgroup, to),
            Message::Backend(backend) => self.pool.receive(&self.snapshot(), backend),
            Message::CloseStatements(figures) => self.close_statements(figures),
            Message::Poke(hostgroup) => self.pool.poke(hostgroup),
            Message::Fetch { hostgroup, last_use } => self.fetch(hostgroup, last_use),
            Message::Kill { id, kind, username, answer } => {
                let _ = answer.send(self.kill(id, kind, Some(&username)));
            }
            Message::Cache(delivery) => self.cache.receive(delivery),
            Message::Ask(question) => question.put_to(self),
            Message::LogTo(log) => drop(self.query_log.replace(Some(log))),
            Message::Listen(listeners) => self.listen(listeners),
            Message::Unlisten(closed) => self.unlisten(closed),
            Message::Drain(gone) => self.drain(Draining { gone, hurries: false }),
            Message::DrainNow(gone) => self.drain(Draining { gone, hurries: true }),
            Message::Stop => {}
        }
    }

    /// Puts another configuration into force.
    fn take_over(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.replace(Rc::new(snapshot));
        let snapshot = self.snapshot();
        self.figures.recent_digests.forget();
        self.cache.take_over(&snapshot.variables);
        self.pool.forget_gone(&snapshot);
        self.cut_off(&snapshot);
    }

    /// Ends what runs where nothing may run.
    fn cut_off(&self, snapshot: &Snapshot) {
        self.sessions.borrow().values().for_each(|handle| {
            handle.cut_off(|server, in_transaction| snapshot.cuts_off(server, in_transaction))
        });
    }

    /// Ends a session or its statement; with `username`, only when it is that user's.
    pub(crate) fn kill(&self, id: u32, kind: KillKind, username: Option<&str>) -> KillAnswer {
        let Some(handle) = self.sessions.borrow().get(&id).map(Rc::clone) else { return KillAnswer::Unknown };
        if username.is_some_and(|username| *handle.username.borrow() != username) {
            return KillAnswer::NotOwner;
        }
        handle.interrupt(match kind {
            KillKind::Connection => Interrupt::KillConnection,
            KillKind::Query => Interrupt::KillQuery,
        });
        KillAnswer::Done
    }

    fn drain(&self, draining: Draining) {
        self.draining.replace(Some(draining));
        self.go_on_draining();
    }

    /// Ends the sessions that are to end and can, and tells when there are no clients any more.
    fn go_on_draining(&self) {
        let mut draining = self.draining.borrow_mut();
        if draining.as_ref().is_some_and(|draining| draining.hurries) {
            let sessions = self.sessions.borrow();
            let between = sessions.values().filter(|handle| !handle.is_busy() && !handle.is_in_transaction());
            between.for_each(|handle| handle.interrupt(Interrupt::Shutdown));
        }
        if self.peers.clients_of(self.index) == 0
            && let Some(draining) = draining.take()
        {
            // Who has waited too long does not listen any more.
            let _ = draining.gone.send(());
        }
    }

    fn interrupt_all(&self, reason: Interrupt) {
        self.sessions.borrow().values().for_each(|handle| handle.interrupt(reason));
    }

    /// Interrupts sessions whose deadline has passed, and looks after idle backend connections.
    async fn keep_time(self: Rc<Worker>) {
        loop {
            sleep(TICK).await;
            if let Some(beats) = self.peers.beats.get(self.index) {
                beats.fetch_add(1, Ordering::Relaxed);
            }
            let now = Instant::now();
            if now + LONG_REST > self.long_rest.get() {
                self.long_rest.set(now + 2 * LONG_REST);
            }
            self.go_on_draining();
            if now >= self.next_deadline.get() {
                self.sweep(now);
            }
            self.cache.tidy(now);
            let snapshot = self.snapshot();
            if snapshot.has_overdue() {
                self.cut_off(&snapshot);
            }
            self.tend_pool();
        }
    }

    fn sweep(&self, now: Instant) {
        let mut next = now + FAR;
        for handle in self.sessions.borrow().values() {
            match handle.deadline.get() {
                Some((deadline, reason)) if deadline <= now => {
                    handle.deadline.set(None);
                    handle.interrupt(reason);
                }
                Some((deadline, _)) => next = next.min(deadline),
                None => {}
            }
        }
        self.next_deadline.set(next);
    }
}

/// See [`Worker::keep_room`]; given back when dropped.
pub(crate) struct Room(Rc<Cell<usize>>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Counts a panic. It ends the session it is in; all that held is dropped, its backend connection closed.
struct PanicWitness(Rc<Worker>);

impl Drop for PanicWitness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.counters.borrow_mut().panics += 1;
            tracing::error!("a session ended by a panic; its connections are closed");
        }
    }
}

/// How late an interrupt may come.
const TICK: Duration = Duration::from_millis(200);

/// Sessions that keep the room for commands, some five kilobytes each, while they rest.
const MOST_ROOMS: usize = 256;

/// After this a client that rests gives that back.
const LONG_REST: Duration = Duration::from_secs(1);

/// Beyond every deadline.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// Login states that are remembered: one for each collation and schema that applications of one worker use.
const LOGIN_STATES: usize = 32;

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

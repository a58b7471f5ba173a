//! What one worker thread does: it accepts clients, reads its mailbox and runs timers. Only here do logins and sessions
//! begin.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cache;
use crate::client::{self, Admission};
use crate::descriptors::{self, Reserve};
use crate::hot_restart::RestoredClient;
use crate::outbox::Outbox;
use crate::pool;
use crate::query_log::RecordQueue;
use crate::rt::{
    BoundListener, Instant, JoinHandle, Listener, MailboxReceiver, MailboxSender, mailbox, oneshot, sleep,
    spawn_local,
};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::stream::{DetachedStream, Stream};
use crate::worker::{Interrupt, Kill, Outboxes, Peers, Place, Worker};

/// The messages to a worker from other threads. Its mailbox is an unbounded channel; for each kind it is documented how
/// many can wait there at most while the worker is busy.
#[derive(Debug)]
pub enum Event {
    /// Serve a client that another worker has accepted. Limited by the descriptors of the process.
    Client(DetachedStream, Admission, Place),
    /// Continue with a client of a process that died. At most as many as that process had.
    Adopt(DetachedStream, Box<RestoredClient>, Place),
    /// Apply a new configuration. At most one: see [`Workers::publish`].
    Publish,
    /// A message from another worker's pool: see [`pool::Mail`].
    Pool(pool::Mail),
    /// A request or an answer of the query cache: see [`cache::Delivery`].
    Cache(cache::Delivery),
    /// End a session or its statement. At most one per sending session, which waits for the answer.
    Kill(Kill),
    /// Run a task of the control plane. At most one per thread of the control plane, which waits for the answer.
    Ask(Task),
    /// Send the records of statements to this log. Sent once.
    LogTo(RecordQueue),
    /// Accept clients on these listeners, too. Sent at the start, and after each `Unlisten`.
    Listen(Vec<BoundListener>),
    /// Stop accepting clients. The control thread waits for the reply, which says that the listeners are closed.
    Unlisten(oneshot::Sender<()>),
    /// Notify when there are no more clients. Sent once.
    Drain(oneshot::Sender<()>),
    /// Like `Drain`, but also end each session at its next point between two transactions.
    DrainNow(oneshot::Sender<()>),
    /// End all sessions and stop.
    Stop,
}

/// A task for a worker: it runs on the worker's thread, between two events, so it must be short.
pub struct Task(Box<dyn FnOnce(&Worker) + Send>);

impl Task {
    /// A task that runs `ask`.
    pub fn new(ask: impl FnOnce(&Worker) + Send + 'static) -> Task {
        Task(Box::new(ask))
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}

/// All workers: their mailboxes, and what they share.
#[derive(Debug, Clone)]
pub struct Workers {
    mailboxes: Arc<[MailboxSender<Event>]>,
    newest: Arc<[Newest]>,
    peers: Arc<Peers>,
}

/// The configuration that a worker must apply and has not applied yet. A newer one replaces an older one.
#[derive(Debug, Default)]
struct Newest(
    #[expect(
        clippy::disallowed_types,
        reason = "taken when the configuration changes, never for a statement"
    )]
    std::sync::Mutex<Option<Arc<Snapshot>>>,
);

impl Newest {
    /// Sets the configuration; returns the previous one.
    fn replace(&self, snapshot: Option<Arc<Snapshot>>) -> Option<Arc<Snapshot>> {
        // No thread panics while it holds the lock.
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner), snapshot)
    }
}

impl Workers {
    /// Creates this many workers, and the receiving ends of their mailboxes.
    pub fn new(count: usize) -> (Workers, Vec<MailboxReceiver<Event>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| mailbox()).unzip();
        let mailboxes: Arc<[_]> = senders.into();
        let outboxes = Outboxes {
            pools: outbox(&mailboxes, Event::Pool),
            pokes: outbox(&mailboxes, |hostgroup| Event::Pool(pool::Mail::Poke(hostgroup))),
            caches: outbox(&mailboxes, Event::Cache),
            kills: outbox(&mailboxes, Event::Kill),
        };
        let peers = Arc::new(Peers::new(count, outboxes));
        let newest = std::iter::repeat_with(Newest::default).take(count).collect();
        (Workers { mailboxes, newest, peers }, receivers)
    }

    /// The state that the workers share.
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// The number of workers.
    pub fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Puts an event into a worker's mailbox; a worker that has stopped needs none.
    pub fn send(&self, worker: usize, event: Event) {
        put(&self.mailboxes, worker, event);
    }

    /// Puts an event into every worker's mailbox.
    pub fn send_all(&self, event: impl Fn() -> Event) {
        (0..self.count()).for_each(|worker| self.send(worker, event()));
    }

    /// Makes each worker apply a configuration. A worker that has not applied the last one yet only applies this one.
    pub fn publish(&self, snapshot: &Arc<Snapshot>) {
        for (worker, newest) in self.newest.iter().enumerate() {
            if newest.replace(Some(Arc::clone(snapshot))).is_none() {
                self.send(worker, Event::Publish);
            }
        }
    }

    /// The configuration that a worker must apply now.
    fn take_published(&self, worker: usize) -> Option<Arc<Snapshot>> {
        self.newest.get(worker)?.replace(None)
    }

    /// Makes a worker continue with a client of a process that died.
    pub fn adopt(&self, stream: DetachedStream, restored: Box<RestoredClient>) {
        let worker = self.peers.least_loaded(0);
        let place = Place::take(&self.peers, worker);
        self.send(worker, Event::Adopt(stream, restored, place));
    }
}

fn put(mailboxes: &[MailboxSender<Event>], worker: usize, event: Event) {
    if let Some(mailbox) = mailboxes.get(worker) {
        let _ = mailbox.send(event);
    }
}

/// An outbox that sends messages of one kind as events.
fn outbox<M>(
    mailboxes: &Arc<[MailboxSender<Event>]>,
    event: impl Fn(M) -> Event + Send + Sync + 'static,
) -> Outbox<M> {
    let mailboxes = Arc::clone(mailboxes);
    Outbox::new(move |worker, message| put(&mailboxes, worker, event(message)))
}

/// Runs one worker until told to stop. Accepts on `listeners`; clients from other workers arrive by message.
pub async fn run(
    index: usize,
    workers: Workers,
    snapshot: Arc<Snapshot>,
    listeners: Vec<BoundListener>,
    mut mailbox: MailboxReceiver<Event>,
) {
    let worker = Rc::new(Worker::new(index, Arc::clone(workers.peers()), snapshot));
    let (acceptors, draining) = Default::default();
    let event_loop = Rc::new(EventLoop { worker, workers, acceptors, draining });
    event_loop.listen(listeners);
    spawn_local(Rc::clone(&event_loop).keep_time());
    while let Some(event) = mailbox.recv().await {
        match event {
            Event::Stop => break,
            event => event_loop.receive(event),
        }
    }
    event_loop.worker.interrupt_all(Interrupt::Shutdown);
    event_loop.worker.pool.close_idle();
}

/// A running worker.
struct EventLoop {
    worker: Rc<Worker>,
    workers: Workers,
    /// The tasks that accept clients.
    acceptors: RefCell<Vec<JoinHandle<()>>>,
    /// The request to drain, which waits until the last client has disconnected.
    draining: RefCell<Option<Draining>>,
}

/// How a worker that no longer accepts clients ends the existing ones.
#[derive(Debug)]
struct Draining {
    /// Notified when the last client has disconnected.
    gone: oneshot::Sender<()>,
    /// Whether sessions are ended between two transactions.
    hurries: bool,
}

impl EventLoop {
    fn receive(self: &Rc<EventLoop>, event: Event) {
        let worker = &self.worker;
        match event {
            Event::Adopt(stream, restored, place) => self.adopt(stream, *restored, place),
            Event::Client(stream, admission, place) => match stream.attach() {
                Ok(stream) => self.serve(stream, admission, place, RestoredClient::fresh()),
                Err(error) => tracing::warn!(%error, "a client was lost between two workers"),
            },
            Event::Publish => {
                self.workers.take_published(worker.index).into_iter().for_each(|it| worker.take_over(it))
            }
            Event::Pool(mail) => worker.pool.receive(mail),
            Event::Cache(delivery) => worker.cache.receive(delivery),
            Event::Kill(Kill { id, kind, username, answer }) => {
                let _ = answer.send(worker.kill(id, kind, Some(&username)));
            }
            Event::Ask(Task(ask)) => ask(worker),
            Event::LogTo(log) => drop(worker.query_log.replace(Some(log))),
            Event::Listen(listeners) => self.listen(listeners),
            Event::Unlisten(closed) => self.unlisten(closed),
            Event::Drain(gone) => self.drain(Draining { gone, hurries: false }),
            Event::DrainNow(gone) => self.drain(Draining { gone, hurries: true }),
            Event::Stop => {}
        }
    }

    fn listen(self: &Rc<EventLoop>, listeners: Vec<BoundListener>) {
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
                // Only the end of the task is awaited, which closes the socket.
                let _ = acceptor.await;
            }
            let _ = closed.send(());
        });
    }

    async fn accept(self: Rc<EventLoop>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(socket) => self.place(Stream::accepted(socket)),
                Err(error) => {
                    // Usually file descriptors have run out; other sessions will close theirs.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Passes a new client to the worker with the fewest clients.
    fn place(self: &Rc<EventLoop>, stream: Stream) {
        let (own, peers) = (self.worker.index, self.workers.peers());
        peers.accepted.fetch_add(1, Ordering::Relaxed);
        let worker = peers.least_loaded(own);
        let place = Place::take(peers, worker);
        let full = peers.clients() > self.worker.snapshot().variables.max_connections
            || descriptors::is_for(stream.descriptor(), Reserve::Backends);
        let admission = if full { Admission::Full } else { Admission::Granted };
        if worker == own {
            return self.serve(stream, admission, place, RestoredClient::fresh());
        }
        match stream.detach() {
            Ok(stream) => self.workers.send(worker, Event::Client(stream, admission, place)),
            Err(error) => tracing::warn!(%error, "a client was lost between two workers"),
        }
    }

    /// Continues with a client of another process.
    fn adopt(&self, stream: DetachedStream, restored: RestoredClient, place: Place) {
        match stream.attach() {
            Ok(stream) => self.serve(stream, Admission::Granted, place, restored),
            Err(error) => tracing::warn!(%error, "a client of the former process was lost"),
        }
    }

    /// Serves one client from its first byte to its last.
    fn serve(&self, stream: Stream, admission: Admission, place: Place, restored: RestoredClient) {
        let worker = Rc::clone(&self.worker);
        let restored = Box::new(restored);
        spawn_local(async move {
            let _place = place;
            let _witness = PanicWitness(Rc::clone(&worker));
            // Boxed, so that an idle client's task does not keep the memory that its login needed.
            if let Some(session) = Box::pin(begin(worker, stream, admission, restored)).await {
                session.run().await;
            }
        });
    }

    fn drain(&self, draining: Draining) {
        if draining.hurries {
            self.worker.end_between_transactions();
        }
        self.draining.replace(Some(draining));
        self.go_on_draining();
    }

    /// Notifies when there are no more clients.
    fn go_on_draining(&self) {
        let mut draining = self.draining.borrow_mut();
        if self.workers.peers().clients_of(self.worker.index) == 0
            && let Some(draining) = draining.take()
        {
            // The receiver may have given up waiting.
            let _ = draining.gone.send(());
        }
    }

    /// Does periodic work.
    async fn keep_time(self: Rc<EventLoop>) {
        loop {
            sleep(TICK).await;
            self.go_on_draining();
            self.worker.tend(Instant::now());
        }
    }
}

/// Logs a client in; returns its session.
async fn begin(
    worker: Rc<Worker>,
    stream: Stream,
    admission: Admission,
    restored: Box<RestoredClient>,
) -> Option<Box<Session>> {
    let client = client::accept(&worker, stream, admission, restored).await?;
    Some(Session::new(worker, client))
}

/// Counts a panic, which ends its session: everything the session held is dropped, and its backend connection is
/// closed.
struct PanicWitness(Rc<Worker>);

impl Drop for PanicWitness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.counters.borrow_mut().panics += 1;
            tracing::error!("a session ended by a panic; its connections are closed");
        }
    }
}

/// The maximum delay of an interrupt.
const TICK: Duration = Duration::from_millis(200);

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Rows;

    #[test]
    fn of_several_configurations_a_worker_that_is_late_gets_the_last_one() {
        let (workers, mut mailboxes) = Workers::new(2);
        let snapshot = || Arc::new(Snapshot::compile(Rows::default(), 2, None).unwrap());
        let last = snapshot();
        (0..10).for_each(|_| workers.publish(&snapshot()));
        workers.publish(&last);
        let mut waiting = || std::iter::from_fn(|| mailboxes[1].try_recv().ok()).count();
        assert_eq!(waiting(), 1);
        assert!(workers.take_published(1).is_some_and(|found| Arc::ptr_eq(&found, &last)));
        assert!(workers.take_published(1).is_none());
        workers.publish(&last);
        assert_eq!(waiting(), 1);
    }
}

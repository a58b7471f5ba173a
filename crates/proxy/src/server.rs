//! The data plane as a whole: listeners and worker threads, started and stopped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::event_loop::{self, Event, Workers};
use crate::keep::{Loss, Parcel, ledger};
use crate::query_log::{QueryLog, Settings};
use crate::rt::{self, BoundListener};
use crate::snapshot::{CompileError, Rows, Snapshot};
use crate::sockets::{Own, Sockets};
use crate::stats::{Observer, wait};
use crate::stream::DetachedStream;
use crate::tls::SharedTls;

/// The running data plane. Dropping it does not stop it; [`DataPlane::stop`] does.
pub struct DataPlane {
    workers: Workers,
    threads: Vec<JoinHandle<()>>,
    snapshot: Arc<Snapshot>,
    sockets: Arc<dyn Sockets>,
    /// The interfaces as they are configured, and where each is bound: that differs where the port is 0.
    interfaces: Vec<String>,
    addresses: Vec<String>,
    listening: Listening,
    query_log: Option<QueryLog>,
}

/// Whether clients are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// They are.
    On,
    /// They are refused; existing ones continue.
    Paused,
}

/// Goes on with what a process that has died has left.
#[derive(Debug, Clone)]
pub struct Heir(Workers);

/// Tells whether the workers still do anything.
#[derive(Debug)]
pub struct Pulse {
    workers: Workers,
    last: Vec<u64>,
}

impl Pulse {
    /// The workers that have done nothing since this was asked last.
    pub fn late(&mut self) -> Vec<usize> {
        let now = self.workers.peers().beats();
        let counts = now.iter().zip(&self.last).enumerate();
        let late = counts.filter(|(_, (now, last))| now <= last).map(|(worker, _)| worker).collect();
        self.last = now;
        late
    }
}

impl Heir {
    /// Numbers of connections begin after those that have been given.
    pub fn begin_ids_at(&self, id: u32) {
        self.0.peers().begin_ids_at(id);
    }

    /// Goes on with one client.
    ///
    /// # Errors
    /// It cannot be gone on with, and is closed.
    pub fn take(&self, parcel: Parcel) -> Result<(), Loss> {
        let heritage = parcel.heritage?;
        let stream = DetachedStream::adopted(parcel.socket, &heritage).ok_or(Loss::Socket)?;
        self.0.adopt(stream, Box::new(heritage));
        Ok(())
    }
}

/// Why the data plane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be honoured.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An address cannot be listened on.
    #[error("cannot listen on {interface}: {source}")]
    Listen {
        /// The address.
        interface: String,
        /// Why.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a worker thread: {0}")]
    Thread(io::Error),
}

impl DataPlane {
    /// Binds all listeners and starts the workers.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub fn start(rows: Rows) -> Result<DataPlane, StartError> {
        DataPlane::start_with(rows, Arc::new(Own), Listening::On)
    }

    /// The same with listening sockets of `sockets`; with [`Listening::Paused`] none is asked for before
    /// [`DataPlane::resume`].
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub fn start_with(
        rows: Rows,
        sockets: Arc<dyn Sockets>,
        listening: Listening,
    ) -> Result<DataPlane, StartError> {
        let workers = match rows.variables.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let interfaces = match listening {
            Listening::On => rows.variables.interfaces.clone(),
            Listening::Paused => Vec::new(),
        };
        let listeners = bind(sockets.as_ref(), &interfaces)?;
        let addresses: Vec<String> = listeners.iter().map(BoundListener::address).collect();
        let snapshot = Arc::new(Snapshot::compile(rows, workers, None)?);
        note_ports(&addresses);

        let (workers, mailboxes) = Workers::new(workers);
        let shares = shares(listeners, workers.count());
        let mut threads = Vec::with_capacity(workers.count());
        for (index, (mailbox, share)) in mailboxes.into_iter().zip(shares).enumerate() {
            let (workers, snapshot) = (workers.clone(), Arc::clone(&snapshot));
            let run = move || {
                let worker = event_loop::run(index, workers, snapshot, share, mailbox);
                if let Err(error) = rt::block_on(worker) {
                    tracing::error!(worker = index, %error, "a worker cannot start");
                }
            };
            let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(run);
            threads.push(thread.map_err(StartError::Thread)?);
        }
        let query_log = None;
        Ok(DataPlane { workers, threads, snapshot, sockets, interfaces, addresses, listening, query_log })
    }

    /// The addresses that are listened on.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether clients are accepted.
    pub fn listening(&self) -> Listening {
        self.listening
    }

    /// Closes the listeners, so that new clients are refused; existing ones continue. Returns when that is done.
    pub fn pause(&mut self) {
        self.unlisten();
        self.interfaces.iter().for_each(|interface| self.sockets.release(interface));
    }

    /// Accepts no more clients in this process; another one may go on with the same sockets.
    pub fn unlisten(&mut self) {
        let closed = |worker| {
            let (closed, done) = rt::oneshot::channel();
            self.workers.send(worker, Event::Unlisten(closed));
            done
        };
        let closing: Vec<_> = (0..self.workers.count()).map(closed).collect();
        // A worker that has stopped has no listeners either.
        closing.into_iter().for_each(|done| drop(wait(done)));
        self.listening = Listening::Paused;
    }

    /// Accepts clients again, on the interfaces that are configured now.
    ///
    /// # Errors
    /// An address that cannot be listened on; all stay closed then.
    pub fn resume(&mut self) -> Result<(), StartError> {
        let known = |interface: &String| {
            let same = self.interfaces.iter().zip(&self.addresses).find(|(known, _)| *known == interface);
            same.map_or_else(|| interface.clone(), |(_, address)| address.clone())
        };
        let interfaces = self.snapshot.variables.interfaces.clone();
        let wanted: Vec<String> = interfaces.iter().map(known).collect();
        let listeners = bind(self.sockets.as_ref(), &wanted)?;
        self.addresses = listeners.iter().map(BoundListener::address).collect();
        note_ports(&self.addresses);
        self.interfaces = interfaces;
        for (worker, share) in shares(listeners, self.workers.count()).into_iter().enumerate() {
            self.workers.send(worker, Event::Listen(share));
        }
        self.listening = Listening::On;
        Ok(())
    }

    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        self.threads.len()
    }

    /// The configuration in force.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Puts another configuration into force, on each worker with its next message. Listeners and the number of
    /// workers stay.
    ///
    /// # Errors
    /// A configuration that cannot be honoured; the one before stays in force.
    pub fn publish(&mut self, rows: Rows) -> Result<(), CompileError> {
        let snapshot = Arc::new(Snapshot::compile(rows, self.workers.count(), Some(&self.snapshot))?);
        self.workers.publish(&snapshot);
        self.snapshot = snapshot;
        self.configure_log();
        Ok(())
    }

    /// Has servers that traffic has found broken tried again: their operator says so.
    pub fn end_shuns(&self) {
        let now = self.workers.peers().started.elapsed();
        for server in self.snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
            server.figures.shun.end(now);
        }
    }

    /// Puts other keys and certificates into force: for connections that begin from now on. None is dropped.
    pub fn replace_tls(&mut self, tls: SharedTls) {
        let snapshot = Arc::new(self.snapshot.with_tls(tls));
        self.workers.publish(&snapshot);
        self.snapshot = snapshot;
    }

    /// Has what rules have logged told to `log`, from now on.
    pub fn log_queries_to(&mut self, log: QueryLog) {
        self.workers.send_all(|| Event::LogTo(log.clone()));
        self.query_log = Some(log);
        self.configure_log();
    }

    /// Goes on with the log in a new file.
    pub fn rotate_log(&self) {
        if let Some(log) = &self.query_log {
            log.rotate();
        }
    }

    fn configure_log(&self) {
        if let Some(log) = &self.query_log {
            log.configure(Settings::of(&self.snapshot.variables));
        }
    }

    /// What hands clients of a process that has died to the workers.
    pub fn heir(&self) -> Heir {
        Heir(self.workers.clone())
    }

    /// What tells whether the workers still do anything.
    pub fn pulse(&self) -> Pulse {
        Pulse { workers: self.workers.clone(), last: self.workers.peers().beats() }
    }

    /// What asks the workers for figures.
    pub fn observer(&self) -> Observer {
        Observer::new(self.workers.clone())
    }

    /// Has every client leave in its own time, `limit` at most: then sessions end between two transactions, and at the
    /// end of `grace` wherever they are. Nothing is accepted any more; call [`DataPlane::pause`] or
    /// [`DataPlane::unlisten`] first.
    pub async fn drain(&self, limit: Duration, grace: Duration) {
        if rt::timeout(limit, self.all_gone(Event::Drain)).await.is_err() {
            // Whoever is in a transaction then is interrupted by the stop that follows.
            let _ = rt::timeout(grace, self.all_gone(Event::DrainNow)).await;
        }
    }

    /// Resolves when no worker has a client any more.
    async fn all_gone(&self, tell: fn(rt::oneshot::Sender<()>) -> Event) {
        let told = |worker| {
            let (gone, all) = rt::oneshot::channel();
            self.workers.send(worker, tell(gone));
            all
        };
        let waiting: Vec<_> = (0..self.workers.count()).map(told).collect();
        for gone in waiting {
            // A worker that has stopped has no clients.
            let _ = gone.await;
        }
    }

    /// Ends all sessions and stops the workers.
    pub fn stop(self) {
        self.workers.send_all(|| Event::Stop);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
    }
}

/// Notes where clients come from, before the first one does.
fn note_ports(addresses: &[String]) {
    if let Some(ledger) = ledger() {
        let port = |address: &String| address.parse().ok().map(|address: SocketAddr| address.port());
        ledger.note_ports(&addresses.iter().filter_map(port).collect::<Vec<_>>());
    }
}

fn bind(sockets: &dyn Sockets, interfaces: &[String]) -> Result<Vec<BoundListener>, StartError> {
    let bind = |interface: &String| {
        sockets.bind(interface).map_err(|source| StartError::Listen { interface: interface.clone(), source })
    };
    interfaces.iter().map(bind).collect()
}

/// The listeners, dealt out to the workers.
fn shares(listeners: Vec<BoundListener>, workers: usize) -> Vec<Vec<BoundListener>> {
    let mut shares: Vec<Vec<BoundListener>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, listener) in listeners.into_iter().enumerate() {
        if let Some(share) = shares.get_mut(index % workers) {
            share.push(listener);
        }
    }
    shares
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;

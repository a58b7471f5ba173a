//! The data plane as a whole: listeners and worker threads, started and stopped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::audit::AuditLog;
use crate::event_loop::{self, Event, Workers};
use crate::hostgroup::Demand;
use crate::hot_restart::{Loss, ReceivedClient, slot_table};
use crate::query_log::{QueryLog, Settings};
use crate::rt::{self, BoundListener, MailboxSender, nanoseconds};
use crate::snapshot::{CompileError, Rows, Snapshot, Variables};
use crate::sockets::{ListenFor, Own, Sockets};
use crate::stats::{Observer, wait};
use crate::stream::DetachedStream;
use crate::tls::SharedTls;

/// The running data plane. Dropping it does not stop it; [`DataPlane::stop`] does.
pub struct DataPlane {
    workers: Workers,
    threads: Vec<JoinHandle<()>>,
    snapshot: Arc<Snapshot>,
    sockets: Arc<dyn Sockets>,
    /// The interfaces as configured, and the address to which each is bound, which differs if the port is 0.
    interfaces: Vec<String>,
    addresses: Vec<String>,
    listening: Listening,
    logs: Option<RecordLogs>,
}

/// The logs of what happens to statements and clients.
#[derive(Debug, Clone)]
pub struct RecordLogs {
    /// The statements.
    pub queries: QueryLog,
    /// Who comes and leaves, and what administrators do.
    pub audit: AuditLog,
}

impl RecordLogs {
    /// Continues both as the variables say.
    fn configure(&self, variables: &Variables) {
        self.queries.configure(Settings::of(variables));
        self.audit.configure(variables);
    }

    /// Continues both in new files.
    pub fn rotate(&self) {
        self.queries.rotate();
        self.audit.rotate();
    }

    /// Waits until everything that is there is written, but not longer than `limit` for each of them.
    pub fn finish(&self, limit: Duration) {
        self.queries.finish(limit);
        self.audit.finish(limit);
    }
}

/// Whether clients are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// They are.
    On,
    /// They are refused; existing ones continue.
    Paused,
}

/// Continues with the clients of a process that died.
#[derive(Debug, Clone)]
pub struct ClientReceiver(Workers);

/// Shows whether the workers still make progress.
#[derive(Debug)]
pub struct Pulse {
    workers: Workers,
    last: Vec<u64>,
}

impl Pulse {
    /// The workers that have made no progress since the last call.
    pub fn late(&mut self) -> Vec<usize> {
        let now = self.workers.peers().beats();
        let counts = now.iter().zip(&self.last).enumerate();
        let late = counts.filter(|(_, (now, last))| now <= last).map(|(worker, _)| worker).collect();
        self.last = now;
        late
    }
}

impl ClientReceiver {
    /// Connection ids start after those already assigned.
    pub fn begin_ids_at(&self, id: u32) {
        self.0.peers().begin_ids_at(id);
    }

    /// Continues with one client.
    ///
    /// # Errors
    /// It cannot be continued, and is closed.
    pub fn take(&self, client: ReceivedClient) -> Result<(), Loss> {
        let restored = client.restored?;
        let stream = DetachedStream::adopted(client.socket, &restored).ok_or(Loss::Socket)?;
        self.0.adopt(stream, Box::new(restored));
        Ok(())
    }
}

/// Why the data plane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be applied.
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
        DataPlane::start_with(rows, Arc::new(Own), Listening::On, None)
    }

    /// The same with listening sockets from `sockets`, and with `logs`; with [`Listening::Paused`] no socket is requested
    /// before [`DataPlane::resume`].
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub fn start_with(
        rows: Rows,
        sockets: Arc<dyn Sockets>,
        listening: Listening,
        logs: Option<RecordLogs>,
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
        // Before the first client.
        if let Some(logs) = &logs {
            workers.send_all(|| Event::LogTo(logs.queries.queue()));
            workers.peers().audit_to(logs.audit.clone());
            logs.configure(&snapshot.variables);
        }
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
        Ok(DataPlane { workers, threads, snapshot, sockets, interfaces, addresses, listening, logs })
    }

    /// The listening addresses.
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

    /// Accepts no more clients in this process; another one may continue with the same sockets.
    pub fn unlisten(&mut self) {
        let closed = |worker| {
            let (closed, done) = rt::oneshot::channel();
            self.workers.send(worker, Event::Unlisten(closed));
            done
        };
        let closing: Vec<_> = (0..self.workers.count()).map(closed).collect();
        // A stopped worker has no listeners either.
        closing.into_iter().for_each(|done| drop(wait(done)));
        self.listening = Listening::Paused;
    }

    /// Accepts clients again, on the interfaces that are configured now.
    ///
    /// # Errors
    /// An address that cannot be listened on; then all stay closed.
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

    /// Applies another configuration, on each worker with its next message. Listeners and the number of workers stay.
    ///
    /// # Errors
    /// A configuration that cannot be applied; the previous one stays in force.
    pub fn publish(&mut self, rows: Rows) -> Result<(), CompileError> {
        let snapshot = self.compile(rows)?;
        self.put_into_force(snapshot);
        Ok(())
    }

    /// Compiles a configuration without applying it.
    ///
    /// # Errors
    /// A configuration that cannot be applied.
    pub fn compile(&self, rows: Rows) -> Result<Arc<Snapshot>, CompileError> {
        Snapshot::compile(rows, self.workers.count(), Some(&self.snapshot)).map(Arc::new)
    }

    /// Applies a configuration that [`DataPlane::compile`] has returned since the last one was applied.
    pub fn put_into_force(&mut self, snapshot: Arc<Snapshot>) {
        self.workers.publish(&snapshot);
        self.snapshot = snapshot;
        self.logs.iter().for_each(|logs| logs.configure(&self.snapshot.variables));
    }

    /// Makes shunned servers be tried again, as requested by an operator.
    pub fn end_shuns(&self) {
        let now = self.workers.peers().started.elapsed();
        for server in self.snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
            server.figures.shun.end(now);
        }
    }

    /// A check has reached a server, so long ago: unless it is still to be left alone, failures of connects before that count no
    /// longer. Otherwise only the next statement would show that it is back, and none may come while it is thought to be away.
    pub fn was_checked(&self, hostname: &str, port: u16, ago: Duration) {
        let now = self.workers.peers().started.elapsed();
        let servers = self.snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers);
        for server in servers.filter(|server| server.row.hostname == hostname && server.row.port == port) {
            if !server.figures.shun.rests(now) {
                server.figures.shun.end(now);
                server.figures.was_reached(nanoseconds(now.saturating_sub(ago)));
            }
        }
    }

    /// Applies other keys and certificates to new connections. Existing ones are kept.
    pub fn replace_tls(&mut self, tls: SharedTls) {
        let snapshot = Arc::new(self.snapshot.with_tls(tls));
        self.workers.publish(&snapshot);
        self.snapshot = snapshot;
    }

    /// Sends there which writer hostgroups are doubtful, because of what happened to statements.
    pub fn raise_alarms_at(&self, monitor: MailboxSender<Arc<Demand>>) {
        self.snapshot.alarm.connect(monitor);
    }

    /// The handle that passes clients of a dead process to the workers.
    pub fn receiver(&self) -> ClientReceiver {
        ClientReceiver(self.workers.clone())
    }

    /// The handle that shows whether the workers make progress.
    pub fn pulse(&self) -> Pulse {
        Pulse { workers: self.workers.clone(), last: self.workers.peers().beats() }
    }

    /// The handle for requesting figures from the workers.
    pub fn observer(&self) -> Observer {
        Observer::new(self.workers.clone())
    }

    /// Lets clients disconnect by themselves, for at most `limit`: after that, sessions end between two transactions,
    /// and after `grace` wherever they are. No clients are accepted any more; call [`DataPlane::pause`] or
    /// [`DataPlane::unlisten`] first.
    pub async fn drain(&self, limit: Duration, grace: Duration) {
        if rt::timeout(limit, self.all_gone(Event::Drain)).await.is_err() {
            // Clients that are still in a transaction are interrupted by the stop that follows.
            let _ = rt::timeout(grace, self.all_gone(Event::DrainNow)).await;
        }
    }

    /// Resolves when no worker has any clients.
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

/// Records the ports that clients connect to, before the first one does.
fn note_ports(addresses: &[String]) {
    if let Some(slot_table) = slot_table() {
        let port = |address: &String| address.parse().ok().map(|address: SocketAddr| address.port());
        slot_table.note_ports(&addresses.iter().filter_map(port).collect::<Vec<_>>());
    }
}

fn bind(sockets: &dyn Sockets, interfaces: &[String]) -> Result<Vec<BoundListener>, StartError> {
    let bind = |interface: &String| {
        sockets
            .bind(interface, ListenFor::Clients)
            .map_err(|source| StartError::Listen { interface: interface.clone(), source })
    };
    interfaces.iter().map(bind).collect()
}

/// The listeners, distributed to the workers.
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

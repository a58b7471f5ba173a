//! The process that serves clients: alone, or as the worker process of a supervisor.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use narrows_control::control::{self, Beginning, Handle};
use narrows_control::holds::Holds;
use narrows_control::monitor::placement::Known;
use narrows_control::runtime::{Begun, End, Keep, Process, as_known};
use narrows_control::secrets::Secrets;
use narrows_control::store::{Frozen, Store};
use narrows_control::tls::{self, KeyFile, LoadedTls};
use narrows_control::tokens::TokenKeeper;
use narrows_control::variables::Values;
use narrows_control::{audit_log, query_log};
use narrows_proxy::hot_restart::slot_table;
use narrows_proxy::server::{ClientReceiver, DataPlane, Listening, RecordLogs};
use narrows_proxy::snapshot::Rows;
use narrows_proxy::sockets::{Own, Sockets};
use narrows_proxy::stats::bound_what_is_kept;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::{error, info, warn};

use crate::client_transfer::ClientTransfer;
use crate::heart::Heart;
use crate::keeper::{self, Keepers};
use crate::last_words;
use crate::launch::{self, Launch};
use crate::line::{Leaving, Line, Order};
use crate::log::Log;
use crate::resources::{give_back_memory, keep_memory_private, raise_open_files_limit, warn_of_few_files};
use crate::signals::{self, Signals, Wanted};
use crate::supervisor::channel::{Channel, Received, Stance, ToSupervisor, ToWorker};
use crate::supervisor::{AGAIN, THIS_PROGRAM};

/// Serves as the only process until it is stopped.
///
/// # Errors
/// The error that prevents serving.
pub fn alone(launch: &Launch, log: Log) -> anyhow::Result<ExitCode> {
    raise_open_files_limit();
    keep_memory_private();
    bound_what_is_kept();
    let (_nobody, orders) = unbounded_channel();
    match (Server { launch, log, line: None, orders, heart: Heart::default() }).run(None)? {
        End::Again => start_again(),
        End::Now | End::Orderly => Ok(ExitCode::SUCCESS),
    }
}

/// Serves as a worker process of the supervisor that started it.
///
/// # Errors
/// The error that prevents serving; it has also been reported to the supervisor.
pub fn as_worker() -> anyhow::Result<ExitCode> {
    signals::block();
    let channel = Channel::inherited().context("finding the supervisor")?;
    let (launch, stance, interfaces, along) =
        match channel.receive().context("reading from the supervisor")? {
            Received::Message(ToWorker::Begin(launch, stance, interfaces), along) => {
                (launch, stance, interfaces, along)
            }
            _ => bail!("only the supervisor may start this"),
        };
    // The kernel has named the thread after the path by which its program was started.
    let _ = rustix::thread::set_name(c"narrows");
    let log = launch.open_log()?;
    raise_open_files_limit();
    keep_memory_private();
    bound_what_is_kept();
    last_words::prepare(&launch.datadir);
    // This must happen before there is a second thread.
    let keepers = Keepers::begin();
    let (told, orders) = unbounded_channel();
    let (sockets, frozen) = match stance {
        Stance::Cold => (interfaces.into_iter().zip(along).collect(), None),
        Stance::Ready | Stance::Check => (Vec::new(), along.into_iter().next()),
    };
    let line = Line::new(channel, sockets, told);
    match keepers {
        Ok(keepers) => {
            line.has_keepers(keepers);
            let line = Arc::clone(&line);
            keeper::look_after(move |ends| line.keepers_are(ends));
        }
        Err(error) => warn!(%error, "clients will not outlive this process"),
    }
    let serve = || {
        let frozen = ran_before(stance, frozen, &line)?;
        if let (Stance::Check, Some(file)) = (stance, &launch.file) {
            launch::load(file)?;
        }
        let (line, heart) = (Some(Arc::clone(&line)), Heart::default());
        (Server { launch: &launch, log, line, orders, heart }).run(frozen)
    };
    let served = serve();
    if let Some(slot_table) = slot_table() {
        slot_table.close();
    }
    report(served, &line)
}

/// Reports to the supervisor how this process ends.
fn report(served: anyhow::Result<End>, line: &Line) -> anyhow::Result<ExitCode> {
    match served {
        Ok(end) => {
            let status = if end == End::Again { AGAIN } else { 0 };
            line.tell(&ToSupervisor::Ends(status.into()));
            Ok(ExitCode::from(status))
        }
        Err(error) => {
            line.tell(&ToSupervisor::Unfit(crate::reason::of(&error).replace('\n', "; ")));
            Err(error)
        }
    }
}

/// The former configuration, for a process that does not start cold.
fn ran_before(stance: Stance, memory: Option<OwnedFd>, line: &Line) -> anyhow::Result<Option<Frozen>> {
    match (stance, memory) {
        (Stance::Cold, _) => Ok(None),
        (_, Some(memory)) => thaw(memory, line).map(Some),
        (_, None) => bail!("the former configuration is missing"),
    }
}

/// Uses these keys and certificates; returns the files that they depend on.
fn take_keys(keys: LoadedTls, rows: &mut Rows) -> Vec<KeyFile> {
    keys.remarks.iter().for_each(|remark| warn!("{remark}"));
    rows.tls = keys.tls;
    keys.read
}

/// Reads the former configuration.
fn thaw(memory: OwnedFd, line: &Line) -> anyhow::Result<Frozen> {
    let file = std::fs::File::from(memory);
    let length = file.metadata().context("reading the length of the former configuration")?.len();
    let mut bytes = vec![0; usize::try_from(length)?];
    // Processes that share the file also share its position.
    file.read_exact_at(&mut bytes, 0).context("reading the former configuration")?;
    let frozen = Frozen::read(&bytes)?;
    line.was_given(file.into(), &bytes);
    Ok(frozen)
}

struct Server<'a> {
    launch: &'a Launch,
    log: Log,
    line: Option<Arc<Line>>,
    orders: UnboundedReceiver<Order>,
    heart: Heart,
}

/// Begins to keep the keys of the issuers in `rows`.
fn keep_issuers(rows: &mut Rows) -> TokenKeeper {
    let mut tokens = TokenKeeper::default();
    rows.issuers = tokens.issuers(&rows.token_issuers);
    tokens.follow(&rows.issuers);
    tokens
}

/// A data plane that serves, and the store.
struct Serving {
    store: Store,
    plane: DataPlane,
    rows: Rows,
    secrets: Secrets,
    key_files: Vec<KeyFile>,
    tokens: TokenKeeper,
    known: Known,
    holds: Holds,
}

impl Server<'_> {
    fn run(mut self, frozen: Option<Frozen>) -> anyhow::Result<End> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _entered = runtime.enter();
        // Set up before anything is served, so that no signal is missed.
        let signals = Signals::take().context("handling signals")?;
        let logs = RecordLogs {
            queries: query_log::start(&self.launch.datadir).context("starting the query log")?,
            audit: audit_log::start(&self.launch.datadir).context("starting the audit log")?,
        };
        let is_cold = frozen.is_none();
        let serving = match frozen {
            None => self.begin_cold(&logs)?,
            Some(frozen) => match runtime.block_on(self.begin_ready(&frozen, &logs, &signals))? {
                Some(serving) => serving,
                None => return Ok(End::Now),
            },
        };
        let Serving { store, plane, rows, secrets, key_files, tokens, known, holds } = serving;
        let finishing = logs.clone();
        self.heart.follow(Some(plane.pulse()));
        warn_of_few_files(rows.variables.max_connections);
        let (interfaces, workers) = (plane.addresses().join(", "), plane.workers());
        let (ends, mut ended) = unbounded_channel();
        let (heart, log) = (self.heart.clone(), self.log.clone());
        let control = control::begin(Beginning {
            store,
            begun: Begun {
                plane,
                rows,
                secrets,
                key_files,
                tokens,
                known,
                holds,
                sockets: self.sockets(),
                keep: self.keep(),
                datadir: self.launch.datadir.clone(),
                job_starter: Some(THIS_PROGRAM.into()),
                logs,
                on_pulse: Box::new(move |pulse| heart.follow(pulse)),
                set_log_levels: Box::new(move |levels| log.set_levels(levels)),
            },
            monitoring: self.launch.monitoring(),
            fleet: self.launch.fleet(),
            process: self.process(ends),
        })?;
        info!(interfaces = control.addresses().join(", "), "administrators are served");
        info!(interfaces, workers, "serving");
        give_back_memory();
        if is_cold {
            self.is_serving();
        }
        let departure = runtime.block_on(self.told_to_end(&signals, &control, &mut ended));
        let end = self.leave(&runtime, &signals, departure);
        finishing.finish(LAST_RECORDS_TIME);
        end
    }

    /// What administrators may do to this process.
    fn process(&self, ends: UnboundedSender<End>) -> Process {
        let (log, line) = (self.log.clone(), self.line.clone());
        Process {
            reopen_log: Box::new(move || {
                let reopened = log.reopen();
                line.iter().for_each(|line| line.tell(&ToSupervisor::LogReopened));
                reopened
            }),
            on_end: Box::new(move |end| {
                // The receiver is only gone if the process is already ending.
                let _ = ends.send(end);
            }),
        }
    }

    /// Reads the databases, and serves.
    fn begin_cold(&self, logs: &RecordLogs) -> anyhow::Result<Serving> {
        let store = Store::open(self.launch.opening())?;
        store.remarks().iter().for_each(|remark| warn!("{remark}"));
        let mut rows = store.rows();
        let secrets = Secrets::at_a_start(&mut rows, store.variables());
        let key_files = self.keys(store.variables(), &mut rows, &secrets)?;
        let tokens = keep_issuers(&mut rows);
        let known = Known::default();
        let as_known = as_known(&rows, store.variables(), &known, self.launch.monitoring());
        let plane = DataPlane::start_with(as_known, self.sockets(), Listening::On, Some(logs.clone()))?;
        let holds = Holds::default();
        Ok(Serving { store, plane, rows, secrets, key_files, tokens, known, holds })
    }

    /// Prepares everything but the sockets, waits for its turn, and serves; the databases are opened only after that.
    /// `None` if it must no longer serve.
    async fn begin_ready(
        &mut self,
        frozen: &Frozen,
        logs: &RecordLogs,
        signals: &Signals,
    ) -> anyhow::Result<Option<Serving>> {
        let mut rows = frozen.rows().clone();
        let secrets = Secrets::at_a_start(&mut rows, frozen.variables());
        let keys = tls::load_usable(&self.launch.datadir, frozen.variables(), &rows.ssl_params, &secrets);
        let key_files = take_keys(keys, &mut rows);
        let tokens = keep_issuers(&mut rows);
        let (known, mut holds) = (frozen.known().clone(), frozen.holds().clone());
        let as_known = as_known(&rows, frozen.variables(), &known, self.launch.monitoring());
        let mut plane =
            DataPlane::start_with(as_known, self.sockets(), Listening::Paused, Some(logs.clone()))?;
        self.tell(&ToSupervisor::Ready);
        // Without its supervisor, a waiting process is of no use.
        if self.heard(signals, |message| matches!(message, ToWorker::Serve(_))).await != Heard::Message {
            return Ok(None);
        }
        // Before the first client.
        holds.put_into_force(&plane.observer());
        let transfers = self.begin_transfers(&plane.receiver());
        plane.resume()?;
        self.heart.follow(Some(plane.pulse()));
        self.is_serving();
        self.take_transfers(transfers, plane.receiver());
        match self.heard(signals, |message| matches!(message, ToWorker::OpenStore)).await {
            Heard::Message => {}
            // The supervisor has ended, and so has the process that had the databases.
            Heard::Cut => warn!("the supervisor ended before it said that the databases are free"),
            Heard::Stop => return Ok(None),
        }
        let store = self.open_store(frozen, signals).await;
        Ok(store.map(|store| Serving { store, plane, rows, secrets, key_files, tokens, known, holds }))
    }

    /// Opens the databases while clients are already served. `None` if a signal arrived first.
    async fn open_store(&mut self, frozen: &Frozen, signals: &Signals) -> Option<Store> {
        loop {
            match Store::open_beside(self.launch.opening(), frozen) {
                Ok(store) => {
                    store.remarks().iter().for_each(|remark| warn!("{remark}"));
                    return Some(store);
                }
                Err(error) => error!(%error, "clients are served, administrators are not yet; retrying"),
            }
            tokio::select! {
                () = tokio::time::sleep(STORE_RETRY) => {}
                stop = signals.next_stop() => {
                    self.make_sure(signals, stop).await;
                    info!(signal = stop.name(), "stopping");
                    return None;
                }
            }
        }
    }

    /// Receives the clients of dead processes. Connection ids continue after theirs; everything they had open is closed
    /// by then, including the databases.
    fn begin_transfers(&self, receiver: &ClientReceiver) -> Vec<ClientTransfer> {
        let ways = self.line.as_ref().map(|line| line.take_transfers()).unwrap_or_default();
        ways.into_iter().map(|pending| ClientTransfer::begin(pending, receiver)).collect()
    }

    /// Continues with these clients on a separate thread, and notifies the supervisor when all have been received.
    fn take_transfers(&self, transfers: Vec<ClientTransfer>, receiver: ClientReceiver) {
        let Some(line) = self.line.clone().filter(|_| !transfers.is_empty()) else { return };
        let take = move || {
            transfers.into_iter().for_each(|transfer| transfer.take(&receiver));
            line.tell(&ToSupervisor::Adopted);
        };
        if let Err(error) = std::thread::Builder::new().name("transfer".to_owned()).spawn(take) {
            warn!(%error, "the clients of the former process are lost");
        }
    }

    fn keys(&self, variables: &Values, rows: &mut Rows, secrets: &Secrets) -> anyhow::Result<Vec<KeyFile>> {
        let keys = tls::load(&self.launch.datadir, variables, &rows.ssl_params, secrets)
            .context("reading keys and certificates")?;
        Ok(take_keys(keys, rows))
    }

    fn sockets(&self) -> Arc<dyn Sockets> {
        match &self.line {
            Some(line) => Arc::clone(line) as Arc<dyn Sockets>,
            None => Arc::new(Own),
        }
    }

    fn keep(&self) -> Option<Keep> {
        let line = Arc::clone(self.line.as_ref()?);
        Some(Box::new(move |frozen| line.keep(frozen)))
    }

    fn tell(&self, message: &ToSupervisor) {
        if let Some(line) = &self.line {
            line.tell(message);
        }
    }

    fn is_serving(&self) {
        if let Some(line) = &self.line {
            line.open_door(&self.launch.datadir);
            line.tell(&ToSupervisor::Serving);
            self.heart.begin(Arc::clone(line));
        }
    }

    /// Waits for a message.
    async fn heard(&mut self, signals: &Signals, fits: impl Fn(&ToWorker) -> bool) -> Heard {
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(Order::Message(message)) if fits(&message) => return Heard::Message,
                    Some(Order::Message(_)) => {}
                    Some(Order::Cut) | None => return Heard::Cut,
                },
                received = signals.next() => match received.wants() {
                    Wanted::Stop => {
                        self.make_sure(signals, received).await;
                        return Heard::Stop;
                    }
                    Wanted::Logs => self.reopen_log(),
                    Wanted::Upgrade => warn!("{UPGRADES_ELSEWHERE}"),
                },
            }
        }
    }

    fn reopen_log(&self) {
        if let Err(error) = self.log.reopen() {
            warn!(%error, "cannot reopen the log");
        }
    }

    /// Returns when the supervisor ends everything. If only this process was told to end, it ends as if it had been
    /// killed: the supervisor starts another one, which continues with its clients.
    async fn make_sure(&mut self, signals: &Signals, stop: signals::ReceivedSignal) {
        let Some(line) = self.line.clone() else { return };
        if !line.has_supervisor_other_than(stop.sender) {
            return;
        }
        // A signal to the whole process group also reaches the supervisor.
        let is_confirmed = async {
            loop {
                tokio::select! {
                    again = signals.next_stop() => if !line.has_supervisor_other_than(again.sender) { return },
                    order = self.orders.recv() => match order {
                        Some(Order::Message(ToWorker::EverythingEnds) | Order::Cut) | None => return,
                        Some(Order::Message(_)) => {}
                    },
                }
            }
        };
        if tokio::time::timeout(MOMENT, is_confirmed).await.is_err() {
            let (signal, sender) = (stop.name(), stop.sender);
            warn!(signal, sender, "only this process was told to end; another one continues");
            stop.die();
        }
    }

    /// Waits until the process must end, and stops everything except the data plane.
    async fn told_to_end(
        &mut self,
        signals: &Signals,
        control: &Handle,
        ended: &mut UnboundedReceiver<End>,
    ) -> Departure {
        loop {
            let end = tokio::select! {
                received = signals.next() => match received.wants() {
                    Wanted::Stop => {
                        self.make_sure(signals, received).await;
                        info!(signal = received.name(), "stopping");
                        End::Orderly
                    }
                    Wanted::Logs => {
                        control.flush_logs();
                        continue;
                    }
                    Wanted::Upgrade => {
                        warn!("{UPGRADES_ELSEWHERE}");
                        continue;
                    }
                },
                Some(end) = ended.recv() => {
                    info!(by = "an administrator", "stopping");
                    end
                }
                Some(order) = self.orders.recv() => match self.obey(&order, control) {
                    Some(departure) => return departure,
                    None => continue,
                },
            };
            // An administrator's statement that takes longer does not keep the process running.
            let plane = control.hand_over(TIME_TO_STOP).ok().flatten();
            let leaving = if end == End::Again { Leaving::Again } else { Leaving::Stop };
            return Departure { plane, end, leaving };
        }
    }

    /// Ends this process if the supervisor has a newer program for it.
    fn obey(&self, order: &Order, control: &Handle) -> Option<Departure> {
        match order {
            Order::Message(ToWorker::HandOver) if self.heart.is_stopped() => {
                let reason = "PROXYSQL STOP is in force, and the newer program would not know about it";
                self.tell(&ToSupervisor::NotHandedOver(reason.to_owned()));
                None
            }
            Order::Message(ToWorker::HandOver) => match control.hand_over(TIME_TO_STOP) {
                Ok(plane) => Some(Departure { plane, end: End::Orderly, leaving: Leaving::HandedOver }),
                Err(error) => {
                    self.tell(&ToSupervisor::NotHandedOver(error.to_string()));
                    None
                }
            },
            Order::Message(_) => None,
            Order::Cut => {
                warn!("the supervisor has ended; this process continues and waits for the next one");
                None
            }
        }
    }

    /// Gives clients time to disconnect, if the reason for the end allows it, and ends.
    fn leave(
        &self,
        runtime: &tokio::runtime::Runtime,
        signals: &Signals,
        departure: Departure,
    ) -> anyhow::Result<End> {
        let Departure { plane, end, leaving } = departure;
        // Clients that are still connected then must not continue in another process.
        if let Some(slot_table) = slot_table() {
            slot_table.close();
        }
        let Some(mut plane) = plane else { return Ok(end) };
        match leaving {
            Leaving::Stop => plane.pause(),
            Leaving::HandedOver | Leaving::Again => plane.unlisten(),
        }
        if let Some(line) = &self.line {
            line.leave(leaving);
        }
        if leaving == Leaving::HandedOver {
            self.tell(&ToSupervisor::HandedOver);
            info!("another process continues; clients have time to disconnect");
        }
        let limit = self.launch.drain_timeout();
        if end == End::Orderly && !limit.is_zero() {
            runtime.block_on(self.drained(&plane, limit, signals, leaving));
        }
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            plane.stop();
            done.send(())
        });
        // The process ends now in any case.
        let _ = wait.recv_timeout(TIME_TO_STOP);
        Ok(end)
    }

    /// Waits until all clients have disconnected, their time is over, or the process is told to end at once.
    async fn drained(&self, plane: &DataPlane, limit: Duration, signals: &Signals, leaving: Leaving) {
        // The clients of a process that has been replaced keep their time to disconnect, even if its successor ends.
        let mut may_be_told = leaving == Leaving::HandedOver;
        let drain = plane.drain(limit, GRACE);
        tokio::pin!(drain);
        loop {
            let received = tokio::select! {
                () = &mut drain => return,
                received = signals.next() => received,
            };
            match received.wants() {
                Wanted::Stop if may_be_told => may_be_told = false,
                Wanted::Stop => return info!(signal = received.name(), "stopping at once"),
                Wanted::Logs => self.reopen_log(),
                Wanted::Upgrade => {}
            }
        }
    }
}

/// The outcome of waiting for the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// The supervisor has sent a matching message.
    Message,
    /// The supervisor has ended.
    Cut,
    /// The process must end.
    Stop,
}

/// What remains of a server that is ending.
struct Departure {
    /// `None` if the data plane does not run, or is not available.
    plane: Option<DataPlane>,
    end: End,
    leaving: Leaving,
}

/// Replaces this program with the same program and arguments.
fn start_again() -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    let mut arguments = std::env::args_os();
    let program = std::env::current_exe().context("finding the program to restart")?;
    let error = std::process::Command::new(program).args(arguments.by_ref().skip(1)).exec();
    Err(error).context("starting again")
}

/// Ending client sessions takes milliseconds. Only an administrator's statement can delay it, and that is no reason to
/// wait.
const TIME_TO_STOP: Duration = Duration::from_secs(3);

/// How long a supervisor may take to report that it was told to end, too.
const MOMENT: Duration = Duration::from_millis(500);

/// The reply to a signal that is meant for the supervisor.
const UPGRADES_ELSEWHERE: &str = "SIGUSR2 has no effect here: request upgrades from the supervisor";

/// The pause before a full or missing disk is tried again.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// How long a transaction may still take after the clients' time to disconnect is over.
const GRACE: Duration = Duration::from_secs(5);

/// The time for writing the last records of the query log.
const LAST_RECORDS_TIME: Duration = Duration::from_secs(2);

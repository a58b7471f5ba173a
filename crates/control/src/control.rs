//! The control thread: it owns the store and the runtime, and answers one statement at a time.
//!
//! Workers only receive messages, whatever an operator does: a long statement makes other operators wait, and nobody
//! else. The SQL of statistics users is not executed here at all.

mod audit;
mod events;
mod handle;
mod history;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use crate::admin::readers::{self, Job, Returned};
use crate::admin::reply::Reply;
use crate::admin::request::{Caller, Request};
use crate::admin::statement::Statement;
use crate::command::{self, Parts};
use crate::config::bootstrap::FleetSettings;
use crate::fleet::{Fleet, usual_node};
use crate::monitor::Monitor;
pub use crate::monitor::Monitoring;
pub use crate::runtime::BeginError;
use crate::runtime::{AdminListeners, Begun, FleetMember, HttpListeners, Plane, Process, Runtime};
use crate::scheduler::{Scheduler, Surroundings};
use crate::secrets::SecretWatch;
use crate::stats::Sources;
use crate::stats::nodes::Nodes;
use crate::stats::readiness::obstacle;
use crate::store::Store;
use crate::switchover;
use audit::Audit;
use events::EventSync;
use handle::Message;
pub use handle::{Handle, StillBusy};
use history::History;

/// What the control thread starts with.
pub struct Beginning {
    /// The configuration.
    pub store: Store,
    /// The parts that already run.
    pub begun: Begun,
    /// Whether the monitor runs.
    pub monitoring: Monitoring,
    /// The fleet that this Narrows belongs to; `None`: none.
    pub fleet: Option<FleetSettings>,
    /// The surrounding program.
    pub process: Process,
}

/// Starts the control thread and the thread that serves administrators.
///
/// # Errors
/// See [`BeginError`].
pub fn begin(beginning: Beginning) -> Result<Handle, BeginError> {
    let Beginning { mut store, begun, monitoring, fleet, process } = beginning;
    let (messages, mailbox) = channel();
    let messages_of_switchover: Sender<Message> = messages.clone();
    let tls = || (&begun.secrets, begun.rows.tls.clone());
    let (sockets, audit_log) = (Arc::clone(&begun.sockets), begun.logs.audit.clone());
    let audit = Audit::new(audit_log.clone());
    let listeners = AdminListeners::begin(&store, tls(), sockets, audit_log, messages.clone())?;
    let addresses = listeners.addresses().to_vec();
    let http = HttpListeners::begin(&store, tls(), Arc::clone(&begun.sockets), messages.clone())?;
    let readers = readers::start(messages.clone())?;
    let monitor = match monitoring {
        Monitoring::On => Some(Monitor::start(messages.clone(), store.urgency())?),
        Monitoring::Off => None,
    };
    let begin_switchover = Box::new(move |order, observer, journal| {
        switchover::begin(order, observer, messages_of_switchover.clone(), journal)
    });
    let surroundings = Surroundings { starter: begun.job_starter.clone(), datadir: begun.datadir.clone() };
    let scheduler = Scheduler::start(surroundings)?;
    let mut runtime =
        Runtime::new(&mut store, begun, monitor, (listeners, http), scheduler, begin_switchover);
    runtime.follow_secrets(&store, SecretWatch::start(messages.clone())?);
    if let Some(settings) = fleet {
        runtime.join(begin_fleet(settings, &mut store, &addresses, messages.clone())?);
    }
    let control = Control {
        runtime,
        store,
        process,
        nodes: Nodes::default(),
        readers,
        history: History::default(),
        events: EventSync::default(),
        audit,
    };
    std::thread::Builder::new().name("control".to_owned()).spawn(move || control.run(&mailbox))?;
    Ok(Handle { messages, addresses })
}

/// Starts the thread of a member of a fleet.
fn begin_fleet(
    settings: FleetSettings,
    store: &mut Store,
    addresses: &[String],
    control: Sender<Message>,
) -> io::Result<FleetMember> {
    let node = settings.node.clone().unwrap_or_else(|| usual_node(addresses));
    let applied = FleetMember::applied(store);
    let running = applied.as_ref().map(|(place, _)| place.clone());
    let thread = Fleet::start(settings, (node, store.uuid().to_owned(), running), control)?;
    if let Err(refusal) = store.add_fleet_tables() {
        tracing::warn!("the tables with the statistics of all members cannot be created: {refusal}");
    }
    Ok(FleetMember::new(thread, applied))
}

/// Owns the configuration and what runs.
struct Control {
    store: Store,
    runtime: Runtime,
    process: Process,
    nodes: Nodes,
    readers: Sender<Job>,
    history: History,
    events: EventSync,
    audit: Audit,
}

impl Control {
    fn run(mut self, mailbox: &Receiver<Message>) {
        loop {
            self.history.tick(&mut self.store, self.runtime.observer().as_ref());
            self.events.tick(&mut self.runtime, &mut self.store);
            self.audit.tick();
            self.runtime.warn_of_expiry();
            self.runtime.note_ended_holds(&mut self.store);
            self.runtime.count_if_due();
            self.tell_fleet();
            self.runtime.keep_edits(&mut self.store);
            let due =
                self.runtime.keeps_again(&self.store).map(|at| at.saturating_duration_since(Instant::now()));
            let message = match mailbox.recv_timeout(due.map_or(history::TICK, |due| due.min(history::TICK)))
            {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match message {
                Message::Statement(request) | Message::Returned(Returned::Checked(request)) => {
                    self.answer(request);
                }
                Message::Returned(Returned::NotTold(taken)) => {
                    taken.give_back(self.runtime.observer().as_ref());
                }
                Message::FlushLogs => drop(command::flush_logs(&self.runtime, &self.process)),
                Message::Monitor(report) => self.runtime.learn(&mut self.store, report),
                Message::Switchover(wanted) => self.runtime.serve_switchover(&mut self.store, wanted),
                Message::Renewal(renewal) => self.runtime.renew(&self.store, renewal),
                Message::Fleet(wish) => self.runtime.serve_fleet(&mut self.store, wish),
                // Who asks finds this process busy, and asks again: a switchover would end halfway.
                Message::HandOver(_) if self.runtime.is_switching_over() => {
                    tracing::warn!(
                        "a switchover is running: this process is not replaced before it has ended"
                    );
                }
                Message::HandOver(request) => {
                    if !request.is_settled.swap(true, Ordering::AcqRel) {
                        let plane = self.let_go();
                        let _ = request.to.send(plane);
                        return;
                    }
                }
            }
        }
    }

    fn answer(&mut self, mut request: Request) {
        self.history.prepare_for(&mut self.store, &request.text);
        let reply = match std::str::from_utf8(&request.text) {
            Ok(text) => self.carry_out(&request.caller, &Statement::new(text), request.since),
            Err(error) => {
                let message = format!("Invalid utf8 character string: byte {}", error.valid_up_to() + 1);
                Reply::refused(1300, "HY000", message)
            }
        };
        if !command::asks_for_warnings(&request.text, &reply) {
            request.caller.keep_warnings(&reply);
        }
        request.caller.is_checked = false;
        // What is answered is kept, except within many edits in a row.
        self.runtime.keep_edits(&mut self.store);
        // A session that has ended needs no answer, and a thread that has ended does not reply.
        match reply {
            Reply::OnFigures(question) => drop(self.readers.send(Job { question: *question, request })),
            reply => drop(request.reply.send((request.caller, reply))),
        }
    }

    fn carry_out(&mut self, caller: &Caller, statement: &Statement<'_>, since: Instant) -> Reply {
        let before = self.audit.before(&mut self.store, caller, statement);
        self.runtime.count_before_reset(statement.sql);
        let mut parts = Parts {
            store: &mut self.store,
            runtime: &mut self.runtime,
            nodes: &mut self.nodes,
            process: &self.process,
        };
        let reply = command::answer(&mut parts, caller, statement, since);
        self.audit.after((&mut self.store, self.runtime.secrets()), caller, statement, before, &reply);
        reply
    }

    /// Tells the fleet how it is here.
    fn tell_fleet(&mut self) {
        let (store, nodes) = (&self.store, &self.nodes);
        self.runtime.tell_fleet(store, |runtime| obstacle(&Sources { store, runtime, nodes }));
    }

    /// Ends everything but the data plane: the databases are closed when this returns.
    fn let_go(mut self) -> Plane {
        self.audit.flush();
        self.history.flush(&mut self.store);
        self.runtime.into_plane()
    }
}

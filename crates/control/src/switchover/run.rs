//! Makes a switchover, step by step, and undoes it in reverse if it cannot be finished.
//!
//! Clients are held only for what must not overlap with writes: the old primary becomes read-only, the new one catches up and
//! takes writes. Replicas are moved after clients continue. The point of no return is the statement that lets the new primary take
//! writes: after it nothing is undone, and what fails is reported.

mod approach;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use narrows_proxy::backend::Table;
use narrows_proxy::rt::{Instant, oneshot, sleep, spawn_local, timeout};
use narrows_proxy::stats::Observer;

use super::dialect::Dialect;
use super::facts::{Channel, only};
use super::fault;
use super::gather::gather;
use super::journal::{Journal, Step, StepState};
use super::link::{Link, LinkError};
use super::plan::SwitchoverPlan;
use super::{SwitchoverOrder, Wanted};
use crate::monitor::finding::Finding;
use crate::monitor::role::{RoleReport, ServerRole};

/// Asks the control thread for something; returns whether it is there.
type Ask = Box<dyn Fn(Wanted) -> bool>;

/// How far a switchover has come when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Clients are held.
    Holding,
    /// The old primary may refuse writes.
    Demoting,
    /// The new one may take writes.
    Promoting,
}

/// Why it fails, and where.
struct Failure {
    stage: Stage,
    reason: String,
}

struct Run {
    order: SwitchoverOrder,
    plan: SwitchoverPlan,
    old: Rc<Link>,
    new: Rc<Link>,
    others: Vec<Rc<Link>>,
    observer: Observer,
    ask: Ask,
    journal: Rc<Diary>,
    /// When clients began to be held.
    began: Cell<Instant>,
}

/// Writes steps into the journal and the log.
struct Diary {
    journal: Journal,
    hostgroup: i32,
}

impl Diary {
    fn note(&self, server: &str, statement: &str, began: Instant, outcome: Result<(), &str>) {
        let took_ms = began.elapsed().as_millis() as u64;
        let hostgroup = self.hostgroup;
        let state = match outcome {
            Ok(()) => {
                tracing::info!(hostgroup, server, took_ms, "switchover: {statement}");
                StepState::Done
            }
            Err(error) => {
                tracing::warn!(hostgroup, server, took_ms, error, "switchover: {statement}");
                StepState::Failed(error.to_owned())
            }
        };
        let (server, text) = (server.to_owned(), statement.to_owned());
        self.journal.add(Step { server, statement: text, state, took_ms });
        fault::after(statement);
    }
}

/// Makes the switchover, or only shows it.
///
/// # Errors
/// Why it was not made, and in what state the servers are.
pub async fn run(
    order: SwitchoverOrder,
    observer: Observer,
    ask: Ask,
    journal: Journal,
) -> Result<(), String> {
    let link = |target| Rc::new(Link::new(target, &order.access));
    let (old, new) = (link(&order.old), link(&order.new));
    let others: Vec<Rc<Link>> = order.others.iter().map(link).collect();
    let members = gather(&order, (&old, &new), &others).await;
    let plan = SwitchoverPlan::new(order.wish.clone(), &members)?;
    if order.is_dry {
        for line in plan.lines() {
            let state = StepState::Planned;
            journal.add(Step { server: line.server, statement: line.statement, state, took_ms: 0 });
        }
        return Ok(());
    }
    let diary = Rc::new(Diary { journal, hostgroup: order.wish.hostgroup.0 });
    for note in &plan.notes {
        diary.note("note", note, Instant::now(), Ok(()));
    }
    let began = Cell::new(Instant::now());
    let run = Run { order, plan, old, new, others, observer, ask, journal: diary, began };
    let outcome = run.make().await;
    run.old.quit().await;
    run.new.quit().await;
    for other in &run.others {
        other.quit().await;
    }
    outcome
}

impl Run {
    async fn make(&self) -> Result<(), String> {
        self.come_near().await.map_err(|reason| format!("{reason}. Nothing was changed"))?;
        self.began.set(Instant::now());
        match self.switch().await {
            Ok(position) => {
                self.change_roles(true).await;
                self.release().await;
                self.follow(&position).await;
                Ok(())
            }
            Err(Failure { stage, reason }) => {
                let state = self.undo(stage).await;
                self.release().await;
                Err(format!("{reason}. {state}"))
            }
        }
    }

    /// The time that is left while clients are held, and a moment at least, so that a server can answer at all.
    fn left(&self) -> Duration {
        self.order.wish.within.saturating_sub(self.began.get().elapsed()).max(LEAST)
    }

    /// Everything up to the point of no return; returns the position of the old primary.
    async fn switch(&self) -> Result<String, Failure> {
        self.hold().await.map_err(|reason| Failure { stage: Stage::Holding, reason })?;
        let limit = self.plan.old.dialect.limit_locks(self.left());
        let limited = self.old.ask(&limit, self.left()).await;
        limited
            .map_err(|error| Failure { stage: Stage::Holding, reason: told(&self.old, &limit, &error) })?;
        let position = self.demote().await.map_err(|reason| Failure { stage: Stage::Demoting, reason })?;
        let allowed = self.step(&self.new, self.plan.new.dialect.allow_writes(), self.left()).await;
        if let Err(error) = allowed {
            let stage = if error.is_certain { Stage::Demoting } else { Stage::Promoting };
            return Err(Failure { stage, reason: error.text });
        }
        // One that cannot say so any more has taken writes, and must not be undone.
        if self.takes_writes(&self.new, self.plan.new.dialect).await == Ok(false) {
            let reason = format!("{} is still read-only", self.new.address);
            return Err(Failure { stage: Stage::Promoting, reason });
        }
        Ok(position)
    }

    /// Whether a server takes writes, as it says itself.
    async fn takes_writes(&self, link: &Link, dialect: Dialect) -> Result<bool, String> {
        let question = dialect.is_read_only();
        let answer = link.ask(question, self.left()).await.map_err(|error| told(link, question, &error))?;
        Ok(answer.says_no())
    }

    /// Makes the old primary read-only, and waits until the new one has all of it; returns the position.
    async fn demote(&self) -> Result<String, String> {
        let dialect = self.plan.old.dialect;
        // The server gives up first, and says so.
        let grace = self.left() + Duration::from_secs(1);
        let text = |error: LinkError| error.text;
        self.step(&self.old, dialect.forbid_writes(), grace).await.map_err(text)?;
        // A service may answer OK to what it does not do.
        if self.takes_writes(&self.old, dialect).await? {
            return Err(format!("{} is still not read-only", self.old.address));
        }
        let position = self.step(&self.old, dialect.position(), self.left()).await.map_err(text)?;
        let position = only(&position);
        if position.is_empty() {
            return Err(format!("{} does not say which transactions it has", self.old.address));
        }
        self.catch_up(&position).await?;
        Ok(position)
    }

    /// Holds clients, and waits until nothing runs.
    async fn hold(&self) -> Result<(), String> {
        let (hostgroup, began) = (self.order.wish.hostgroup, Instant::now());
        let (done, held) = oneshot::channel();
        let by = format!("a switchover to {}, by {}", self.new.address, self.order.by);
        let length = self.order.wish.within + UNDO_TIME;
        let is_there = (self.ask)(Wanted::Hold { hostgroup, length, by, done });
        if !is_there || timeout(self.left(), held).await.is_err() {
            return Err("the hostgroup cannot be held: the control thread is busy".to_owned());
        }
        let what = format!("HOLD HOSTGROUP {hostgroup}, until nothing runs there");
        let mut pause = Duration::from_millis(1);
        loop {
            let running = self.observer.running(hostgroup).await;
            if running.sessions == 0 {
                self.journal.note("narrows", &what, began, Ok(()));
                if running.not_held > 0 {
                    let note = format!("{} sessions of fast_forward users are not held", running.not_held);
                    self.journal.note("note", &note, began, Ok(()));
                }
                return Ok(());
            }
            if self.began.get().elapsed() >= self.plan.patience() {
                let reason = format!(
                    "{} sessions still run something in hostgroup {hostgroup} after {} ms",
                    running.sessions,
                    began.elapsed().as_millis()
                );
                self.journal.note("narrows", &what, began, Err(&reason));
                return Err(reason);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until the new primary has all that the old one had.
    async fn catch_up(&self, position: &str) -> Result<(), String> {
        let (began, limit) = (Instant::now(), self.left());
        let question = self.plan.new.dialect.wait_for(position, limit);
        let what = format!("wait until it has all of {}", self.old.address);
        let answer = self.new.ask(&question, limit + Duration::from_secs(1)).await;
        let reason = match answer {
            Ok(answer) if only(&answer) == "0" => {
                self.journal.note(&self.new.address.to_string(), &what, began, Ok(()));
                return Ok(());
            }
            Ok(_) => format!("{} has not caught up within {} ms", self.new.address, limit.as_millis()),
            Err(error) => told(&self.new, &what, &error),
        };
        self.journal.note(&self.new.address.to_string(), &what, began, Err(&reason));
        Err(reason)
    }

    async fn step(&self, link: &Link, statement: &str, limit: Duration) -> Result<Table, LinkError> {
        step(&self.journal, link, (statement, &self.plan.shown(statement)), limit).await
    }

    /// Has the roles in force, or those of before.
    async fn change_roles(&self, is_made: bool) {
        let began = Instant::now();
        let (old, new) = match is_made {
            true => (ServerRole::Reader, ServerRole::Writer),
            false => (ServerRole::Writer, ServerRole::Reader),
        };
        let roles = [(&self.order.old, old), (&self.order.new, new)];
        let now = Instant::now();
        let findings = roles.into_iter().flat_map(|(target, role)| {
            let report = RoleReport::found(role, now);
            let finding = move |check_type| Finding::Role(target.address.clone(), check_type, report);
            target.check_types.iter().copied().map(finding)
        });
        let (done, taken) = oneshot::channel();
        let is_there = (self.ask)(Wanted::Roles { findings: findings.collect(), done });
        let in_time = is_there && timeout(self.left() + Duration::from_secs(1), taken).await.is_ok();
        let writer = if is_made { &self.new.address } else { &self.old.address };
        let what = format!("{writer} is the writer of hostgroup {}", self.order.wish.hostgroup);
        let outcome =
            if in_time { Ok(()) } else { Err("the control thread is busy; the monitor will find out") };
        self.journal.note("narrows", &what, began, outcome);
    }

    async fn release(&self) {
        let hostgroup = self.order.wish.hostgroup;
        self.observer.release(hostgroup).await;
        let held_ms = self.began.get().elapsed().as_millis();
        // Clients continue. Before replicas are moved, it is recorded that they do, for the process after this one.
        let (done, recorded) = oneshot::channel();
        if (self.ask)(Wanted::Released { hostgroup, done }) {
            // A control thread that is busy records it later.
            let _ = timeout(RECORD_TIME, recorded).await;
        }
        let what = format!("RELEASE HOSTGROUP {hostgroup}: clients were held for {held_ms} ms");
        self.journal.note("narrows", &what, Instant::now(), Ok(()));
    }

    /// Undoes what was done up to `stage`; returns the state in which the servers are.
    async fn undo(&self, stage: Stage) -> String {
        let (old, new) = (&self.old.address, &self.new.address);
        if stage == Stage::Holding {
            return "Nothing was changed".to_owned();
        }
        if stage == Stage::Promoting
            && let Err(error) = self.step(&self.new, self.plan.new.restore, UNDO_STEP).await
        {
            return format!(
                "{old} is read-only and stays so, because {new} may take writes already ({error}): when it is reached \
                 again and is not read-only, it is the writer; otherwise run `SET GLOBAL read_only = 0` on one of them"
            );
        }
        // A server that is short of everything may need a moment.
        for _ in 0..UNDO_TRIES {
            if self.step(&self.old, self.plan.old.restore, UNDO_STEP).await.is_ok() {
                self.change_roles(false).await;
                return format!("Undone: {old} takes writes, and {new} is its replica, as before");
            }
            sleep(UNDO_PAUSE).await;
        }
        format!(
            "{old} may be read-only, and cannot be reached to undo that: run `{}` there",
            self.plan.old.restore
        )
    }

    /// Replicas follow the new primary. Clients continue already, and what fails is reported.
    async fn follow(&self, position: &str) {
        for statement in self.plan.promotion() {
            // It does not matter for the others.
            let _ = self.step(&self.new, &statement, FOLLOW_STEP).await;
        }
        for statement in self.plan.lasting() {
            // Nor does this: it is read-only until it restarts.
            let _ = self.step(&self.old, statement, FOLLOW_STEP).await;
        }
        let mut tasks =
            vec![self.move_replica(&self.old, self.plan.demotion(position), self.plan.old.dialect)];
        for (address, dialect) in &self.plan.followers {
            if let Some(link) = self.others.iter().find(|link| link.address == *address) {
                tasks.push(self.move_replica(link, self.plan.following(*dialect), *dialect));
            }
        }
        for task in tasks {
            // A panic has been reported.
            let _ = task.await;
        }
    }

    fn move_replica(
        &self,
        link: &Rc<Link>,
        statements: Vec<String>,
        dialect: Dialect,
    ) -> narrows_proxy::rt::JoinHandle<()> {
        let (link, diary) = (Rc::clone(link), Rc::clone(&self.journal));
        let shown: Vec<String> = statements.iter().map(|statement| self.plan.shown(statement)).collect();
        spawn_local(async move {
            for statement in statements.iter().zip(&shown) {
                if step(&diary, &link, (statement.0, statement.1), FOLLOW_STEP).await.is_err() {
                    return;
                }
            }
            has_followed(&diary, &link, dialect).await;
        })
    }
}

/// Runs a statement, and notes it.
async fn step(
    diary: &Diary,
    link: &Link,
    (statement, shown): (&str, &str),
    limit: Duration,
) -> Result<Table, LinkError> {
    let began = Instant::now();
    let answer = link.ask(statement, limit).await;
    let error = answer.as_ref().err().map(|error| error.text.clone());
    diary.note(&link.address.to_string(), shown, began, error.as_deref().map_or(Ok(()), Err));
    answer.map_err(|error| LinkError { text: told(link, shown, &error), ..error })
}

/// Waits until a replica replicates from its new source, and tells if it does not.
async fn has_followed(diary: &Diary, link: &Link, dialect: Dialect) {
    let (began, what) = (Instant::now(), "it replicates from the new primary");
    let address = link.address.to_string();
    let mut why = "it has not connected yet".to_owned();
    while began.elapsed() < FOLLOW_TIME {
        if let Ok(status) = link.ask(dialect.replica_status(), FOLLOW_STEP).await {
            match Channel::all(&status).first() {
                Some(channel) if channel.io_runs && channel.sql_runs => {
                    diary.note(&address, what, began, Ok(()));
                    return;
                }
                Some(channel) if !channel.error.is_empty() => why.clone_from(&channel.error),
                _ => {}
            }
        }
        sleep(FOLLOW_PAUSE).await;
    }
    diary.note(&address, what, began, Err(&why));
}

fn told(link: &Link, what: &str, error: &LinkError) -> String {
    format!("{}: {what}: {error}", link.address)
}

/// How long the moves of replicas wait until it is recorded that clients continue.
const RECORD_TIME: Duration = Duration::from_secs(2);

/// How long a server always has for an answer.
const LEAST: Duration = Duration::from_millis(200);

/// From one look at what runs to the next, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// For how long the hold outlasts the time of a switchover, so that it can be undone before clients continue.
const UNDO_TIME: Duration = Duration::from_secs(15);

/// How long one attempt to undo a step may take, how many there are, and the pause between them.
const UNDO_STEP: Duration = Duration::from_secs(3);
const UNDO_TRIES: u32 = 3;
const UNDO_PAUSE: Duration = Duration::from_millis(500);

/// How long a statement that moves a replica may take.
const FOLLOW_STEP: Duration = Duration::from_secs(10);

/// How long a replica may take to connect to its new source before this is reported, and how often it is asked.
const FOLLOW_TIME: Duration = Duration::from_secs(10);
const FOLLOW_PAUSE: Duration = Duration::from_millis(50);

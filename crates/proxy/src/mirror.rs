//! Mirrored statements: copies that run in addition to the originals, on separate connections, and whose answers are
//! discarded.
//!
//! A copy never delays its original: it is queued, or dropped and counted if too many are waiting.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::backend::{BackendError, Want};
use crate::figures::Counters;
use crate::pool::{Ask, Exit, Pool};
use crate::rows::{HostgroupId, Variables};
use crate::rt::{Instant, spawn_local};
use crate::snapshot::InForce;
use crate::state::SharedState;

/// A statement that runs once more.
pub struct Copy {
    /// The account and its credentials.
    pub want: Want,
    /// The state of the session.
    pub state: SharedState,
    /// The hostgroup that runs the copy.
    pub hostgroup: HostgroupId,
    /// The text of the statement.
    pub text: Vec<u8>,
    /// How to remove everything that the copy may leave on its connection.
    pub exit: Exit,
}

/// The copies of one worker.
pub struct Mirror {
    pool: Rc<Pool>,
    in_force: Rc<InForce>,
    /// How many workers share the limits of the process.
    workers: usize,
    figures: MirrorFigures,
    waiting: RefCell<VecDeque<Copy>>,
    /// The size of the waiting texts in bytes.
    waiting_bytes: Cell<usize>,
    running: Cell<usize>,
}

/// The counters of copies.
#[derive(Default)]
struct MirrorFigures {
    run: Cell<u64>,
    failed: Cell<u64>,
    dropped: Cell<u64>,
}

impl Mirror {
    /// The mirror of one of this many workers, without copies.
    pub fn new(pool: Rc<Pool>, in_force: Rc<InForce>, workers: usize) -> Mirror {
        let (figures, waiting, waiting_bytes, running) = Default::default();
        Mirror { pool, in_force, workers, figures, waiting, waiting_bytes, running }
    }

    /// How many copies are running, and how many are waiting.
    pub fn figures(&self) -> (usize, usize) {
        (self.running.get(), self.waiting.borrow().len())
    }

    /// Adds the counters.
    pub fn count_into(&self, counters: &mut Counters) {
        counters.mirrors_run += self.figures.run.get();
        counters.mirrors_failed += self.figures.failed.get();
        counters.mirrors_dropped += self.figures.dropped.get();
    }

    fn next(&self) -> Option<Copy> {
        let next = self.waiting.borrow_mut().pop_front()?;
        self.waiting_bytes.set(self.waiting_bytes.get() - next.text.len());
        Some(next)
    }
}

/// Accepts a copy, unless too many are already waiting. The limits of the process are divided among its workers.
pub fn offer(mirror: &Rc<Mirror>, variables: &Variables, copy: Copy) {
    let share = |limit: usize| limit.div_ceil(mirror.workers);
    if mirror.running.get() < share(variables.mirror_max_concurrency) {
        mirror.running.set(mirror.running.get() + 1);
        let place = Place(Rc::clone(mirror));
        drop(spawn_local(async move {
            let mut next = Some(copy);
            while let Some(copy) = next {
                run(&place.0, copy).await;
                next = place.0.next();
            }
        }));
        return;
    }
    let mut waiting = mirror.waiting.borrow_mut();
    let bytes = mirror.waiting_bytes.get() + copy.text.len();
    if waiting.len() < share(variables.mirror_max_queue_length) && bytes <= MOST_BYTES {
        mirror.waiting_bytes.set(bytes);
        waiting.push_back(copy);
    } else {
        count(&mirror.figures.dropped);
    }
}

/// The slot of a running copy; released when dropped.
struct Place(Rc<Mirror>);

impl Drop for Place {
    fn drop(&mut self) {
        let running = &self.0.running;
        running.set(running.get() - 1);
    }
}

async fn run(mirror: &Mirror, copy: Copy) {
    let snapshot = mirror.in_force.get();
    let ask = Ask::plain(&copy.want, &copy.state, Instant::now());
    let Ok(mut backend) = mirror.pool.lease(&snapshot, copy.hostgroup, ask).await else {
        count(&mirror.figures.failed);
        return;
    };
    let variables = &snapshot.variables;
    let ran = async {
        backend.align(&copy.state, true, None, variables.connect_timeout_server_max).await?;
        match backend.execute(&copy.text, variables.default_query_timeout).await {
            // Nobody receives the copy's error.
            Ok(()) | Err(BackendError::Server(_)) => Ok(()),
            Err(error) => Err(error),
        }
    };
    match ran.await {
        Ok(()) => {
            count(&mirror.figures.run);
            // Everything that it started or set is undone before another client uses the connection.
            backend.settle(copy.exit, &mirror.pool, &copy.want, Instant::now());
        }
        Err(error) => {
            count(&mirror.figures.failed);
            tracing::debug!(server = backend.login.server.address(), %error, "a mirrored statement failed");
        }
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// The maximum size of the waiting texts of one worker, in bytes.
const MOST_BYTES: usize = 64 << 20;

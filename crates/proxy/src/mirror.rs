//! Mirrored statements: copies that run beside the originals, on connections of their own, and whose answers nobody
//! reads.
//!
//! A copy never holds up its original: it is queued, or dropped and counted when too much waits already.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::backend::{BackendError, Want};
use crate::pool::{Ask, Exit};
use crate::rt::{Instant, spawn_local};
use crate::snapshot::{HostgroupId, Variables};
use crate::state::SharedState;
use crate::worker::Worker;

/// A statement that is to run once more.
pub struct Copy {
    /// Whose it is.
    pub want: Want,
    /// The state of its session.
    pub state: SharedState,
    /// Where it runs.
    pub hostgroup: HostgroupId,
    /// Its text.
    pub text: Vec<u8>,
    /// What takes away all that it may leave on its connection.
    pub exit: Exit,
}

/// The copies of one worker.
#[derive(Default)]
pub struct Mirror {
    waiting: RefCell<VecDeque<Copy>>,
    /// Bytes of the texts that wait.
    waiting_bytes: Cell<usize>,
    running: Cell<usize>,
}

impl Mirror {
    /// How many copies run, and how many wait.
    pub fn figures(&self) -> (usize, usize) {
        (self.running.get(), self.waiting.borrow().len())
    }

    fn next(&self) -> Option<Copy> {
        let next = self.waiting.borrow_mut().pop_front()?;
        self.waiting_bytes.set(self.waiting_bytes.get() - next.text.len());
        Some(next)
    }
}

/// Takes a copy, unless too many wait already. The limits of the process are shared out among its workers.
pub fn offer(worker: &Rc<Worker>, variables: &Variables, copy: Copy) {
    let share = |limit: usize| limit.div_ceil(worker.peers.workers());
    let mirror = &worker.mirror;
    if mirror.running.get() < share(variables.mirror_max_concurrency) {
        mirror.running.set(mirror.running.get() + 1);
        let place = Place(Rc::clone(worker));
        drop(spawn_local(async move {
            let mut next = Some(copy);
            while let Some(copy) = next {
                run(&place.0, copy).await;
                next = place.0.mirror.next();
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
        worker.counters.borrow_mut().mirrors_dropped += 1;
    }
}

/// The place of a copy that runs; given back when dropped.
struct Place(Rc<Worker>);

impl Drop for Place {
    fn drop(&mut self) {
        let running = &self.0.mirror.running;
        running.set(running.get() - 1);
    }
}

async fn run(worker: &Rc<Worker>, copy: Copy) {
    let snapshot = worker.snapshot();
    let ask = Ask {
        want: &copy.want,
        state: &copy.state,
        untouched: None,
        statement: None,
        instead_of: None,
        new: false,
        now: Instant::now(),
    };
    let Ok(mut backend) = worker.pool.lease(&snapshot, copy.hostgroup, ask).await else {
        worker.counters.borrow_mut().mirrors_failed += 1;
        return;
    };
    let variables = &snapshot.variables;
    let ran = async {
        backend.align(&copy.state, true, None, variables.connect_timeout_server_max).await?;
        match backend.execute(&copy.text, variables.default_query_timeout).await {
            // The copy's error is nobody's.
            Ok(()) | Err(BackendError::Server(_)) => Ok(()),
            Err(error) => Err(error),
        }
    };
    match ran.await {
        Ok(()) => {
            worker.counters.borrow_mut().mirrors_run += 1;
            // Whatever it has begun or set is undone before anybody else has the connection.
            backend.settle(copy.exit, worker, &copy.want, Instant::now());
        }
        Err(error) => {
            worker.counters.borrow_mut().mirrors_failed += 1;
            tracing::debug!(server = backend.login.server.address(), %error, "a mirrored statement failed");
        }
    }
}

/// Bytes of texts that wait in one worker.
const MOST_BYTES: usize = 64 << 20;

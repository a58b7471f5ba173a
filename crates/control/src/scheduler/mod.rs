//! The scheduler: runs the programs of the table `scheduler` at their intervals, on a thread of its own.
//!
//! Programs are started directly, without a shell, by the one process that has the control plane. They get none of its
//! descriptors.

mod figures;
mod job;
mod output;
mod remarks;
mod run;
mod runner;
mod timetable;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use figures::Figures;
pub use figures::{JobFigures, LastRun};
pub use job::{ScheduledJob, why_not_run};
pub use run::{Surroundings, in_words, prepare_environment};
use runner::Runner;

/// The scheduler's thread. Dropping this ends it, and what it runs: within two seconds.
#[derive(Debug)]
pub struct Scheduler {
    /// `None` when it is being ended.
    orders: Option<Sender<Order>>,
    shared: Arc<Shared>,
    surroundings: Surroundings,
    thread: Option<JoinHandle<()>>,
}

/// A message to the thread.
#[derive(Debug)]
enum Order {
    /// Runs these jobs from now on, each run for `limit` at most.
    Follow { jobs: Vec<ScheduledJob>, limit: Option<Duration> },
}

/// What both sides have.
#[derive(Debug)]
struct Shared {
    figures: Mutex<Figures>,
    /// Ready when an order has been sent.
    wake: OwnedFd,
}

impl Scheduler {
    /// Starts the thread; it has nothing to run yet.
    ///
    /// # Errors
    /// If there are no more threads or descriptors.
    pub fn start(surroundings: Surroundings) -> io::Result<Scheduler> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { figures: Mutex::default(), wake });
        let (orders, received) = channel();
        let runner = Runner::new(Arc::clone(&shared), surroundings.clone());
        let thread = std::thread::Builder::new().name("scheduler".to_owned());
        let thread = Some(thread.spawn(move || runner.run(&received))?);
        Ok(Scheduler { orders: Some(orders), shared, surroundings, thread })
    }

    /// Runs these jobs from now on, each run for `limit` at most. What runs already continues, even if its job is gone: it
    /// may be what has changed the jobs. Returns what cannot be run.
    pub fn follow(&self, jobs: Vec<ScheduledJob>, limit: Option<Duration>) -> Vec<String> {
        let faults = jobs.iter().filter_map(|job| job.fault(&self.surroundings.datadir)).collect();
        if let Some(orders) = &self.orders {
            // A thread that has ended runs nothing.
            let _ = orders.send(Order::Follow { jobs, limit });
            self.wake();
        }
        faults
    }

    /// What has become of each job, by id.
    pub fn figures(&self) -> Vec<(i64, JobFigures)> {
        self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner).all()
    }

    fn wake(&self) {
        // It only fails if so many orders wait that the thread is being woken anyway.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.orders = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been logged.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;

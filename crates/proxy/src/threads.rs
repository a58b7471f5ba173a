//! Threads for long computations: password hashes, RSA decryption. A worker serves its other sessions in the meantime.
//!
//! There are few, so that workers keep their CPUs, and only a limited amount of work is accepted at a time: further
//! jobs wait for a slot, in order of arrival.

#![expect(
    clippy::disallowed_types,
    reason = "only these threads take the lock; a worker puts work into a channel"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::rt::{Semaphore, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// A few threads, which are started with the first work for them and end when this is dropped.
#[derive(Debug)]
pub struct Threads {
    name: &'static str,
    most: usize,
    room: Arc<Semaphore>,
    jobs: OnceLock<Sender<Job>>,
}

impl Threads {
    /// At most `most` threads, and at least one; they are named `name` and a number.
    pub fn new(name: &'static str, most: usize) -> Threads {
        let (room, jobs) = (Arc::new(Semaphore::new(MOST_JOBS)), OnceLock::new());
        Threads { name, most: most.max(1), room, jobs }
    }

    /// Threads for logins beside `workers` workers: half as many, because logins should cost sessions less than the
    /// other way round.
    pub fn for_logins(workers: usize) -> Threads {
        Threads::new("login", workers.div_ceil(2))
    }

    /// Waits for a slot, makes a thread run `job`, and waits for its result. `None` if there is none: the job has
    /// panicked, or there is no thread. A job that nobody waits for any more when its turn comes is not run.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = Arc::clone(&self.room).acquire_owned().await.ok()?;
        let (answer, result) = oneshot::channel();
        let job = move || {
            // Otherwise nobody waits any more: the client has disconnected, or its time is over.
            if !answer.is_closed() {
                let result = job();
                drop(place);
                let _ = answer.send(result);
            }
        };
        self.jobs().send(Box::new(job)).ok()?;
        result.await.ok()
    }

    fn jobs(&self) -> &Sender<Job> {
        self.jobs.get_or_init(|| {
            let (jobs, queue) = channel();
            let queue = Arc::new(Mutex::new(queue));
            for number in 0..self.most {
                let queue = Arc::clone(&queue);
                let name = format!("{}-{number}", self.name);
                if let Err(error) = std::thread::Builder::new().name(name).spawn(move || work(&queue)) {
                    tracing::error!(%error, "a thread for logins cannot start");
                }
            }
            jobs
        })
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // Its caller gets no answer; the thread stays available for others.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("work of a login has panicked");
        }
    }
}

/// How many jobs wait for a thread or have one: a fifth of a second's work for one thread, with the usual rounds of a
/// hash.
const MOST_JOBS: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::rt::{block_on, sleep, spawn_local, timeout};

    #[test]
    fn what_a_job_comes_to_is_handed_back() {
        let threads = Threads::new("test", 2);
        let result = block_on(async { threads.run(|| 6 * 7).await }).unwrap();
        assert_eq!(result, Some(42));
    }

    #[test]
    fn a_job_that_panics_leaves_the_thread_to_others() {
        let threads = Threads::new("test", 1);
        let results = block_on(async {
            let failed: Option<()> = threads.run(|| panic!("on purpose")).await;
            (failed, threads.run(|| 1).await)
        });
        assert_eq!(results.unwrap(), (None, Some(1)));
    }

    #[test]
    fn no_more_than_so_many_jobs_are_taken_up_and_the_others_get_their_turn() {
        let threads = Arc::new(Threads::new("test", 1));
        let done = Arc::new(AtomicUsize::new(0));
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let many = 3 * MOST_JOBS;
        block_on(async {
            let begin = |_| {
                let (threads, done, gate) = (Arc::clone(&threads), Arc::clone(&done), Arc::clone(&gate));
                spawn_local(async move {
                    let job = move || {
                        let _ = gate.lock().unwrap().recv();
                        done.fetch_add(1, Ordering::Relaxed);
                    };
                    threads.run(job).await
                })
            };
            let tasks: Vec<_> = (0..many).map(begin).collect();
            while threads.room.available_permits() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
            // A further job waits for a slot, and gives up.
            let late = timeout(Duration::from_millis(20), threads.run(|| ())).await;
            assert!(late.is_err());
            assert_eq!((threads.room.available_permits(), done.load(Ordering::Relaxed)), (0, 0));
            drop(open);
            for task in tasks {
                assert_eq!(task.await.unwrap(), Some(()));
            }
        })
        .unwrap();
        assert_eq!(done.load(Ordering::Relaxed), many);
        assert_eq!(threads.room.available_permits(), MOST_JOBS);
    }

    #[test]
    fn a_job_nobody_waits_for_any_more_is_not_run() {
        let threads = Arc::new(Threads::new("test", 1));
        let run = Arc::new(AtomicUsize::new(0));
        let (open, gate) = std::sync::mpsc::channel::<()>();
        block_on(async {
            let busy = Arc::clone(&threads);
            let first = spawn_local(async move { busy.run(move || gate.recv().is_err()).await });
            while threads.room.available_permits() == MOST_JOBS {
                sleep(Duration::from_millis(1)).await;
            }
            let count = Arc::clone(&run);
            let second = threads.run(move || count.fetch_add(1, Ordering::Relaxed));
            assert!(timeout(Duration::from_millis(20), second).await.is_err());
            drop(open);
            assert_eq!(first.await.unwrap(), Some(true));
            assert_eq!(threads.run(|| ()).await, Some(()));
        })
        .unwrap();
        assert_eq!(run.load(Ordering::Relaxed), 0);
    }
}

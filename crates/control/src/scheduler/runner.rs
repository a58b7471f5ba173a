//! The scheduler's thread: starts what is due, reads what runs, and ends what takes too long.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::figures::{Figures, LastRun};
use super::job::ScheduledJob;
use super::remarks::Remarks;
use super::run::{Run, Surroundings, in_words};
use super::timetable::Timetable;
use super::{Order, Shared};

/// The state of the thread.
pub struct Runner {
    shared: Arc<Shared>,
    surroundings: Surroundings,
    timetable: Timetable,
    limit: Option<Duration>,
    runs: Vec<Run>,
    /// Jobs that were due while as many ran as may, each once, in order.
    queue: VecDeque<ScheduledJob>,
    remarks: Remarks,
    /// Whether all runs are being ended.
    is_ending: bool,
}

impl Runner {
    /// Nothing to run yet.
    pub fn new(shared: Arc<Shared>, surroundings: Surroundings) -> Runner {
        Runner {
            shared,
            surroundings,
            timetable: Timetable::default(),
            limit: None,
            runs: Vec::new(),
            queue: VecDeque::new(),
            remarks: Remarks::default(),
            is_ending: false,
        }
    }

    /// Runs jobs until nobody can send orders any more, and then ends those that run.
    pub fn run(mut self, orders: &Receiver<Order>) {
        while self.obey(orders) {
            let now = Instant::now();
            self.start_queued();
            for job in self.timetable.take_due(now) {
                self.start(job);
            }
            let again = self.keep_time(now);
            let next = again.into_iter().chain(self.timetable.next()).min();
            self.wait(next);
        }
        self.end_all();
    }

    /// Follows the orders that have come; false: end.
    fn obey(&mut self, orders: &Receiver<Order>) -> bool {
        loop {
            match orders.try_recv() {
                Ok(Order::Follow { jobs, limit }) => {
                    self.limit = limit;
                    self.timetable.follow(jobs, Instant::now());
                    let shared = Arc::clone(&self.shared);
                    figures(&shared).follow(self.timetable.jobs());
                    self.remarks.follow(self.timetable.jobs());
                    let timetable = &self.timetable;
                    self.queue.retain(|job| timetable.jobs().any(|known| known == job));
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Starts jobs that had to wait, as far as there is room.
    fn start_queued(&mut self) {
        while self.runs.len() < MOST_AT_ONCE
            && let Some(job) = self.queue.pop_front()
        {
            self.start_now(job);
        }
    }

    /// Starts a job that is due, unless it still runs or waits. One that finds no room waits until another has ended.
    fn start(&mut self, job: ScheduledJob) {
        let current = self.runs.iter().find(|run| run.job.id == job.id);
        if current.is_some() || self.queue.iter().any(|waiting| waiting.id == job.id) {
            current.into_iter().for_each(|run| self.remarks.overrun(run));
            let mut figures = figures(&self.shared);
            figures.of(job.id).into_iter().for_each(|of_job| of_job.skipped += 1);
        } else if self.runs.len() >= MOST_AT_ONCE {
            self.remarks.full(&job, MOST_AT_ONCE);
            self.queue.push_back(job);
        } else {
            self.start_now(job);
        }
    }

    fn start_now(&mut self, job: ScheduledJob) {
        let shared = Arc::clone(&self.shared);
        let mut figures = figures(&shared);
        let of_job = figures.of(job.id);
        let started = SystemTime::now();
        let run = Run::start(job.clone(), &self.surroundings);
        if let Some(of_job) = of_job {
            of_job.runs += 1;
            of_job.last_started = Some(started);
            of_job.running_since = run.is_ok().then_some(started);
            if let Err(error) = &run {
                of_job.failures += 1;
                let (output, end) = (String::new(), format!("cannot be started: {error}"));
                of_job.last = Some(LastRun { took: Duration::ZERO, end, output, dropped: 0 });
            }
        }
        match run {
            Ok(run) => self.runs.push(run),
            Err(error) => self.remarks.not_started(&job, &error),
        }
    }

    /// Ends runs that take too long, and returns when to look again.
    fn keep_time(&mut self, now: Instant) -> Option<Instant> {
        let limit = self.limit;
        self.runs.iter_mut().filter_map(|run| run.keep_time(limit, now)).min()
    }

    /// Waits until `next`, or until an order, output or the end of a process comes, and handles the latter two.
    fn wait(&mut self, next: Option<Instant>) {
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let limit = left.and_then(|left| Timespec::try_from(left).ok());
        let mut awaited = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
        for run in &self.runs {
            awaited.push(PollFd::from_borrowed_fd(run.descriptor(), PollFlags::IN));
            awaited.extend(run.output.pipes().map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        }
        // An interrupted wait is repeated by the caller, who finds nothing to do.
        let is_over = poll(&mut awaited, limit.as_ref()).is_ok();
        let mut ready = awaited.iter().map(|one| is_over && !one.revents().is_empty());
        if ready.next().unwrap_or(false) {
            let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        }
        let mut ended = Vec::new();
        for (place, run) in self.runs.iter().enumerate() {
            if ready.next().unwrap_or(false) {
                ended.push(place);
            }
            // The pipes are read below, whichever of them are ready.
            ready.by_ref().take(run.output.pipes().count()).for_each(drop);
        }
        self.runs.iter_mut().for_each(|run| run.output.read());
        for place in ended.into_iter().rev() {
            let mut run = self.runs.swap_remove(place);
            let status = run.end();
            self.note_end(run, status);
        }
    }

    fn note_end(&mut self, run: Run, status: std::io::Result<ExitStatus>) {
        let took = run.since.elapsed();
        let succeeded = status.as_ref().is_ok_and(ExitStatus::success);
        let end = status.map_or_else(|error| format!("its exit status is unknown: {error}"), in_words);
        if !self.is_ending {
            self.remarks.ended(&run, succeeded, &end, took);
        }
        let mut figures = figures(&self.shared);
        if let Some(of_job) = figures.of(run.job.id) {
            of_job.running_since = None;
            of_job.failures += u64::from(!succeeded);
            of_job.timeouts += u64::from(run.is_late);
            let (output, dropped) = run.output.into_text();
            of_job.last = Some(LastRun { took, end, output, dropped });
        }
    }

    /// Ends all runs, at first by asking.
    fn end_all(&mut self) {
        self.is_ending = true;
        let now = Instant::now();
        self.runs.iter_mut().for_each(|run| run.ask(now));
        self.wait_for_all(now + TIME_TO_END_ALL);
        self.runs.iter_mut().for_each(Run::kill);
        // A process that does not even end when it is killed waits for a device.
        self.wait_for_all(Instant::now() + TIME_TO_END_ALL);
    }

    fn wait_for_all(&mut self, deadline: Instant) {
        while !self.runs.is_empty() && Instant::now() < deadline {
            self.wait(Some(deadline));
        }
    }
}

fn figures(shared: &Shared) -> MutexGuard<'_, Figures> {
    shared.figures.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many programs may run at once; others wait. Far more than there are jobs in any known set-up, far fewer than processes.
const MOST_AT_ONCE: usize = 64;

/// When this process ends or hands over: how long programs have to end after SIGTERM. The next process serves meanwhile,
/// and administrators wait for it.
const TIME_TO_END_ALL: Duration = Duration::from_secs(1);

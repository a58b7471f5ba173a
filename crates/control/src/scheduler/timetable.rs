//! When jobs are due: a value without a clock or processes.

use std::time::Instant;

use super::job::ScheduledJob;

/// The jobs, and when each is due next.
#[derive(Debug, Default)]
pub struct Timetable {
    lines: Vec<(ScheduledJob, Instant)>,
}

impl Timetable {
    /// Has these jobs from now on. A new or changed one is due after its interval; one that is as it was is due when it
    /// was, so that frequent loads do not put off a job with a long interval.
    pub fn follow(&mut self, jobs: Vec<ScheduledJob>, now: Instant) {
        let before = std::mem::take(&mut self.lines);
        let due = |job: &ScheduledJob| {
            let kept = before.iter().find(|(known, _)| known == job).map(|(_, due)| *due);
            kept.unwrap_or(now + job.interval)
        };
        self.lines = jobs.into_iter().map(|job| (due(&job), job)).map(|(due, job)| (job, due)).collect();
    }

    /// The jobs that are due; each is due again after its interval. What should have happened while this process could
    /// not run is not made up for.
    pub fn take_due(&mut self, now: Instant) -> Vec<ScheduledJob> {
        let due = self.lines.iter_mut().filter(|(_, due)| *due <= now);
        due.map(|(job, due)| {
            *due = now + job.interval;
            job.clone()
        })
        .collect()
    }

    /// When the next job is due; `None`: there are no jobs.
    pub fn next(&self) -> Option<Instant> {
        self.lines.iter().map(|(_, due)| *due).min()
    }

    /// The jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &ScheduledJob> {
        self.lines.iter().map(|(job, _)| job)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn job(id: i64, seconds: u64) -> ScheduledJob {
        ScheduledJob {
            id,
            interval: Duration::from_secs(seconds),
            filename: "/bin/true".to_owned(),
            arguments: Vec::new(),
        }
    }

    fn ids(jobs: &[ScheduledJob]) -> Vec<i64> {
        jobs.iter().map(|job| job.id).collect()
    }

    #[test]
    fn a_job_is_due_an_interval_after_its_load_and_then_at_each_interval() {
        let (mut table, begin) = (Timetable::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(table.next(), None);
        table.follow(vec![job(1, 10), job(2, 3)], begin);
        assert_eq!(table.next(), Some(at(3)));
        assert_eq!(ids(&table.take_due(at(2))), [0; 0]);
        assert_eq!(ids(&table.take_due(at(3))), [2]);
        assert_eq!(ids(&table.take_due(at(10))), [1, 2]);
        assert_eq!(table.next(), Some(at(13)));
    }

    #[test]
    fn a_pause_of_the_process_is_not_made_up_for() {
        let (mut table, begin) = (Timetable::default(), Instant::now());
        table.follow(vec![job(1, 1)], begin);
        let late = begin + Duration::from_secs(100);
        assert_eq!(ids(&table.take_due(late)), [1]);
        assert_eq!(ids(&table.take_due(late)), [0; 0]);
    }

    #[test]
    fn a_load_puts_off_only_what_it_changes() {
        let (mut table, begin) = (Timetable::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        table.follow(vec![job(1, 10), job(2, 10), job(3, 10)], begin);
        table.follow(vec![job(1, 10), job(2, 4)], at(8));
        assert_eq!(ids(&table.take_due(at(10))), [1]);
        assert_eq!(ids(&table.take_due(at(12))), [2]);
        assert_eq!(table.jobs().count(), 2);
    }
}

//! The figures of the last minutes. They are only taken while somebody looks.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use narrows_proxy::rt::{oneshot, sleep, spawn_local, timeout};

use super::Console;
use super::sample::Sample;
use crate::http::peer::Peer;

/// RecentSamples, the oldest first.
#[derive(Debug, Default)]
pub struct RecentSamples {
    taken: RefCell<VecDeque<Sample>>,
    /// The newest one, which charts may not have.
    newest: RefCell<Option<Sample>>,
    /// When somebody last looked.
    looked: Cell<Option<Instant>>,
    /// Whether the task that takes samples runs.
    runs: Cell<bool>,
}

impl RecentSamples {
    /// The latest one.
    pub fn last(&self) -> Option<Sample> {
        self.newest.borrow().clone()
    }

    /// A figure of each interval between two samples, the oldest first.
    pub fn intervals(&self, figure: impl Fn(&Sample, &Sample) -> f64) -> Vec<f64> {
        let taken = self.taken.borrow();
        taken.iter().zip(taken.iter().skip(1)).map(|(earlier, later)| figure(earlier, later)).collect()
    }

    /// The latest sample, and one that is at most `age` older.
    pub fn span(&self, age: Duration) -> Option<(Sample, Sample)> {
        let (taken, last) = (self.taken.borrow(), self.last()?);
        let first = taken.iter().find(|sample| last.at.duration_since(sample.at) <= age)?;
        (first.at < last.at).then(|| (first.clone(), last))
    }

    fn keep(&self, sample: Sample) {
        let mut taken = self.taken.borrow_mut();
        taken.retain(|kept| sample.at.duration_since(kept.at) <= SPAN);
        while taken.len() >= PLACES {
            taken.pop_front();
        }
        self.newest.replace(Some(sample.clone()));
        taken.push_back(sample);
    }

    fn is_old(&self) -> bool {
        self.newest.borrow().as_ref().is_none_or(|newest| newest.at.elapsed() >= FRESH)
    }

    fn is_watched(&self) -> bool {
        self.looked.get().is_some_and(|since| since.elapsed() < WATCHED)
    }
}

/// Notes that somebody looks: from now on samples are taken, for a while. Returns when there is a new one.
pub async fn look(console: &Rc<Console>) {
    console.samples.looked.set(Some(Instant::now()));
    if console.samples.runs.replace(true) {
        if console.samples.is_old()
            && let Some(sample) = sample(console).await
        {
            console.samples.newest.replace(Some(sample));
        }
        return;
    }
    let (told, heard) = oneshot::channel();
    let console = Rc::clone(console);
    spawn_local(async move {
        take(&console).await;
        let _ = told.send(());
        // Two samples make a rate: the first one is soon there.
        sleep(FIRST_PAUSE).await;
        while console.samples.is_watched() {
            take(&console).await;
            sleep(PAUSE).await;
        }
        console.samples.runs.set(false);
    });
    let _ = heard.await;
}

async fn take(console: &Rc<Console>) {
    if let Some(sample) = sample(console).await {
        console.samples.keep(sample);
    }
}

/// The figures of this moment; `None` if they are late.
async fn sample(console: &Rc<Console>) -> Option<Sample> {
    let nobody = Peer { host: String::new(), port: 0, is_local: true };
    let metrics = timeout(SAMPLE_TIME, console.figures_as(&nobody, "http", "SHOW PROMETHEUS METRICS")).await;
    let listing = metrics.ok()?.ok()?;
    let text = listing.rows.first()?.text(0);
    Some(Sample::read(&text, Instant::now()))
}

/// The number of samples that a full chart has.
pub const PLACES: usize = 61;

/// How far back charts reach.
const SPAN: Duration = Duration::from_secs(5 * 60 + 2);

const PAUSE: Duration = Duration::from_secs(5);

/// How old a sample may be that is shown to somebody who looks now.
const FRESH: Duration = Duration::from_millis(900);

const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The time limit of a sample: one that is late is left out.
const SAMPLE_TIME: Duration = Duration::from_secs(4);

/// How long samples are taken after somebody has looked.
const WATCHED: Duration = Duration::from_secs(10 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_in_number_and_age() {
        let samples = RecentSamples::default();
        let start = Instant::now();
        for second in 0..400_u32 {
            let text = format!("proxysql_questions_total {second}");
            samples.keep(Sample::read(&text, start + Duration::from_secs(u64::from(second))));
        }
        assert_eq!(samples.taken.borrow().len(), PLACES);
        assert_eq!(samples.intervals(|a, b| b.statements - a.statements), vec![1.0; PLACES - 1]);
        let (first, last) = samples.span(Duration::from_secs(10)).unwrap();
        assert!((last.statements - first.statements - 10.0).abs() < 1e-9);
        samples.keep(Sample::read("", start + Duration::from_secs(10_000)));
        assert_eq!(samples.taken.borrow().len(), 1);
        assert!(samples.span(SPAN).is_none());
    }
}

//! Sends what waits, one request after the other, and tries again while the collector is away.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use narrows_proxy::rt::sleep;

use super::collector::{Collector, Delivery};
use super::waiting::Waiting;

/// Sends what waits, forever.
pub async fn send_all(waiting: Rc<Waiting>, collector: Collector) {
    let dropped = waiting.figures.dropped.load(Ordering::Relaxed);
    let mut trouble = Trouble::new(&collector.endpoint.to_string(), dropped);
    let mut connection = None;
    loop {
        if waiting.is_empty() {
            // The collector may close a connection that is idle at any time: it is not kept.
            connection = None;
        }
        let batch = waiting.first().await;
        match collector.send(&mut connection, batch.body).await {
            Delivery::Taken(0, _) => {
                waiting.end_first(0);
                trouble.end(&waiting);
            }
            Delivery::Taken(refused, reason) => {
                waiting.end_first(refused);
                trouble.note(&waiting, &format!("it refuses spans: {reason}"));
            }
            Delivery::Refused(reason) => {
                trouble.note(&waiting, &reason);
                waiting.end_first(u64::MAX);
            }
            Delivery::Later(reason, after) => {
                trouble.note(&waiting, &reason);
                sleep(trouble.pause(after)).await;
            }
        }
    }
}

/// The collector does not take spans: logged once, until it does.
struct Trouble {
    collector: String,
    /// Whether there is any.
    is_there: bool,
    /// Spans that had been dropped when the collector took a request last.
    dropped_before: u64,
    /// Whether its beginning was logged.
    is_told: bool,
    /// When one was logged last.
    last_told: Option<Instant>,
    /// The next pause.
    backoff: Duration,
}

impl Trouble {
    fn new(collector: &str, dropped_before: u64) -> Trouble {
        Trouble {
            collector: collector.to_owned(),
            is_there: false,
            dropped_before,
            is_told: false,
            last_told: None,
            backoff: SHORTEST_PAUSE,
        }
    }

    /// A request has failed.
    fn note(&mut self, waiting: &Waiting, reason: &str) {
        let figures = &waiting.figures;
        figures.requests_failed.fetch_add(1, Ordering::Relaxed);
        if self.is_there {
            return;
        }
        self.is_there = true;
        // One that takes every other request would fill the log.
        self.is_told = self.last_told.is_none_or(|last| last.elapsed() >= QUIET);
        if self.is_told {
            self.last_told = Some(Instant::now());
            let collector = &self.collector;
            tracing::warn!(
                collector,
                reason,
                "the collector does not take traces; what does not fit is dropped"
            );
        }
    }

    /// A request was taken as a whole.
    fn end(&mut self, waiting: &Waiting) {
        self.backoff = SHORTEST_PAUSE;
        let all = waiting.figures.dropped.load(Ordering::Relaxed);
        let dropped = all.saturating_sub(self.dropped_before);
        self.dropped_before = all;
        if std::mem::take(&mut self.is_there) && self.is_told {
            tracing::info!(collector = self.collector, dropped, "the collector takes traces again");
        }
    }

    /// The pause before the next attempt: as long as the collector has asked for, within limits, or twice as long each time,
    /// and never the same for all that wait for it.
    fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let pause = asked.map_or(self.backoff, |asked| asked.clamp(SHORTEST_PAUSE, LONGEST_ASKED));
        self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
        pause.mul_f64(rand::random_range(1.0..1.25))
    }
}

/// The first pause after a failure.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that nobody has asked for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The longest pause that a collector may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The time after a log line in which the next trouble is not logged.
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_limits() {
        let mut trouble = Trouble::new("", 0);
        let mut expected = SHORTEST_PAUSE;
        for _ in 0..10 {
            let pause = trouble.pause(None);
            assert!(pause >= expected && pause <= expected.mul_f64(1.25), "{pause:?}");
            expected = (expected * 2).min(LONGEST_PAUSE);
        }
        assert!(trouble.pause(Some(Duration::MAX)) <= LONGEST_ASKED.mul_f64(1.25));
        assert!(trouble.pause(Some(Duration::ZERO)) >= SHORTEST_PAUSE);
    }
}

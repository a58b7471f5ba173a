//! Of the lines that one place of the source writes, the first in a period are logged. The others are counted, and the count
//! is logged.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lets through no more than [`MOST`] lines of a place within [`PERIOD`], for all layers.
#[derive(Debug, Default)]
pub struct Limit {
    places: Arc<Places>,
}

type Places = Mutex<HashMap<Identifier, Place>>;

/// A place of the source that writes lines.
#[derive(Debug)]
struct Place {
    begun: Instant,
    written: u32,
    left_out: u64,
}

impl Limit {
    /// Whether a line of this place is written now; otherwise it is counted.
    fn has_room(&self, metadata: &'static Metadata<'static>) -> bool {
        // Who asks for details wants all of them, and what administrators do has a limit of its own.
        if *metadata.level() >= Level::DEBUG || UNLIMITED.contains(&metadata.target()) {
            return true;
        }
        let now = Instant::now();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place =
            places.entry(metadata.callsite()).or_insert(Place { begun: now, written: 0, left_out: 0 });
        let age = now.duration_since(place.begun);
        if age >= 2 * PERIOD || age >= PERIOD && place.left_out == 0 {
            *place = Place { begun: now, written: 0, left_out: 0 };
        }
        if place.written < MOST {
            place.written += 1;
            return true;
        }
        place.left_out += 1;
        if place.left_out == 1 {
            self.report_later(metadata);
        }
        false
    }

    /// Logs at the end of the period how many lines were left out.
    fn report_later(&self, metadata: &'static Metadata<'static>) {
        let places = Arc::clone(&self.places);
        let report = move || {
            std::thread::sleep(PERIOD);
            let taken = places.lock().unwrap_or_else(PoisonError::into_inner).remove(&metadata.callsite());
            let left_out = taken.map_or(0, |place| place.left_out);
            let (module, line) = (metadata.target(), metadata.line().unwrap_or_default());
            tracing::warn!(
                left_out,
                module,
                line,
                "more lines like the last ones of this module were left out"
            );
        };
        // If there is no thread to be had, which other lines say, nobody learns the count.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(report);
    }
}

/// Lines per place and period: far more than a program writes that runs well.
const MOST: u32 = 100;

const PERIOD: Duration = Duration::from_secs(10);

/// What is logged for administrators is never left out here.
const UNLIMITED: [&str; 2] = ["narrows_control::control::audit", "narrows::log::limit"];

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.has_room(event.metadata())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    struct Counts(Arc<[AtomicU32; 2]>);

    impl<S: Subscriber> Layer<S> for Counts {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0[usize::from(*event.metadata().level() == Level::DEBUG)].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_first_lines_of_each_place_are_written() {
        let counts = Arc::<[AtomicU32; 2]>::default();
        let lines = Counts(Arc::clone(&counts));
        let layers =
            tracing_subscriber::registry().with(lines).with(Limit::default()).with(LevelFilter::DEBUG);
        let _guard = tracing::subscriber::set_default(layers);
        for _ in 0..1_000 {
            tracing::info!("one place");
            tracing::info!("another place");
            tracing::debug!("details");
            tracing::trace!("nobody asked for these");
        }
        let seen = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(seen, [2 * MOST, 1_000]);
    }
}

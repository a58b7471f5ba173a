//! SQL of a statistics user together with the data it reads: the thread of [`super::readers`] executes it.

use narrows_proxy::stats::Observer;

use crate::store::{Snapshot, Warning};

/// What to do with a statement.
#[derive(Debug)]
pub enum Question {
    /// Check that SQLite accepts a statement that resets figures; it then goes back to the control thread.
    Check {
        /// The data that the statement reads.
        snapshot: Snapshot,
        /// The statement.
        text: String,
    },
    /// Execute it and send the answer.
    Answer {
        /// The data that the statement reads.
        snapshot: Snapshot,
        /// The statement.
        text: String,
        /// The figures that the statement resets.
        taken: Taken,
        /// What is missing.
        warnings: Vec<Warning>,
    },
}

/// Restores figures as if they had not been reset.
pub type GiveBack = Box<dyn FnOnce(&Observer) + Send>;

/// The figures that were reset for a statement: they are only discarded once it has returned them.
#[must_use]
#[derive(Default)]
pub struct Taken(pub Vec<GiveBack>);

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Taken({})", self.0.len())
    }
}

impl Taken {
    /// Discards the figures, because the statement has returned them.
    pub fn told(self) {}

    /// Restores the figures, because the statement has not returned them.
    pub fn give_back(self, observer: Option<&Observer>) {
        // Without running workers, nothing is counted.
        if let Some(observer) = observer {
            self.0.into_iter().for_each(|give_back| give_back(observer));
        }
    }
}

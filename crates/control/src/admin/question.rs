//! SQL of a statistics user together with the data it reads: the thread of [`super::readers`] executes it.

use narrows_proxy::stats::Observer;

use crate::store::Snapshot;

/// What to do with a statement.
#[derive(Debug)]
pub enum Question {
    /// Ask whether SQLite accepts it, because it resets figures. It then goes back to the control thread.
    Check {
        /// What it reads.
        snapshot: Snapshot,
        /// The statement.
        text: String,
    },
    /// Its answer.
    Answer {
        /// What it reads.
        snapshot: Snapshot,
        /// The statement.
        text: String,
        /// The figures that it resets.
        taken: Taken,
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
    /// The statement has returned them.
    pub fn told(self) {}

    /// It has not.
    pub fn give_back(self, observer: Option<&Observer>) {
        // If no worker runs any more, nothing is counted.
        if let Some(observer) = observer {
            self.0.into_iter().for_each(|give_back| give_back(observer));
        }
    }
}

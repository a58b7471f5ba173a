//! SQL of a user of statistics with what it reads: the thread of [`super::readers`] carries it out.

use narrows_proxy::stats::Observer;

use crate::store::Snapshot;

/// What is to be done with a statement.
#[derive(Debug)]
pub enum Question {
    /// Whether SQLite takes it: figures begin again by it. It goes back to the control thread then.
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
        /// The figures that begin again by it.
        taken: Taken,
    },
}

/// Has figures that were reset go on as if they had not been.
pub type GiveBack = Box<dyn FnOnce(&Observer) + Send>;

/// The figures that were reset for a statement: they are gone when it has told them, and not before.
#[must_use]
#[derive(Default)]
pub struct Taken(pub Vec<GiveBack>);

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Taken({})", self.0.len())
    }
}

impl Taken {
    /// The statement has told them.
    pub fn told(self) {}

    /// It has not.
    pub fn give_back(self, observer: Option<&Observer>) {
        // Where no worker runs any more nothing is counted.
        if let Some(observer) = observer {
            self.0.into_iter().for_each(|give_back| give_back(observer));
        }
    }
}

//! Messages of one kind to the workers, for modules below the one that reads them.

use std::sync::Arc;

/// Puts messages of one kind into the mailboxes of workers. A worker that has stopped needs none.
pub struct Outbox<M>(Arc<dyn Fn(usize, M) + Send + Sync>);

impl<M> Outbox<M> {
    /// An outbox whose messages `put` puts into the mailbox of the worker with that index.
    pub fn new(put: impl Fn(usize, M) + Send + Sync + 'static) -> Outbox<M> {
        Outbox(Arc::new(put))
    }

    /// Puts a message into a worker's mailbox.
    pub fn send(&self, worker: usize, message: M) {
        (self.0)(worker, message);
    }
}

impl<M> Clone for Outbox<M> {
    fn clone(&self) -> Outbox<M> {
        Outbox(Arc::clone(&self.0))
    }
}

impl<M> std::fmt::Debug for Outbox<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outbox")
    }
}

//! A worker's counters, with the current values of its gauges.

use super::memory::SESSION_BYTES;
use crate::figures::Counters;
use crate::worker::Worker;

impl Worker {
    /// The counters, with the current values of the gauges.
    pub(super) fn count(&self) -> Counters {
        let mut counters = self.counters.borrow().clone();
        self.pool.count_into(&mut counters);
        self.cache.count_into(&mut counters);
        self.mirror.count_into(&mut counters);
        self.for_each_session(|handle| {
            counters.active_transactions += u64::from(handle.is_in_transaction());
            counters.busy_clients += u64::from(handle.is_busy());
        });
        counters.session_bytes = (self.sessions_in_all() * SESSION_BYTES) as u64;
        for prepared in self.prepared.all() {
            counters.client_statements += u64::from(prepared.clients());
            counters.client_statements_unique += u64::from(prepared.clients() > 0);
            counters.backend_statements += u64::from(prepared.servers());
            counters.backend_statements_unique += u64::from(prepared.servers() > 0);
        }
        let (client_bytes, backend_bytes) = self.buffers.in_use();
        counters.client_buffer_bytes = client_bytes;
        counters.backend_buffer_bytes = backend_bytes;
        counters.digests_dropped = self.figures.digests.borrow().dropped();
        counters
    }
}

//! What has become of the spans that were made of records.

use std::sync::atomic::AtomicU64;

/// Counters, which the thread that sends traces counts up.
#[derive(Debug, Default)]
pub struct TraceFigures {
    /// Spans that the collector has.
    pub sent: AtomicU64,
    /// Spans that were dropped: there was no place for them, or the collector has refused them.
    pub dropped: AtomicU64,
    /// Requests that the collector has not answered, or not with success.
    pub requests_failed: AtomicU64,
}

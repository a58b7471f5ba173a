//! Who waits for a hostgroup, over all workers: how many clients, with how many bytes of statements. Counted only while
//! somebody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many wait for one hostgroup.
#[derive(Debug, Default)]
pub struct Crowd {
    clients: AtomicU64,
    bytes: AtomicU64,
}

/// How many may wait for one hostgroup, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrowdLimits {
    /// Clients (`max_waiting`).
    pub clients: u64,
    /// Bytes of their statements (`max_waiting_bytes`).
    pub bytes: u64,
}

/// The limit that keeps a client from waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowded {
    /// `max_waiting` clients wait already.
    Clients(u64),
    /// The statements of all who wait would have more than `max_waiting_bytes`.
    Bytes(u64),
}

/// The place of one client in the count; given back when dropped.
#[derive(Debug)]
pub struct CrowdPlace {
    crowd: Arc<Crowd>,
    bytes: u64,
}

impl Crowd {
    /// Clients that wait.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Bytes of their statements.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl CrowdPlace {
    /// Counts one more client, whose statement has this many bytes.
    ///
    /// # Errors
    /// The limit that would be exceeded; nothing is counted then.
    pub fn take(crowd: &Arc<Crowd>, bytes: u64, limits: CrowdLimits) -> Result<CrowdPlace, Crowded> {
        // A client that would be one too many finds out by counting, so that clients of several workers cannot pass together.
        let clients = crowd.clients.fetch_add(1, Ordering::SeqCst) + 1;
        let all_bytes = crowd.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let place = CrowdPlace { crowd: Arc::clone(crowd), bytes };
        if clients > limits.clients {
            return Err(Crowded::Clients(limits.clients));
        }
        if all_bytes > limits.bytes {
            return Err(Crowded::Bytes(limits.bytes));
        }
        Ok(place)
    }
}

impl Drop for CrowdPlace {
    fn drop(&mut self) {
        self.crowd.clients.fetch_sub(1, Ordering::SeqCst);
        self.crowd.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_counted_beyond_a_limit_and_places_come_back() {
        let crowd = Arc::new(Crowd::default());
        let limits = CrowdLimits { clients: 2, bytes: 100 };
        let take = |bytes| CrowdPlace::take(&crowd, bytes, limits);
        let (one, two) = (take(40).unwrap(), take(40).unwrap());
        assert_eq!(take(0).unwrap_err(), Crowded::Clients(2));
        drop(one);
        assert_eq!(take(61).unwrap_err(), Crowded::Bytes(100));
        let three = take(60).unwrap();
        drop((two, three));
        assert_eq!(crowd.clients.load(Ordering::SeqCst), 0);
        assert_eq!(crowd.bytes.load(Ordering::SeqCst), 0);
    }
}

//! Descriptors that clients do not get: some are reserved for connections to servers, and some for administrators,
//! files and checks, so that an administrator can still connect when clients have used up all others.
//!
//! The kernel gives out the lowest descriptor that is free. One close to the limit means that all below it are in use,
//! so nothing has to be counted.

use crate::rt;

/// The reserved descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// For connections to servers, and what [`Reserve::Rest`] is for.
    Backends,
    /// For administrators, databases, logs and the monitor.
    Rest,
}

/// Whether a new descriptor is one of the reserved ones.
pub fn is_for(descriptor: i32, reserve: Reserve) -> bool {
    u64::try_from(descriptor).is_ok_and(|descriptor| descriptor >= first_of(reserve, rt::most_descriptors()))
}

/// The first reserved one, with a total of `limit`.
fn first_of(reserve: Reserve, limit: u64) -> u64 {
    let (most, share) = match reserve {
        Reserve::Backends => (256, 4),
        Reserve::Rest => (128, 8),
    };
    limit - most.min(limit / share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_whatever_the_limit_is() {
        let kept =
            |limit: u64| [Reserve::Backends, Reserve::Rest].map(|reserve| limit - first_of(reserve, limit));
        assert_eq!(kept(1_048_576), [256, 128]);
        assert_eq!(kept(1_024), [256, 128]);
        assert_eq!(kept(256), [64, 32]);
        assert_eq!(kept(0), [0, 0]);
    }
}

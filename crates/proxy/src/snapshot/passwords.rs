//! Which of an account's two passwords are still used: an operator who replaces one sees when the other can go.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// Who uses a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordSide {
    /// Clients that log in.
    Client,
    /// Servers that are logged in to.
    Server,
}

/// How often each password of an account has been used, and when last. It begins at 0 when the account gets other
/// passwords.
#[derive(Debug, Default)]
pub struct PasswordUse {
    /// By side; the password of the row first, then the additional one.
    used: [[Used; 2]; 2],
}

#[derive(Debug, Default)]
struct Used {
    count: AtomicU64,
    /// Seconds since 1970; 0: never.
    last: AtomicU64,
}

impl PasswordUse {
    /// Counts a login with the password of that number.
    pub fn note(&self, side: PasswordSide, number: usize) {
        let now = clock::now().as_secs();
        if let Some(used) = self.of(side).get(number) {
            used.count.fetch_add(1, Ordering::Relaxed);
            used.last.store(now, Ordering::Relaxed);
        }
    }

    /// How often the password of that number was used, and when last in seconds since 1970 (0: never).
    pub fn read(&self, side: PasswordSide, number: usize) -> (u64, u64) {
        let read = |used: &Used| (used.count.load(Ordering::Relaxed), used.last.load(Ordering::Relaxed));
        self.of(side).get(number).map(read).unwrap_or_default()
    }

    fn of(&self, side: PasswordSide) -> &[Used; 2] {
        let [clients, servers] = &self.used;
        match side {
            PasswordSide::Client => clients,
            PasswordSide::Server => servers,
        }
    }
}

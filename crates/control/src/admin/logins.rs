//! Logins of administrators in the log: who, from where. Exporters log in every few seconds, so one account from one
//! address is logged once in a while, with the number of logins.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::store::Role;

/// Recent logins.
struct Seen {
    user: String,
    host: String,
    told: Instant,
    since: u64,
}

thread_local! {
    /// Only used by the thread that runs the sessions.
    static SEEN: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
}

/// Logs that somebody has logged in, unless this was logged a moment ago.
pub fn tell(user: &str, role: Role, host: &str, port: u16) {
    let before = SEEN.with_borrow_mut(|seen| {
        if let Some(known) = seen.iter_mut().find(|known| known.user == user && known.host == host) {
            known.since += 1;
            if known.told.elapsed() < QUIET {
                return None;
            }
            known.told = Instant::now();
            return Some(std::mem::take(&mut known.since));
        }
        if seen.len() >= MOST_SEEN {
            seen.remove(0);
        }
        seen.push(Seen { user: user.to_owned(), host: host.to_owned(), told: Instant::now(), since: 0 });
        Some(1)
    });
    if let Some(logins) = before {
        tracing::info!(user, ?role, client = host, port, logins, "an administrator has logged in");
    }
}

/// The same account from the same address is logged again after this time.
const QUIET: Duration = Duration::from_secs(60);

/// How many accounts and addresses are remembered.
const MOST_SEEN: usize = 256;

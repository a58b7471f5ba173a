//! Accounts that a server refuses: one log line a minute for each, with the number of lines left out.

use std::sync::PoisonError;
use std::time::Duration;

/// What was logged about the accounts of one server, over all workers. Only used when a server has refused an account.
#[derive(Debug, Default)]
pub struct Refusals {
    #[expect(clippy::disallowed_types, reason = "taken only where a server has refused an account")]
    accounts: std::sync::Mutex<Vec<Account>>,
}

#[derive(Debug)]
struct Account {
    username: String,
    /// When its last line was written, since the process started.
    told: Duration,
    /// How many lines were left out since.
    suppressed: u64,
}

impl Refusals {
    /// An account was refused, this long after the start of the process. Returns how many lines were left out before
    /// this one, if it is to be logged now.
    pub fn tell(&self, username: &str, now: Duration) -> Option<u64> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(account) = accounts.iter_mut().find(|account| account.username == username) else {
            if accounts.len() >= MOST {
                // The account with the oldest line is dropped.
                let oldest = accounts.iter().enumerate().min_by_key(|(_, account)| account.told);
                let oldest = oldest.map_or(0, |(index, _)| index);
                accounts.swap_remove(oldest);
            }
            accounts.push(Account { username: username.to_owned(), told: now, suppressed: 0 });
            return Some(0);
        };
        if now.saturating_sub(account.told) < BETWEEN_LINES {
            account.suppressed += 1;
            return None;
        }
        account.told = now;
        Some(std::mem::take(&mut account.suppressed))
    }
}

/// How many accounts are tracked at once. With more, each may log more than a line a minute.
const MOST: usize = 64;

/// Clients retry hundreds of times a second.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_says_how_many_there_were() {
        let refusals = Refusals::default();
        let at = Duration::from_secs;
        assert_eq!(refusals.tell("app", at(0)), Some(0));
        for second in 1..60 {
            assert_eq!(refusals.tell("app", at(second)), None);
        }
        assert_eq!(refusals.tell("app", at(61)), Some(59));
        assert_eq!(refusals.tell("app", at(62)), None);
    }

    #[test]
    fn each_account_has_its_own_line_and_their_number_is_bounded() {
        let refusals = Refusals::default();
        let name = |number: usize| format!("app{number}");
        for number in 0..MOST {
            assert_eq!(refusals.tell(&name(number), Duration::from_millis(number as u64)), Some(0));
        }
        let soon = Duration::from_secs(1);
        assert!((0..MOST).all(|number| refusals.tell(&name(number), soon).is_none()));
        assert_eq!(refusals.tell("one more", soon), Some(0));
        assert_eq!(refusals.accounts.lock().unwrap().len(), MOST);
    }
}

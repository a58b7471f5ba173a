//! The thread that fetches keys, and renews them before they end.
//!
//! Keys stay in use for as long as they are valid, whatever becomes of an attempt to renew them. A failure is logged once, until
//! the reason is another one or an attempt succeeds.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use narrows_proxy::rt;
use narrows_proxy::server_tokens::NoToken;

use super::credentials::AwsCredentials;
use super::source::Source;
use super::surroundings::{Environment, now};
use crate::calendar::date_and_time;

/// Keys that are renewed.
pub(super) struct Renewed {
    environment: Mutex<Environment>,
    state: Mutex<State>,
    /// Wakes the thread.
    wake: Condvar,
    begun: Once,
}

/// The keys, and how they came here.
#[derive(Default)]
struct State {
    credentials: Option<AwsCredentials>,
    source: String,
    /// Seconds since 1970; `None`: never.
    refreshed: Option<i64>,
    /// When the thread is to fetch them again, in seconds since 1970.
    due: i64,
    /// Attempts that have failed in a row.
    failed: u32,
    failures: u64,
    refreshes: u64,
    tokens: u64,
    /// Of the last attempt; empty if it has succeeded.
    error: String,
    has_tried: bool,
    has_begun: bool,
}

/// What an operator may see of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialState {
    /// Where they come from; empty: from nowhere so far.
    pub source: String,
    /// The name of the key; it is no secret.
    pub access_key_id: String,
    /// When they were fetched last, in seconds since 1970; `None`: never.
    pub refreshed: Option<i64>,
    /// Until when they are valid; `None`: they have no end.
    pub expires: Option<i64>,
    /// How often they were fetched,
    pub refreshes: u64,
    /// and how often that failed.
    pub failures: u64,
    /// Why the last attempt failed; empty if it did not.
    pub last_error: String,
    /// How many tokens were signed.
    pub tokens: u64,
}

impl Renewed {
    pub fn new(environment: Environment) -> Renewed {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Renewed { environment: Mutex::new(environment), state, wake, begun: Once::new() }
    }

    /// Starts the thread, which ends with the process.
    pub fn begin(self: &Arc<Renewed>) {
        self.begun.call_once(|| {
            self.lock().has_begun = true;
            let this = Arc::clone(self);
            let started = std::thread::Builder::new().name("aws-iam".to_owned()).spawn(move || this.run());
            if let Err(error) = started {
                let mut state = self.lock();
                (state.has_tried, state.failed) = (true, 1);
                state.error = format!("no thread can fetch AWS credentials: {error}");
            }
        });
    }

    /// The keys, if they are valid at `now`.
    ///
    /// # Errors
    /// Why there are none.
    pub fn credentials(self: &Arc<Renewed>, now: i64) -> Result<AwsCredentials, NoToken> {
        self.begin();
        let mut state = self.lock();
        let is_valid = |it: &AwsCredentials| it.expires.is_none_or(|expires| expires > now + LOGIN_TIME_S);
        let valid = state.credentials.clone().filter(is_valid);
        if let Some(valid) = valid {
            state.tokens += 1;
            return Ok(valid);
        }
        if !state.has_tried || state.failed == 0 {
            // The machine may have slept.
            self.wake.notify_one();
            return Err(NoToken::NotYet);
        }
        let expired = state.credentials.as_ref().and_then(|it| it.expires);
        Err(NoToken::NoCredentials(match expired {
            None => state.error.clone(),
            Some(expires) => {
                format!("the AWS credentials expired at {} UTC: {}", date_and_time(expires), state.error)
            }
        }))
    }

    /// What is known; `None`: the thread was never needed.
    pub fn state(&self) -> Option<CredentialState> {
        let state = self.lock();
        let keys = state.credentials.as_ref();
        state.has_begun.then(|| CredentialState {
            source: state.source.clone(),
            access_key_id: keys.map(|keys| keys.access_key_id.clone()).unwrap_or_default(),
            refreshed: state.refreshed,
            expires: keys.and_then(|keys| keys.expires),
            refreshes: state.refreshes,
            failures: state.failures,
            last_error: state.error.clone(),
            tokens: state.tokens,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let fetched = self.fetch();
            let mut state = self.lock();
            state.take(fetched, now());
            loop {
                let left = u64::try_from(state.due.saturating_sub(now())).unwrap_or(0);
                if left == 0 {
                    break;
                }
                // Not longer, because the clock may be set.
                let wait = Duration::from_secs(left.min(RECHECK_S.unsigned_abs()));
                let waited = self.wake.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// The keys as they are now, with where they are from.
    fn fetch(&self) -> Result<(AwsCredentials, String), String> {
        let environment = self.environment.lock().unwrap_or_else(PoisonError::into_inner);
        let source = Source::find(&environment)?;
        let fetched = rt::block_on(source.fetch(&environment));
        let credentials = fetched.map_err(|error| error.to_string())??;
        match credentials.expires {
            Some(expires) if expires <= now() => Err(format!(
                "{source}: the credentials that it hands out expired at {} UTC, and it is {} UTC here",
                date_and_time(expires),
                date_and_time(now())
            )),
            _ => Ok((credentials, source.to_string())),
        }
    }
}

impl State {
    /// Takes the outcome of an attempt, and decides when the next one is made.
    fn take(&mut self, fetched: Result<(AwsCredentials, String), String>, now: i64) {
        self.has_tried = true;
        match fetched {
            Ok((credentials, source)) => {
                self.log_success(&credentials, &source);
                self.due = now.saturating_add(pause(credentials.expires.map(|expires| expires - now)));
                (self.credentials, self.source) = (Some(credentials), source);
                (self.refreshed, self.failed) = (Some(now), 0);
                self.refreshes += 1;
                self.error = String::new();
            }
            Err(reason) => {
                if self.error != reason {
                    let is_valid = |keys: &AwsCredentials| keys.expires.is_none_or(|expires| expires > now);
                    match self.credentials.as_ref().is_some_and(is_valid) {
                        true => tracing::warn!(
                            "AWS credentials cannot be renewed, and those before are in use: {reason}"
                        ),
                        false => tracing::error!("there are no AWS credentials for IAM tokens: {reason}"),
                    }
                }
                self.due = now.saturating_add(1 << self.failed.min(LONGEST_PAUSE_LOG2));
                self.failed = self.failed.saturating_add(1);
                self.failures += 1;
                self.error = reason;
            }
        }
    }

    /// Logs the first keys, and what follows a failure; renewals are not news.
    fn log_success(&self, credentials: &AwsCredentials, source: &str) {
        if self.refreshes > 0 && self.error.is_empty() && self.source == source {
            return;
        }
        let expires = credentials.expires.map_or_else(|| "never".to_owned(), date_and_time);
        let access_key_id = credentials.access_key_id.as_str();
        tracing::info!(source, access_key_id, expires, "AWS credentials for IAM tokens");
    }
}

/// After how many seconds keys are fetched again that are valid for so many seconds more: for the last quarter of their time, and
/// for a quarter of an hour at most, there is time for attempts that fail. AWS has the next keys of an instance five minutes before
/// the end; what comes earlier are the same keys once more.
fn pause(left: Option<i64>) -> i64 {
    left.map_or(RECHECK_S, |left| (left - (left / 4).min(900)).max(1))
}

/// How long a login may take, in seconds: a token whose key ends on its way is of no use.
const LOGIN_TIME_S: i64 = 1;

/// After how many seconds keys without an end are looked at again: a profile may have others then.
const RECHECK_S: i64 = 60;

/// The longest pause between attempts is 64 s: as long as nobody waits for longer than a minute after AWS is back.
const LONGEST_PAUSE_LOG2: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws_iam::of_test::environment;

    fn keys(expires: Option<i64>) -> Result<(AwsCredentials, String), String> {
        let keys = AwsCredentials::new("AKIA1", "s3cret", None).unwrap();
        Ok((AwsCredentials { expires, ..keys }, "somewhere".to_owned()))
    }

    fn failure(why: &str) -> Result<(AwsCredentials, String), String> {
        Err(why.to_owned())
    }

    #[test]
    fn keys_are_renewed_before_they_end() {
        for (left, expected) in [
            (None, 60),
            (Some(6 * 3_600), 6 * 3_600 - 900),
            (Some(3_600), 2_700),
            (Some(60), 45),
            (Some(4), 3),
            (Some(1), 1),
        ] {
            assert_eq!(pause(left), expected, "{left:?}");
        }
    }

    #[test]
    fn a_failure_keeps_the_keys_and_is_tried_again_less_and_less_often() {
        let mut state = State::default();
        state.take(keys(Some(1_000)), 0);
        assert_eq!((state.due, state.failures), (750, 0));
        let dues: Vec<i64> = (0..9)
            .map(|_| {
                state.take(failure("no answer"), 800);
                state.due - 800
            })
            .collect();
        assert_eq!(dues, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(state.credentials.as_ref().and_then(|it| it.expires), Some(1_000));
        state.take(keys(Some(5_000)), 900);
        assert_eq!((state.failed, state.failures, state.error.as_str()), (0, 9, ""));
    }

    fn renewed(state: State) -> Arc<Renewed> {
        let renewed = Renewed::new(environment(&[]));
        *renewed.lock() = state;
        // The thread is not to run.
        renewed.begun.call_once(|| {});
        Arc::new(renewed)
    }

    #[test]
    fn keys_are_used_until_their_end_and_not_after_it() {
        let mut state = State { has_begun: true, ..State::default() };
        state.take(keys(Some(1_000)), 0);
        let renewed = renewed(state);
        assert_eq!(renewed.credentials(998).unwrap().access_key_id, "AKIA1");
        assert_eq!(renewed.credentials(999), Err(NoToken::NotYet), "a renewal has not failed so far");
        renewed.lock().take(failure("somewhere: no answer within 5 s"), 1_001);
        let expected =
            "the AWS credentials expired at 1970-01-01 00:16:40 UTC: somewhere: no answer within 5 s";
        assert_eq!(renewed.credentials(1_002), Err(NoToken::NoCredentials(expected.to_owned())));
        let state = renewed.state().unwrap();
        assert_eq!((state.tokens, state.failures, state.refreshed), (1, 1, Some(0)));
        assert!(!format!("{state:?}").contains("s3cret"));
    }

    #[test]
    fn without_keys_the_reason_is_said_once_it_is_known() {
        let renewed = renewed(State::default());
        assert_eq!(renewed.credentials(0), Err(NoToken::NotYet));
        renewed.lock().take(failure("there are none"), 0);
        assert_eq!(renewed.credentials(0), Err(NoToken::NoCredentials("there are none".to_owned())));
    }
}

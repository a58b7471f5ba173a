//! What API servers have said of tokens, for a moment.
//!
//! A token itself is not kept: it is found by its hash, in memory only.

use std::collections::HashMap;
use std::time::Duration;

use narrows_proxy::clock;
use narrows_proxy::rt::Instant;
use narrows_proxy::tokens::Excerpt;
use serde_json::{Map, Value};

use super::turns::TokenHash;

/// Tokens that are remembered.
#[derive(Default)]
pub(super) struct Remembered {
    good: HashMap<TokenHash, Good>,
    /// Why they are refused, and until when they are without another question. There are no more than turns of strangers in that time.
    refused: HashMap<TokenHash, (Instant, Excerpt)>,
}

struct Good {
    /// Until when the answer counts.
    until: Instant,
    /// When the token expires, in seconds since 1970. Until then, it is known that it was good.
    expires: u64,
    claims: Map<String, Value>,
}

/// What an API server says of a token: its claims, or why it is not valid.
pub(super) type Said = Result<Map<String, Value>, Excerpt>;

impl Remembered {
    /// What was said of a token a moment ago.
    pub fn said(&self, hash: &TokenHash, now: Instant) -> Option<Said> {
        let good = self.good.get(hash).filter(|good| good.until > now);
        let refused = self.refused.get(hash).filter(|(until, _)| *until > now);
        good.map(|good| Ok(good.claims.clone())).or(refused.map(|(_, why)| Err(why.clone())))
    }

    /// Whether a token was good when its API server was asked last.
    pub fn was_good(&self, hash: &TokenHash) -> bool {
        self.good.get(hash).is_some_and(|good| good.expires > clock::now().as_secs())
    }

    /// Remembers an answer about a token that `expires` at this time in seconds since 1970.
    pub fn note(&mut self, hash: TokenHash, expires: u64, said: &Said) {
        let now = Instant::now();
        match said {
            Ok(claims) => {
                self.refused.remove(&hash);
                if self.has_room(&hash, now) {
                    let left = Duration::from_secs(expires.saturating_sub(clock::now().as_secs()));
                    let until = now + left.min(GOOD_FOR);
                    self.good.insert(hash, Good { until, expires, claims: claims.clone() });
                }
            }
            Err(why) => {
                self.good.remove(&hash);
                self.refused.retain(|_, (until, _)| *until > now);
                self.refused.insert(hash, (now + REFUSED_FOR, why.clone()));
            }
        }
    }

    /// Whether one more good token can be remembered. Those are forgotten first that have expired, and then those whose answer no
    /// longer counts.
    fn has_room(&mut self, hash: &TokenHash, now: Instant) -> bool {
        if self.good.len() >= MOST_GOOD && !self.good.contains_key(hash) {
            let seconds = clock::now().as_secs();
            self.good.retain(|_, good| good.expires > seconds);
            if self.good.len() >= MOST_GOOD {
                self.good.retain(|_, good| good.until > now);
            }
        }
        self.good.len() < MOST_GOOD || self.good.contains_key(hash)
    }
}

/// How long the answer about a valid token counts: as long may the token of a pod be good that was deleted.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// How long a refused token is refused without another question: longer than most applications wait before they try again.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Good tokens that are remembered: one for each pod of a large cluster.
const MOST_GOOD: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> TokenHash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_le_bytes());
        hash
    }

    #[test]
    fn an_answer_counts_for_a_time_and_the_last_one_is_the_one() {
        let (mut remembered, now) = (Remembered::default(), Instant::now());
        let (good, bad) = (Ok(Map::new()), Err(Excerpt::of("no")));
        let expires = clock::now().as_secs() + 600;
        assert_eq!(remembered.said(&hash(1), now), None);
        remembered.note(hash(1), expires, &good);
        assert_eq!(remembered.said(&hash(1), now), Some(good.clone()));
        let later = now + GOOD_FOR + Duration::from_secs(1);
        assert_eq!(remembered.said(&hash(1), later), None);
        assert!(remembered.was_good(&hash(1)));
        remembered.note(hash(1), expires, &bad);
        assert_eq!(remembered.said(&hash(1), now), Some(bad));
        assert!(!remembered.was_good(&hash(1)));
        assert_eq!(remembered.said(&hash(1), now + REFUSED_FOR + Duration::from_secs(1)), None);
        remembered.note(hash(2), 1, &good);
        assert!(remembered.said(&hash(2), Instant::now()).is_none() && !remembered.was_good(&hash(2)));
    }

    #[test]
    fn there_is_a_bound_and_what_has_expired_goes_first() {
        let (mut remembered, good) = (Remembered::default(), Ok(Map::new()));
        let expires = clock::now().as_secs() + 600;
        remembered.note(hash(0), 1, &good);
        (1..=MOST_GOOD + 1).for_each(|number| remembered.note(hash(number), expires, &good));
        assert_eq!(remembered.good.len(), MOST_GOOD);
        assert!(remembered.was_good(&hash(1)) && !remembered.good.contains_key(&hash(0)));
        assert!(!remembered.was_good(&hash(MOST_GOOD + 1)));
        remembered.note(hash(1), expires + 1, &good);
        assert_eq!(remembered.good.len(), MOST_GOOD);
    }
}

//! Which token an API server is asked about next, so that forged tokens make few questions and hold no good ones up.
//!
//! A token that was good before is asked about first. Another one, of a stranger, takes a credit, which comes back at once if the
//! token is good: so there is no limit on good tokens, and one per second on the others. While credit is short, clients
//! go first from whose address the fewest refused tokens have come.
//!
//! Nothing here waits or has a clock.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use narrows_proxy::rt::Instant;

/// The hash of a token and of the settings of its issuer.
pub(super) type TokenHash = [u8; 32];

/// Tokens that wait to be asked about, and what those before have come to.
pub(super) struct Turns {
    /// Those that were good before, and strangers; both in the order of coming.
    known: VecDeque<Turn>,
    strangers: Vec<Turn>,
    asked: usize,
    strangers_asked: usize,
    /// When all credit will be there again.
    full_at: Instant,
    refused: HashMap<Source, Refusals>,
}

/// The right to ask about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub hash: TokenHash,
    source: Source,
    is_stranger: bool,
}

/// What has become of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    Refused,
    /// The API server has said nothing: it has had the work all the same.
    Unanswered,
}

/// Where a client is: its address, or with IPv6 its network, whose addresses are all its own; `None`: on this machine.
type Source = Option<IpAddr>;

/// The refused tokens of a source.
#[derive(Debug, Clone, Copy)]
struct Refusals {
    count: u32,
    last: Instant,
}

impl Turns {
    pub fn new(now: Instant) -> Turns {
        Turns {
            known: VecDeque::new(),
            strangers: Vec::new(),
            asked: 0,
            strangers_asked: 0,
            full_at: now,
            refused: HashMap::new(),
        }
    }

    /// Lets a token wait for its turn.
    pub fn wait(&mut self, hash: TokenHash, from: Option<IpAddr>, was_good: bool) {
        let turn = Turn { hash, source: source(from), is_stranger: !was_good };
        match was_good {
            true => self.known.push_back(turn),
            false => self.strangers.push(turn),
        }
    }

    /// The next token to ask about, if one may be now. Those that are not `wanted` any more are forgotten.
    pub fn next(&mut self, now: Instant, mut wanted: impl FnMut(&TokenHash) -> bool) -> Option<Turn> {
        if self.asked == MOST_AT_ONCE {
            return None;
        }
        while let Some(turn) = self.known.pop_front() {
            if wanted(&turn.hash) {
                self.asked += 1;
                return Some(turn);
            }
        }
        // All strangers are looked at, so not for each that comes while none has a turn.
        if self.strangers_asked == STRANGERS_AT_ONCE || self.due(now).is_some() {
            return None;
        }
        self.strangers.retain(|turn| wanted(&turn.hash));
        let refusals = |turn: &Turn| self.refused.get(&turn.source).map_or(0, |it| it.count_at(now));
        let (first, _) = self.strangers.iter().enumerate().min_by_key(|(_, turn)| refusals(turn))?;
        (self.asked, self.strangers_asked) = (self.asked + 1, self.strangers_asked + 1);
        self.full_at = self.full_at.max(now) + CREDIT_TIME;
        Some(self.strangers.remove(first))
    }

    /// Takes the outcome of a turn.
    pub fn done(&mut self, turn: Turn, outcome: Outcome, now: Instant) {
        self.asked -= 1;
        if turn.is_stranger {
            self.strangers_asked -= 1;
        }
        match outcome {
            Outcome::Good if turn.is_stranger => self.full_at = self.full_at - CREDIT_TIME,
            Outcome::Refused => {
                self.refused.retain(|_, refusals| refusals.count_at(now) > 0);
                let refusals = self.refused.entry(turn.source).or_insert(Refusals { count: 0, last: now });
                *refusals = Refusals { count: refusals.count.saturating_add(1), last: now };
            }
            Outcome::Good | Outcome::Unanswered => {}
        }
    }

    /// When there is credit again; `None`: there is.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let due = self.full_at - CREDIT_TIME * (CREDIT - 1);
        (due > now).then_some(due)
    }

    /// Whether tokens wait for credit.
    pub fn is_short_of_credit(&self, now: Instant) -> bool {
        !self.strangers.is_empty() && self.due(now).is_some()
    }

    /// The source of the most refused tokens, and how many there were; `None`: there were none.
    pub fn most_refused(&self) -> Option<(Source, u32)> {
        let most = self.refused.iter().max_by_key(|(_, refusals)| refusals.count);
        most.map(|(source, refusals)| (*source, refusals.count))
    }
}

impl Refusals {
    fn count_at(self, now: Instant) -> u32 {
        if now.duration_since(self.last) < REFUSALS_COUNT_FOR { self.count } else { 0 }
    }
}

fn source(from: Option<IpAddr>) -> Source {
    from.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> 64)).into(),
        address => address,
    })
}

/// Questions to API servers at a time: a small part of what one answers at once.
const MOST_AT_ONCE: usize = 16;

/// Those about tokens of strangers: the others do not wait for them.
const STRANGERS_AT_ONCE: usize = 12;

/// Refused tokens that are asked about in a row: what an application sends whose pods have a wrong token.
const CREDIT: u32 = 100;

/// The time after which one more is: 10 a second are a thousandth of what a small API server answers.
const CREDIT_TIME: Duration = Duration::from_millis(100);

/// For how long after its last one the refused tokens of a source count. There are no more sources than credit in this time.
const REFUSALS_COUNT_FOR: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const ENEMY: [u8; 4] = [198, 51, 100, 1];

    fn hash(number: u32) -> TokenHash {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&number.to_le_bytes());
        hash
    }

    fn any(_: &TokenHash) -> bool {
        true
    }

    /// Asks about everything that may be asked about, and gets the same answer each time.
    fn run(turns: &mut Turns, outcome: Outcome, now: Instant) -> usize {
        let mut count = 0;
        while let Some(turn) = turns.next(now, any) {
            turns.done(turn, outcome, now);
            count += 1;
        }
        count
    }

    #[test]
    fn good_tokens_have_no_limit_and_refused_ones_ten_a_second_after_the_first_hundred() {
        let begin = Instant::now();
        let mut turns = Turns::new(begin);
        (0..5000).for_each(|number| turns.wait(hash(number), None, false));
        assert_eq!(run(&mut turns, Outcome::Good, begin), 5000);
        for outcome in [Outcome::Refused, Outcome::Unanswered] {
            let mut turns = Turns::new(begin);
            (0..5000).for_each(|number| turns.wait(hash(number), None, false));
            assert_eq!(run(&mut turns, outcome, begin), 100);
            assert!(turns.is_short_of_credit(begin));
            let due = turns.due(begin).unwrap();
            assert_eq!(due, begin + CREDIT_TIME);
            assert_eq!(run(&mut turns, outcome, due), 1);
            assert_eq!(run(&mut turns, outcome, due + Duration::from_secs(3)), 30);
            assert_eq!(run(&mut turns, outcome, due + Duration::from_secs(100_000)), 100);
        }
    }

    #[test]
    fn while_an_enemy_floods_others_go_first() {
        let begin = Instant::now();
        let mut turns = Turns::new(begin);
        let (enemy, other) = (Some(ENEMY.into()), Some([198, 51, 100, 2].into()));
        (0..1000).for_each(|number| turns.wait(hash(number), enemy, false));
        assert_eq!(run(&mut turns, Outcome::Refused, begin), 100);
        // Who was good before needs no credit.
        turns.wait(hash(2000), enemy, true);
        assert_eq!(turns.next(begin, any).map(|turn| turn.hash), Some(hash(2000)));
        assert_eq!(turns.next(begin, any), None);
        // One credit is enough for all good tokens of another address.
        (3000..3100).for_each(|number| turns.wait(hash(number), other, false));
        let later = begin + CREDIT_TIME;
        for number in 3000..3100 {
            let turn = turns.next(later, any).unwrap();
            assert_eq!(turn.hash, hash(number));
            turns.done(turn, Outcome::Good, later);
        }
        assert_eq!(turns.most_refused(), Some((enemy, 100)));
        assert_eq!(run(&mut turns, Outcome::Refused, later), 1, "and it is the enemy's turn again");
    }

    #[test]
    fn strangers_leave_places_for_those_who_were_good_before() {
        let now = Instant::now();
        let mut turns = Turns::new(now);
        (0..50).for_each(|number| turns.wait(hash(number), None, false));
        let strangers: Vec<Turn> = std::iter::from_fn(|| turns.next(now, any)).collect();
        assert_eq!(strangers.len(), 12);
        (50..100).for_each(|number| turns.wait(hash(number), None, true));
        assert_eq!(std::iter::from_fn(|| turns.next(now, any)).count(), 4);
        turns.done(strangers[0], Outcome::Good, now);
        assert_eq!(turns.next(now, any).map(|turn| turn.hash), Some(hash(54)));
    }

    #[test]
    fn who_waits_no_more_is_forgotten_and_old_refusals_too() {
        let now = Instant::now();
        let mut turns = Turns::new(now);
        (0..10).for_each(|number| turns.wait(hash(number), Some(ENEMY.into()), false));
        assert_eq!(turns.next(now, |_| false), None);
        assert!(turns.strangers.is_empty());
        turns.wait(hash(1), Some(ENEMY.into()), false);
        run(&mut turns, Outcome::Refused, now);
        let count = |at| turns.refused[&Some(ENEMY.into())].count_at(at);
        assert_eq!((count(now), count(now + REFUSALS_COUNT_FOR)), (1, 0));
    }

    #[test]
    fn a_client_of_ipv6_is_its_network() {
        let of = |text: &str| source(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:198.51.100.1"), of("198.51.100.1"));
        assert_ne!(of("198.51.100.2"), of("198.51.100.1"));
    }
}

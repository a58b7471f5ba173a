//! How often statements ran within the last hour, whether or not their digests were reset meanwhile.
//!
//! Every five minutes the table of digests is read, and what it has counted since is kept: twelve such numbers, and what has
//! run since the last one. Reading 10,000 digests takes the control thread some 10 ms.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use narrows_proxy::clock;
use narrows_proxy::stats::{DigestLine, Take, wait};

use super::Runtime;

/// Counts of the last hour.
#[derive(Debug)]
pub(super) struct RecentCounts {
    /// What each line has had when it was last read: its number, and since when it counts.
    seen: HashMap<u64, (u64, u64)>,
    /// What has run since the last part ended.
    current: HashMap<u64, u32>,
    /// When it began.
    began: Instant,
    /// The parts before, the oldest first.
    parts: VecDeque<Part>,
    /// When the first one began.
    first: Instant,
}

/// What has run in one part of the hour.
#[derive(Debug)]
struct Part {
    ended: Instant,
    /// Numbers by the key of account, schema and digest, sorted.
    counts: Box<[(u64, u32)]>,
}

/// How long a part is: the hour has twelve.
const LENGTH: Duration = Duration::from_secs(5 * 60);

/// What is asked for.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// How many parts are kept, besides the current one: 4 MiB with [`MOST_COUNTED`] statements in each.
const MOST_PARTS: usize = 12;

/// How many different statements a part has: those that ran most.
const MOST_COUNTED: usize = 20_000;

impl RecentCounts {
    pub fn new(now: Instant) -> RecentCounts {
        let (seen, current) = (HashMap::new(), HashMap::new());
        RecentCounts { seen, current, began: now, parts: VecDeque::new(), first: now }
    }

    /// Whether the current part is over.
    fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= LENGTH
    }

    /// Counts what has run since the digests were last read.
    pub fn note(&mut self, lines: &[DigestLine], now: Instant) {
        let mut seen = HashMap::with_capacity(lines.len());
        for line in lines {
            let row = (line.hostgroup.0, &line.client_address, key_of(line));
            let row = hash_of(&row);
            let more = match self.seen.get(&row) {
                // It was reset if it has begun later.
                Some((count, first)) if line.first_seen <= *first && line.count >= *count => {
                    line.count - count
                }
                _ => line.count,
            };
            seen.insert(row, (line.count, line.first_seen));
            if more > 0 {
                let count = self.current.entry(key_of(line)).or_default();
                *count = count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            }
        }
        self.seen = seen;
        if self.is_due(now) {
            self.end_part(now);
        }
    }

    fn end_part(&mut self, now: Instant) {
        let mut counts: Vec<(u64, u32)> = std::mem::take(&mut self.current).into_iter().collect();
        if counts.len() > MOST_COUNTED {
            counts.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
            counts.truncate(MOST_COUNTED);
        }
        counts.sort_unstable();
        self.parts.push_back(Part { ended: now, counts: counts.into_boxed_slice() });
        if self.parts.len() > MOST_PARTS {
            self.parts.pop_front();
        }
        self.began = now;
    }

    /// How often the statements of an account in a schema with a digest have run within the last hour, and up to five
    /// minutes before.
    pub fn count(&self, (username, schemaname, digest): (&str, &str, u64), now: Instant) -> u64 {
        let key = hash_of(&(username, schemaname, digest));
        let of_part = |part: &Part| {
            let found = part.counts.binary_search_by_key(&key, |(known, _)| *known).ok();
            found.and_then(|place| part.counts.get(place)).map_or(0, |(_, count)| u64::from(*count))
        };
        let is_recent = |part: &&Part| now.saturating_duration_since(part.ended) < HOUR;
        let before: u64 = self.parts.iter().filter(is_recent).map(of_part).sum();
        before + self.current.get(&key).copied().map_or(0, u64::from)
    }

    /// For how long the counts go back.
    pub fn span(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.first).min(HOUR)
    }
}

impl Runtime {
    /// Counts what has run, if the time for it has come.
    pub fn count_if_due(&mut self) {
        let now = Instant::now();
        if self.hour.is_due(now) {
            self.count_statements(now);
        }
    }

    /// Counts what has run before a statement of an administrator or of a statistics user resets the digests.
    pub fn count_before_reset(&mut self, text: &str) {
        let mentions = |word: &str| {
            text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
        };
        if mentions("digest") && ["reset", "save", "truncate", "delete"].into_iter().any(mentions) {
            self.count_statements(Instant::now());
        }
    }

    fn count_statements(&mut self, now: Instant) {
        let lines = self.observer().map(|observer| wait(observer.digests(Take::Copy)));
        self.hour.note(&lines.unwrap_or_default(), now);
    }

    /// Since when statements are counted, in seconds since 1970.
    pub(super) fn counted_since(&self, now: Instant) -> i64 {
        let since = clock::now().saturating_sub(self.hour.span(now));
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}

fn key_of(line: &DigestLine) -> u64 {
    hash_of(&(line.username.as_str(), line.schemaname.as_str(), line.digest))
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use narrows_proxy::snapshot::HostgroupId;

    use super::*;

    fn line(hostgroup: i32, digest: u64, count: u64, first_seen: u64) -> DigestLine {
        DigestLine {
            hostgroup: HostgroupId(hostgroup),
            schemaname: "shop".to_owned(),
            username: "app".to_owned(),
            client_address: String::new(),
            digest,
            digest_text: String::new(),
            count,
            first_seen,
            last_seen: first_seen,
            sum_time_us: 0,
            min_time_us: 0,
            max_time_us: 0,
            rows_affected: 0,
            rows_sent: 0,
        }
    }

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    #[test]
    fn what_ran_more_than_an_hour_ago_does_not_count() {
        let start = Instant::now();
        let mut counts = RecentCounts::new(start);
        let of = |counts: &RecentCounts, at: u64| counts.count(("app", "shop", 7), start + minutes(at));
        // Ten a minute for 30 minutes, on two hostgroups, and then none.
        for at in (0..=120).step_by(5) {
            let ran = 10 * at.min(30);
            counts.note(&[line(0, 7, ran, 1), line(1, 7, ran, 1)], start + minutes(at));
            match at {
                30 | 60 => assert_eq!(of(&counts, at), 600),
                75 => assert!((300..=400).contains(&of(&counts, at)), "{}", of(&counts, at)),
                95.. => assert_eq!(of(&counts, at), 0),
                _ => {}
            }
        }
        assert_eq!(counts.parts.len(), MOST_PARTS);
        assert_eq!((counts.span(start + minutes(3)), counts.span(start + minutes(200))), (minutes(3), HOUR));
    }

    #[test]
    fn a_reset_of_the_digests_loses_and_doubles_nothing() {
        let start = Instant::now();
        let mut counts = RecentCounts::new(start);
        let of = |counts: &RecentCounts| counts.count(("app", "shop", 7), start);
        counts.note(&[line(0, 7, 100, 1)], start);
        // Reset, and more than before since then.
        counts.note(&[line(0, 7, 150, 60)], start);
        assert_eq!(of(&counts), 250);
        // Reset, and fewer.
        counts.note(&[line(0, 7, 5, 120)], start);
        // Reset, and none.
        counts.note(&[], start);
        assert_eq!(of(&counts), 255);
        counts.note(&[line(0, 7, 1, 180)], start);
        // The reset was refused, and its figures were given back.
        counts.note(&[line(0, 7, 1, 180)], start);
        assert_eq!(of(&counts), 256);
    }

    #[test]
    fn a_part_keeps_the_statements_that_ran_most() {
        let start = Instant::now();
        let mut counts = RecentCounts::new(start);
        let lines: Vec<DigestLine> =
            (0..MOST_COUNTED as u64 + 500).map(|id| line(0, id, id + 1, 1)).collect();
        counts.note(&lines, start + minutes(6));
        assert_eq!(counts.parts[0].counts.len(), MOST_COUNTED);
        let of = |id: u64| counts.count(("app", "shop", id), start + minutes(6));
        assert_eq!((of(0), of(499), of(500), of(20_499)), (0, 0, 501, 20_500));
    }
}

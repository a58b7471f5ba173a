//! Sets of global transaction ids, as MySQL and MariaDB write them (manuals: "GTID Sets", "Global Transaction ID").
//!
//! - MySQL: `3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:11`, since 8.3 with tags, `3e11fa47-..:tag:1-5`; separated by commas.
//! - MariaDB: `0-1-5`, the domain, the server and the number; separated by commas. Within a domain transactions are applied in
//!   order, so that a position in it means all before it as well.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// A set of transactions.
///
/// ```
/// use narrows_wire::gtid::GtidSet;
/// let applied = GtidSet::parse("0-1-100,7-2-3").unwrap();
/// assert!(applied.contains(&GtidSet::parse("0-2-99").unwrap()));
/// assert!(!applied.contains(&GtidSet::parse("7-2-4").unwrap()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidSet {
    sources: BTreeMap<Source, Numbers>,
}

/// Where transactions come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// A server or a group of MySQL, with the tag if there is one; in lower case.
    Uuid([u8; 36], Box<str>),
    /// A domain of MariaDB.
    Domain(u32),
}

/// Numbers of transactions of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Numbers {
    /// First and last number of each interval, in order; no two touch.
    intervals: Vec<(u64, u64)>,
    /// For MariaDB: the server that has written the last one. It identifies no transaction.
    server: u32,
}

/// Why a text is not a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected GTIDs such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5 or 0-1-5, separated by commas")]
pub struct NotGtids;

impl GtidSet {
    /// Parses the text of either family; an empty text is an empty set.
    ///
    /// # Errors
    /// If it is anything else, or longer than 64 KiB.
    pub fn parse(text: &str) -> Result<GtidSet, NotGtids> {
        if text.len() > LONGEST {
            return Err(NotGtids);
        }
        let mut set = GtidSet::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once(':') {
                Some((uuid, numbers)) => set.parse_uuid(uuid, numbers)?,
                None => set.parse_domain(part)?,
            }
        }
        Ok(set)
    }

    fn parse_uuid(&mut self, uuid: &str, rest: &str) -> Result<(), NotGtids> {
        let lower = uuid.trim().to_ascii_lowercase();
        let uuid: [u8; 36] = lower.as_bytes().try_into().map_err(|_| NotGtids)?;
        let is_uuid = uuid.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        if !is_uuid {
            return Err(NotGtids);
        }
        let mut tag: Box<str> = "".into();
        for part in rest.split(':').map(str::trim) {
            if part.starts_with(|first: char| first.is_ascii_digit()) {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let interval = (number(first)?, number(last)?);
                if interval.0 == 0 || interval.0 > interval.1 {
                    return Err(NotGtids);
                }
                self.sources.entry(Source::Uuid(uuid, tag.clone())).or_default().add(interval);
            } else if is_tag(part) {
                tag = part.to_ascii_lowercase().into();
            } else {
                return Err(NotGtids);
            }
        }
        Ok(())
    }

    fn parse_domain(&mut self, part: &str) -> Result<(), NotGtids> {
        let mut numbers = part.split('-');
        let (Some(domain), Some(server), Some(last), None) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            return Err(NotGtids);
        };
        let (domain, server) = (small(domain)?, small(server)?);
        self.add_position(domain, server, number(last)?);
        Ok(())
    }

    /// Adds a domain's transactions up to `last`.
    fn add_position(&mut self, domain: u32, server: u32, last: u64) {
        if last == 0 {
            return;
        }
        let numbers = self.sources.entry(Source::Domain(domain)).or_default();
        if numbers.intervals.last().is_none_or(|(_, known)| *known < last) {
            *numbers = Numbers { intervals: vec![(1, last)], server };
        }
    }

    /// Parses several sets, separated by `+`, of which each may follow a number and a slash: `0/0-1-5+10/7-1-2`.
    ///
    /// # Errors
    /// If it is anything else, or longer than 64 KiB.
    pub fn parse_numbered(text: &str) -> Result<Vec<(Option<i32>, GtidSet)>, NotGtids> {
        if text.len() > LONGEST {
            return Err(NotGtids);
        }
        let parse = |part: &str| match part.split_once('/') {
            Some((number, set)) => {
                let number = number.trim().parse().map_err(|_| NotGtids)?;
                Ok((Some(number), GtidSet::parse(set)?))
            }
            None => Ok((None, GtidSet::parse(part)?)),
        };
        text.split('+').map(parse).collect()
    }

    /// Whether it has no transaction.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether all of `others` are in this set.
    pub fn contains(&self, others: &GtidSet) -> bool {
        others.sources.iter().all(|(source, wanted)| {
            let Some(known) = self.sources.get(source) else { return false };
            wanted.intervals.iter().all(|interval| known.has(*interval))
        })
    }

    /// Adds all of `others`.
    pub fn add(&mut self, others: &GtidSet) {
        for (source, numbers) in &others.sources {
            match (source, numbers.intervals.last()) {
                (Source::Domain(domain), Some((_, last))) => {
                    self.add_position(*domain, numbers.server, *last);
                }
                _ => {
                    let known = self.sources.entry(source.clone()).or_default();
                    numbers.intervals.iter().for_each(|interval| known.add(*interval));
                }
            }
        }
    }

    /// Removes what is not in `others` as well.
    pub fn keep_common(&mut self, others: &GtidSet) {
        self.sources.retain(|source, numbers| {
            let Some(known) = others.sources.get(source) else { return false };
            numbers.intervals = common(&numbers.intervals, &known.intervals);
            !numbers.intervals.is_empty()
        });
    }

    /// Bounds its size by adding what lies between transactions, where there are more than `most` intervals of a source: who
    /// waits for the set waits for more.
    pub fn widen(&mut self, most: usize) {
        for numbers in self.sources.values_mut() {
            while numbers.intervals.len() > most.max(1) {
                let gap = |pair: &[(u64, u64)]| match pair {
                    [(_, last), (first, _)] => first - last,
                    _ => u64::MAX,
                };
                let gaps = numbers.intervals.windows(2).map(gap).enumerate();
                let Some((narrowest, _)) = gaps.min_by_key(|(_, gap)| *gap) else { return };
                let (_, last) = numbers.intervals.remove(narrowest + 1);
                if let Some(interval) = numbers.intervals.get_mut(narrowest) {
                    interval.1 = last;
                }
            }
        }
    }
}

impl Numbers {
    fn has(&self, (first, last): (u64, u64)) -> bool {
        let place = self.intervals.partition_point(|(_, end)| *end < first);
        self.intervals.get(place).is_some_and(|(start, end)| *start <= first && last <= *end)
    }

    fn add(&mut self, (mut first, mut last): (u64, u64)) {
        // Those that overlap or touch the new one become part of it.
        let from = self.intervals.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = self.intervals.partition_point(|(start, _)| *start <= last.saturating_add(1));
        for (start, end) in self.intervals.get(from..to).unwrap_or_default() {
            (first, last) = (first.min(*start), last.max(*end));
        }
        self.intervals.splice(from..to.max(from), [(first, last)]);
    }
}

/// What two lists of intervals have in common.
fn common(ours: &[(u64, u64)], theirs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let both = |(first, last): &(u64, u64)| {
        let shared = theirs.iter().map(move |(start, end)| ((*first).max(*start), (*last).min(*end)));
        shared.filter(|(start, end)| start <= end).collect::<Vec<_>>()
    };
    ours.iter().flat_map(both).collect()
}

impl Display for GtidSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (source, numbers) in &self.sources {
            f.write_str(before)?;
            before = ",";
            match source {
                Source::Domain(domain) => {
                    let last = numbers.intervals.last().map_or(0, |(_, last)| *last);
                    write!(f, "{domain}-{}-{last}", numbers.server)?;
                }
                Source::Uuid(uuid, tag) => {
                    f.write_str(std::str::from_utf8(uuid).unwrap_or_default())?;
                    if !tag.is_empty() {
                        write!(f, ":{tag}")?;
                    }
                    for (first, last) in &numbers.intervals {
                        match first == last {
                            true => write!(f, ":{first}")?,
                            false => write!(f, ":{first}-{last}")?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn number(digits: &str) -> Result<u64, NotGtids> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().map_err(|_| NotGtids) } else { Err(NotGtids) }
}

fn small(digits: &str) -> Result<u32, NotGtids> {
    number(digits).and_then(|number| u32::try_from(number).map_err(|_| NotGtids))
}

/// A letter or an underscore, then up to 31 letters, digits and underscores (manual: "GTID Format and Storage").
fn is_tag(part: &str) -> bool {
    let is_of_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=32).contains(&part.len()) && part.bytes().all(is_of_tag)
}

/// Of a text, in bytes: thousands of intervals, far more than the executed set of a server has.
const LONGEST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    fn mysql(numbers: &str) -> GtidSet {
        set(&format!("{UUID}:{numbers}"))
    }

    #[test]
    fn texts_of_both_families_are_read_and_written() {
        let tagged = format!("{UUID}:1-3:5,{UUID}:app:7");
        for text in ["", "0-1-5", "0-1-5,7-2-9", &format!("{UUID}:1-3:5"), &tagged] {
            assert_eq!(set(text).to_string(), text);
        }
        assert_eq!(
            set(&format!(" {}:1-3 ,\n{UUID}:4", UUID.to_uppercase())).to_string(),
            format!("{UUID}:1-4")
        );
        assert_eq!(set(&format!("{UUID}:1:app:7:9")).to_string(), format!("{UUID}:1,{UUID}:app:7:9"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "x",
            "0-1",
            "0-1-5-6",
            "0--5",
            "4294967296-1-1",
            "0-1-18446744073709551616",
            "3e11fa47:5",
            &format!("{UUID}:"),
            &format!("{UUID}:0"),
            &format!("{UUID}:5-4"),
            &format!("{UUID}:a b"),
            &format!("{UUID}:+1"),
            "-1-1-1",
            &format!("{UUID}:1-"),
            &"0-1-1,".repeat(20_000),
        ] {
            assert_eq!(GtidSet::parse(text), Err(NotGtids), "{text:.80}");
        }
    }

    #[test]
    fn several_sets_may_have_numbers() {
        let parsed = GtidSet::parse_numbered("0/0-1-6+10/0-1-7+1-1-1").unwrap();
        assert_eq!(parsed, [(Some(0), set("0-1-6")), (Some(10), set("0-1-7")), (None, set("1-1-1"))]);
        assert_eq!(GtidSet::parse_numbered("").unwrap(), [(None, set(""))]);
        for text in ["x", "0/x", "x/0-1-6", "0/0-1-6/7"] {
            assert_eq!(GtidSet::parse_numbered(text), Err(NotGtids), "{text}");
        }
    }

    #[test]
    fn intervals_join_where_they_touch() {
        let mut all = mysql("5");
        for (added, expected) in [
            ("7", "5:7"),
            ("6", "5-7"),
            ("1-2", "1-2:5-7"),
            ("2-6", "1-7"),
            ("3", "1-7"),
            ("9-12:20", "1-7:9-12:20"),
        ] {
            all.add(&mysql(added));
            assert_eq!(all.to_string(), format!("{UUID}:{expected}"), "{added}");
        }
    }

    #[test]
    fn a_set_contains_what_lies_within_its_intervals() {
        let applied = mysql("1-5:7-9");
        for (wanted, is_in) in
            [("1-5", true), ("3", true), ("7-9", true), ("6", false), ("5-7", false), ("10", false)]
        {
            assert_eq!(applied.contains(&mysql(wanted)), is_in, "{wanted}");
        }
        assert!(applied.contains(&GtidSet::default()));
        assert!(!GtidSet::default().contains(&applied));
        assert!(!applied.contains(&set(&format!("{UUID}:app:1"))));
    }

    #[test]
    fn a_position_in_a_domain_means_all_before_it() {
        let mut applied = set("0-1-100,7-2-3");
        assert!(applied.contains(&set("0-9-100")) && applied.contains(&set("7-2-1,0-1-5")));
        assert!(!applied.contains(&set("0-1-101")) && !applied.contains(&set("1-1-1")));
        applied.add(&set("0-2-90,1-5-6"));
        assert_eq!(applied.to_string(), "0-1-100,1-5-6,7-2-3");
        applied.keep_common(&set("0-3-50,7-2-9"));
        assert_eq!(applied.to_string(), "0-1-50,7-2-3");
    }

    #[test]
    fn a_set_that_is_widened_requires_more_and_nothing_less() {
        let mut required = mysql("1:5:6:100:110:1000");
        let before = required.clone();
        required.widen(2);
        assert_eq!(required.to_string(), format!("{UUID}:1-110:1000"));
        assert!(required.contains(&before));
        required.widen(0);
        assert_eq!(required.to_string(), format!("{UUID}:1-1000"));
    }

    #[test]
    fn the_common_part_is_what_both_have() {
        let mut ours = mysql("1-10:20-30");
        ours.keep_common(&mysql("5-25"));
        assert_eq!(ours.to_string(), format!("{UUID}:5-10:20-25"));
        ours.keep_common(&set("0-1-5"));
        assert!(ours.is_empty());
    }
}

//! `attributes.share`: rules that only apply to a share of the clients.
//!
//! A client has a place among all of them, which follows from the id of its session alone: it keeps its place as long as it
//! is connected, in every worker and after a restart of the process. A rule applies to the clients with the first places, so
//! rules with the same share apply to the same clients.

use serde_json::Value;

use super::client::Class;
use crate::rows::{JsonColumn, shown};

/// A share of all clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share(u32);

impl Share {
    /// The share that the attributes of a rule have, if they name one. A wrong one is that of nobody.
    pub(super) fn of_attributes(attributes: &JsonColumn) -> Option<Share> {
        attributes.get("share").map(|value| Share::of_value(value).unwrap_or(Share(0)))
    }

    /// The share as a number from 0 to 100; hundredths count.
    fn of_value(value: &Value) -> Option<Share> {
        let percent = value.as_f64().filter(|percent| (0.0..=100.0).contains(percent))?;
        Some(Share((percent * f64::from(PLACES / 100)).round() as u32))
    }

    /// Whether the client of that session belongs to it.
    #[cfg(test)]
    pub(super) fn has(self, session: Option<u32>) -> bool {
        place(session) < self.0
    }
}

/// The percentage of clients that the attributes of a rule name; `None`: it is for all clients.
pub fn share_of(attributes: &JsonColumn) -> Option<String> {
    let Share(places) = Share::of_attributes(attributes)?;
    Some((f64::from(places) / f64::from(PLACES / 100)).to_string())
}

/// The problem of a `share`, if it is none.
pub(crate) fn flaws_of_share(value: &Value) -> Vec<String> {
    let flaw =
        || format!("is {}: expected a number from 0 to 100; the rule applies to no client", shown(value));
    Share::of_value(value).is_none().then(flaw).into_iter().collect()
}

/// The place of a session, below [`PLACES`]. Without a session it is the first place.
fn place(session: Option<u32>) -> u32 {
    let Some(id) = session else { return 0 };
    // The last steps of SplitMix64: ids are given one after the other, and their places must not follow.
    let mut mixed = u64::from(id).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (((mixed >> 32) * u64::from(PLACES)) >> 32) as u32
}

/// Hundredths of a percent.
const PLACES: u32 = 10_000;

/// The shares that all rules name.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The different shares, the smallest first.
    shares: Vec<Share>,
    /// For each rule the index of its share; `None` if it is for all clients.
    wanted: Vec<Option<u32>>,
}

impl Shares {
    /// Compiles the attributes of all rules, in order.
    pub(super) fn new<'r>(attributes: impl Iterator<Item = &'r JsonColumn>) -> Shares {
        let wanted: Vec<Option<Share>> = attributes.map(Share::of_attributes).collect();
        let mut shares: Vec<Share> = wanted.iter().copied().flatten().collect();
        shares.sort_unstable();
        shares.dedup();
        let index = |share: Share| shares.binary_search(&share).ok().map(|index| index as u32);
        Shares { wanted: wanted.into_iter().map(|share| share.and_then(index)).collect(), shares }
    }

    /// Whether any rule names a share.
    pub(super) fn is_asked(&self) -> bool {
        !self.shares.is_empty()
    }

    /// The class of a session: how many shares are too small for its place.
    pub(super) fn class(&self, session: Option<u32>) -> Class {
        if self.shares.is_empty() {
            return Class::default();
        }
        let place = place(session);
        Class::new(self.shares.iter().filter(|share| share.0 <= place).count() as u32)
    }

    /// Whether that rule applies to the sessions of a class.
    pub(super) fn holds(&self, rule: usize, class: Class) -> bool {
        let Some(Some(share)) = self.wanted.get(rule) else { return true };
        class.number() <= *share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(json: &str) -> Share {
        Share::of_attributes(&json.into()).unwrap()
    }

    #[test]
    fn a_share_has_its_part_of_all_sessions_however_their_ids_follow() {
        for (json, expected) in [("1", 1.0), ("10", 10.0), ("33.33", 33.33), ("50", 50.0), ("99", 99.0)] {
            let share = share(&format!("{{\"share\":{json}}}"));
            for step in [1, 2, 3, 4, 7, 64, 1_000, 1 << 16] {
                let ids = (0..20_000u32).map(|number| (1 << 30) | number.wrapping_mul(step) & 0x3fff_ffff);
                let found = ids.filter(|id| share.has(Some(*id))).count() as f64 / 200.0;
                // Five times the deviation of as many throws of dice.
                let most = 5.0 * (expected * (100.0 - expected) / 20_000.0_f64).sqrt();
                assert!((found - expected).abs() < most, "share {json}, every {step}th id: {found} %");
            }
        }
    }

    #[test]
    fn a_session_keeps_its_place_and_larger_shares_contain_smaller_ones() {
        assert_eq!([0, 1, 1 << 30, (1 << 30) + 1].map(|id| place(Some(id))), [8833, 5665, 9881, 3282]);
        let (small, large) = (share(r#"{"share":10}"#), share(r#"{"share":25}"#));
        for id in 0..10_000 {
            assert!(!small.has(Some(id)) || large.has(Some(id)), "{id}");
        }
        assert!((0..10_000).all(|id| share(r#"{"share":100}"#).has(Some(id))));
        assert!(!(0..10_000).any(|id| share(r#"{"share":0}"#).has(Some(id))));
    }

    #[test]
    fn a_wrong_share_is_that_of_nobody_and_is_told() {
        assert_eq!(Share::of_attributes(&r#"{"flagOUTs":[{"id":1}]}"#.into()), None);
        assert_eq!(share_of(&"share".into()).or(share_of(&r#"["share"]"#.into())), None);
        assert_eq!(share_of(&r#"{"share":12.34}"#.into()).as_deref(), Some("12.34"));
        for json in ["-1", "100.5", "\"10\"", "true", "null"] {
            assert_eq!(share(&format!("{{\"share\":{json}}}")), Share(0), "{json}");
            let flaws = flaws_of_share(&serde_json::from_str(json).unwrap());
            assert_eq!(
                flaws,
                [format!("is {json}: expected a number from 0 to 100; the rule applies to no client")]
            );
        }
        assert!(flaws_of_share(&serde_json::from_str("12.5").unwrap()).is_empty());
    }
}

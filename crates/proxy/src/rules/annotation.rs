//! Hints: what a statement says of itself in its first comment, `/* hostgroup=1; query_timeout=500 */`. They go before
//! what the rules say.

use super::Verdict;
use crate::rows::HostgroupId;

/// What becomes of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// It is followed.
    Taken,
    /// Its value does not begin with a digit, or is too large.
    NotANumber,
    /// It has no effect here, for this reason.
    WithoutEffect(&'static str),
    /// No hint has this name: the comment is for somebody else.
    Unknown,
}

impl Hint {
    /// Why it is ignored; `None`: it is applied.
    pub fn why_ignored(self) -> Option<&'static str> {
        match self {
            Hint::Taken => None,
            Hint::NotANumber => Some("its value is not a number from 0 to 2147483647"),
            Hint::WithoutEffect(why) => Some(why),
            Hint::Unknown => Some("no hint has this name"),
        }
    }
}

/// Takes over the hints of `statement`. `note` learns the key and the value of each, and what becomes of it.
pub fn annotate(verdict: &mut Verdict, statement: &[u8], mut note: impl FnMut(&[u8], &[u8], Hint)) {
    for (key, value) in narrows_sql::annotations(statement) {
        note(key, value, follow(verdict, key, value));
    }
}

fn follow(verdict: &mut Verdict, key: &[u8], value: &[u8]) -> Hint {
    let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
    if is("create_new_connection") {
        verdict.create_new_connection = number(value) == Some(1);
        return Hint::Taken;
    }
    if is("max_lag_ms") || is("min_epoch_ms") {
        return Hint::WithoutEffect("the replication lag of a server is not known in milliseconds");
    }
    if is("min_gtid") {
        return Hint::WithoutEffect("which transactions a server has applied is not known");
    }
    let Some((_, set)) = NUMBERS.iter().find(|(name, _)| is(name)) else { return Hint::Unknown };
    let Some(number) = number(value) else { return Hint::NotANumber };
    set(verdict, number);
    Hint::Taken
}

/// Sets what a hint says.
type Set = fn(&mut Verdict, i32);

/// Hints whose values are numbers.
const NUMBERS: [(&str, Set); 6] = [
    ("hostgroup", |verdict, number| verdict.destination_hostgroup = Some(HostgroupId(number))),
    ("mirror", |verdict, number| verdict.mirror_hostgroup = Some(HostgroupId(number))),
    ("cache_ttl", |verdict, number| verdict.cache_ttl = Some(number.unsigned_abs())),
    ("query_timeout", |verdict, number| verdict.timeout = Some(number.unsigned_abs())),
    ("query_delay", |verdict, number| verdict.delay = Some(number.unsigned_abs())),
    ("query_retries", |verdict, number| verdict.retries = Some(number.unsigned_abs())),
];

/// The digits that a value begins with; what follows them is not looked at, as C's `atoi` does it.
fn number(value: &[u8]) -> Option<i32> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    std::str::from_utf8(value.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(verdict: &mut Verdict, statement: &str) -> Vec<(String, Hint)> {
        let mut noted = Vec::new();
        annotate(verdict, statement.as_bytes(), |key, _, hint| {
            noted.push((String::from_utf8_lossy(key).into_owned(), hint));
        });
        noted
    }

    #[test]
    fn the_first_comment_goes_before_the_rules() {
        let mut verdict = Verdict {
            destination_hostgroup: Some(HostgroupId(1)),
            timeout: Some(5),
            retries: Some(1),
            ..Verdict::default()
        };
        let noted = hints(
            &mut verdict,
            "SELECT /* HostGroup=7; query_timeout = 500ms;query_delay=x;foo=1 */ 1 /* hostgroup=8 */",
        );
        assert_eq!(verdict.destination_hostgroup, Some(HostgroupId(7)));
        assert_eq!((verdict.timeout, verdict.delay, verdict.retries), (Some(500), None, Some(1)));
        let becomes: Vec<Hint> = noted.iter().map(|(_, hint)| *hint).collect();
        assert_eq!(becomes, [Hint::Taken, Hint::Taken, Hint::NotANumber, Hint::Unknown]);
        hints(&mut verdict, "/* hostgroup=abc;MIRROR=3 */ SELECT 1");
        assert_eq!(verdict.destination_hostgroup, Some(HostgroupId(7)));
        assert_eq!(verdict.mirror_hostgroup, Some(HostgroupId(3)));
    }

    #[test]
    fn what_is_written_behind_a_number_or_beside_a_hint_changes_nothing() {
        let mut verdict = Verdict::default();
        assert_eq!(hints(&mut verdict, "/* hostgroup=0, trace=77 */ SELECT 1").len(), 1);
        assert_eq!(verdict.destination_hostgroup, Some(HostgroupId(0)));
        hints(&mut verdict, "/* trace=77; cache_ttl==5;;query_retries=2=3; */ SELECT 1");
        assert_eq!((verdict.cache_ttl, verdict.retries), (Some(5), Some(2)));
        for value in ["-1", "+1", "", "4294967296", "x1"] {
            let mut verdict = Verdict::default();
            hints(&mut verdict, &format!("/* hostgroup={value} */ SELECT 1"));
            assert_eq!(verdict, Verdict::default(), "{value}");
        }
    }

    #[test]
    fn hints_that_have_no_effect_say_so() {
        let mut verdict = Verdict::default();
        let statement =
            "/* Create_New_Connection=1; max_lag_ms=5; min_epoch_ms=1; min_gtid=3e11fa47:5 */ SELECT 1";
        let noted = hints(&mut verdict, statement);
        assert!(verdict.create_new_connection);
        let ignored = noted.iter().filter(|(_, hint)| matches!(hint, Hint::WithoutEffect(_))).count();
        assert_eq!((noted.len(), ignored), (4, 3));
        hints(&mut verdict, "/* create_new_connection=0 */ SELECT 1");
        assert!(!verdict.create_new_connection);
    }
}

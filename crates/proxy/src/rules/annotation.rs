//! Hints: settings that a statement has in its first comment, `/* hostgroup=1; query_timeout=500 */`. They take
//! precedence over the rules.

use super::RuleOutput;
use crate::lag::LagLimit;
use crate::rows::{CausalReads, HostgroupId};

/// The outcome of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The hint is applied.
    Taken,
    /// The hint's value does not begin with a digit, or is too large.
    NotANumber,
    /// The hint's value is not a level of `causal_reads`.
    NotALevel,
    /// The hint has no effect here, for this reason.
    WithoutEffect(&'static str),
    /// No hint has this name: the comment is not meant for Narrows.
    Unknown,
}

impl Hint {
    /// Why the hint is ignored; `None` if it is applied.
    pub fn why_ignored(self) -> Option<&'static str> {
        match self {
            Hint::Taken => None,
            Hint::NotANumber => Some("its value is not a number from 0 to 2147483647"),
            Hint::NotALevel => Some("its value is none of none, session, user, global"),
            Hint::WithoutEffect(why) => Some(why),
            Hint::Unknown => Some("no hint has this name"),
        }
    }
}

/// Applies the hints of `statement`. `note` is called with the key, the value and the outcome of each hint.
pub fn annotate(output: &mut RuleOutput, statement: &[u8], mut note: impl FnMut(&[u8], &[u8], Hint)) {
    for (key, value) in narrows_sql::annotations(statement) {
        note(key, value, follow(output, key, value));
    }
}

fn follow(output: &mut RuleOutput, key: &[u8], value: &[u8]) -> Hint {
    let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
    if is("create_new_connection") {
        output.create_new_connection = number(value) == Some(1);
        return Hint::Taken;
    }
    if let Some((_, limit)) = LIMITS.iter().find(|(name, _)| is(name)) {
        return follow_limit(output, *limit, value);
    }
    if is("causal_reads") {
        let Some(level) = std::str::from_utf8(value).ok().and_then(CausalReads::named) else {
            return Hint::NotALevel;
        };
        output.causal_reads = Some(level);
        return Hint::Taken;
    }
    if is_of_gtids(key) {
        // `causal/` reads it: a text has no place in the output.
        output.names_gtids = true;
        return Hint::Taken;
    }
    let Some((_, set)) = NUMBERS.iter().find(|(name, _)| is(name)) else { return Hint::Unknown };
    let Some(number) = number(value) else { return Hint::NotANumber };
    set(output, number);
    Hint::Taken
}

/// Whether a hint names transactions: `min_gtid`, or `causal_token`, which is what `SELECT @@narrows_causal_token` returns.
pub fn is_of_gtids(key: &[u8]) -> bool {
    [b"min_gtid".as_slice(), b"causal_token"].iter().any(|name| key.eq_ignore_ascii_case(name))
}

/// Applies a limit of lag; the last one counts. One that ProxySQL ignores is ignored.
fn follow_limit(output: &mut RuleOutput, limit: ReadLimit, value: &[u8]) -> Hint {
    let digits = digits(value).unwrap_or_default();
    if digits.is_empty() {
        return Hint::WithoutEffect("its value is not a number");
    }
    match limit(digits.parse().unwrap_or(u64::MAX)) {
        Ok(limit) => {
            output.lag = Some(limit);
            Hint::Taken
        }
        Err(why) => Hint::WithoutEffect(why),
    }
}

/// Reads the number of a limit of lag.
type ReadLimit = fn(u64) -> Result<LagLimit, &'static str>;

/// Hints that limit the lag of the server that gets a statement.
const LIMITS: [(&str, ReadLimit); 2] =
    [("max_lag_ms", LagLimit::max_lag), ("min_epoch_ms", LagLimit::min_epoch)];

/// Sets the output that a hint names.
type Set = fn(&mut RuleOutput, i32);

/// Hints whose values are numbers.
const NUMBERS: [(&str, Set); 6] = [
    ("hostgroup", |output, number| output.destination_hostgroup = Some(HostgroupId(number))),
    ("mirror", |output, number| output.mirror_hostgroup = Some(HostgroupId(number))),
    ("cache_ttl", |output, number| output.cache_ttl = Some(number.unsigned_abs())),
    ("query_timeout", |output, number| output.timeout = Some(number.unsigned_abs())),
    ("query_delay", |output, number| output.delay = Some(number.unsigned_abs())),
    ("query_retries", |output, number| output.retries = Some(number.unsigned_abs())),
];

/// The number that a value begins with; anything after its digits is ignored, as by C's `atoi`.
fn number(value: &[u8]) -> Option<i32> {
    digits(value)?.parse().ok()
}

fn digits(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    std::str::from_utf8(value.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(output: &mut RuleOutput, statement: &str) -> Vec<(String, Hint)> {
        let mut noted = Vec::new();
        annotate(output, statement.as_bytes(), |key, _, hint| {
            noted.push((String::from_utf8_lossy(key).into_owned(), hint));
        });
        noted
    }

    #[test]
    fn the_first_comment_goes_before_the_rules() {
        let mut output = RuleOutput {
            destination_hostgroup: Some(HostgroupId(1)),
            timeout: Some(5),
            retries: Some(1),
            ..RuleOutput::default()
        };
        let noted = hints(
            &mut output,
            "SELECT /* HostGroup=7; query_timeout = 500ms;query_delay=x;foo=1 */ 1 /* hostgroup=8 */",
        );
        assert_eq!(output.destination_hostgroup, Some(HostgroupId(7)));
        assert_eq!((output.timeout, output.delay, output.retries), (Some(500), None, Some(1)));
        let becomes: Vec<Hint> = noted.iter().map(|(_, hint)| *hint).collect();
        assert_eq!(becomes, [Hint::Taken, Hint::Taken, Hint::NotANumber, Hint::Unknown]);
        hints(&mut output, "/* hostgroup=abc;MIRROR=3 */ SELECT 1");
        assert_eq!(output.destination_hostgroup, Some(HostgroupId(7)));
        assert_eq!(output.mirror_hostgroup, Some(HostgroupId(3)));
    }

    #[test]
    fn what_is_written_behind_a_number_or_beside_a_hint_changes_nothing() {
        let mut output = RuleOutput::default();
        assert_eq!(hints(&mut output, "/* hostgroup=0, trace=77 */ SELECT 1").len(), 1);
        assert_eq!(output.destination_hostgroup, Some(HostgroupId(0)));
        hints(&mut output, "/* trace=77; cache_ttl==5;;query_retries=2=3; */ SELECT 1");
        assert_eq!((output.cache_ttl, output.retries), (Some(5), Some(2)));
        for value in ["-1", "+1", "", "4294967296", "x1"] {
            let mut output = RuleOutput::default();
            hints(&mut output, &format!("/* hostgroup={value} */ SELECT 1"));
            assert_eq!(output, RuleOutput::default(), "{value}");
        }
    }

    #[test]
    fn the_last_limit_of_lag_counts() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let limit = |hints_of: &str| {
            let mut output = RuleOutput::default();
            hints(&mut output, &format!("/* {hints_of} */ SELECT 1"));
            output.lag
        };
        let epoch = Some(LagLimit::MinEpochMs(u64::try_from(now).unwrap()));
        assert_eq!(limit("MAX_LAG_MS=250ms"), Some(LagLimit::MaxLagMs(250)));
        assert_eq!(limit(&format!("max_lag_ms=250; min_epoch_ms={now}")), epoch);
        assert_eq!(limit(&format!("min_epoch_ms={now}; max_lag_ms=0")), Some(LagLimit::MaxLagMs(0)));
        for ignored in [
            "max_lag_ms=",
            "max_lag_ms=x",
            "max_lag_ms=-1",
            "max_lag_ms=600001",
            "min_epoch_ms=1",
            "min_epoch_ms=99999999999999999999",
        ] {
            assert_eq!(limit(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn hints_that_have_no_effect_say_so() {
        let mut output = RuleOutput::default();
        let statement =
            "/* Create_New_Connection=1; max_lag_ms=5; min_epoch_ms=1; causal_reads=always */ SELECT 1";
        let noted = hints(&mut output, statement);
        assert!(output.create_new_connection);
        let ignored = noted.iter().filter(|(_, hint)| matches!(hint, Hint::WithoutEffect(_))).count();
        assert_eq!((noted.len(), ignored), (4, 1));
        assert_eq!(noted[3].1, Hint::NotALevel);
        hints(&mut output, "/* create_new_connection=0 */ SELECT 1");
        assert!(!output.create_new_connection);
    }
}

//! What a statement says of itself in its first comment, `/* hostgroup=1; query_timeout=500 */`: it goes before what
//! the rules say.

use super::Verdict;
use crate::snapshot::HostgroupId;

/// Takes over the annotations of `statement`. Unknown keys, and values that are no numbers, are passed over; those that
/// belong to what Narrows does not do yet (`max_lag_ms`, `min_epoch_ms`, `min_gtid`, `create_new_connection`)
/// have no effect.
pub fn annotate(verdict: &mut Verdict, statement: &[u8]) {
    for (key, value) in narrows_sql::annotations(statement) {
        let Some(number) = std::str::from_utf8(value).ok().and_then(|value| value.parse::<u32>().ok()) else {
            continue;
        };
        let hostgroup = || i32::try_from(number).ok().map(HostgroupId);
        match key {
            b"hostgroup" => verdict.destination_hostgroup = hostgroup().or(verdict.destination_hostgroup),
            b"mirror" => verdict.mirror_hostgroup = hostgroup().or(verdict.mirror_hostgroup),
            b"cache_ttl" => verdict.cache_ttl = Some(number),
            b"query_timeout" => verdict.timeout = Some(number),
            b"query_delay" => verdict.delay = Some(number),
            b"query_retries" => verdict.retries = Some(number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_goes_before_the_rules() {
        let mut verdict = Verdict {
            destination_hostgroup: Some(HostgroupId(1)),
            timeout: Some(5),
            retries: Some(1),
            ..Verdict::default()
        };
        annotate(
            &mut verdict,
            b"SELECT /* hostgroup=7; query_timeout = 500;query_delay=x;foo=1 */ 1 /* hostgroup=8 */",
        );
        assert_eq!(verdict.destination_hostgroup, Some(HostgroupId(7)));
        assert_eq!((verdict.timeout, verdict.delay, verdict.retries), (Some(500), None, Some(1)));
        annotate(&mut verdict, b"/* hostgroup=abc;mirror=3 */ SELECT 1");
        assert_eq!(verdict.destination_hostgroup, Some(HostgroupId(7)));
        assert_eq!(verdict.mirror_hostgroup, Some(HostgroupId(3)));
    }
}

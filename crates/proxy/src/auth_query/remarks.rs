//! What has no effect of the `attributes` that `mysql-auth_query` returns: nobody loads them, so the log says it. Values that cannot
//! be read let nobody in (`row.rs`).

use crate::rows::{JsonColumn, shown};
use crate::snapshot::USER_KEYS;

/// What of `attributes` has no effect, a sentence for each. `tracks_gtids`: whether servers report the writes that `causal_reads`
/// needs.
pub fn remarks(attributes: &JsonColumn, tracks_gtids: bool) -> Vec<String> {
    let Some(keys) = attributes.keys() else { return Vec::new() };
    let idle = keys.keys().filter_map(|key| match key.as_str() {
        "causal_reads" if !tracks_gtids => Some(NEEDS_GTIDS.to_owned()),
        "usernames_like" => Some(NO_TEMPLATE.to_owned()),
        known if USER_KEYS.iter().any(|it| it.name == known) => None,
        other => Some(format!("the key {} does not exist, and is ignored", shown(&other.into()))),
    });
    idle.collect()
}

const NEEDS_GTIDS: &str = "causal_reads has no effect: servers report their writes only if mysql-causal_reads, \
    mysql-default_session_track_gtids, a rule, a hostgroup or an account of mysql_users asks for it";

const NO_TEMPLATE: &str = "usernames_like has no effect: only rows of mysql_users are templates";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_that_is_not_in_force_is_told_of_without_its_value() {
        for (attributes, tracks_gtids, expected) in [
            ("", false, &[][..]),
            ("{}", false, &[]),
            (r#"{"networks":["10.0.0.0/8"],"additional_password":"secret"}"#, false, &[]),
            (r#"{"causal_reads":"session"}"#, true, &[]),
            (r#"{"causal_reads":"session"}"#, false, &["causal_reads has no effect: "]),
            (r#"{"usernames_like":"a%"}"#, false, &["usernames_like has no effect: "]),
            (r#"{"network":"secret"}"#, false, &["the key \"network\" does not exist"]),
        ] {
            let said = remarks(&attributes.into(), tracks_gtids);
            let fits = said.iter().zip(expected).all(|(text, start)| text.starts_with(start));
            assert!(said.len() == expected.len() && fits, "{attributes}: {said:?}");
            assert!(!said.concat().contains("secret"), "{said:?}");
        }
    }
}

//! JSON columns: the keys that are read, each with the function that reads its value. The same function reports invalid
//! values.

use serde_json::Value;

use super::login::{
    flaws_of_certificate_id, flaws_of_networks, flaws_of_number, flaws_of_password, flaws_of_subject,
};
use super::template_rows::flaws_of_names;
use crate::rows::{CausalReads, HostgroupId, JsonColumn, flag, flaws_of_tokens, shown};
use crate::rules::{flaws_of_flags_out, flaws_of_share};
use crate::tokens::demand::{flaws_of_token, flaws_of_token_only};

/// A key that is read.
#[derive(Debug)]
pub struct JsonKey {
    /// The name of the key.
    pub name: &'static str,
    /// The problems of a value, and what happens instead; empty if all of it is read.
    flaws: fn(&Value) -> Vec<String>,
}

/// The keys of `mysql_users.attributes`.
pub const USER_KEYS: &[JsonKey] = &[
    JsonKey { name: "additional_password", flaws: flaws_of_password },
    JsonKey { name: "auto_read_write_split", flaws: flaws_of_split },
    JsonKey { name: "aws_iam", flaws: flaws_of_tokens },
    JsonKey { name: "causal_reads", flaws: flaws_of_causal_reads },
    JsonKey { name: "failed_login_attempts", flaws: flaws_of_number },
    JsonKey { name: "max_connection_age_s", flaws: flaws_of_number },
    JsonKey { name: "networks", flaws: flaws_of_networks },
    JsonKey { name: "password_lock_time_s", flaws: flaws_of_number },
    JsonKey { name: "reader_hostgroup", flaws: flaws_of_reader },
    JsonKey { name: "spiffe_id", flaws: flaws_of_certificate_id },
    JsonKey { name: "subject", flaws: flaws_of_subject },
    JsonKey { name: "token", flaws: flaws_of_token },
    JsonKey { name: "token_only", flaws: flaws_of_token_only },
    JsonKey { name: "transaction_replay", flaws: flaws_of_replay },
    JsonKey { name: "usernames_like", flaws: flaws_of_names },
];

/// The keys of `mysql_query_rules.attributes`.
pub const RULE_KEYS: &[JsonKey] = &[
    JsonKey { name: "causal_reads", flaws: flaws_of_causal_reads },
    JsonKey { name: "flagOUTs", flaws: flaws_of_flags_out },
    JsonKey { name: "share", flaws: flaws_of_share },
    JsonKey { name: "transaction_replay", flaws: flaws_of_replay },
];

/// The keys of `mysql_hostgroup_attributes.hostgroup_settings`. A row with an invalid value is left out, and a warning
/// names the row.
pub const HOSTGROUP_KEYS: &[JsonKey] = &[
    JsonKey { name: "backup_availability", flaws: |_| Vec::new() },
    JsonKey { name: "backup_min_servers", flaws: |_| Vec::new() },
    JsonKey { name: "backup_weight_threshold", flaws: |_| Vec::new() },
    JsonKey { name: "balance", flaws: |_| Vec::new() },
    JsonKey { name: "causal_reads", flaws: |_| Vec::new() },
    JsonKey { name: "handle_warnings", flaws: |_| Vec::new() },
    JsonKey { name: "max_waiting", flaws: |_| Vec::new() },
    JsonKey { name: "max_waiting_bytes", flaws: |_| Vec::new() },
    JsonKey { name: "max_waiting_ms", flaws: |_| Vec::new() },
    JsonKey { name: "monitor_slave_lag_when_null", flaws: |_| Vec::new() },
    JsonKey { name: "zones", flaws: |_| Vec::new() },
];

/// The keys of `mysql_hostgroup_attributes.servers_defaults`. A row with an invalid value is left out, too.
pub const SERVERS_DEFAULTS_KEYS: &[JsonKey] = &[
    JsonKey { name: "weight", flaws: |_| Vec::new() },
    JsonKey { name: "max_connections", flaws: |_| Vec::new() },
    JsonKey { name: "use_ssl", flaws: |_| Vec::new() },
];

/// The problems of a JSON column with these `keys`: for each, the key it is about, and what is wrong.
pub fn flaws(keys: &[JsonKey], column: &JsonColumn) -> Vec<(Option<&'static str>, String)> {
    let Some(value) = column.value() else { return Vec::new() };
    if !value.is_object() {
        let found = kind(value);
        return vec![(None, format!("is {found}: expected a JSON object, and nothing of it is read"))];
    }
    let of_key = |key: &JsonKey| {
        let flaws = value.get(key.name).map(key.flaws).unwrap_or_default();
        flaws.into_iter().map(|flaw| (Some(key.name), flaw)).collect::<Vec<_>>()
    };
    keys.iter().flat_map(of_key).collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The settings in an account's `attributes` for splitting reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// `auto_read_write_split`, which overrides the variable of that name.
    pub on: Option<bool>,
    /// `reader_hostgroup`, which overrides the one that `mysql_replication_hostgroups` has for the account's default
    /// hostgroup.
    pub reader: Option<HostgroupId>,
}

impl Split {
    /// Those of an account; missing keys override nothing.
    pub fn of(attributes: &JsonColumn) -> Split {
        Split {
            on: attributes.get("auto_read_write_split").and_then(flag),
            reader: attributes.get("reader_hostgroup").and_then(hostgroup),
        }
    }
}

fn hostgroup(value: &Value) -> Option<HostgroupId> {
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.filter(|number| *number >= 0).map(HostgroupId)
}

fn flaws_of_split(value: &Value) -> Vec<String> {
    let flaw = || {
        format!("is {}: expected true or false; mysql-auto_read_write_split decides instead", shown(value))
    };
    flag(value).is_none().then(flaw).into_iter().collect()
}

fn flaws_of_causal_reads(value: &Value) -> Vec<String> {
    let flaw = CausalReads::of_value(value).err();
    flaw.map(|flaw| format!("{flaw}; the hostgroup's setting counts instead")).into_iter().collect()
}

fn flaws_of_replay(value: &Value) -> Vec<String> {
    let flaw = || {
        let found = shown(value);
        format!("is {found}: expected true or false; it decides nothing about replays")
    };
    flag(value).is_none().then(flaw).into_iter().collect()
}

fn flaws_of_reader(value: &Value) -> Vec<String> {
    let flaw = || {
        format!(
            "is {}: expected an integer from 0 to {}; mysql_replication_hostgroups says where reads go instead",
            shown(value),
            i32::MAX
        )
    };
    hostgroup(value).is_none().then(flaw).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_user(json: &str) -> Vec<String> {
        let said = flaws(USER_KEYS, &json.into()).into_iter();
        said.map(|(key, flaw)| format!("{} {flaw}", key.unwrap_or("attributes"))).collect()
    }

    #[test]
    fn values_that_are_read_have_no_flaw() {
        for json in [
            "",
            "{}",
            r#"{"other":[1]}"#,
            r#"{"auto_read_write_split":true,"reader_hostgroup":0}"#,
            r#"{"auto_read_write_split":0,"reader_hostgroup":2147483647}"#,
            r#"{"additional_password":"secret","spiffe_id":"!^spiffe://a/","subject":"/C=SE/CN=app"}"#,
        ] {
            assert_eq!(of_user(json), Vec::<String>::new(), "{json}");
        }
    }

    #[test]
    fn values_that_are_not_read_say_what_happens_instead() {
        for (json, expected) in [
            (
                r#"{"auto_read_write_split":"yes"}"#,
                "auto_read_write_split is \"yes\": expected true or false; mysql-",
            ),
            (r#"{"transaction_replay":"on"}"#, "transaction_replay is \"on\": expected true or false; it "),
            (r#"{"auto_read_write_split":1.5}"#, "auto_read_write_split is 1.5: expected"),
            (r#"{"auto_read_write_split":null}"#, "auto_read_write_split is null: expected"),
            (
                r#"{"reader_hostgroup":"2"}"#,
                "reader_hostgroup is \"2\": expected an integer from 0 to 2147483647; ",
            ),
            (r#"{"reader_hostgroup":-1}"#, "reader_hostgroup is -1: expected an integer"),
            (r#"{"reader_hostgroup":2147483648}"#, "reader_hostgroup is 2147483648: expected an integer"),
            (
                r#"{"additional_password":17}"#,
                "additional_password has no effect: a password is a text that is not empty",
            ),
            (
                r#"{"spiffe_id":"!("}"#,
                "spiffe_id is \"!(\": expected a URI, or `!` and an expression; nobody can log in",
            ),
            (
                r#"{"subject":"CN=app"}"#,
                "subject is \"CN=app\": expected the form /C=SE/CN=app; nobody can log in",
            ),
            ("[1]", "attributes is an array: expected a JSON object, and nothing of it is read"),
        ] {
            let said = of_user(json);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{json}: {said:?}");
        }
    }

    #[test]
    fn a_wrong_value_leaves_the_split_to_what_decides_without_it() {
        let split = Split::of(&r#"{"auto_read_write_split":"yes","reader_hostgroup":-1}"#.into());
        assert_eq!(split, Split::default());
        let split = Split::of(&r#"{"auto_read_write_split":1,"reader_hostgroup":3}"#.into());
        assert_eq!(split, Split { on: Some(true), reader: Some(HostgroupId(3)) });
    }

    #[test]
    fn long_values_are_cut() {
        let json = format!("{{\"reader_hostgroup\":\"{}\"}}", "ä".repeat(500));
        assert!(of_user(&json)[0].len() < 300, "{}", of_user(&json)[0]);
    }
}

//! Which servers of a hostgroup are used first, as `mysql_hostgroup_attributes.hostgroup_settings` says: backups, and the
//! zones of servers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::JsonColumn;
use super::json_keys::repeated_key;

/// What a server must be for it to count as one that keeps backups out of use: `backup_availability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackupAvailability {
    /// A statement could be sent there now.
    #[default]
    Selectable,
    /// It is ONLINE.
    Status,
    /// It is ONLINE, and has a connection to spare.
    Capacity,
}

/// The settings of a hostgroup about backups and zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreferenceSettings {
    /// Servers with a smaller weight, other than 0, are backups; 0: there are none.
    pub backup_weight_threshold: u32,
    /// Which of the other servers count.
    pub backup_availability: BackupAvailability,
    /// Backups are used while fewer of the other servers count.
    pub backup_min_servers: usize,
    /// The zones of servers, by `host:port`, or by the host for all of its ports.
    pub zones: BTreeMap<String, String>,
}

impl Default for PreferenceSettings {
    fn default() -> PreferenceSettings {
        PreferenceSettings {
            backup_weight_threshold: 0,
            backup_availability: BackupAvailability::default(),
            backup_min_servers: 1,
            zones: BTreeMap::new(),
        }
    }
}

impl PreferenceSettings {
    /// The settings in a JSON column; missing keys have their defaults.
    ///
    /// # Errors
    /// The first invalid value, as text for a message.
    pub fn of(settings: &JsonColumn) -> Result<PreferenceSettings, String> {
        let Some(keys) = settings.keys() else { return Ok(Self::default()) };
        // Other keys mean what they mean to ProxySQL, where the last one counts.
        if keys.contains_key("zones")
            && let Some(key) = repeated_key(settings.text())
        {
            return Err(format!("the key {key:?} is there twice: with zones, each key may be there once"));
        }
        Ok(PreferenceSettings {
            backup_weight_threshold: number(keys, "backup_weight_threshold", 0, MOST_WEIGHT)?.unwrap_or(0),
            backup_availability: availability(keys)?,
            backup_min_servers: number(keys, "backup_min_servers", 1, MOST_SERVERS)?.unwrap_or(1) as usize,
            zones: zones(keys)?,
        })
    }

    /// Whether a server with this weight is a backup.
    pub fn is_backup(&self, weight: u32) -> bool {
        (1..self.backup_weight_threshold).contains(&weight)
    }

    /// The zone of a server, if it has one.
    pub fn zone(&self, hostname: &str, port: u16) -> Option<&str> {
        let exactly = || self.zones.get(&format!("{hostname}:{port}"));
        // Most hostgroups have none.
        let named = (!self.zones.is_empty()).then(exactly).flatten();
        named.or_else(|| self.zones.get(hostname)).map(String::as_str)
    }
}

fn number(keys: &Map<String, Value>, name: &str, least: u32, most: u32) -> Result<Option<u32>, String> {
    let Some(value) = keys.get(name) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let valid = number.filter(|number| (least..=most).contains(number));
    valid.map(Some).ok_or_else(|| format!("{name} is {value}: expected an integer from {least} to {most}"))
}

fn availability(keys: &Map<String, Value>) -> Result<BackupAvailability, String> {
    match keys.get("backup_availability") {
        None => Ok(BackupAvailability::default()),
        Some(Value::String(name)) if name == "selectable" => Ok(BackupAvailability::Selectable),
        Some(Value::String(name)) if name == "status" => Ok(BackupAvailability::Status),
        Some(Value::String(name)) if name == "capacity" => Ok(BackupAvailability::Capacity),
        Some(other) => Err(format!(
            "backup_availability is {other}: expected \"selectable\", \"status\" or \"capacity\""
        )),
    }
}

fn zones(keys: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let Some(value) = keys.get("zones") else { return Ok(BTreeMap::new()) };
    let Value::Object(zones) = value else {
        return Err(format!("zones is {value}: expected an object such as {EXAMPLE}"));
    };
    let zone = |(server, zone): (&String, &Value)| match zone {
        Value::String(zone) if !zone.is_empty() => Ok((server.clone(), zone.clone())),
        other => Err(format!("zones: the zone of {server:?} is {other}: expected a name")),
    };
    zones.iter().map(zone).collect()
}

const EXAMPLE: &str = "{\"db1:3306\": \"east\"}";

/// The greatest weight of a server.
const MOST_WEIGHT: u32 = 10_000_000;

/// More servers than a hostgroup has.
const MOST_SERVERS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_have_their_defaults() {
        for json in ["", "{}", "[1]", r#"{"balance":"weighted_random"}"#] {
            assert_eq!(PreferenceSettings::of(&json.into()), Ok(PreferenceSettings::default()), "{json}");
        }
    }

    #[test]
    fn invalid_values_are_named() {
        for (json, expected) in [
            (
                r#"{"backup_weight_threshold":-1}"#,
                "backup_weight_threshold is -1: expected an integer from 0 to",
            ),
            (r#"{"backup_weight_threshold":10000001}"#, "backup_weight_threshold is 10000001: expected"),
            (r#"{"backup_weight_threshold":"10"}"#, "backup_weight_threshold is \"10\": expected an integer"),
            (r#"{"backup_weight_threshold":1.5}"#, "backup_weight_threshold is 1.5: expected an integer"),
            (
                r#"{"backup_availability":"online"}"#,
                "backup_availability is \"online\": expected \"selectable\", ",
            ),
            (r#"{"backup_availability":1}"#, "backup_availability is 1: expected"),
            (r#"{"backup_min_servers":0}"#, "backup_min_servers is 0: expected an integer from 1 to 10000"),
            (r#"{"zones":"east"}"#, "zones is \"east\": expected an object such as {\"db1:3306\": \"east\"}"),
            (
                r#"{"zones":{"a:1":"east","a:1":"west"}}"#,
                "the key \"a:1\" is there twice: with zones, each key may be there once",
            ),
            (r#"{"zones":{"a:1":""}}"#, "zones: the zone of \"a:1\" is \"\": expected a name"),
            (r#"{"zones":{"a:1":["x"]}}"#, "zones: the zone of \"a:1\" is [\"x\"]: expected a name"),
        ] {
            let error = PreferenceSettings::of(&json.into()).unwrap_err();
            assert!(error.starts_with(expected), "{json}: {error}");
        }
    }

    #[test]
    fn backups_are_below_the_threshold_and_have_a_weight() {
        let settings = PreferenceSettings::of(&r#"{"backup_weight_threshold":10}"#.into()).unwrap();
        let backups: Vec<u32> = (0..12).filter(|weight| settings.is_backup(*weight)).collect();
        assert_eq!(backups, (1..10).collect::<Vec<u32>>());
        assert!((0..12).all(|weight| !PreferenceSettings::default().is_backup(weight)));
    }

    #[test]
    fn a_server_has_the_zone_of_its_port_or_of_its_host() {
        let json = r#"{"zones":{"a":"east","a:3307":"west","/run/db.sock":"here","::1":"six"}}"#;
        let settings = PreferenceSettings::of(&json.into()).unwrap();
        let zone = |hostname, port| settings.zone(hostname, port);
        assert_eq!((zone("a", 3306), zone("a", 3307)), (Some("east"), Some("west")));
        assert_eq!(
            (zone("/run/db.sock", 0), zone("::1", 3306), zone("b", 3306)),
            (Some("here"), Some("six"), None)
        );
    }
}

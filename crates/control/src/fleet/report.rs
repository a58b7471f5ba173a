//! What a member tells the others about itself: the value of its key in etcd, which goes with its lease.

use serde_json::{Value as Json, json};

use super::member::RefusedVersion;
use super::standing::Standing;
use crate::versions::{FleetHome, FleetMark, VersionId};

/// What a member tells the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name.
    pub node: String,
    /// Which data folder it has, and which process it is: two with one name differ in that.
    pub origin: ReportOrigin,
    /// The version that it runs; `None`: none of the fleet.
    pub running: Option<FleetMark>,
    /// The version that a later one must descend from, to be applied there.
    pub settled: Option<VersionId>,
    /// Where its version was found.
    pub home: Option<FleetHome>,
    /// Since when, in seconds since 1970.
    pub since: i64,
    /// The version that it cannot apply.
    pub refused: Option<RefusedVersion>,
    /// Why what etcd has does not follow from what it runs; empty: it does.
    pub mismatch: String,
    /// How many rows and variables it runs differently.
    pub drift: u64,
    /// Why it cannot serve clients; empty: it can.
    pub not_ready: String,
    /// The number of the version in its own history.
    pub local_version: i64,
    /// When it was written, in seconds since 1970.
    pub reported: i64,
    /// Where its port for administrators is, as `host:port`; empty: nowhere.
    pub address: String,
    /// Whether that port offers TLS.
    pub is_encrypted: bool,
    /// The parts of the configuration that run there.
    pub modules: Vec<ModuleReport>,
    /// The version that it tries, and how far it is with it.
    pub standing: Option<(i64, Standing)>,
    /// What etcd calls the revision of this report; 0: it has not been there.
    pub revision: i64,
}

/// Who writes a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOrigin {
    /// The UUID of the data folder; empty: an older program has written the report.
    pub uuid: String,
    /// Unlike that of every other process.
    pub process: String,
}

/// A part of the configuration that runs, as `runtime_checksums_values` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleReport {
    /// Its name.
    pub name: String,
    /// How many times it was loaded.
    pub version: i64,
    /// When it was loaded, in seconds since 1970.
    pub epoch: i64,
    /// Its checksum.
    pub checksum: String,
}

impl NodeReport {
    /// Its value in etcd.
    pub fn encode(&self) -> String {
        let refused = |it: &RefusedVersion| json!({ "version": it.version, "id": it.id.to_string(), "reason": it.reason });
        let modules: Vec<Json> = self.modules.iter().map(ModuleReport::encode).collect();
        json!({
            "node": self.node,
            "uuid": self.origin.uuid,
            "process": self.origin.process,
            "version": self.running.map(|mark| mark.version),
            "id": self.running.map(|mark| mark.id.to_string()),
            "settled": self.settled.map(|id| id.to_string()),
            "home": self.home.as_ref().map(FleetHome::to_json),
            "on_trial": self.running.is_some_and(|mark| mark.is_on_trial),
            "since": self.since,
            "refused": self.refused.as_ref().map(refused),
            "mismatch": self.mismatch,
            "drift": self.drift,
            "not_ready": self.not_ready,
            "local_version": self.local_version,
            "reported": self.reported,
            "address": self.address,
            "tls": self.is_encrypted,
            "modules": modules,
            "trial": self.standing.as_ref().map(|(version, standing)| standing.encode(*version)),
        })
        .to_string()
    }

    /// Reads a value of etcd; `None`: it is no report.
    pub fn decode(bytes: &[u8]) -> Option<NodeReport> {
        let json: Json = serde_json::from_slice(bytes).ok()?;
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let id = |json: &Json| VersionId::parse(json.as_str()?);
        let mark = |(version, id)| FleetMark { version, id, is_on_trial: json["on_trial"] == true };
        let refused = &json["refused"];
        let modules = json["modules"].as_array().into_iter().flatten().take(MOST_MODULES);
        Some(NodeReport {
            node: json["node"].as_str()?.to_owned(),
            origin: ReportOrigin { uuid: text(&json["uuid"]), process: text(&json["process"]) },
            running: json["version"].as_i64().zip(id(&json["id"])).map(mark),
            settled: id(&json["settled"]),
            home: FleetHome::from_json(&json["home"]),
            since: json["since"].as_i64().unwrap_or_default(),
            refused: refused["version"].as_i64().zip(id(&refused["id"])).map(|(version, id)| {
                RefusedVersion { version, id, reason: text(&refused["reason"]), may_be_retried: true }
            }),
            mismatch: text(&json["mismatch"]),
            drift: json["drift"].as_u64().unwrap_or_default(),
            not_ready: text(&json["not_ready"]),
            local_version: json["local_version"].as_i64().unwrap_or_default(),
            reported: json["reported"].as_i64().unwrap_or_default(),
            address: text(&json["address"]),
            is_encrypted: json["tls"] == true,
            modules: modules.map(ModuleReport::decode).collect(),
            standing: Standing::decode(&json["trial"]),
            revision: 0,
        })
    }
}

impl ModuleReport {
    fn encode(&self) -> Json {
        json!({ "name": self.name, "version": self.version, "epoch": self.epoch, "checksum": self.checksum })
    }

    fn decode(json: &Json) -> ModuleReport {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| json[name].as_i64().unwrap_or_default();
        ModuleReport {
            name: text("name"),
            version: number("version"),
            epoch: number("epoch"),
            checksum: text("checksum"),
        }
    }
}

/// The most parts of a configuration that are read: twice what there are.
const MOST_MODULES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_they_were_written_also_those_of_older_programs() {
        let module =
            ModuleReport { name: "mysql_users".to_owned(), version: 2, epoch: 3, checksum: "0x1".to_owned() };
        let id = VersionId::of(b"a");
        let report = NodeReport {
            node: "a".to_owned(),
            origin: ReportOrigin { uuid: "u".to_owned(), process: "p".to_owned() },
            running: Some(FleetMark { version: 3, id, is_on_trial: true }),
            settled: Some(VersionId::of(b"b")),
            home: Some(FleetHome { cluster: u64::MAX, prefix: "/narrows".to_owned() }),
            refused: Some(RefusedVersion { version: 4, id, reason: "why".to_owned(), may_be_retried: true }),
            mismatch: "etcd was put back".to_owned(),
            drift: 2,
            address: "a:6032".to_owned(),
            is_encrypted: true,
            modules: vec![module],
            ..NodeReport::default()
        };
        assert_eq!(NodeReport::decode(report.encode().as_bytes()), Some(report));
        assert_eq!(NodeReport::decode(b"{}"), None);
        let old = NodeReport::decode(br#"{"node": "a", "version": 3}"#).unwrap();
        assert!(old.address.is_empty() && old.modules.is_empty() && old.origin == ReportOrigin::default());
    }
}

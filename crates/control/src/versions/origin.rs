//! Who has made a version, and how.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value as Json, json};

/// Who has made a version, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionOrigin {
    /// The administrator; empty if it was none.
    pub user: String,
    /// Where the administrator's connection came from, as `address:port`; empty if there was none.
    pub client: String,
    /// How it was made.
    pub source: VersionSource,
    /// The command, or what else has happened.
    pub command: String,
    /// Why, in the administrator's words.
    pub comment: String,
    /// The version of the fleet that it is; `None`: it is none.
    pub fleet: Option<FleetPlace>,
}

/// Which version of a fleet it is, and how it is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetMark {
    /// Its number. Two versions may have the same one, if etcd has lost the first of them.
    pub version: i64,
    /// What no other version has.
    pub id: VersionId,
    /// Whether it is tried here before others get it.
    pub is_on_trial: bool,
}

/// What tells a version of a fleet from all others: the beginning of the SHA-256 of its text, which names the version before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(u128);

impl VersionId {
    /// The id of the version with that text.
    pub fn of(text: &[u8]) -> VersionId {
        let hash = digest(&SHA256, text);
        let bytes = hash.as_ref().first_chunk().copied().unwrap_or_default();
        VersionId(u128::from_be_bytes(bytes))
    }

    /// Reads what [`VersionId`] is displayed as.
    pub fn parse(text: &str) -> Option<VersionId> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| u128::from_str_radix(text, 16).ok())?.map(VersionId)
    }

    /// Its first digits, for those who read it.
    pub fn short(self) -> String {
        let mut text = self.to_string();
        text.truncate(SHORT);
        text
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// How many digits of an id are shown: enough to tell a hundred thousand versions apart.
const SHORT: usize = 12;

/// Where a fleet has its versions: the cluster of etcd, and what the keys begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetHome {
    /// The id of the cluster.
    pub cluster: u64,
    /// What the keys begin with.
    pub prefix: String,
}

impl FleetHome {
    /// It as JSON.
    pub fn to_json(&self) -> Json {
        json!({ "cluster": self.cluster, "prefix": self.prefix })
    }

    /// Reads what [`FleetHome::to_json`] wrote; `None`: it is something else.
    pub fn from_json(json: &Json) -> Option<FleetHome> {
        let (cluster, prefix) = (json["cluster"].as_u64()?, json["prefix"].as_str()?.to_owned());
        Some(FleetHome { cluster, prefix })
    }
}

impl fmt::Display for FleetHome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in the etcd {:x}", self.prefix, self.cluster)
    }
}

/// The version of a fleet that runs here, with what decides which versions may take its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlace {
    /// The version.
    pub mark: FleetMark,
    /// The versions before it, the one that it was made from last.
    pub lineage: Vec<VersionId>,
    /// Where it was found.
    pub home: FleetHome,
    /// Where the fleet had its versions before an administrator moved it.
    pub former: Vec<FleetHome>,
}

impl FleetPlace {
    /// The version that a later one must descend from, or be: the one before a version on trial, which may be taken back.
    pub fn settled(&self) -> Option<VersionId> {
        match self.mark.is_on_trial {
            true => self.lineage.last().copied(),
            false => Some(self.mark.id),
        }
    }

    /// Whether it is that version, or descends from it.
    pub fn includes(&self, id: VersionId) -> bool {
        self.mark.id == id || self.lineage.contains(&id)
    }
}

/// How a version was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionSource {
    /// The program started with it.
    Start,
    /// A `LOAD ... TO RUNTIME`.
    Load,
    /// A plan was applied.
    Apply,
    /// An earlier version was made the configuration again.
    Rollback,
    /// It is a version of the fleet.
    Fleet,
}

impl VersionSource {
    /// Its name in `narrows_config_history`.
    pub fn name(self) -> &'static str {
        match self {
            VersionSource::Start => "start",
            VersionSource::Load => "load",
            VersionSource::Apply => "apply",
            VersionSource::Rollback => "rollback",
            VersionSource::Fleet => "fleet",
        }
    }

    /// Whether it changes the disk as well as what runs.
    pub fn is_saved(self) -> bool {
        match self {
            VersionSource::Start | VersionSource::Load => false,
            VersionSource::Apply | VersionSource::Rollback | VersionSource::Fleet => true,
        }
    }
}

impl VersionOrigin {
    /// One without an administrator.
    pub fn of_program(source: VersionSource, command: &str) -> VersionOrigin {
        let (user, client, comment) = (String::new(), String::new(), String::new());
        VersionOrigin { user, client, source, command: command.to_owned(), comment, fleet: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_displayed() {
        let id = VersionId::of(b"x");
        assert_eq!(VersionId::parse(&id.to_string()), Some(id));
        assert_ne!(id, VersionId::of(b"y"));
        assert!(id.to_string().starts_with(&id.short()));
        for text in ["", "+0000000000000000000000000000000", "1", "000000000000000000000000000000000"] {
            assert_eq!(VersionId::parse(text), None, "{text}");
        }
    }
}

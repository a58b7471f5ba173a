//! What the values in etcd look like: the head, a trial, and a version.
//!
//! All are JSON, so that `etcdctl get` shows them; a version is compressed. Values that etcd has may come from anybody who may
//! write there: they are checked before they are used.

use std::io::Read;

use serde_json::{Value as Json, json};

use super::member::{FleetTrial, Seen};
use super::own::shared;
use crate::schema::{MODULES, Module};
use crate::versions::{ConfigDocument, VersionOrigin};

/// A version of the fleet's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetVersion {
    /// Unlike that of every other version that was ever proposed.
    pub id: String,
    /// The member on which it was made.
    pub node: String,
    /// The administrator who has made it.
    pub user: String,
    /// Where the administrator came from.
    pub client: String,
    /// The command.
    pub command: String,
    /// Why, in the administrator's words.
    pub comment: String,
    /// What it holds: only what the fleet shares.
    pub document: ConfigDocument,
}

impl FleetVersion {
    /// A version that an administrator has made here.
    pub fn new(id: String, node: &str, origin: &VersionOrigin, document: &ConfigDocument) -> FleetVersion {
        FleetVersion {
            id,
            node: node.to_owned(),
            user: origin.user.clone(),
            client: origin.client.clone(),
            command: origin.command.clone(),
            comment: origin.comment.clone(),
            document: shared(document),
        }
    }

    /// Its value in etcd.
    ///
    /// # Errors
    /// It is too large.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let json = json!({
            "id": self.id,
            "node": self.node,
            "user": self.user,
            "client": self.client,
            "command": self.command,
            "comment": self.comment,
            "configuration": self.document,
        });
        let bytes = zstd::encode_all(json.to_string().as_bytes(), COMPRESSION)
            .map_err(|error| format!("it cannot be compressed: {error}"))?;
        if bytes.len() > LARGEST {
            let length = bytes.len();
            return Err(format!(
                "the configuration is too large for etcd: {length} bytes compressed, and {LARGEST} fit"
            ));
        }
        Ok(bytes)
    }

    /// Reads a value of etcd.
    ///
    /// # Errors
    /// Why it is no version that can be applied as a whole.
    pub fn decode(bytes: &[u8]) -> Result<FleetVersion, String> {
        let decoder = zstd::Decoder::new(bytes).map_err(|error| format!("it cannot be read: {error}"))?;
        let mut text = Vec::new();
        let read = decoder.take(LONGEST_TEXT).read_to_end(&mut text);
        let length = read.map_err(|error| format!("it cannot be read: {error}"))?;
        if length as u64 == LONGEST_TEXT {
            return Err(format!("it is longer than {LONGEST_TEXT} bytes"));
        }
        let json: Json = serde_json::from_slice(&text).map_err(|error| format!("it is no JSON: {error}"))?;
        let part = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let written = json["configuration"].to_string();
        let read = ConfigDocument::from_json(written.as_bytes()).map_err(|error| error.to_string())?;
        let (document, unknown) = read;
        if !unknown.is_empty() {
            return Err(format!("this program does not have {}", unknown.join(", ")));
        }
        whole(&document)?;
        Ok(FleetVersion {
            id: part("id"),
            node: part("node"),
            user: part("user"),
            client: part("client"),
            command: part("command"),
            comment: part("comment"),
            document: shared(&document),
        })
    }
}

/// Fails if a document lacks a table: it would be a mixture with what runs.
fn whole(document: &ConfigDocument) -> Result<(), String> {
    let tables = MODULES.into_iter().filter(|module| module.prefix().is_none()).flat_map(Module::tables);
    let has = |table: &str| document.tables().any(|(it, _)| it == table);
    match tables.into_iter().find(|table| !has(table)) {
        Some(table) => Err(format!("it is not whole: it has no table {table}")),
        None => Ok(()),
    }
}

/// The value of the head.
pub fn head(version: i64, last: i64) -> String {
    json!({ "version": version, "last": last }).to_string()
}

/// The value of a trial.
pub fn trial(version: i64, nodes: &[String], by: &str, seconds: u64) -> String {
    json!({ "version": version, "nodes": nodes, "by": by, "seconds": seconds }).to_string()
}

/// What the values of the head and of the trial say, each with its revision.
///
/// # Errors
/// They are not what a member writes.
pub fn seen(head: Option<(&[u8], i64)>, trial: Option<(&[u8], i64)>) -> Result<Seen, String> {
    let mut seen = Seen::default();
    if let Some((value, revision)) = head {
        let json: Json = serde_json::from_slice(value)
            .map_err(|error| foreign("head", &format!("it is no JSON: {error}")))?;
        let number = |name: &str| json[name].as_i64().filter(|it| *it >= 0);
        let version = number("version").ok_or_else(|| foreign("head", "it has no version"))?;
        seen = Seen {
            head: version,
            last: number("last").unwrap_or(version).max(version),
            revision,
            trial: None,
        };
    }
    if let Some((value, revision)) = trial {
        let json: Json = serde_json::from_slice(value)
            .map_err(|error| foreign("trial", &format!("it is no JSON: {error}")))?;
        let nodes = json["nodes"].as_array().into_iter().flatten().filter_map(Json::as_str);
        seen.trial = Some(FleetTrial {
            version: json["version"].as_i64().ok_or_else(|| foreign("trial", "it has no version"))?,
            nodes: nodes.map(str::to_owned).collect(),
            by: json["by"].as_str().unwrap_or_default().to_owned(),
            seconds: json["seconds"].as_u64().unwrap_or_default(),
            revision,
        });
    }
    Ok(seen)
}

/// Why the value of a key cannot be used.
fn foreign(key: &str, reason: &str) -> String {
    format!("its key {key} {FOREIGN}: {reason}")
}

/// What is wrong with a value that somebody else has written.
pub const FOREIGN: &str = "is not as a member of a fleet writes it";

/// zstd's usual level.
const COMPRESSION: i32 = 3;

/// The most bytes of a version: etcd takes requests of 1.5 MiB (`--max-request-bytes`), and the rest of one is small.
const LARGEST: usize = 1_400_000;

/// The most bytes of a version before it is compressed; a hundred times what 10,000 rules take.
const LONGEST_TEXT: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::*;
    use crate::schema;

    fn document(rows: usize) -> ConfigDocument {
        let mut document = ConfigDocument::of_defaults();
        for table in MODULES.into_iter().filter(|it| it.prefix().is_none()).flat_map(Module::tables) {
            document.put_table(table, Vec::new());
        }
        let row = |number: usize| {
            let mut row = schema::defaults("mysql_query_rules");
            row[0] = Value::Integer(i64::try_from(number).unwrap());
            let noise = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &number.to_le_bytes());
            row[9] = Value::Text(format!("{noise:?}"));
            row
        };
        document.put_table("mysql_query_rules", (0..rows).map(row).collect());
        document
    }

    fn version(rows: usize) -> FleetVersion {
        let origin = VersionOrigin::of_program(crate::versions::VersionSource::Apply, "NARROWS APPLY PLAN");
        FleetVersion::new("1".to_owned(), "a", &origin, &document(rows))
    }

    #[test]
    fn a_version_is_read_as_it_was_written() {
        let version = version(10);
        assert_eq!(FleetVersion::decode(&version.encode().unwrap()).unwrap(), version);
    }

    #[test]
    fn what_is_too_large_not_whole_or_no_version_is_refused() {
        let refused = version(60_000).encode().unwrap_err();
        assert!(refused.contains("too large for etcd"), "{refused}");
        let empty = FleetVersion { document: ConfigDocument::default(), ..version(0) };
        let refused = FleetVersion::decode(&empty.encode().unwrap()).unwrap_err();
        assert!(refused.contains("it is not whole"), "{refused}");
        assert!(FleetVersion::decode(b"").is_err() && FleetVersion::decode(b"{}").is_err());
        let zeros = zstd::encode_all(&vec![b'0'; 300 << 20][..], COMPRESSION).unwrap();
        let refused = FleetVersion::decode(&zeros).unwrap_err();
        assert!(refused.contains("longer than"), "{refused}");
    }

    #[test]
    fn heads_and_trials_are_read_as_they_were_written() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        let (head, trial) = (head(3, 5), trial(5, &nodes, "a", 30));
        let found = seen(Some((head.as_bytes(), 7)), Some((trial.as_bytes(), 8))).unwrap();
        assert_eq!((found.head, found.last, found.revision), (3, 5, 7));
        let trial = found.trial.unwrap();
        assert_eq!((trial.version, trial.nodes, trial.seconds, trial.revision), (5, nodes.to_vec(), 30, 8));
        assert_eq!(seen(None, None).unwrap(), Seen::default());
        assert!(seen(Some((b"{}", 1)), None).is_err() && seen(None, Some((b"x", 1))).is_err());
    }
}

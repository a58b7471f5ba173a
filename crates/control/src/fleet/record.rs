//! What the values in etcd look like: the head, a trial, and a version.
//!
//! All are JSON, so that `etcdctl get` shows them; a version is compressed. Values that etcd has may come from anybody who may
//! write there: they are checked before they are used.

use std::io::{self, Read};

use serde_json::{Value as Json, json};

use super::keys::Keys;
use super::member::{FleetTrial, Seen};
use super::own::shared;
use super::transaction::{KeyValue, TransactionOutcome};
use crate::schema::{self, MODULES, Module};
use crate::versions::{ConfigDocument, FleetHome, FleetMark, FleetPlace, VersionId, VersionOrigin};

/// A version of the fleet's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetVersion {
    /// What it is known by: the hash of all that follows.
    pub id: VersionId,
    /// The versions before it that it takes the place of; the one that it was made from is the last of them.
    pub lineage: Vec<VersionId>,
    /// Where the fleet had its versions before an administrator moved it.
    pub former: Vec<FleetHome>,
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
    /// A version that an administrator has made on `node`, from what runs there.
    pub fn new(
        node: &str,
        from: Option<&FleetPlace>,
        origin: &VersionOrigin,
        document: &ConfigDocument,
    ) -> FleetVersion {
        let version = FleetVersion {
            id: VersionId::default(),
            lineage: Vec::new(),
            former: from.map(|place| place.former.clone()).unwrap_or_default(),
            node: node.to_owned(),
            user: origin.user.clone(),
            client: origin.client.clone(),
            command: origin.command.clone(),
            comment: origin.comment.clone(),
            document: shared(document),
        };
        version.after(from, [])
    }

    /// The same, in the place of `others` too: they are not lost without anybody having decided it.
    pub fn after(
        mut self,
        from: Option<&FleetPlace>,
        others: impl IntoIterator<Item = VersionId>,
    ) -> FleetVersion {
        let base = from.map(|place| place.mark.id);
        let before = from.iter().flat_map(|place| place.lineage.iter().copied());
        self.lineage.clear();
        for id in before.chain(others).filter(|id| Some(*id) != base) {
            if !self.lineage.contains(&id) {
                self.lineage.push(id);
            }
        }
        self.lineage.extend(base);
        self.lineage.drain(..self.lineage.len().saturating_sub(LONGEST_LINEAGE));
        self.id = VersionId::of(self.text().as_bytes());
        self
    }

    /// The same, which members of these other places may follow too.
    pub fn instead_of(mut self, homes: impl IntoIterator<Item = FleetHome>) -> FleetVersion {
        for home in homes {
            self.former.retain(|it| *it != home);
            self.former.push(home);
        }
        self.former.drain(..self.former.len().saturating_sub(MOST_HOMES));
        self.id = VersionId::of(self.text().as_bytes());
        self
    }

    /// What the id is the hash of.
    fn text(&self) -> String {
        json!({
            "lineage": self.lineage.iter().map(VersionId::to_string).collect::<Vec<_>>(),
            "former": self.former.iter().map(FleetHome::to_json).collect::<Vec<_>>(),
            "node": self.node,
            "user": self.user,
            "client": self.client,
            "command": self.command,
            "comment": self.comment,
            "configuration": self.document,
        })
        .to_string()
    }

    /// Its value in etcd.
    ///
    /// # Errors
    /// It is too large.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let text = self.text();
        let cells = self.document.tables().map(|(table, rows)| rows.len() * schema::columns(table).len());
        bounded(text.as_bytes(), cells.sum())?;
        let bytes = zstd::encode_all(text.as_bytes(), COMPRESSION)
            .map_err(|error| format!("it cannot be compressed: {error}"))?;
        if bytes.len() > LARGEST {
            let length = bytes.len();
            return Err(format!(
                "the configuration is too large for etcd: {length} bytes compressed, and {LARGEST} fit"
            ));
        }
        Ok(bytes)
    }

    /// Reads the value of etcd that is to be the version `id`.
    ///
    /// # Errors
    /// Why it is not that version, or cannot be applied as a whole.
    pub fn decode(id: VersionId, bytes: &[u8]) -> Result<FleetVersion, RecordError> {
        let text = unpacked(bytes)?;
        if VersionId::of(&text) != id {
            return Err(RecordError::Other);
        }
        FleetVersion::parse(id, &text).map_err(RecordError::Unusable)
    }

    fn parse(id: VersionId, text: &[u8]) -> Result<FleetVersion, String> {
        bounded(text, 0)?;
        let json: Json = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let part = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let list = |name: &str| json[name].as_array().into_iter().flatten();
        // A row may be short in JSON: here it has all columns.
        let cells =
            json["configuration"]["tables"].as_object().into_iter().flatten().map(|(name, table)| {
                table["rows"].as_array().map_or(0, Vec::len) * schema::columns(name).len()
            });
        bounded(text, cells.sum())?;
        let lineage = list("lineage").map(|id| VersionId::parse(id.as_str()?)).collect::<Option<_>>();
        let lineage = lineage.ok_or("its lineage is none")?;
        let former = list("former").map(FleetHome::from_json).collect::<Option<_>>();
        let former = former.ok_or("its former places are none")?;
        let read = ConfigDocument::from_value(&json["configuration"]).map_err(|error| error.to_string())?;
        let (document, unknown) = read;
        if !unknown.is_empty() {
            return Err(format!("this program does not have {}", unknown.join(", ")));
        }
        whole(&document)?;
        Ok(FleetVersion {
            id,
            lineage,
            former,
            node: part("node"),
            user: part("user"),
            client: part("client"),
            command: part("command"),
            comment: part("comment"),
            document: shared(&document),
        })
    }
}

/// Why a value of etcd is not the version that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is another version, or none.
    #[error("what etcd has of it is not what its id says")]
    Other,
    /// It is that version, and cannot be used: the same value never can.
    #[error("{0}")]
    Unusable(String),
}

/// The text of a value.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, RecordError> {
    let unusable = |reason: String| Err(RecordError::Unusable(reason));
    if bytes.len() > LARGEST {
        return unusable(format!("it is longer than {LARGEST} bytes"));
    }
    let open = || {
        let mut decoder = zstd::Decoder::new(bytes)?;
        decoder.window_log_max(WINDOW_LOG)?;
        io::Result::Ok(decoder)
    };
    let Ok(decoder) = open() else { return Err(RecordError::Other) };
    let mut text = Vec::new();
    match decoder.take(LONGEST_TEXT + 1).read_to_end(&mut text) {
        Ok(length) if length as u64 > LONGEST_TEXT => {
            unusable(format!("it is longer than {LONGEST_TEXT} bytes"))
        }
        Ok(_) => Ok(text),
        Err(_) => Err(RecordError::Other),
    }
}

/// Fails if a version with that text and so many cells is larger than a configuration is.
fn bounded(text: &[u8], cells: usize) -> Result<(), String> {
    let length = text.len();
    if length as u64 > LONGEST_TEXT {
        return Err(format!("the configuration is too large: {length} bytes, and {LONGEST_TEXT} fit"));
    }
    // Two bytes of text can be a value, which takes 32 bytes in memory.
    let values = text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count().max(cells);
    match values > MOST_VALUES {
        true => Err(format!("the configuration is too large: {values} values, and {MOST_VALUES} fit")),
        false => Ok(()),
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

/// The value of the head; without a version, of a fleet that has none yet.
pub fn head(mark: Option<FleetMark>, last: i64) -> String {
    let (version, id) = (mark.map_or(0, |mark| mark.version), mark.map(|mark| mark.id.to_string()));
    json!({ "version": version, "id": id, "last": last }).to_string()
}

/// The value of a trial.
pub fn trial(mark: FleetMark, nodes: &[String], by: &str, seconds: u64) -> String {
    let (version, id) = (mark.version, mark.id.to_string());
    json!({ "version": version, "id": id, "nodes": nodes, "by": by, "seconds": seconds }).to_string()
}

/// What an answer says that has the head and the trial.
///
/// # Errors
/// The head is not what a member writes.
pub fn seen(keys: &Keys, outcome: &TransactionOutcome) -> Result<Seen, String> {
    let pair = |index: usize| outcome.found.get(index).and_then(|pairs| pairs.first());
    let home = FleetHome { cluster: outcome.cluster, prefix: keys.prefix().to_owned() };
    let mut seen = Seen { home, ..Seen::default() };
    if let Some(pair) = pair(0) {
        let read = || {
            let json = json(pair)?;
            let mark = if json["version"] == 0 { None } else { Some(mark(&json, false)?) };
            let version = mark.map_or(0, |mark| mark.version);
            let last = number(&json["last"]).ok_or("its last number cannot be one")?;
            Ok((mark, last.max(version)))
        };
        let (head, last) = read().map_err(|reason: String| foreign(&keys.head(), &reason))?;
        (seen.head, seen.last, seen.revision) = (head, last, pair.revision);
    }
    if let Some(pair) = pair(1) {
        // The head is followed whatever this is.
        match read_trial(pair) {
            Ok(trial) => seen.trial = Some(trial),
            Err(reason) => seen.stray_trial = Some(foreign(&keys.trial(), &reason)),
        }
    }
    Ok(seen)
}

fn read_trial(pair: &KeyValue) -> Result<FleetTrial, String> {
    let json = json(pair)?;
    let mark = mark(&json, true)?;
    let nodes = json["nodes"].as_array().into_iter().flatten().filter_map(Json::as_str);
    if pair.lease == 0 {
        return Err("it has no lease, so that it never ends".to_owned());
    }
    Ok(FleetTrial {
        mark,
        nodes: nodes.map(str::to_owned).collect(),
        by: json["by"].as_str().unwrap_or_default().to_owned(),
        seconds: json["seconds"].as_u64().filter(|it| *it <= LONGEST_TRIAL).ok_or("it has no time")?,
        revision: pair.revision,
    })
}

fn json(pair: &KeyValue) -> Result<Json, String> {
    serde_json::from_slice(&pair.value).map_err(|error| format!("it is no JSON: {error}"))
}

/// The version that a value names.
fn mark(json: &Json, is_on_trial: bool) -> Result<FleetMark, String> {
    let version = number(&json["version"]).filter(|it| *it > 0).ok_or("it has no version")?;
    let id = json["id"].as_str().and_then(VersionId::parse).ok_or("its version has no id")?;
    Ok(FleetMark { version, id, is_on_trial })
}

/// A number of a version.
fn number(json: &Json) -> Option<i64> {
    json.as_i64().filter(|it| (0..=GREATEST_NUMBER).contains(it))
}

/// Why the value of a key cannot be used, and how to remove it.
fn foreign(key: &str, reason: &str) -> String {
    format!("its key {key} {FOREIGN}: {reason} (etcdctl del {key} removes it)")
}

/// What is wrong with a value that somebody else has written.
pub const FOREIGN: &str = "is not as a member of a fleet writes it";

/// The longest trial, in seconds: a day.
pub const LONGEST_TRIAL: u64 = 86_400;

/// The greatest number of a version: one each microsecond, for a century.
pub const GREATEST_NUMBER: i64 = 3_155_760_000_000_000;

/// How many versions before it a version names: a member that was away for more of them does not know that it descends from its own.
const LONGEST_LINEAGE: usize = 1_000;

/// How many former places of the fleet are kept.
const MOST_HOMES: usize = 20;

/// zstd's usual level.
const COMPRESSION: i32 = 3;

/// The most bytes of a version: etcd takes requests of 1.5 MiB (`--max-request-bytes`), and the rest of one is small.
const LARGEST: usize = 1_400_000;

/// The most bytes of a version before it is compressed: five times what 10,000 rules take.
const LONGEST_TEXT: u64 = 16 << 20;

/// The most values or cells of a version: 50,000 rules have as many. In memory, they take 64 MB.
const MOST_VALUES: usize = 2_000_000;

/// The largest window of zstd, as a power of two: that of the longest text.
const WINDOW_LOG: u32 = 24;

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
        FleetVersion::new("a", None, &origin, &document(rows))
    }

    fn place(version: &FleetVersion) -> FleetPlace {
        FleetPlace {
            mark: FleetMark { version: 1, id: version.id, is_on_trial: false },
            lineage: version.lineage.clone(),
            home: FleetHome { cluster: 1, prefix: "/narrows".to_owned() },
            former: version.former.clone(),
        }
    }

    /// The value of a version whose text is that.
    fn value(text: &[u8]) -> (VersionId, Vec<u8>) {
        (VersionId::of(text), zstd::encode_all(text, COMPRESSION).unwrap())
    }

    #[test]
    fn a_version_is_read_as_it_was_written_and_only_as_itself() {
        let first = version(10);
        let version = version(10).after(Some(&place(&first)), [VersionId::of(b"x")]);
        let version = version.instead_of([FleetHome { cluster: u64::MAX, prefix: "/old".to_owned() }]);
        let value = version.encode().unwrap();
        assert_eq!(FleetVersion::decode(version.id, &value).unwrap(), version);
        assert_eq!(FleetVersion::decode(first.id, &value), Err(RecordError::Other));
        assert_eq!(FleetVersion::decode(version.id, b""), Err(RecordError::Other));
        assert_eq!(version.lineage, [VersionId::of(b"x"), first.id]);
    }

    #[test]
    fn equal_contents_after_other_versions_are_another_version() {
        let (one, other) = (version(1), version(2));
        let after = |before: &FleetVersion| version(3).after(Some(&place(before)), []).id;
        assert_ne!(after(&one), after(&other));
        assert_eq!(after(&one), after(&one));
        let mut last = version(0);
        for _ in 0..LONGEST_LINEAGE + 10 {
            last = last.clone().after(Some(&place(&last)), []);
        }
        assert_eq!(last.lineage.len(), LONGEST_LINEAGE);
    }

    #[test]
    fn what_is_too_large_not_whole_or_no_version_is_refused() {
        let refused = version(50_000).encode().unwrap_err();
        assert!(refused.contains("too large for etcd"), "{refused}");
        let refused = version(60_000).encode().unwrap_err();
        assert!(refused.contains("values, and 2000000 fit"), "{refused}");
        let refused = |text: &[u8]| {
            let (id, value) = value(text);
            FleetVersion::decode(id, &value).unwrap_err().to_string()
        };
        let mut empty: Json = serde_json::from_str(&version(0).text()).unwrap();
        empty["configuration"]["tables"] = json!({});
        assert!(refused(empty.to_string().as_bytes()).contains("it is not whole"));
        assert!(refused(b"{}").contains("its format is 0"));
        assert!(refused(&vec![b'0'; 17 << 20]).contains("longer than"));
        // Few bytes that would take much memory.
        assert!(refused(format!("[{}0]", "0,".repeat(3_000_000)).as_bytes()).contains("too large"));
        let mut wide: Json = serde_json::from_str(&version(0).text()).unwrap();
        wide["configuration"]["tables"]["mysql_query_rules"]["rows"] = vec![json!([]); 900_000].into();
        let refused = refused(wide.to_string().as_bytes());
        assert!(refused.contains("too large"), "{refused}");
        let noise: Vec<u8> = (0..=LARGEST).map(|_| rand::random()).collect();
        assert!(FleetVersion::decode(VersionId::default(), &noise).is_err());
    }

    /// What is seen in an etcd with these values.
    fn seen_of(head: Option<&str>, trial: Option<(&str, i64)>) -> Result<Seen, String> {
        let pair = |value: &str, revision, lease| {
            vec![KeyValue { key: String::new(), value: value.as_bytes().to_vec(), revision, lease }]
        };
        let found = vec![
            head.map(|value| pair(value, 7, 0)).unwrap_or_default(),
            trial.map(|(value, lease)| pair(value, 8, lease)).unwrap_or_default(),
        ];
        let outcome = TransactionOutcome { found, cluster: 3, ..TransactionOutcome::default() };
        seen(&Keys::new("/narrows"), &outcome)
    }

    #[test]
    fn heads_and_trials_are_read_as_they_were_written() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        let mark = |version, is_on_trial| FleetMark { version, id: VersionId::of(b"x"), is_on_trial };
        let (head_value, trial) = (head(Some(mark(3, false)), 5), trial(mark(5, true), &nodes, "a", 30));
        let found = seen_of(Some(&head_value), Some((&trial, 1))).unwrap();
        assert_eq!((found.head, found.last, found.revision), (Some(mark(3, false)), 5, 7));
        assert_eq!(found.home, FleetHome { cluster: 3, prefix: "/narrows".to_owned() });
        let read = found.trial.unwrap();
        assert_eq!(
            (read.mark, read.nodes, read.seconds, read.revision),
            (mark(5, true), nodes.to_vec(), 30, 8)
        );
        // A fleet that has no version yet.
        let none = seen_of(Some(&head(None, 4)), None).unwrap();
        assert_eq!((none.head, none.last, none.revision), (None, 4, 7));
        assert_eq!(seen_of(None, None).unwrap().head, None);
        // A trial without a lease never ends, and keeps nobody from the head.
        let stray = seen_of(Some(&head_value), Some((&trial, 0))).unwrap();
        assert!(stray.head.is_some() && stray.trial.is_none());
        assert!(stray.stray_trial.unwrap().contains("etcdctl del /narrows/trial"));
    }

    #[test]
    fn what_no_member_writes_is_refused_with_the_name_of_its_key() {
        let id = VersionId::of(b"x").to_string();
        for value in [
            "{}".to_owned(),
            "x".to_owned(),
            r#"{"version": 3, "last": 3}"#.to_owned(),
            format!(r#"{{"version": -1, "id": "{id}", "last": 3}}"#),
            format!(r#"{{"version": 3, "id": "{id}", "last": {}}}"#, i64::MAX),
            format!(r#"{{"version": {}, "id": "{id}", "last": 3}}"#, i64::MAX),
            format!(r#"{{"version": 3, "id": "{id}", "last": -5}}"#),
        ] {
            let refused = seen_of(Some(&value), None).unwrap_err();
            assert!(refused.contains("etcdctl del /narrows/head"), "{refused}");
            assert!(seen_of(None, Some((&value, 1))).unwrap().stray_trial.is_some(), "{value}");
        }
        let endless = format!(r#"{{"version": 3, "id": "{id}", "seconds": {}}}"#, u64::MAX);
        assert!(seen_of(None, Some((&endless, 1))).unwrap().stray_trial.is_some());
    }
}

//! Versions that were tried and taken back, and why: the last ones are in etcd, where every member reads them.

use serde_json::{Value as Json, json};

use super::member::FleetTrial;
use crate::versions::VersionId;

/// A version that was taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// Its number.
    pub version: i64,
    /// Its id.
    pub id: VersionId,
    /// The member on which the trial began.
    pub by: String,
    /// Who has tried it.
    pub nodes: Vec<String>,
    /// Why it was taken back.
    pub reason: String,
    /// When, in seconds since 1970.
    pub at: i64,
}

/// The value with one more version. Of what is there, the last ones are kept; what cannot be read is left out.
pub fn with(value: Option<&[u8]>, one: &TakenBack) -> String {
    let mut all = value.map(decode).unwrap_or_default();
    all.retain(|it| it.id != one.id);
    all.push(one.clone());
    let from = all.len().saturating_sub(KEPT);
    let list: Vec<Json> = all.iter().skip(from).map(TakenBack::encode).collect();
    Json::from(list).to_string()
}

/// What a value says.
pub fn decode(value: &[u8]) -> Vec<TakenBack> {
    let json: Json = serde_json::from_slice(value).unwrap_or_default();
    json.as_array().into_iter().flatten().filter_map(TakenBack::decode).collect()
}

impl TakenBack {
    /// One whose trial has ended `at` that second since 1970.
    pub fn of(trial: &FleetTrial, reason: &str, at: i64) -> TakenBack {
        TakenBack {
            version: trial.mark.version,
            id: trial.mark.id,
            by: trial.by.clone(),
            nodes: trial.nodes.clone(),
            reason: reason.to_owned(),
            at,
        }
    }

    fn encode(&self) -> Json {
        let reason: String = self.reason.chars().take(LONGEST_REASON).collect();
        json!({
            "version": self.version,
            "id": self.id.to_string(),
            "by": self.by,
            "nodes": self.nodes.iter().take(MOST_NODES).collect::<Vec<_>>(),
            "reason": reason,
            "at": self.at,
        })
    }

    fn decode(json: &Json) -> Option<TakenBack> {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let nodes = json["nodes"].as_array().into_iter().flatten().filter_map(Json::as_str);
        Some(TakenBack {
            version: json["version"].as_i64()?,
            id: VersionId::parse(json["id"].as_str()?)?,
            by: text("by"),
            nodes: nodes.map(str::to_owned).collect(),
            reason: text("reason"),
            at: json["at"].as_i64().unwrap_or_default(),
        })
    }
}

/// How many are kept: enough to look at a bad week.
const KEPT: usize = 20;

/// How many characters of a reason are kept.
const LONGEST_REASON: usize = 1_000;

/// How many members of a trial are kept by name; a trial has few.
const MOST_NODES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_as_they_were_written() {
        let one = |version: i64| TakenBack {
            version,
            id: VersionId::of(&version.to_le_bytes()),
            by: "a".to_owned(),
            nodes: vec!["b".to_owned()],
            reason: "why".to_owned(),
            at: 7,
        };
        let mut value = with(None, &one(1));
        assert_eq!(decode(value.as_bytes()), [one(1)]);
        for version in 2..=30 {
            value = with(Some(value.as_bytes()), &one(version));
        }
        // One that is stored twice, after an answer that was lost, is there once.
        value = with(Some(value.as_bytes()), &one(30));
        let kept: Vec<i64> = decode(value.as_bytes()).iter().map(|it| it.version).collect();
        assert_eq!(kept, (11..=30).collect::<Vec<_>>());
        assert_eq!(decode(with(Some(b"x"), &one(1)).as_bytes()), [one(1)]);
        let long = TakenBack { reason: "x".repeat(9_999), ..one(1) };
        assert_eq!(decode(with(None, &long).as_bytes())[0].reason.len(), LONGEST_REASON);
    }
}

//! A transaction of etcd: what must hold, what is written and read, and what the answer says.
//!
//! Names and values are in base64, numbers are texts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which it was written.
    pub revision: i64,
    /// The lease that it goes with; 0: it stays.
    pub lease: i64,
}

/// What an answer to a transaction has: whether its conditions held, and what each range found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionOutcome {
    /// Whether the conditions held.
    pub has_succeeded: bool,
    /// The pairs of each operation; none for one that is no range.
    pub found: Vec<Vec<KeyValue>>,
    /// The revision of etcd after it: that of all that it has written.
    pub revision: i64,
    /// The id of the cluster that has answered.
    pub cluster: u64,
}

/// A transaction.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    conditions: Vec<Json>,
    success: Vec<Json>,
    failure: Vec<Json>,
}

impl Transaction {
    /// Requires that a key was written last at that revision; 0: that there is no such key.
    pub fn when(mut self, key: &str, revision: i64) -> Transaction {
        let (key, revision) = (encoded(key), revision.to_string());
        let condition = json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision });
        self.conditions.push(condition);
        self
    }

    /// Writes a value; with a lease, it goes with it.
    pub fn put(mut self, key: &str, value: impl AsRef<[u8]>, lease: Option<i64>) -> Transaction {
        let lease = lease.unwrap_or_default().to_string();
        let put = json!({ "key": encoded(key), "value": encoded(value), "lease": lease });
        self.success.push(json!({ "request_put": put }));
        self
    }

    /// Deletes a key.
    pub fn delete(mut self, key: &str) -> Transaction {
        self.success.push(json!({ "request_delete_range": { "key": encoded(key) } }));
        self
    }

    /// Deletes all keys from `from` to before `to`.
    pub fn delete_between(mut self, from: &str, to: &str) -> Transaction {
        let range = json!({ "key": encoded(from), "range_end": encoded(to) });
        self.success.push(json!({ "request_delete_range": range }));
        self
    }

    /// Reads a key.
    pub fn get(mut self, key: &str) -> Transaction {
        self.success.push(json!({ "request_range": { "key": encoded(key) } }));
        self
    }

    /// Reads a key if the conditions do not hold.
    pub fn get_otherwise(mut self, key: &str) -> Transaction {
        self.failure.push(json!({ "request_range": { "key": encoded(key) } }));
        self
    }

    /// The body of the request.
    pub fn body(&self) -> Json {
        json!({ "compare": self.conditions, "success": self.success, "failure": self.failure })
    }
}

impl TransactionOutcome {
    /// What an answer says.
    pub fn of(answer: &Json) -> TransactionOutcome {
        let responses = answer["responses"].as_array().into_iter().flatten();
        TransactionOutcome {
            has_succeeded: answer["succeeded"] == true,
            found: responses.map(|response| pairs(&response["response_range"])).collect(),
            revision: number(&answer["header"]["revision"]).unwrap_or_default(),
            cluster: cluster(answer),
        }
    }

    /// The pair that the first operation has found.
    pub fn first(&self) -> Option<&KeyValue> {
        self.found.first()?.first()
    }
}

/// As the interface for HTTP has names and values.
pub fn encoded(text: impl AsRef<[u8]>) -> String {
    STANDARD.encode(text)
}

/// The pairs of an answer to a range.
pub fn pairs(answer: &Json) -> Vec<KeyValue> {
    let bytes = |json: &Json| STANDARD.decode(json.as_str().unwrap_or_default()).ok();
    let pair = |json: &Json| {
        Some(KeyValue {
            key: String::from_utf8(bytes(&json["key"])?).ok()?,
            value: bytes(&json["value"])?,
            revision: number(&json["mod_revision"])?,
            lease: number(&json["lease"]).unwrap_or_default(),
        })
    };
    answer["kvs"].as_array().into_iter().flatten().filter_map(pair).collect()
}

/// The id of the cluster that has given an answer.
pub fn cluster(answer: &Json) -> u64 {
    let id = &answer["header"]["cluster_id"];
    id.as_str().and_then(|text| text.parse().ok()).or_else(|| id.as_u64()).unwrap_or_default()
}

/// A number, which JSON of Protocol Buffers has as a text.
pub fn number(json: &Json) -> Option<i64> {
    json.as_str().and_then(|text| text.parse().ok()).or_else(|| json.as_i64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_says_when_and_what() {
        let it = Transaction::default()
            .when("a", 0)
            .put("a", "x", Some(3))
            .delete_between("b", "c")
            .get_otherwise("a");
        assert_eq!(it.conditions[0]["mod_revision"], "0");
        assert_eq!(it.success[0]["request_put"], json!({ "key": "YQ==", "value": "eA==", "lease": "3" }));
        assert_eq!(it.success[1]["request_delete_range"], json!({ "key": "Yg==", "range_end": "Yw==" }));
        assert_eq!(it.failure[0]["request_range"]["key"], "YQ==");
    }
}

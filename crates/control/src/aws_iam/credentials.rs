//! The keys that tokens are signed with, as AWS hands them out.

use std::fmt;

use serde_json::Value;
use zeroize::Zeroizing;

use crate::calendar;

/// The keys of one identity, in memory only.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsCredentials {
    /// The name of the key; it is no secret.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: Zeroizing<String>,
    /// What belongs to a key that is valid for a time only.
    pub session_token: Option<Zeroizing<String>>,
    /// Seconds since 1970 until which they are valid; `None`: as long as nobody deletes them.
    pub expires: Option<i64>,
}

impl AwsCredentials {
    /// The keys of these texts.
    ///
    /// # Errors
    /// What is missing or no key, without any value.
    pub fn new(id: &str, secret: &str, session: Option<&str>) -> Result<AwsCredentials, String> {
        let is_id = |text: &str| {
            (1..=128).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let is_printable = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_id(id) {
            return Err("the access key ID is none".to_owned());
        }
        if !is_printable(secret) {
            return Err("the secret access key is none".to_owned());
        }
        if session.is_some_and(|token| !is_printable(token)) {
            return Err("the session token is none".to_owned());
        }
        Ok(AwsCredentials {
            access_key_id: id.to_owned(),
            secret_access_key: Zeroizing::new(secret.to_owned()),
            session_token: session.map(|token| Zeroizing::new(token.to_owned())),
            expires: None,
        })
    }

    /// The keys of an answer of the instance or container service, which are valid for a time.
    ///
    /// # Errors
    /// What is missing, without any value.
    pub fn of_json(body: &[u8]) -> Result<AwsCredentials, String> {
        let json: Value = serde_json::from_slice(body).map_err(|_| "its answer is no JSON".to_owned())?;
        let text = |name: &str| {
            json.get(name).and_then(Value::as_str).ok_or_else(|| format!("its answer has no {name}"))
        };
        match json.get("Code").and_then(Value::as_str) {
            None | Some("Success") => {}
            Some(code) => return Err(format!("its answer has the code {}", brief(code))),
        }
        let keys = AwsCredentials::new(text("AccessKeyId")?, text("SecretAccessKey")?, Some(text("Token")?));
        keys.map_err(|reason| format!("its answer is wrong: {reason}"))?.until(text("Expiration")?)
    }

    /// The same until a moment, as `2015-08-30T12:36:00Z`.
    ///
    /// # Errors
    /// If the text is no moment.
    pub fn until(self, moment: &str) -> Result<AwsCredentials, String> {
        let seconds = calendar::seconds_of(moment).ok_or("its answer has an Expiration that is no date")?;
        Ok(AwsCredentials { expires: Some(seconds), ..self })
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsCredentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// What somebody else has said, as part of a message.
pub(super) fn brief(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"Code":"Success","AccessKeyId":"ASIA1","SecretAccessKey":"s3cret","Token":"t0ken","Expiration":"2015-08-30T12:36:00Z"}"#;

    #[test]
    fn an_answer_has_keys_with_their_end() {
        let keys = AwsCredentials::of_json(ANSWER.as_bytes()).unwrap();
        assert_eq!((keys.access_key_id.as_str(), keys.expires), ("ASIA1", Some(1_440_938_160)));
        assert_eq!(*keys.session_token.unwrap(), "t0ken");
    }

    #[test]
    fn what_is_no_answer_says_so_without_a_value() {
        let without = |name: &str| ANSWER.replace(name, "Other");
        for (body, why) in [
            ("<html>".to_owned(), "its answer is no JSON"),
            (ANSWER.replace("Success", "Failed"), "its answer has the code Failed"),
            (without("AccessKeyId"), "its answer has no AccessKeyId"),
            (without("Token"), "its answer has no Token"),
            (without("Expiration"), "its answer has no Expiration"),
            (ANSWER.replace("2015", "soon"), "its answer has an Expiration that is no date"),
            (ANSWER.replace("ASIA1", "A\\nB"), "its answer is wrong: the access key ID is none"),
            (ANSWER.replace("s3cret", "s3cret\\n"), "its answer is wrong: the secret access key is none"),
        ] {
            let said = AwsCredentials::of_json(body.as_bytes()).unwrap_err();
            assert!(said == why && !said.contains("s3cret"), "{said}");
        }
        let shown = format!("{:?}", AwsCredentials::of_json(ANSWER.as_bytes()).unwrap());
        assert!(!shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
    }
}

//! Keys of a role that is taken on with a token of somebody else, such as the service account of a pod (IRSA): STS exchanges
//! it.

use hyper::Method;
use hyper::body::Bytes;
use narrows_wire::auth::repeats;

use super::credentials::{AwsCredentials, brief};
use super::sign::encoded;
use super::surroundings::{Environment, LONGEST_ANSWER, REQUEST_TIME, https, small_file};
use crate::http_client::address::WebAddress;
use crate::http_client::ask::WebQuestion;

/// A role, and the token for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WebIdentity {
    token_file: String,
    role: String,
    session: String,
    /// STS.
    pub endpoint: WebAddress,
}

impl WebIdentity {
    /// What the environment names; `None`: nothing.
    pub fn of_environment(environment: &Environment) -> Option<Result<WebIdentity, String>> {
        let token_file = environment("AWS_WEB_IDENTITY_TOKEN_FILE").filter(|path| !path.is_empty())?;
        let Some(role) = environment("AWS_ROLE_ARN").filter(|role| !role.is_empty()) else {
            return Some(Err("AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not".to_owned()));
        };
        Some(WebIdentity::new(token_file, role, environment("AWS_ROLE_SESSION_NAME"), environment))
    }

    /// A role that the content of a file is exchanged for.
    ///
    /// # Errors
    /// If the environment names an STS that is no address.
    pub fn new(
        token_file: String,
        role: String,
        session: Option<String>,
        environment: &Environment,
    ) -> Result<WebIdentity, String> {
        const ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| environment(name));
        let usual = match region {
            Some(region) if region.starts_with("cn-") => format!("https://sts.{region}.amazonaws.com.cn"),
            Some(region) => format!("https://sts.{region}.amazonaws.com"),
            None => "https://sts.amazonaws.com".to_owned(),
        };
        let text = environment(ENDPOINT).unwrap_or(usual);
        let endpoint = WebAddress::parse(&text).ok_or_else(|| format!("{ENDPOINT} is no address"))?;
        if !endpoint.is_encrypted && !endpoint.is_here() {
            return Err(format!("{ENDPOINT} is {text}: without https it must be this machine"));
        }
        let session = session.unwrap_or_else(|| "narrows".to_owned());
        Ok(WebIdentity { token_file, role, session, endpoint })
    }

    /// The keys of the role.
    ///
    /// # Errors
    /// In words, without any secret.
    pub async fn fetch(&self, environment: &Environment) -> Result<AwsCredentials, String> {
        // It is exchanged every hour or so, and is read each time.
        let token = small_file(&self.token_file)?;
        let parameters = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", &self.role),
            ("RoleSessionName", &self.session),
            ("WebIdentityToken", token.trim()),
        ];
        let pairs = parameters.map(|(name, value)| format!("{name}={}", encoded(value).as_str()));
        let path = format!("{}/", self.endpoint.path);
        let question = WebQuestion {
            method: Method::POST,
            address: &self.endpoint,
            path: &path,
            headers: &[("content-type", "application/x-www-form-urlencoded")],
            body: Bytes::from(pairs.join("&")),
        };
        let tls = https(&self.endpoint, environment)?;
        let answer = question.ask(tls.as_ref(), REQUEST_TIME, LONGEST_ANSWER).await?;
        let text = String::from_utf8_lossy(&answer.body);
        if !answer.status.is_success() {
            let [code, message] = ["Code", "Message"].map(|name| element(&text, name).unwrap_or_default());
            let mut said = brief(&format!("{code}: {message}"));
            if repeats(&said, token.trim().as_bytes()) {
                said = "its error has a part of the token in it, and is not shown".to_owned();
            }
            return Err(format!("HTTP status {}: {said}", answer.status.as_u16()));
        }
        of_xml(&text)
    }
}

/// The keys of an answer of STS.
fn of_xml(text: &str) -> Result<AwsCredentials, String> {
    let part = |name: &str| element(text, name).ok_or_else(|| format!("its answer has no {name}"));
    let session = part("SessionToken")?;
    let keys = AwsCredentials::new(part("AccessKeyId")?, part("SecretAccessKey")?, Some(session));
    keys.map_err(|reason| format!("its answer is wrong: {reason}"))?.until(part("Expiration")?)
}

/// The text of the first element with that name: those of STS have no attributes, and what is read of them no entities.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    after.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws_iam::of_test::environment;

    #[test]
    fn a_token_is_sent_to_another_machine_with_https_only() {
        for (endpoint, is_good) in [
            ("https://sts.test", true),
            ("http://127.0.0.1:4566", true),
            ("http://localhost:4566", true),
            ("http://sts.test", false),
            ("http://198.51.100.1", false),
        ] {
            let environment = environment(&[
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
                ("AWS_ROLE_ARN", "arn"),
                ("AWS_ENDPOINT_URL_STS", endpoint),
            ]);
            let found = WebIdentity::of_environment(&environment).unwrap();
            assert_eq!(found.is_ok(), is_good, "{endpoint}: {found:?}");
        }
    }

    #[test]
    fn an_answer_of_sts_has_keys() {
        let answer = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
            <AssumeRoleWithWebIdentityResult><Credentials><SessionToken>t0k/en=</SessionToken>\n\
            <SecretAccessKey>s3cret</SecretAccessKey> <Expiration>2015-08-30T12:36:00Z</Expiration>\
            <AccessKeyId>ASIA1</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>";
        let keys = of_xml(answer).unwrap();
        assert_eq!((keys.access_key_id.as_str(), keys.expires), ("ASIA1", Some(1_440_938_160)));
        assert_eq!(*keys.session_token.unwrap(), "t0k/en=");
        let why = of_xml(&answer.replace("AccessKeyId", "Other")).unwrap_err();
        assert_eq!(why, "its answer has no AccessKeyId");
        assert!(of_xml("<SessionToken>").is_err());
    }
}

//! Keys of the role of an EC2 instance, from its metadata service: version 2, which wants a session token first.

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use zeroize::Zeroizing;

use super::credentials::{AwsCredentials, brief};
use super::surroundings::{Environment, LONGEST_ANSWER, REQUEST_TIME, status};
use crate::http_client::address::WebAddress;
use crate::http_client::ask::{WebAnswer, WebQuestion};

/// The metadata service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Where it is.
    pub address: WebAddress,
}

impl Metadata {
    /// The service that the environment names, or the usual one; `None`: it must not be asked.
    ///
    /// # Errors
    /// If what is named is no address.
    pub fn of_environment(environment: &Environment) -> Result<Option<Metadata>, String> {
        const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
        let is =
            |name: &str, wanted: &str| environment(name).is_some_and(|it| it.eq_ignore_ascii_case(wanted));
        if is("AWS_EC2_METADATA_DISABLED", "true") {
            return Ok(None);
        }
        let usual = match is("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6") {
            true => "http://[fd00:ec2::254]",
            false => "http://169.254.169.254",
        };
        let text = environment(ENDPOINT).unwrap_or_else(|| usual.to_owned());
        let address = WebAddress::parse(&text).filter(|address| !address.is_encrypted);
        address.map(|address| Some(Metadata { address })).ok_or_else(|| format!("{ENDPOINT} is no address"))
    }

    async fn ask(&self, path: &str, token: &str) -> Result<WebAnswer, String> {
        let headers = [("x-aws-ec2-metadata-token", token)];
        let path = format!("{}{ROLES}{path}", self.address.path);
        let address = &self.address;
        let question =
            WebQuestion { method: Method::GET, address, path: &path, headers: &headers, body: Bytes::new() };
        question.ask(None, REQUEST_TIME, LONGEST_ANSWER).await
    }
}

/// The keys that the service hands out.
pub(super) async fn fetch(metadata: &Metadata) -> Result<AwsCredentials, String> {
    let token = session_token(metadata).await?;
    let roles = metadata.ask("", &token).await?;
    if roles.status == StatusCode::NOT_FOUND {
        return Err("the instance has no role".to_owned());
    }
    status(&roles)?;
    let roles = String::from_utf8_lossy(&roles.body).into_owned();
    let role = roles.lines().next().unwrap_or_default().trim();
    let fits = |it: char| it.is_ascii_alphanumeric() || "+=,.@_-".contains(it);
    if role.is_empty() || !role.chars().all(fits) {
        return Err(format!("it names a role that is none: {:?}", brief(role)));
    }
    let keys = metadata.ask(role, &token).await?;
    status(&keys)?;
    AwsCredentials::of_json(&keys.body)
}

async fn session_token(metadata: &Metadata) -> Result<Zeroizing<String>, String> {
    let path = format!("{}/latest/api/token", metadata.address.path);
    let question = WebQuestion {
        method: Method::PUT,
        address: &metadata.address,
        path: &path,
        // It is used at once.
        headers: &[("x-aws-ec2-metadata-token-ttl-seconds", "60")],
        body: Bytes::new(),
    };
    let answer = question.ask(None, REQUEST_TIME, LONGEST_ANSWER).await?;
    status(&answer)?;
    let text = String::from_utf8(answer.body.to_vec()).map_err(|_| "its session token is none")?;
    Ok(Zeroizing::new(text.trim().to_owned()))
}

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

//! Keys of a task of ECS, or of a pod with EKS Pod Identity: an HTTP service beside the container hands them out.

use std::net::IpAddr;

use hyper::Method;
use hyper::body::Bytes;
use zeroize::Zeroizing;

use super::credentials::AwsCredentials;
use super::surroundings::{Environment, LONGEST_ANSWER, REQUEST_TIME, https, small_file, status};
use crate::http_client::address::WebAddress;
use crate::http_client::ask::WebQuestion;

/// The address that the environment names; `None`: it names none.
pub(super) fn address(environment: &Environment) -> Option<Result<WebAddress, String>> {
    const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    if let Some(path) = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        let address = WebAddress::parse(&format!("http://{ECS}{path}"));
        let wrong = || "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is no path".to_owned();
        return Some(address.filter(|it| it.authority == ECS).ok_or_else(wrong));
    }
    let text = environment(FULL)?;
    let Some(address) = WebAddress::parse(&text) else { return Some(Err(format!("{FULL} is no address"))) };
    if !address.is_encrypted && !address.is_here() && !is_of_aws(&address) {
        let why = "without https it must be this machine, or the service of ECS or EKS";
        return Some(Err(format!("{FULL} is {text}: {why}")));
    }
    Some(Ok(address))
}

/// Whether it is the service of ECS or EKS, which is on the same machine.
fn is_of_aws(address: &WebAddress) -> bool {
    let Ok(address) = address.host.parse::<IpAddr>() else { return false };
    [ECS, "169.254.170.23", "fd00:ec2::23"].iter().any(|known| known.parse() == Ok(address))
}

/// The address of the service of ECS.
const ECS: &str = "169.254.170.2";

/// The keys that the service hands out.
pub(super) async fn fetch(address: &WebAddress, environment: &Environment) -> Result<AwsCredentials, String> {
    // EKS exchanges the token in the file, so it is read each time.
    let token = match environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Some(small_file(&path)?),
        None => environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Zeroizing::new),
    };
    let headers: Vec<(&str, &str)> = token.iter().map(|token| ("authorization", token.trim())).collect();
    let path = if address.path.is_empty() { "/" } else { &address.path };
    let question = WebQuestion { method: Method::GET, address, path, headers: &headers, body: Bytes::new() };
    let tls = https(address, environment)?;
    let answer = question.ask(tls.as_ref(), REQUEST_TIME, LONGEST_ANSWER).await?;
    status(&answer)?;
    AwsCredentials::of_json(&answer.body)
}

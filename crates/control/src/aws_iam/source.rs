//! Where the keys come from: the first of the usual places of AWS that is there, in the order of its SDKs.

use super::container;
use super::credentials::AwsCredentials;
use super::instance::{self, Metadata};
use super::profile::{self, OfProfile};
use super::surroundings::Environment;
use super::web_identity::WebIdentity;
use crate::http_client::address::WebAddress;

/// The place that keys come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    Environment,
    /// A profile of the shared files.
    Profile(OfProfile),
    /// A token that names a role, exchanged at STS.
    WebIdentity(WebIdentity),
    /// The service for the containers of ECS, or the agent of EKS.
    Container(WebAddress),
    /// The metadata service of an EC2 instance.
    Instance(Metadata),
}

impl Source {
    /// The place that there is.
    ///
    /// # Errors
    /// What is wrong with the one that the environment names, or that there is none.
    pub fn find(environment: &Environment) -> Result<Source, String> {
        let has = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
        if has("AWS_ACCESS_KEY_ID") && has("AWS_SECRET_ACCESS_KEY") {
            return Ok(Source::Environment);
        }
        if let Some(found) = profile::find(environment)? {
            return Ok(Source::Profile(found));
        }
        if let Some(found) = WebIdentity::of_environment(environment) {
            return found.map(Source::WebIdentity);
        }
        if let Some(found) = container::address(environment) {
            return found.map(Source::Container);
        }
        match Metadata::of_environment(environment)? {
            Some(found) => Ok(Source::Instance(found)),
            None => Err(NOWHERE.to_owned()),
        }
    }

    /// The keys as they are there now.
    ///
    /// # Errors
    /// In words, with the name of the place and without any secret.
    pub async fn fetch(&self, environment: &Environment) -> Result<AwsCredentials, String> {
        let value = |name: &str| environment(name).unwrap_or_default();
        let fetched = match self {
            Source::Environment => {
                let session = Some(value("AWS_SESSION_TOKEN")).filter(|token| !token.is_empty());
                let (id, secret) = (value("AWS_ACCESS_KEY_ID"), value("AWS_SECRET_ACCESS_KEY"));
                AwsCredentials::new(&id, &secret, session.as_deref())
            }
            Source::Profile(OfProfile { keys: Ok(keys), .. }) => Ok(keys.clone()),
            Source::Profile(OfProfile { keys: Err(identity), .. }) | Source::WebIdentity(identity) => {
                identity.fetch(environment).await
            }
            Source::Container(address) => container::fetch(address, environment).await,
            Source::Instance(metadata) => instance::fetch(metadata).await,
        };
        // The last place is tried where none is set up.
        let note = match self {
            Source::Instance(_) => " (no other place of AWS credentials is set up)",
            _ => "",
        };
        fetched.map_err(|reason| format!("{self}: {reason}{note}"))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Environment => f.write_str("environment"),
            Source::Profile(found) => write!(f, "profile {}", found.name),
            Source::WebIdentity(identity) => write!(f, "web identity at {}", identity.endpoint),
            Source::Container(address) => write!(f, "container service {address}"),
            Source::Instance(metadata) => write!(f, "instance metadata service {}", metadata.address),
        }
    }
}

const NOWHERE: &str = "there are no AWS credentials: not in the environment, in no profile, no role of a container, and \
                       AWS_EC2_METADATA_DISABLED is true";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws_iam::of_test::environment;

    fn found(variables: &[(&str, &str)]) -> String {
        let all = [variables, &[("HOME", "/nowhere")]].concat();
        Source::find(&environment(&all)).map_or_else(|reason| format!("! {reason}"), |it| it.to_string())
    }

    #[test]
    fn the_first_place_that_is_there_counts() {
        let keys = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "B")];
        let role = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/a")];
        let ecs = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/1")];
        let off = [("AWS_EC2_METADATA_DISABLED", "true")];
        assert_eq!(found(&[&keys[..], &role, &ecs].concat()), "environment");
        assert_eq!(
            found(&[&role[..], &ecs, &keys[..1]].concat()),
            "web identity at https://sts.amazonaws.com"
        );
        let in_region = [&role[..], &[("AWS_REGION", "eu-west-1")]].concat();
        assert_eq!(found(&in_region), "web identity at https://sts.eu-west-1.amazonaws.com");
        let in_china = [&role[..], &[("AWS_DEFAULT_REGION", "cn-north-1")]].concat();
        assert_eq!(found(&in_china), "web identity at https://sts.cn-north-1.amazonaws.com.cn");
        assert_eq!(found(&ecs), "container service http://169.254.170.2/v2/credentials/1");
        assert_eq!(found(&[]), "instance metadata service http://169.254.169.254");
        let v6 = [("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6")];
        assert_eq!(found(&v6), "instance metadata service http://[fd00:ec2::254]");
        assert!(found(&off).starts_with("! there are no AWS credentials"));
    }

    #[test]
    fn what_is_named_and_cannot_be_used_is_not_passed_over() {
        for (variables, why) in [
            (
                &[("AWS_PROFILE", "app")][..],
                "no profile app in /nowhere/.aws/credentials or /nowhere/.aws/config",
            ),
            (
                &[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")],
                "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not",
            ),
            (
                &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/")],
                "AWS_CONTAINER_CREDENTIALS_FULL_URI is http://example.org/: without https it must be this machine, or the \
                 service of ECS or EKS",
            ),
            (
                &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "x")],
                "AWS_CONTAINER_CREDENTIALS_FULL_URI is no address",
            ),
            (
                &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "x")],
                "AWS_EC2_METADATA_SERVICE_ENDPOINT is no address",
            ),
        ] {
            assert_eq!(found(variables), format!("! {why}"));
        }
    }
}

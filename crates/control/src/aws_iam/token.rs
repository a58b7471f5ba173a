//! The token of a login to RDS or Aurora: a request `connect` to the service `rds-db` that the server itself verifies.

use std::env;

use narrows_proxy::snapshot::is_region;
use zeroize::Zeroizing;

use super::credentials::AwsCredentials;
use super::sign::Presigned;

/// For how many seconds a server accepts a token: AWS's limit.
pub const TOKEN_LIFETIME_S: u32 = 900;

/// The token of `username` for `host:port`, signed `at` so many seconds after 1970.
pub(super) fn token(
    (host, port): (&str, u16),
    username: &str,
    region: &str,
    credentials: &AwsCredentials,
    at: i64,
) -> Zeroizing<String> {
    let request = Presigned {
        method: "GET",
        host: &format!("{}:{port}", host.to_ascii_lowercase()),
        path: "/",
        query: &[("Action", "connect"), ("DBUser", username)],
        region,
        service: "rds-db",
        at,
        expires_s: TOKEN_LIFETIME_S,
    };
    request.url(credentials)
}

/// The region of a login: that of an RDS endpoint, otherwise the one that is `named`, otherwise that of the environment.
///
/// # Errors
/// What is missing, in words.
pub fn region(host: &str, named: Option<&str>) -> Result<String, String> {
    let known = region_of_host(host).or(named).map(str::to_owned).or_else(of_environment);
    known.ok_or_else(|| {
        format!(
            "no AWS region is known for {host}: it is no RDS endpoint, aws_iam names none, and neither AWS_REGION nor \
             AWS_DEFAULT_REGION is set"
        )
    })
}

/// The region of the environment.
fn of_environment() -> Option<String> {
    let names = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter();
    names.filter_map(|name| env::var(name).ok()).find(|region| is_region(region))
}

/// The region in the name of an RDS endpoint: `NAME.ID.REGION.rds.amazonaws.com`, or the same in China.
fn region_of_host(host: &str) -> Option<&str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if let Some(region) = region_behind(host) {
        return Some(region);
    }
    let ending = |end: &str| {
        let at = host.len().checked_sub(end.len())?;
        let (start, found) = (host.get(..at)?, host.get(at..)?);
        found.eq_ignore_ascii_case(end).then_some(start)
    };
    let start = ending(".rds.amazonaws.com").or_else(|| ending(".rds.amazonaws.com.cn"))?;
    let (_, region) = start.rsplit_once('.')?;
    is_region(region).then_some(region)
}

/// The same of an endpoint whose region follows `rds`, as most have in China: `NAME.ID.rds.REGION.amazonaws.com.cn`.
fn region_behind(host: &str) -> Option<&str> {
    let (start, region) = host.strip_suffix(".amazonaws.com.cn")?.rsplit_once('.')?;
    (start.ends_with(".rds") && is_region(region)).then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws_iam::of_test::credentials;

    const HOST: &str = "prod-instance.us-east-1.rds.amazonaws.com";

    /// The expected tokens are those of the tests of AWS SDK for Rust (`peccy`), botocore (`someusername`; its order of parameters
    /// is another one), and paws (with a session token).
    #[test]
    fn tokens_are_those_of_the_sdks() {
        let of_rust =
            token((HOST, 3306), "peccy", "us-east-1", &credentials("akid", "secret", None), 1_724_709_600);
        assert_eq!(
            *of_rust,
            "prod-instance.us-east-1.rds.amazonaws.com:3306/?Action=connect&DBUser=peccy&X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=akid%2F20240826%2Fus-east-1%2Frds-db%2Faws4_request&X-Amz-Date=20240826T220000Z\
             &X-Amz-Expires=900&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=dd0cba843009474347af724090233265628ace491ea17ce3eb3da098b983ad89"
        );
        let of_botocore = token(
            (HOST, 3306),
            "someusername",
            "us-east-1",
            &credentials("akid", "skid", None),
            1_478_540_373,
        );
        assert!(of_botocore.ends_with("=d1138cdbc0ca63eec012ec0fc6c2267e03642168f5884a7795320d4c18374c61"));
        let keys = credentials("AKIA", "SECRET", Some("SESSION"));
        let of_paws = token((HOST, 3306), "mysqlUser", "us-west-2", &keys, 1_735_689_601);
        assert_eq!(
            *of_paws,
            "prod-instance.us-east-1.rds.amazonaws.com:3306/?Action=connect&DBUser=mysqlUser\
             &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F20250101%2Fus-west-2%2Frds-db%2Faws4_request\
             &X-Amz-Date=20250101T000001Z&X-Amz-Expires=900&X-Amz-Security-Token=SESSION&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=4e4ce10c7b3710decae757df60ba2519348dcb4db802f15646dce1bf5e17c3ed"
        );
    }

    #[test]
    fn the_region_is_that_of_the_endpoint_before_the_one_that_is_named() {
        for (host, expected) in [
            ("db.c1.eu-central-1.rds.amazonaws.com", Some("eu-central-1")),
            ("cluster.cluster-ro-c1.us-gov-west-1.rds.amazonaws.com", Some("us-gov-west-1")),
            ("DB.C1.eu-west-1.RDS.amazonaws.com", Some("eu-west-1")),
            ("db.c1.cn-north-1.rds.amazonaws.com.cn", Some("cn-north-1")),
            ("db.c1.rds.cn-northwest-1.amazonaws.com.cn", Some("cn-northwest-1")),
            ("db.c1.eu-west-1.rds.amazonaws.com.", Some("eu-west-1")),
            ("rds.amazonaws.com", None),
            ("eu-west-1.rds.amazonaws.com", None),
            ("db.eu-west-1.rds.amazonaws.com.example.org", None),
            ("db.example.org", None),
            ("10.0.0.1", None),
        ] {
            assert_eq!(region_of_host(host), expected, "{host}");
        }
        let named = region("db.c1.eu-west-1.rds.amazonaws.com", Some("us-east-1"));
        assert_eq!(named.as_deref(), Ok("eu-west-1"));
        assert_eq!(region("db.example.org", Some("us-east-1")).as_deref(), Ok("us-east-1"));
    }
}

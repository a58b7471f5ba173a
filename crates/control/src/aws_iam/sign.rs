//! Signature Version 4 of AWS, for requests whose signature is in the query: the tokens of RDS are such requests.
//!
//! The headers are only the host, and the body is empty. The suite of AWS has more, which nothing here sends.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use zeroize::Zeroizing;

use super::credentials::AwsCredentials;
use crate::calendar;

/// What is signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Presigned<'a> {
    /// Such as `GET`.
    pub method: &'static str,
    /// The host as its header has it, with the port if that is not the one of the scheme.
    pub host: &'a str,
    /// The path, encoded.
    pub path: &'a str,
    /// The query: names and values, not encoded.
    pub query: &'a [(&'a str, &'a str)],
    /// The region of the service.
    pub region: &'a str,
    /// The service.
    pub service: &'a str,
    /// Seconds since 1970.
    pub at: i64,
    /// For how many seconds it is valid.
    pub expires_s: u32,
}

impl Presigned<'_> {
    /// The host, the path, and the query with the signature: a URL without its scheme.
    pub fn url(&self, credentials: &AwsCredentials) -> Zeroizing<String> {
        let query = self.signed_query(credentials);
        let signature = self.signature(credentials, &query);
        let Presigned { host, path, .. } = self;
        Zeroizing::new(format!("{host}{path}?{}&X-Amz-Signature={signature}", query.as_str()))
    }

    /// All parameters that are signed, in their order.
    fn signed_query(&self, credentials: &AwsCredentials) -> Zeroizing<String> {
        let credential = format!("{}/{}", credentials.access_key_id, self.scope());
        let (moment, expires) = (moment(self.at), self.expires_s.to_string());
        let of_signature = [
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &moment),
            ("X-Amz-Expires", &expires),
            ("X-Amz-SignedHeaders", "host"),
        ];
        let session =
            credentials.session_token.as_ref().map(|token| ("X-Amz-Security-Token", token.as_str()));
        let all = self.query.iter().copied().chain(of_signature).chain(session);
        let mut parameters: Vec<_> = all.map(|(name, value)| (encoded(name), encoded(value))).collect();
        parameters.sort_by(|(one, a), (two, b)| (one.as_str(), a.as_str()).cmp(&(two.as_str(), b.as_str())));
        let mut query = Zeroizing::new(String::new());
        for (name, value) in &parameters {
            let and = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{and}{}={}", name.as_str(), value.as_str()));
        }
        query
    }

    fn signature(&self, credentials: &AwsCredentials, query: &str) -> String {
        let Presigned { method, host, path, .. } = self;
        let empty = hex(digest(&SHA256, b"").as_ref());
        let canonical = Zeroizing::new(format!("{method}\n{path}\n{query}\nhost:{host}\n\nhost\n{empty}"));
        let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
        let text = format!("{ALGORITHM}\n{}\n{}\n{hash}", moment(self.at), self.scope());
        let first = Zeroizing::new(format!("AWS4{}", credentials.secret_access_key.as_str()));
        let day = moment(self.at);
        let parts = [day.get(..8).unwrap_or_default(), self.region, self.service, "aws4_request"];
        let mut key = Zeroizing::new(first.as_bytes().to_vec());
        for part in parts {
            key = Zeroizing::new(sign(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec());
        }
        hex(sign(&Key::new(HMAC_SHA256, &key), text.as_bytes()).as_ref())
    }

    fn scope(&self) -> String {
        let moment = moment(self.at);
        let day = moment.get(..8).unwrap_or_default();
        format!("{day}/{}/{}/aws4_request", self.region, self.service)
    }
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// `YYYYMMDDThhmmssZ` of a number of seconds since 1970.
fn moment(at: i64) -> String {
    let digits: String = calendar::date_and_time(at).chars().filter(|it| !matches!(it, '-' | ':')).collect();
    format!("{}Z", digits.replace(' ', "T"))
}

/// A text for a query: all bytes but the unreserved ones of RFC 3986 are encoded.
pub(super) fn encoded(text: &str) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new(String::with_capacity(text.len() * 3));
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws_iam::of_test::credentials;

    /// The requests of AWS's signing test suite that have no header but the host and no path to be normalized, with the signatures of
    /// its files `query-signature.txt`.
    #[test]
    fn the_suite_of_aws_has_the_same_signatures() {
        const UNRESERVED: &str = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        const SESSION: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let unreserved = format!("/{UNRESERVED}");
        let in_order: &[(&str, &str)] = &[("Param-3", "Value3"), ("Param", "Value2"), ("ሴ", "Value1")];
        let of_keys: &[(&str, &str)] = &[("Param2", "value2"), ("Param1", "value1")];
        let one: &[(&str, &str)] = &[("Param1", "value1")];
        let same: &[(&str, &str)] = &[(UNRESERVED, UNRESERVED)];
        #[rustfmt::skip]
        let cases = [
            ("GET", "/", &[][..], None, "e93c787ed7f371d5c6b165c1b38ede9550f4dce4144713e844b25b7192d3865d"),
            ("GET", "/", &[], Some(SESSION), "7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c"),
            ("GET", "/", one, None, "49096700cbbaa5753443850f40df10f904fc2fdb544dc9512203cc77c471a9de"),
            ("GET", "/", in_order, None, "c5f1848ceec943ac2ca68ee720460c23aaae30a2300586597ada94c4a65e4787"),
            ("GET", "/", of_keys, None, "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5"),
            ("GET", "/", same, None, "8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf"),
            ("GET", "/", &[("ሴ", "bar")], None, "0bdd809b1519ac4f0c1dc3540e2cc46bd0c7f778eda408b2ebf3b913d21ff600"),
            ("GET", &*unreserved, &[], None, "95968482db1b9e0fadef6efc1bd24689f77c77d9ef56919c96a28cc92e0d6005"),
            ("GET", "/%E1%88%B4", &[], None, "10eae3f14a260bd3911cc6d008d3c576d143b05b62f09782a7a4b37f52178e44"),
            ("GET", "/example%20space/", &[], None, "7a1f416954786484c9824d93c1f26ef64acb9b1b6c9154d08c9f07d0e394abf6"),
            ("POST", "/", &[], None, "2ce6e6d2e0cf2f9d1b55fafec88cd20574c31dc2e7631979f71ba2310083e95b"),
            ("POST", "/", one, None, "a9ef26247f293bffe40eeff86a0480ba8c14d31503b2e0c3399e3a16bf1a3682"),
        ];
        for (method, path, query, session, expected) in cases {
            let request = Presigned {
                method,
                path,
                query,
                host: "example.amazonaws.com",
                region: "us-east-1",
                service: "service",
                at: 1_440_938_160,
                expires_s: 3_600,
            };
            let of_suite = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", session);
            let url = request.url(&of_suite);
            assert!(
                url.ends_with(&format!("&X-Amz-Signature={expected}")),
                "{method} {path} {query:?}: {url:?}"
            );
        }
    }

    #[test]
    fn moments_are_written_as_aws_has_them() {
        assert_eq!(moment(1_440_938_160), "20150830T123600Z");
        assert_eq!(*encoded("a/b+c=ä ~"), "a%2Fb%2Bc%3D%C3%A4%20~");
    }
}

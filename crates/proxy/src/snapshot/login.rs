//! The settings for logins in `mysql_users.attributes`.
//!
//! | key | meaning |
//! |---|---|
//! | `spiffe_id` | the client's certificate must have this URI among its names; after a `!`, one that this expression matches |
//! | `subject` | the client's certificate must have this subject, written as in MySQL's `REQUIRE SUBJECT` |
//! | `networks` | the addresses from which clients may come, as in `["10.0.0.0/8", "localhost"]`; `localhost` is the Unix socket |
//! | `failed_login_attempts` | after so many wrong passwords in a row from one address, it is locked out for a time |
//! | `password_lock_time_s` | for how many seconds, the first time; each time twice as long, up to an hour |
//! | `max_connection_age_s` | how many seconds after its login a client is disconnected, once it is in no transaction |
//! | `token` | the tokens that clients may show in the place of a password, as [`TokenDemands`] has them |
//! | `token_only` | whether they must, although the account has a password, which is for servers then |
//! | `additional_password` | a second valid password, while applications change from one to the other |
//!
//! A certificate is required in addition to the password; an account that should only need a certificate has an empty
//! password.

use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::rows::{JsonColumn, Networks, shown};
use crate::tokens::TokenDemands;

/// The requirements for an account's clients besides the password.
#[derive(Debug, Default, Clone)]
pub struct LoginAttributes {
    demands: Vec<Demand>,
    /// The second password, in any form in which the first one can be stored.
    pub additional_password: Option<String>,
    /// The addresses from which clients may come; `None`: any.
    networks: Option<Networks>,
    /// When an address is locked out; `None`: never.
    pub lockout: Option<Lockout>,
    /// How long after its login a client is disconnected; `None`: never.
    pub max_age: Option<Duration>,
    /// The tokens that clients may show; `None`: none.
    pub tokens: Option<TokenDemands>,
}

/// When an address that sends wrong passwords is locked out, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lockout {
    /// After so many wrong passwords in a row.
    pub attempts: u32,
    /// For so long, the first time.
    pub time: Duration,
}

/// The second password. A value that is not text is ignored, and so is an empty one, which would allow anyone to log
/// in.
fn additional_password(value: &Value) -> Option<&str> {
    value.as_str().filter(|password| !password.is_empty())
}

/// The problem of an `additional_password`, without showing it.
pub(crate) fn flaws_of_password(value: &Value) -> Vec<String> {
    let flaw = || "has no effect: a password is a text that is not empty".to_owned();
    additional_password(value).is_none().then(flaw).into_iter().collect()
}

/// The networks of an account; `None` if something of the value is none.
fn networks(value: &Value) -> Option<Networks> {
    let mut networks = Networks::default();
    let items = value.as_array()?;
    items.iter().all(|item| item.as_str().is_some_and(|item| networks.add(item))).then_some(networks)
}

/// The problem of `networks`.
pub(crate) fn flaws_of_networks(value: &Value) -> Vec<String> {
    let flaw = || {
        let value = shown(value);
        format!(
            "is {value}: expected a list of addresses, with or without /bits, and localhost; nobody can log in"
        )
    };
    networks(value).is_none().then(flaw).into_iter().collect()
}

/// A number of `failed_login_attempts`, or of seconds.
fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// The problem of a number.
pub(crate) fn flaws_of_number(value: &Value) -> Vec<String> {
    let flaw = || format!("is {}: expected a number from 0 to {}; it is taken as 0", shown(value), u32::MAX);
    number(value).is_none().then(flaw).into_iter().collect()
}

/// The problem of a `spiffe_id`.
pub(crate) fn flaws_of_certificate_id(value: &Value) -> Vec<String> {
    Demand::of_uri(value).flaws(value, "a URI, or `!` and an expression")
}

/// The problem of a `subject`.
pub(crate) fn flaws_of_subject(value: &Value) -> Vec<String> {
    Demand::of_subject(value).flaws(value, "the form /C=SE/CN=app")
}

/// What a certificate must contain.
#[derive(Debug, Clone)]
enum Demand {
    Uri(String),
    UriLike(Regex),
    Subject(Vec<(String, String)>),
    /// An invalid value, which no certificate satisfies.
    Unreadable,
}

impl LoginAttributes {
    /// Those of a row; keys that are not about logins are ignored.
    pub fn of(attributes: &JsonColumn) -> LoginAttributes {
        let uri = attributes.get("spiffe_id").map(Demand::of_uri);
        let subject = attributes.get("subject").map(Demand::of_subject);
        LoginAttributes {
            demands: uri.into_iter().chain(subject).collect(),
            additional_password: attributes
                .get("additional_password")
                .and_then(additional_password)
                .map(str::to_owned),
            // Where nobody can say what was meant, nobody may come from.
            networks: attributes.get("networks").map(|value| networks(value).unwrap_or_default()),
            lockout: lockout(attributes),
            max_age: seconds(attributes, "max_connection_age_s"),
            tokens: match attributes.is_unreadable() {
                // It may have been meant as one: then an empty password must not let anybody in.
                true => Some(TokenDemands::default()),
                false => attributes.value().and_then(TokenDemands::parse),
            },
        }
    }

    /// Whether clients may come from that address; `localhost` is a Unix socket.
    pub fn may_come_from(&self, address: &str) -> bool {
        self.networks.as_ref().is_none_or(|networks| networks.contain(address))
    }

    /// Whether a certificate is required.
    pub fn ask_for_certificate(&self) -> bool {
        !self.demands.is_empty()
    }

    /// Whether a certificate, which TLS has verified, satisfies the requirements of this account.
    pub fn fit(&self, certificate: Option<&[u8]>) -> bool {
        if self.demands.is_empty() {
            return true;
        }
        let Some((_, certificate)) = certificate.and_then(|der| X509Certificate::from_der(der).ok()) else {
            return false;
        };
        self.demands.iter().all(|demand| demand.holds(&certificate))
    }
}

fn lockout(attributes: &JsonColumn) -> Option<Lockout> {
    let attempts =
        attributes.get("failed_login_attempts").and_then(number).filter(|attempts| *attempts > 0)?;
    Some(Lockout { attempts, time: seconds(attributes, "password_lock_time_s").unwrap_or(LOCK_TIME) })
}

/// A time that is not zero.
fn seconds(attributes: &JsonColumn, key: &str) -> Option<Duration> {
    let seconds = attributes.get(key).and_then(number).filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds.into()))
}

/// How long an address is locked out the first time, if `password_lock_time_s` does not say it.
const LOCK_TIME: Duration = Duration::from_secs(60);

impl Demand {
    fn of_uri(value: &Value) -> Demand {
        let id = value.as_str().unwrap_or_default();
        match id.strip_prefix('!') {
            Some(expression) => Regex::new(expression).map_or(Demand::Unreadable, Demand::UriLike),
            None if id.is_empty() => Demand::Unreadable,
            None => Demand::Uri(id.to_owned()),
        }
    }

    fn of_subject(value: &Value) -> Demand {
        value.as_str().and_then(parts).map_or(Demand::Unreadable, Demand::Subject)
    }

    /// The problem of the value that it was read from; `expected` describes a valid one.
    fn flaws(&self, value: &Value, expected: &str) -> Vec<String> {
        let flaw = || format!("is {}: expected {expected}; nobody can log in", shown(value));
        matches!(self, Demand::Unreadable).then(flaw).into_iter().collect()
    }

    fn holds(&self, certificate: &X509Certificate<'_>) -> bool {
        let any_uri = |fits: &dyn Fn(&str) -> bool| {
            let names = certificate.subject_alternative_name().ok().flatten();
            names.is_some_and(|names| {
                let uri = |name: &GeneralName<'_>| matches!(name, GeneralName::URI(uri) if fits(uri));
                names.value.general_names.iter().any(uri)
            })
        };
        match self {
            Demand::Uri(id) => any_uri(&|uri| uri == id),
            Demand::UriLike(expression) => any_uri(&|uri| expression.is_match(uri)),
            Demand::Subject(wanted) => subject_of(certificate) == *wanted,
            Demand::Unreadable => false,
        }
    }
}

/// The parts of a subject such as `/C=SE/O=Example/CN=app`.
fn parts(subject: &str) -> Option<Vec<(String, String)>> {
    let part = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    subject.strip_prefix('/')?.split('/').map(part).collect()
}

fn subject_of(certificate: &X509Certificate<'_>) -> Vec<(String, String)> {
    let registry = x509_parser::objects::oid_registry();
    let part = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        let name = x509_parser::objects::oid2abbrev(attribute.attr_type(), registry)
            .map_or_else(|_| attribute.attr_type().to_id_string(), str::to_owned);
        (name, attribute.as_str().unwrap_or_default().to_owned())
    };
    certificate.subject().iter_attributes().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(uri: &str) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CountryName, "SE");
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "app");
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn an_account_without_demands_takes_any_client() {
        for json in ["", "{}", r#"{"default-transaction_isolation":"READ COMMITTED"}"#] {
            let attributes = LoginAttributes::of(&json.into());
            assert!(attributes.fit(None) && !attributes.ask_for_certificate());
        }
    }

    #[test]
    fn a_certificate_fits_by_uri_expression_and_subject() {
        let app = certificate("spiffe://example/app");
        for (json, fits) in [
            (r#"{"spiffe_id":"spiffe://example/app"}"#, true),
            (r#"{"spiffe_id":"spiffe://example/ap"}"#, false),
            (r#"{"spiffe_id":"!^spiffe://example/a.p$"}"#, true),
            (r#"{"spiffe_id":"!^spiffe://other/"}"#, false),
            (r#"{"spiffe_id":"!("}"#, false),
            (r#"{"spiffe_id":""}"#, false),
            (r#"{"spiffe_id":7}"#, false),
            (r#"{"subject":"/C=SE/CN=app"}"#, true),
            (r#"{"subject":"/CN=app"}"#, false),
            (r#"{"subject":"CN=app"}"#, false),
            (r#"{"subject":"/C=SE/CN=app","spiffe_id":"spiffe://other/app"}"#, false),
        ] {
            let attributes = LoginAttributes::of(&json.into());
            assert_eq!(attributes.fit(Some(&app)), fits, "{json}");
            assert!(!attributes.fit(None), "{json}");
            assert!(!attributes.fit(Some(b"no certificate")), "{json}");
        }
    }

    #[test]
    fn addresses_are_those_of_the_networks() {
        let of = |json: &str, address: &str| LoginAttributes::of(&json.into()).may_come_from(address);
        let both = r#"{"networks":["10.0.0.0/8","localhost"]}"#;
        assert!(of("", "1.2.3.4") && of(both, "10.1.2.3") && of(both, "localhost"));
        assert!(!of(both, "11.1.2.3") && !of(both, "127.0.0.1"));
        for unreadable in [r#"{"networks":"10.0.0.0/8"}"#, r#"{"networks":["ten"]}"#, r#"{"networks":[]}"#] {
            assert!(!of(unreadable, "10.1.2.3"), "{unreadable}");
        }
    }

    #[test]
    fn a_second_password_is_read() {
        let attributes = LoginAttributes::of(&r#"{"additional_password":"*14E6"}"#.into());
        assert_eq!(attributes.additional_password.as_deref(), Some("*14E6"));
        for json in ["", "{}", "[]", "7"] {
            assert_eq!(LoginAttributes::of(&json.into()).additional_password, None, "{json}");
        }
    }

    #[test]
    fn what_is_no_password_lets_nobody_in() {
        for value in ["\"\"", "null", "false", "true", "0", "17", "[]", "[\"a\"]", "{}"] {
            let json = format!("{{\"additional_password\":{value}}}");
            assert_eq!(LoginAttributes::of(&json.as_str().into()).additional_password, None, "{json}");
        }
    }
}

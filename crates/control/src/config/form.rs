//! The required forms of texts, and how scalars are read; shared by columns and variables.

use std::net::{IpAddr, SocketAddr};

use narrows_proxy::rows::convert::items;
use narrows_proxy::rows::{Network, Share};
use narrows_proxy::rules::{ExpressionError, check_expression};

use super::charset;
use super::diagnostic::{Problem, Severity};
use super::nearest::nearest;
use super::tree::NodeValue;
use crate::http_client::address::WebAddress;
use crate::traces::endpoint::Endpoint;

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Anything.
    Any,
    /// Any non-empty text.
    NotEmpty,
    /// One of these, case-insensitive; stored as written here.
    OneOf(&'static [&'static str]),
    /// Some of these, separated by commas, case-insensitive.
    ListOf(&'static [&'static str]),
    /// A character set that a session can have.
    Charset,
    /// A collation.
    Collation,
    /// A regular expression.
    Expression,
    /// JSON, or nothing.
    Json,
    /// A digest: `0x` and up to 16 hex digits.
    Digest,
    /// A password in clear text or one of the two stored forms.
    Password,
    /// A password in clear text, or a reference to one.
    Secret,
    /// Listening addresses separated by semicolons.
    Addresses,
    /// IP addresses separated by semicolons.
    IpAddresses,
    /// `user:password` pairs separated by semicolons.
    Credentials,
    /// `schema.table`, or nothing.
    TableName,
    /// Nothing, `*`, or networks as `address/bits` separated by commas.
    Networks,
    /// A number between 0 and 1.
    Share,
    /// The address of a collector of traces, or nothing.
    Collector,
    /// Addresses of HTTP servers, separated by commas.
    WebAddresses,
    /// The name of a Narrows in its fleet.
    NodeName,
    /// `host:port`.
    HostAndPort,
}

impl Form {
    /// The expected form, for error messages.
    pub fn describe(self) -> String {
        match self {
            Form::Any => "text".to_owned(),
            Form::NotEmpty => "non-empty text".to_owned(),
            Form::OneOf(names) => format!("one of {}", names.join(", ")),
            Form::ListOf(names) => format!("some of {}, separated by commas", names.join(", ")),
            Form::Charset => "a character set of MySQL or MariaDB that clients can use".to_owned(),
            Form::Collation => "a collation of MySQL or MariaDB".to_owned(),
            Form::Expression => "a regular expression".to_owned(),
            Form::Json => "JSON, or empty".to_owned(),
            Form::Digest => "a digest: 0x and 1 to 16 hex digits".to_owned(),
            Form::Password => {
                "a password, `*` and 40 hex digits, or `$A$`, 3 hex digits, `$` and 63 characters".to_owned()
            }
            Form::Secret => "text".to_owned(),
            Form::Addresses => "ip:port, [ipv6]:port or /path of a socket, separated by `;`".to_owned(),
            Form::IpAddresses => "IP addresses, separated by `;`".to_owned(),
            Form::Credentials => "user:password, neither of them empty, separated by `;`".to_owned(),
            Form::TableName => "schema.table, or empty".to_owned(),
            Form::Networks => "`*`, or address/bits, separated by commas".to_owned(),
            Form::Share => "a number between 0 and 1, such as 0.001".to_owned(),
            Form::WebAddresses => "http://host:port or https://host:port, a list or with commas between them".to_owned(),
            Form::NodeName => "letters, digits and any of . : _ -".to_owned(),
            Form::HostAndPort => "host:port or [ipv6]:port".to_owned(),
            Form::Collector => {
                "http://host:port or https://host:port, with or without a path, without user and query; or empty".to_owned()
            }
        }
    }

    /// Reads the value of `name`: returns the text to store, and remarks on it that are not errors.
    pub fn read(self, name: &str, value: &NodeValue) -> Result<(String, Vec<Problem>), Problem> {
        let wrong = |nearest| Problem::Value {
            name: name.to_owned(),
            expected: self.describe(),
            found: match self {
                // It contains passwords, and this text is logged.
                Form::Credentials | Form::Secret | Form::Collector | Form::WebAddresses
                    if text_of(value).is_some() =>
                {
                    "another text".to_owned()
                }
                // So may it: an account has its second password there.
                Form::Json => json_fault(value),
                _ => value.describe(),
            },
            nearest,
        };
        let text = text_of(value).ok_or_else(|| wrong(None))?;
        match self {
            Form::Any | Form::Secret => {}
            Form::OneOf(names) => {
                let listed = names.iter().find(|listed| listed.eq_ignore_ascii_case(&text));
                let kept = listed.ok_or_else(|| wrong(nearest(&text, names.iter().copied())))?;
                return Ok(((*kept).to_owned(), Vec::new()));
            }
            Form::Expression => {
                return match expression_problem(name, &text) {
                    Some(problem) => Err(problem),
                    None => Ok((text, Vec::new())),
                };
            }
            Form::Password => {
                let remarks = password_remark(name, &text).into_iter().collect();
                return Ok((text, remarks));
            }
            _ if !self.holds(&text) => return Err(wrong(None)),
            _ => {}
        }
        Ok((text, Vec::new()))
    }

    /// Whether `text` has this form.
    pub fn holds(self, text: &str) -> bool {
        match self {
            Form::Any | Form::Password | Form::Secret => true,
            Form::NotEmpty => !text.is_empty(),
            Form::OneOf(names) => names.iter().any(|name| name.eq_ignore_ascii_case(text)),
            Form::ListOf(names) => items(text, ',').all(|item| Form::OneOf(names).holds(item)),
            Form::Charset => charset::is_usable(text),
            Form::Collation => charset::collation(text).is_some(),
            Form::Expression => expression_problem("", text).is_none(),
            Form::Json => text.is_empty() || serde_json::from_str::<serde_json::Value>(text).is_ok(),
            Form::Digest => is_digest(text),
            Form::Addresses => items(text, ';').all(|item| ListenAddress::parse(item).is_some()),
            Form::IpAddresses => items(text, ';').all(|item| item.parse::<IpAddr>().is_ok()),
            Form::Credentials => {
                let is_account = |item: &str| {
                    item.split_once(':')
                        .is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
                };
                // Without any account, nobody could log in to change it again.
                items(text, ';').count() > 0 && items(text, ';').all(is_account)
            }
            Form::TableName => {
                let parts: Vec<&str> = text.split('.').collect();
                text.is_empty() || (parts.len() == 2 && parts.iter().all(|part| !part.is_empty()))
            }
            Form::Networks => text == "*" || items(text, ',').all(|item| Network::of(item).is_some()),
            Form::Share => Share::parse(text).is_some(),
            Form::WebAddresses => {
                let is_plain = |item: &str| WebAddress::parse(item).is_some_and(|it| it.path.is_empty());
                items(text, ',').count() > 0 && items(text, ',').all(is_plain)
            }
            Form::NodeName => {
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".:_-".contains(&byte);
                (1..=128).contains(&text.len()) && text.bytes().all(fits)
            }
            Form::HostAndPort => host_and_port(text).is_some(),
            Form::Collector => text.is_empty() || Endpoint::parse(text).is_some(),
        }
    }
}

/// The host and the port of `host:port` or `[ipv6]:port`; `None`: it is neither.
pub fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address,
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let is_host = |byte: u8| byte.is_ascii_graphic() && !b"[]/@".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_host)).then_some((host, port))
}

/// A scalar as text, as written.
pub fn text_of(value: &NodeValue) -> Option<String> {
    match value {
        NodeValue::Flag(flag) => Some(flag.to_string()),
        NodeValue::Integer(_, written) | NodeValue::Literal(written) => Some(written.clone()),
        NodeValue::Text(text) => Some(text.clone()),
        NodeValue::Group(_) | NodeValue::List(_) => None,
    }
}

/// A whole number, or a string that is one.
pub fn integer_of(value: &NodeValue) -> Option<i64> {
    match value {
        NodeValue::Integer(integer, _) => Some(*integer),
        NodeValue::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// true, false, 1 or 0, as a value or as a case-insensitive string.
pub fn flag_of(value: &NodeValue) -> Option<bool> {
    match value {
        NodeValue::Flag(flag) => Some(*flag),
        NodeValue::Integer(0, _) => Some(false),
        NodeValue::Integer(1, _) => Some(true),
        NodeValue::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// A listening address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// `ip:port` or `[ipv6]:port`.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket.
    Unix(String),
}

impl ListenAddress {
    /// Reads one address; ports start at 1, because clients could not know what port 0 becomes.
    pub fn parse(text: &str) -> Option<ListenAddress> {
        if text.starts_with('/') {
            return Some(ListenAddress::Unix(text.to_owned()));
        }
        text.parse().ok().filter(|address: &SocketAddr| address.port() > 0).map(ListenAddress::Tcp)
    }

    /// Whether listening on both fails: equal, or the same port on any address and on one of them.
    pub fn collides(&self, other: &ListenAddress) -> bool {
        match (self, other) {
            (ListenAddress::Tcp(one), ListenAddress::Tcp(two)) if one.port() == two.port() => {
                let wildcard = one.ip().is_unspecified() || two.ip().is_unspecified();
                one.ip() == two.ip() || (wildcard && one.is_ipv4() == two.is_ipv4())
            }
            _ => self == other,
        }
    }
}

/// What a value is that is no JSON, without a part of it.
fn json_fault(value: &NodeValue) -> String {
    let fault = text_of(value).and_then(|text| serde_json::from_str::<serde_json::Value>(&text).err());
    match fault {
        Some(fault) => format!("a text that is none ({fault})"),
        None => value.describe(),
    }
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or_default();
    (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn expression_problem(name: &str, text: &str) -> Option<Problem> {
    let name = name.to_owned();
    Some(match check_expression(text).err()? {
        ExpressionError::Syntax { character, reason } => Problem::Expression { name, character, reason },
        ExpressionError::TooLarge(reason) => Problem::ExpressionTooLarge { name, reason: reason.to_string() },
        ExpressionError::Unsupported(reason) => Problem::Expression { name, character: 1, reason },
    })
}

/// Whether a text begins like a hash of caching_sha2_password: `$A$`, the number of rounds in thousands as three hex
/// digits, `$`.
fn is_caching_sha2(text: &str) -> bool {
    let rounds = text.strip_prefix("$A$").and_then(|rest| rest.split_once('$'));
    rounds.is_some_and(|(rounds, _)| rounds.len() == 3 && rounds.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Reports a password that looks like a stored form but is not one.
fn password_remark(name: &str, text: &str) -> Option<Problem> {
    let native_hash = |rest: &str| rest.len() == 40 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (prefix, expected) = match text.strip_prefix('*') {
        Some(rest) if !native_hash(rest) => ("*", "`*` and 40 hex digits"),
        Some(_) => return None,
        None if is_caching_sha2(text) && text.len() != 70 => ("$A$", "70 characters long"),
        None => return None,
    };
    let problem = Problem::PasswordForm { name: name.to_owned(), prefix, expected };
    debug_assert_eq!(problem.severity(), Severity::Warning);
    Some(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_collide_when_both_cannot_be_bound() {
        let collide = |one: &str, two: &str| {
            let address = |text| ListenAddress::parse(text).expect("an address");
            address(one).collides(&address(two)) && address(two).collides(&address(one))
        };
        assert!(collide("127.0.0.1:6033", "127.0.0.1:6033"));
        assert!(collide("0.0.0.0:6033", "127.0.0.1:6033"));
        assert!(collide("[::]:6033", "[::1]:6033"));
        assert!(collide("/tmp/a", "/tmp/a"));
        assert!(!collide("127.0.0.1:6033", "127.0.0.2:6033"));
        assert!(!collide("0.0.0.0:6033", "[::1]:6033"));
        assert!(!collide("0.0.0.0:6033", "0.0.0.0:6032"));
    }

    #[test]
    fn networks_have_an_address_and_few_enough_bits() {
        for text in ["", "*", "10.0.0.0/8", "10.0.0.1, ::1/128"] {
            assert!(Form::Networks.holds(text), "{text}");
        }
        for text in ["10.0.0.0/33", "::/129", "10.0.0/8", "a", "1.1.1.1/"] {
            assert!(!Form::Networks.holds(text), "{text}");
        }
    }
}

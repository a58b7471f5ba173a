//! The address of a collector, as `mysql-otlp_endpoint` has it.

use std::fmt;

use hyper::Uri;

/// Where traces are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether the connection uses TLS.
    pub is_encrypted: bool,
    /// The host name or IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port, as the request names them.
    pub authority: String,
    /// The path of requests.
    pub path: String,
}

impl Endpoint {
    /// Reads `http://host:port` or `https://host:port`, with or without a path. User names, passwords and queries have no place
    /// there: an address is shown and logged.
    pub fn parse(text: &str) -> Option<Endpoint> {
        let uri: Uri = text.parse().ok()?;
        let is_encrypted = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        let is_plain = !authority.as_str().contains('@') && uri.query().is_none() && !text.contains('#');
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" => {
                if is_encrypted {
                    443
                } else {
                    80
                }
            }
            _ => authority.port_u16().filter(|port| *port > 0)?,
        };
        let base = uri.path().trim_end_matches('/');
        let path = if base.ends_with(TRACES) { base.to_owned() } else { format!("{base}{TRACES}") };
        (is_plain && !host.is_empty()).then(|| Endpoint {
            is_encrypted,
            host: host.to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            path,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// The path of OTLP for traces, below the base address.
const TRACES: &str = "/v1/traces";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_the_path_of_traces_below_the_base_address() {
        for (text, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example.com/otlp", "https://otel.example.com/otlp/v1/traces"),
            ("https://otel.example.com/otlp/v1/traces", "https://otel.example.com/otlp/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(Endpoint::parse(text).map(|it| it.to_string()).as_deref(), Some(expected), "{text}");
        }
        let port = |text| Endpoint::parse(text).map(|it| (it.host, it.port));
        assert_eq!(port("http://[::1]:4318"), Some(("::1".to_owned(), 4318)));
        assert_eq!(port("http://collector"), Some(("collector".to_owned(), 80)));
        assert_eq!(port("https://collector"), Some(("collector".to_owned(), 443)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "127.0.0.1:4318",
            "collector",
            "grpc://collector:4317",
            "http://",
            "http://:4318",
            "http://collector:0",
            "http://collector:99999",
            "http://collector:",
            "http://user:secret@collector:4318",
            "http://collector:4318/?key=secret",
            "http://collector:4318/#a",
            "http://a b:4318",
        ] {
            assert_eq!(Endpoint::parse(text), None, "{text}");
        }
    }
}

//! The address of a collector, as `mysql-otlp_endpoint` has it.

use std::fmt;

use crate::http_client::address::WebAddress;

/// Where traces are sent to, with the path of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(pub WebAddress);

impl Endpoint {
    /// Reads the address of a collector, with or without a path; see [`WebAddress::parse`].
    pub fn parse(text: &str) -> Option<Endpoint> {
        let mut address = WebAddress::parse(text)?;
        if !address.path.ends_with(TRACES) {
            address.path.push_str(TRACES);
        }
        Some(Endpoint(address))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
        let port = |text| Endpoint::parse(text).map(|it| (it.0.host, it.0.port));
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

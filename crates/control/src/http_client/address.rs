//! The address of an HTTP server, as settings have it.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// Where an HTTP server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress {
    /// Whether the connection uses TLS.
    pub is_encrypted: bool,
    /// The host name or IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port, as requests name them.
    pub authority: String,
    /// The path, without a slash at its end.
    pub path: String,
}

impl WebAddress {
    /// Reads `http://host:port` or `https://host:port`, with or without a path. User names, passwords and queries have no place
    /// there: an address is shown and logged.
    pub fn parse(text: &str) -> Option<WebAddress> {
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
        (is_plain && !host.is_empty()).then(|| WebAddress {
            is_encrypted,
            host: host.to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl WebAddress {
    /// Whether it is on this machine, so that nobody can listen in between.
    pub fn is_here(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

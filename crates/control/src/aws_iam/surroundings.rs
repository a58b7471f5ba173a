//! What the sources of keys have in common: the environment, small files, and the limits of requests.

use std::path::Path;
use std::time::Duration;

use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::files;
use crate::http_client::address::WebAddress;
use crate::http_client::ask::WebAnswer;
use crate::http_client::authorities;

/// The environment of the process, or of a test.
pub(super) type Environment = Box<dyn Fn(&str) -> Option<String> + Send>;

pub(super) use narrows_proxy::clock::now_s as now;

/// What a file has, which is a token or has keys.
pub(super) fn small_file(path: &str) -> Result<Zeroizing<String>, String> {
    let bytes = files::read_small(Path::new(path), LONGEST_ANSWER);
    let bytes = Zeroizing::new(bytes.map_err(|what| format!("the file {path} {what}"))?);
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(format!("the file {path} has something else than UTF-8")),
    }
}

/// What connects to an address with TLS, if it uses TLS: authorities are those of `AWS_CA_BUNDLE`, or of the system.
pub(super) fn https(address: &WebAddress, environment: &Environment) -> Result<Option<TlsConnector>, String> {
    if !address.is_encrypted {
        return Ok(None);
    }
    let named = environment("AWS_CA_BUNDLE");
    authorities::connector(named.as_deref().map(Path::new), "AWS_CA_BUNDLE").map(Some)
}

/// Whether an answer is one.
pub(super) fn status(answer: &WebAnswer) -> Result<(), String> {
    let status = answer.status;
    if status.is_success() { Ok(()) } else { Err(format!("HTTP status {}", status.as_u16())) }
}

/// How long one request may take, from connecting to the end of the answer. STS takes less than a second, and the services on the
/// machine a few milliseconds.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(5);

/// The longest answer, and the longest file: session tokens have up to 16 KiB, and shared files some profiles.
pub(super) const LONGEST_ANSWER: usize = 64 << 10;

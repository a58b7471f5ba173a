//! Fetches the keys of an issuer: from its address, or from a file.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use narrows_proxy::tokens::keys::LONGEST_KEY_SET;
use narrows_proxy::tokens::{IssuerSettings, KeySet, KeySource};

use super::request::{Body, exchange};

/// The keys of an issuer.
///
/// # Errors
/// Why there are none, as a text.
pub(super) async fn keys(settings: &IssuerSettings) -> Result<KeySet, String> {
    match &settings.source {
        KeySource::Url(address) => {
            let answer = exchange(address, settings.ca.as_deref(), Body::None, LONGEST_KEY_SET).await?;
            match answer.status.is_success() {
                true => KeySet::parse(&answer.body)
                    .map_err(|why| format!("{address} has sent something else: {why}")),
                false => Err(format!("{address}: HTTP status {}", answer.status.as_u16())),
            }
        }
        KeySource::File(path) => {
            let wrong = |why: String| format!("{}: {why}", path.display());
            let content = content(path, LONGEST_KEY_SET).map_err(wrong)?;
            KeySet::parse(&content).map_err(wrong)
        }
        KeySource::TokenReview(_) => Err("its API server is asked for each token".to_owned()),
    }
}

/// The content of a file, up to `most` bytes. A pipe or a device, which could keep the reader waiting, is none.
pub(super) fn content(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let in_words = |error: std::io::Error| error.to_string();
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(in_words)?;
    if !file.metadata().map_err(in_words)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut content = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    file.take(limit + 1).read_to_end(&mut content).map_err(in_words)?;
    match content.len() > most {
        true => Err(format!("it has more than {most} bytes")),
        false => Ok(content),
    }
}

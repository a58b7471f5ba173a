//! Fetches the keys of an issuer: from its address, or from a file.

use narrows_proxy::tokens::keys::LONGEST_KEY_SET;
use narrows_proxy::tokens::{IssuerSettings, KeySet, KeySource};

use super::request::{Body, exchange};
use crate::files::read_small;

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
            let content = read_small(path, LONGEST_KEY_SET).map_err(|what| wrong(format!("it {what}")))?;
            KeySet::parse(&content).map_err(wrong)
        }
        KeySource::TokenReview(_) => Err("its API server is asked for each token".to_owned()),
    }
}

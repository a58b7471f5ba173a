//! What a token claims, and what is asked of it: its issuer, its times, whom it is for, and whose it is.

use serde_json::{Map, Value};

use super::refusal::{Excerpt, TokenRefusal};
use super::settings::IssuerSettings;

/// Whether the claim `iss` is that of an issuer.
pub(super) fn is_from(claims: &Map<String, Value>, settings: &IssuerSettings) -> bool {
    settings.iss.is_empty() || claims.get("iss").and_then(Value::as_str) == Some(&settings.iss)
}

/// Checks that a token is for this audience.
pub(super) fn check_audience(
    claims: &Map<String, Value>,
    settings: &IssuerSettings,
) -> Result<(), TokenRefusal> {
    let audience = claims.get("aud").unwrap_or(&Value::Null);
    match settings.audience.is_empty() || is_or_contains(audience, &Value::from(settings.audience.as_str())) {
        true => Ok(()),
        false => Err(TokenRefusal::Audience(Excerpt::of(&audience.to_string()))),
    }
}

/// Checks that a token is valid at `now`, in seconds since 1970; returns until when it is.
pub(super) fn check_times(
    claims: &Map<String, Value>,
    settings: &IssuerSettings,
    now: u64,
) -> Result<u64, TokenRefusal> {
    let leeway = settings.leeway.as_secs();
    let expires = time(claims, "exp")?.ok_or(TokenRefusal::NoTime("exp"))?;
    if expires.saturating_add(leeway) <= now {
        return Err(TokenRefusal::Expired { seconds: now - expires });
    }
    for name in ["nbf", "iat"] {
        let begins = time(claims, name)?.unwrap_or_default();
        if begins > now.saturating_add(leeway) {
            return Err(TokenRefusal::NotYetValid { seconds: begins - now });
        }
    }
    Ok(expires)
}

/// A time in seconds since 1970. RFC 7519 allows parts of seconds.
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, TokenRefusal> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = value.as_u64();
    // The conversion ends at the limits of the type.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is cut at the limits of u64"
    )]
    let of_parts = || value.as_f64().filter(|time| *time >= 0.0).map(|time| time as u64);
    whole.or_else(of_parts).map(Some).ok_or(TokenRefusal::NoTime(name))
}

/// Checks that a claim is, or contains, `wanted`.
pub(super) fn check_claim(
    claims: &Map<String, Value>,
    path: &str,
    wanted: &Value,
) -> Result<(), TokenRefusal> {
    let found = at(claims, path);
    match found.is_some_and(|found| is_or_contains(found, wanted)) {
        true => Ok(()),
        false => {
            let found = found.map_or_else(|| "none".to_owned(), Value::to_string);
            Err(TokenRefusal::Claim(Excerpt::of(&format!("{path} is {found}"))))
        }
    }
}

/// The claim at a path: a name, or names with dots between them; a name may have dots itself, as `kubernetes.io` has.
fn at<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let below = |(dot, _): (usize, &str)| {
        let inner = claims.get(&path[..dot])?.as_object()?;
        at(inner, &path[dot + 1..])
    };
    path.match_indices('.').find_map(below)
}

fn is_or_contains(found: &Value, wanted: &Value) -> bool {
    match found {
        Value::Array(items) => items.contains(wanted),
        value => value == wanted,
    }
}

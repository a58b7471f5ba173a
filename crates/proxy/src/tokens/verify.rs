//! Verifies the token of a login.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::auth::Password;
use serde_json::{Map, Value};

use super::claims::{check_audience, check_claim, check_times, is_from};
use super::demand::{TokenDemand, TokenDemands};
use super::issuer::{Issuer, Issuers, seconds_now};
use super::jws::Jws;
use super::keys::SignatureCheck;
use super::refusal::{Excerpt, TokenRefusal};
use super::settings::KeySource;

/// A token that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoodToken {
    /// For how long the session may last; `None`: as long as it wants to.
    pub lasts: Option<Duration>,
}

/// The login that a token is verified for: the name of its account, the token, and the address of the client, if it has one.
pub type LoginWithToken<'a> = (&'a str, &'a Password, Option<IpAddr>);

/// Verifies the token of a login. It waits no longer than `limit` for its issuer.
///
/// # Errors
/// Why the token is refused.
pub async fn verify(
    issuers: &Issuers,
    demands: &TokenDemands,
    login: LoginWithToken<'_>,
    limit: Duration,
) -> Result<GoodToken, TokenRefusal> {
    let jws = Jws::parse(login.1.bytes())?;
    let of_issuer = |demand: &&TokenDemand| {
        issuers.get(&demand.issuer).is_some_and(|issuer| is_from(&jws.claims, &issuer.settings))
    };
    let fitting: Vec<&TokenDemand> = demands.any.iter().filter(of_issuer).collect();
    let Some(issuer) = fitting.first().and_then(|demand| issuers.get(&demand.issuer)) else {
        let found = jws.claims.get("iss").unwrap_or(&Value::Null);
        return Err(TokenRefusal::Issuer(Excerpt::of(&found.to_string())));
    };
    let result = verify_of(issuer, &fitting, login, &jws, limit).await;
    issuer.count(result.is_ok());
    result
}

async fn verify_of(
    issuer: &Arc<Issuer>,
    demands: &[&TokenDemand],
    (name, token, from): LoginWithToken<'_>,
    jws: &Jws<'_>,
    limit: Duration,
) -> Result<GoodToken, TokenRefusal> {
    let settings = &issuer.settings;
    let (claims, expires) = match settings.source {
        KeySource::TokenReview(_) => reviewed(issuer, (token, from), jws, limit).await?,
        _ => {
            check_signature(issuer, jws, limit).await?;
            check_audience(&jws.claims, settings)?;
            (jws.claims.clone(), check_times(&jws.claims, settings, seconds_now())?)
        }
    };
    let mut refusal = None;
    for demand in demands.iter().filter(|demand| *demand.issuer == *settings.name) {
        match check_demand(demand, &settings.username_claim, name, &claims) {
            Ok(()) => {
                let left = Duration::from_secs(expires.saturating_sub(seconds_now()));
                return Ok(GoodToken { lasts: demand.until_expiry.then_some(left) });
            }
            Err(why) => refusal = Some(why),
        }
    }
    Err(refusal.unwrap_or_else(|| TokenRefusal::Claim(Excerpt::of(""))))
}

/// Checks that a token has the signature of one of the issuer's keys. If they have no key of that name, they are fetched once
/// more.
async fn check_signature(issuer: &Arc<Issuer>, jws: &Jws<'_>, limit: Duration) -> Result<(), TokenRefusal> {
    let (settings, name) = (&issuer.settings, || Arc::clone(&issuer.settings.name));
    if !settings.algorithms.contains(&jws.algorithm) {
        return Err(TokenRefusal::algorithm(&format!("{:?}", jws.algorithm)));
    }
    let look = || issuer.keys().map(|keys| keys.check(jws));
    let (mut checked, mut fetched) = (look(), Ok(()));
    if matches!(checked, None | Some(SignatureCheck::UnknownKey)) {
        fetched = issuer.have_newer_keys(checked.is_none(), limit).await;
        checked = look();
    }
    match checked {
        Some(SignatureCheck::Right) => Ok(()),
        Some(SignatureCheck::Wrong) => Err(TokenRefusal::Signature(name())),
        Some(SignatureCheck::UnknownKey) => {
            let kid = Excerpt::of(jws.kid.as_deref().unwrap_or("(none)"));
            Err(TokenRefusal::UnknownKey { issuer: name(), kid })
        }
        None => {
            let known = issuer.error().map(|why| why.to_string());
            let why = known.or(fetched.err()).unwrap_or_else(|| "it has sent no keys".to_owned());
            Err(TokenRefusal::Unreachable { issuer: name(), why })
        }
    }
}

/// The claims of a token that an API server has verified, and until when it is valid.
async fn reviewed(
    issuer: &Arc<Issuer>,
    shown: (&Password, Option<IpAddr>),
    jws: &Jws<'_>,
    limit: Duration,
) -> Result<(Map<String, Value>, u64), TokenRefusal> {
    let name = || Arc::clone(&issuer.settings.name);
    // Nobody is asked about a token that says itself that its time is over. To change that breaks the signature.
    let expires = check_times(&jws.claims, &issuer.settings, seconds_now())?;
    let answer = issuer.review(shown, expires, limit).await;
    let said = answer.map_err(|why| TokenRefusal::Unreachable { issuer: name(), why })?;
    let said = said.map_err(|why| TokenRefusal::Review { issuer: name(), why })?;
    let mut claims = jws.claims.clone();
    claims.extend(said);
    Ok((claims, expires))
}

fn check_demand(
    demand: &TokenDemand,
    username_claim: &str,
    name: &str,
    claims: &Map<String, Value>,
) -> Result<(), TokenRefusal> {
    if demand.claims.is_empty() {
        return check_claim(claims, username_claim, &Value::from(name));
    }
    demand.claims.iter().try_for_each(|(path, wanted)| check_claim(claims, path, wanted))
}

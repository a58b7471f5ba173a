//! Which tokens an account takes: the keys `token` and `token_only` of `mysql_users.attributes`.

use serde_json::Value;

use crate::rows::shown;

/// The tokens that an account takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenDemands {
    /// Any of these; none, if what is written cannot be read: then no token is good.
    pub any: Vec<TokenDemand>,
    /// Whether clients must show a token, although the account has a password: that is for servers.
    pub only: bool,
}

/// A token that an account takes.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenDemand {
    /// The row of `narrows_token_issuers`.
    pub issuer: String,
    /// What its claims must be or contain, by path; empty: the username claim must be the name of the account.
    pub claims: Vec<(String, Value)>,
    /// Whether the session ends with the token.
    pub until_expiry: bool,
}

impl TokenDemands {
    /// Those of the JSON of an account; `None` if it says nothing of tokens.
    pub fn parse(attributes: &Value) -> Option<TokenDemands> {
        let (token, only) = (attributes.get("token"), attributes.get("token_only"));
        let only = only.is_some_and(|only| *only != Value::Bool(false));
        if token.is_none() && !only {
            return None;
        }
        let any = token.and_then(|token| demands(token).ok()).unwrap_or_default();
        Some(TokenDemands { any, only })
    }
}

/// The problem of a `token`.
pub(crate) fn flaws_of_token(value: &Value) -> Vec<String> {
    let flaw = |reason: String| format!("{reason}; no token is good for the account");
    demands(value).err().map(flaw).into_iter().collect()
}

/// The problem of a `token_only`.
pub(crate) fn flaws_of_token_only(value: &Value) -> Vec<String> {
    let flaw = || format!("is {}: expected true or false; it is taken as true", shown(value));
    value.as_bool().is_none().then(flaw).into_iter().collect()
}

fn demands(value: &Value) -> Result<Vec<TokenDemand>, String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    if items.is_empty() || items.len() > MOST_DEMANDS {
        return Err(format!("is {}: expected 1 to {MOST_DEMANDS} objects", shown(value)));
    }
    items.iter().map(demand).collect()
}

fn demand(value: &Value) -> Result<TokenDemand, String> {
    let wrong = || format!("is {}: expected an object with issuer", shown(value));
    let object = value.as_object().ok_or_else(wrong)?;
    if let Some(key) = object.keys().find(|key| !["issuer", "claims", "until_expiry"].contains(&key.as_str()))
    {
        return Err(format!("has {key:?}: expected issuer, claims and until_expiry"));
    }
    let issuer = object.get("issuer").and_then(Value::as_str).filter(|name| !name.is_empty());
    let claims = match object.get("claims") {
        None => Vec::new(),
        Some(claims) => claims_of(claims)?,
    };
    let until_expiry = object.get("until_expiry").unwrap_or(&Value::Bool(false));
    let until_expiry = until_expiry
        .as_bool()
        .ok_or_else(|| format!("has until_expiry {}: expected true or false", shown(until_expiry)))?;
    Ok(TokenDemand { issuer: issuer.ok_or_else(wrong)?.to_owned(), claims, until_expiry })
}

fn claims_of(value: &Value) -> Result<Vec<(String, Value)>, String> {
    let claims = value.as_object().filter(|claims| !claims.is_empty() && claims.len() <= MOST_CLAIMS);
    let wrong = || {
        let shown = shown(value);
        format!("has claims {shown}: expected an object of 1 to {MOST_CLAIMS} texts, numbers or truth values")
    };
    let claims = claims.ok_or_else(wrong)?;
    let is_plain = |(path, value): (&String, &Value)| {
        path.len() <= LONGEST_PATH && (value.is_string() || value.is_number() || value.is_boolean())
    };
    match claims.iter().all(is_plain) {
        true => Ok(claims.iter().map(|(path, value)| (path.clone(), value.clone())).collect()),
        false => Err(wrong()),
    }
}

/// Tokens that one account takes: an account for more is one for several applications.
const MOST_DEMANDS: usize = 20;

/// Claims that are asked for: tokens have ten to twenty.
const MOST_CLAIMS: usize = 20;

/// Characters of a path to a claim: a URI and a few names.
const LONGEST_PATH: usize = 200;

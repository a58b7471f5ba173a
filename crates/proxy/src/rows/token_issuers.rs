//! `narrows_token_issuers`: whose tokens clients may log in with.

/// One row of `narrows_token_issuers`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenIssuerRow {
    /// Its name, by which `mysql_users.attributes` refers to it.
    pub name: String,
    /// Rows that are not active are not used.
    pub active: bool,
    /// What the claim `iss` of its tokens must be; empty, for `kubernetes:` only: anything.
    pub issuer: String,
    /// Where its keys are, or who is asked: `https://...`, `file:/path` or `kubernetes:`.
    pub jwks: String,
    /// What the claim `aud` of its tokens must be or contain.
    pub audience: String,
    /// The claim that must be the name of the account, if the account asks for no others.
    pub username_claim: String,
    /// A JSON object of further settings, or empty.
    pub attributes: String,
    /// Free text.
    pub comment: String,
}

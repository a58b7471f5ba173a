//! Tokens that clients log in with: who issues them, and how they are verified.
//!
//! The control plane makes the issuers from `narrows_token_issuers`, puts them into the configuration, and fetches their keys. A
//! login verifies its token with the keys that are there. What it cannot know it asks the control plane for, by message, and
//! waits: newer keys, and what a Kubernetes API server says.

mod claims;
pub mod demand;
pub mod issuer;
pub mod jws;
pub mod keys;
mod refusal;
mod settings;
#[cfg(test)]
mod tests;
mod verify;

pub use demand::{TokenDemand, TokenDemands};
pub use issuer::{
    Issuer, IssuerFigures, IssuerQuestion, Issuers, KeysQuestion, ReviewAnswer, ReviewQuestion, SharedIssuers,
};
pub use keys::KeySet;
pub use refusal::{Excerpt, TokenRefusal};
pub use settings::{ISSUER_KEYS, IssuerSettings, KeySource};
pub use verify::{GoodToken, LoginWithToken, verify};

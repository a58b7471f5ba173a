//! What a client claims when it logs in or changes its user.

use std::borrow::Cow;
use std::sync::Arc;

use narrows_wire::handshake::ConnectAttributes;
use narrows_wire::{Capabilities, Errno};

/// An error for the client.
pub(super) type Refusal = (Errno, String);

/// The identity that a client claims, and its proof.
pub(crate) struct LoginClaim<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) plugin: Option<&'a [u8]>,
    pub(crate) answer: &'a [u8],
    pub(crate) can_switch: bool,
    /// It is that of a `COM_CHANGE_USER`.
    pub(crate) is_change: bool,
    pub(crate) host: &'a str,
    /// What the client and Narrows can do, for a connection to a server.
    pub(crate) capabilities: Capabilities,
    /// What the server receives about the client.
    pub(crate) about: Arc<ConnectAttributes>,
}

/// The name that a client means: servers take off the apostrophes around a name, so what counts for one counts for the other.
pub(crate) fn claimed_name(user: &[u8]) -> &[u8] {
    match user {
        [b'\'', name @ .., b'\''] => name,
        name => name,
    }
}

impl LoginClaim<'_> {
    /// The claimed name, as text.
    pub(super) fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.user)
    }

    /// The error for a client from outside of the account's networks.
    pub(super) fn denied_from_elsewhere(&self, using_password: bool) -> Refusal {
        let text = format!("{}. The account may not be used from this address", self.denied(using_password));
        (Errno::ACCESS_DENIED_ERROR, text)
    }

    pub(super) fn denied(&self, using_password: bool) -> String {
        let (user, host, password) = (self.name(), self.host, yes_or_no(using_password));
        format!("Access denied for user '{user}'@'{host}' (using password: {password})")
    }
}

pub(super) fn yes_or_no(using_password: bool) -> &'static str {
    if using_password { "YES" } else { "NO" }
}

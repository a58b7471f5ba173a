//! The role of a server in a replication pair, as checks of `read_only` have found it.

use narrows_proxy::rt::Instant;

/// The resulting role of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRole {
    /// It may be written to.
    Writer,
    /// It is read-only.
    Reader,
    /// It has not answered in time several times in a row, and counts as read-only.
    Silent,
}

impl ServerRole {
    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            ServerRole::Writer => "writer",
            ServerRole::Reader | ServerRole::Silent => "reader",
        }
    }
}

/// What the checks of one server have found so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoleReport {
    /// Its role, and when the check began that found it; `None`: it is not known yet.
    pub role: Option<(ServerRole, Instant)>,
    /// How many checks in a row, up to the last one, had no answer.
    pub unanswered: u32,
    /// Whether these are so many that the server leaves its place to another one that takes writes.
    pub is_away: bool,
    /// When the last check began.
    pub asked: Option<Instant>,
    /// When the last one began that was answered.
    pub answered: Option<Instant>,
    /// Whether the last check has found anything else than the one before it.
    pub is_news: bool,
}

impl RoleReport {
    /// The server has this role, as was found just now.
    pub fn found(role: ServerRole, now: Instant) -> RoleReport {
        RoleReport {
            role: Some((role, now)),
            asked: Some(now),
            answered: Some(now),
            is_news: true,
            ..RoleReport::default()
        }
    }
}

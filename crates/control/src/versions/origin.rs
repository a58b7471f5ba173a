//! Who has made a version, and how.

/// Who has made a version, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionOrigin {
    /// The administrator; empty if it was none.
    pub user: String,
    /// Where the administrator's connection came from, as `address:port`; empty if there was none.
    pub client: String,
    /// How it was made.
    pub source: VersionSource,
    /// The command, or what else has happened.
    pub command: String,
    /// Why, in the administrator's words.
    pub comment: String,
    /// The version of the fleet that it is; `None`: it is none.
    pub fleet: Option<FleetMark>,
}

/// The version of the fleet that a Narrows runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetMark {
    /// Its number.
    pub version: i64,
    /// Whether it is tried here before others get it.
    pub is_on_trial: bool,
}

/// How a version was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionSource {
    /// The program started with it.
    Start,
    /// A `LOAD ... TO RUNTIME`.
    Load,
    /// A plan was applied.
    Apply,
    /// An earlier version was made the configuration again.
    Rollback,
    /// It is a version of the fleet.
    Fleet,
}

impl VersionSource {
    /// Its name in `narrows_config_history`.
    pub fn name(self) -> &'static str {
        match self {
            VersionSource::Start => "start",
            VersionSource::Load => "load",
            VersionSource::Apply => "apply",
            VersionSource::Rollback => "rollback",
            VersionSource::Fleet => "fleet",
        }
    }

    /// Whether it changes the disk as well as what runs.
    pub fn is_saved(self) -> bool {
        match self {
            VersionSource::Start | VersionSource::Load => false,
            VersionSource::Apply | VersionSource::Rollback | VersionSource::Fleet => true,
        }
    }
}

impl VersionOrigin {
    /// One without an administrator.
    pub fn of_program(source: VersionSource, command: &str) -> VersionOrigin {
        let (user, client, comment) = (String::new(), String::new(), String::new());
        VersionOrigin { user, client, source, command: command.to_owned(), comment, fleet: None }
    }
}

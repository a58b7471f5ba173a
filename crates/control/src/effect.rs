//! Whether a setting has an effect. Settings without effect are accepted and stored, with a warning.
//!
//! Variables, columns and tables declare it in their rows; warnings, marks in the documents and the list in
//! `docs/compatibility.md` follow from that.

/// What a setting does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It has an effect.
    Acts,
    /// It has no effect in this version.
    NotYet,
    /// It has no effect and needs none, for this reason.
    Needless(&'static str),
}

/// Why what makes a cluster of ProxySQL has no effect.
pub const FLEET_INSTEAD: &str = "many Narrows share one configuration as a fleet, whose members find each other: see `[fleet]` in fleet.md";

impl Effect {
    /// The remark on a setting without effect; `None` if it has an effect.
    pub fn lacking(self) -> Option<String> {
        match self {
            Effect::Acts => None,
            Effect::NotYet => Some("has no effect in this version of Narrows".to_owned()),
            Effect::Needless(why) => Some(format!("has no effect: {why}")),
        }
    }
}

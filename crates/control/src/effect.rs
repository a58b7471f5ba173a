//! Whether a setting does anything. What does nothing is accepted and kept, and whoever sets it is warned.
//!
//! Variables, columns and tables declare it in their rows; warnings, marks in the documents and the list in
//! `docs/compatibility.md` follow from that.

/// What a setting does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It has one.
    Acts,
    /// None in this version.
    NotYet,
    /// None, and none is missing: why.
    Needless(&'static str),
}

impl Effect {
    /// What is to be said of a setting that has none; `None`: it has one.
    pub fn lacking(self) -> Option<String> {
        match self {
            Effect::Acts => None,
            Effect::NotYet => Some("has no effect in this version of Narrows".to_owned()),
            Effect::Needless(why) => Some(format!("has no effect: {why}")),
        }
    }
}

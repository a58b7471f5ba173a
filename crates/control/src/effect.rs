//! Whether a setting does anything. What does nothing is accepted and kept, and whoever sets it is warned.
//!
//! Variables, columns and tables declare it in their rows; warnings, marks in the documents and the list in
//! `docs/compatibility.md` follow from that.

use crate::config::tables;
use crate::store::schema;
use crate::variables::VARIABLES;

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

/// A setting without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// Its name: a variable in full, a table, or `table.column`.
    pub name: String,
    /// Why.
    pub effect: Effect,
}

/// Every variable without effect.
pub fn variables() -> Vec<Idle> {
    let idle =
        VARIABLES.iter().map(|variable| Idle { name: variable.name.to_owned(), effect: variable.effect() });
    idle.filter(Idle::is_idle).collect()
}

/// Every table of the configuration without effect.
pub fn tables() -> Vec<Idle> {
    let idle = schema::WITHOUT_EFFECT
        .iter()
        .map(|(name, effect)| Idle { name: (*name).to_owned(), effect: *effect });
    idle.filter(Idle::is_idle).collect()
}

/// Every column without effect of tables that have one, and every such key at the top of the file.
pub fn columns() -> Vec<Idle> {
    let sections = tables::SECTIONS.iter().filter(|section| schema::effect(section.name()) == Effect::Acts);
    let of = |section: &&dyn crate::config::schema::Section| {
        let table = section.name();
        let idle = |(column, effect)| Idle { name: format!("{table}.{column}"), effect };
        section.without_effect().into_iter().map(idle).collect::<Vec<_>>()
    };
    let keys = crate::config::schema::Section::without_effect(&tables::BOOTSTRAP).into_iter();
    let keys = keys.map(|(name, effect)| Idle { name: name.to_owned(), effect });
    sections.flat_map(of).chain(keys).collect()
}

impl Idle {
    fn is_idle(&self) -> bool {
        self.effect != Effect::Acts
    }
}

#[cfg(test)]
mod tests;

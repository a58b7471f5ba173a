//! Every setting without effect, as declared by the rows of variables, columns and tables.

use crate::config::schema::Section;
use crate::config::tables;
use crate::effect::Effect;
use crate::schema;
use crate::variables::VARIABLES;

/// A setting without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// Its name: a variable in full, a table, or `table.column`.
    pub name: String,
    /// Why it has no effect.
    pub effect: Effect,
}

/// Every variable without effect.
pub fn variables() -> Vec<Idle> {
    let idle =
        VARIABLES.iter().map(|variable| Idle { name: variable.name.to_owned(), effect: variable.effect() });
    idle.filter(Idle::is_idle).collect()
}

/// Every configuration table without effect.
pub fn tables() -> Vec<Idle> {
    let idle = schema::WITHOUT_EFFECT
        .iter()
        .map(|(name, effect)| Idle { name: (*name).to_owned(), effect: *effect });
    idle.filter(Idle::is_idle).collect()
}

/// Every column without effect in tables that have an effect, and every such top-level key of the file.
pub fn columns() -> Vec<Idle> {
    let sections = tables::SECTIONS.iter().filter(|section| schema::effect(section.name()) == Effect::Acts);
    let of = |section: &&dyn Section| {
        let table = section.name();
        let idle = |(column, effect)| Idle { name: format!("{table}.{column}"), effect };
        section.without_effect().into_iter().map(idle).collect::<Vec<_>>()
    };
    let keys = Section::without_effect(&tables::BOOTSTRAP).into_iter();
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

//! Which writes a read must see: `mysql-causal_reads`, and the settings of the same name that override it.

use super::{JsonColumn, shown};

/// Which writes a statement must see that goes to replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CausalReads {
    /// Whatever the replica has.
    #[default]
    None,
    /// Those of its own session.
    Session,
    /// Those of all sessions of its account, through this process.
    User,
    /// Those of all sessions of this process.
    Global,
}

impl CausalReads {
    /// The names of all levels.
    pub const NAMES: &[&str] = &["none", "session", "user", "global"];

    /// The level with that name, in any case; `None` if there is none.
    pub fn named(name: &str) -> Option<CausalReads> {
        let levels = [CausalReads::None, CausalReads::Session, CausalReads::User, CausalReads::Global];
        levels.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// The name of the level.
    pub fn name(self) -> &'static str {
        match self {
            CausalReads::None => "none",
            CausalReads::Session => "session",
            CausalReads::User => "user",
            CausalReads::Global => "global",
        }
    }

    /// Whether reads must see any writes.
    pub fn is_on(self) -> bool {
        self != CausalReads::None
    }

    /// The level that the attributes of an account or of a rule have, if it is a level.
    pub fn of_attributes(attributes: &JsonColumn) -> Option<CausalReads> {
        CausalReads::of_value(attributes.get("causal_reads")?).ok()
    }

    /// The level that is the value of `causal_reads` in a JSON column.
    ///
    /// # Errors
    /// What is wrong with the value, as text for a message.
    pub fn of_value(value: &serde_json::Value) -> Result<CausalReads, String> {
        let level = value.as_str().and_then(CausalReads::named);
        level.ok_or_else(|| format!("is {}: expected one of {}", shown(value), Self::NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        for name in CausalReads::NAMES {
            assert_eq!(CausalReads::named(&name.to_uppercase()).map(CausalReads::name), Some(*name));
        }
        assert_eq!(CausalReads::named("always"), None);
    }
}

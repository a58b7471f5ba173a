//! Character sets and collations in the configuration: those of MySQL and of MariaDB.

use narrows_wire::charset::{Collation, Family};

/// MariaDB first: its default collation of utf8mb4 also exists in MySQL.
const FAMILIES: [Family; 2] = [Family::MariaDb, Family::MySql];

/// Character sets that the protocol does not allow for sessions: their ASCII takes more than one byte.
const NOT_FOR_CLIENTS: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// The collation with that name.
pub fn collation(name: &str) -> Option<&'static Collation> {
    FAMILIES.into_iter().find_map(|family| Collation::by_name(name, family))
}

/// Every collation, by id, and whether it is its character set's default.
pub fn collations() -> impl Iterator<Item = (&'static Collation, bool)> {
    let known = |id: u16| FAMILIES.into_iter().find_map(|family| Collation::by_id(id, family));
    (1..=LAST_ID).filter_map(known).map(|collation| {
        let first = default_collation(collation.charset);
        (collation, first.is_some_and(|first| first.name == collation.name))
    })
}

/// Collation ids are below this: MariaDB's newest begin at 2048.
const LAST_ID: u16 = 4095;

/// The default collation of a character set.
pub fn default_collation(charset: &str) -> Option<&'static Collation> {
    FAMILIES.into_iter().find_map(|family| Collation::default_of(charset, family))
}

/// Whether a session can use that character set.
pub fn is_usable(charset: &str) -> bool {
    let excluded = NOT_FOR_CLIENTS.iter().any(|name| charset.eq_ignore_ascii_case(name));
    !excluded && default_collation(charset).is_some()
}

//! Collations and character sets: ids on the wire, names in SQL.
//!
//! MySQL and MariaDB share the ids up to 247 except for five: what MySQL calls `*_croatian_ci` (122, 149, 181, 213,
//! 245) is `*_croatian_mysql561_ci` in MariaDB, whose own `*_croatian_ci` are 576 and up. 248 to 323 (`gb18030`,
//! `utf8mb4_*_0900_*`) and 76 exist in MySQL only, 576 and up (`*_nopad_*`, `uca1400_*`) in MariaDB only. The default
//! of `utf8mb4` is `utf8mb4_0900_ai_ci` (255) in MySQL and `utf8mb4_general_ci` (45) in MariaDB.

mod table;

use table::{COLLATIONS, DEFAULTS};

/// Whose ids and names they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// MySQL and its descendants other than MariaDB.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// A collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collation {
    /// Its id on the wire.
    pub id: u16,
    /// Its full name.
    pub name: &'static str,
    /// The character set it belongs to.
    pub charset: &'static str,
    servers: Servers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Servers {
    Both,
    Only(Family),
}

impl Collation {
    /// Every collation, by id.
    pub fn all() -> impl Iterator<Item = &'static Collation> {
        table::COLLATIONS.iter()
    }

    /// The collation with that id.
    pub fn by_id(id: u16, family: Family) -> Option<&'static Collation> {
        let start = COLLATIONS.partition_point(|collation| collation.id < id);
        let rows = COLLATIONS.iter().skip(start).take_while(|collation| collation.id == id);
        rows.into_iter().find(|collation| collation.is_of(family))
    }

    /// The collation with that name, case-insensitive; `utf8_*` is an old name of `utf8mb3_*`. Searches all rows, which
    /// takes ten microseconds: not to be called for every query.
    pub fn by_name(name: &str, family: Family) -> Option<&'static Collation> {
        let current = match name.split_at_checked("utf8_".len()) {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case("utf8_") => &format!("utf8mb3_{rest}"),
            _ => name,
        };
        COLLATIONS.iter().find(|row| row.is_of(family) && row.name.eq_ignore_ascii_case(current))
    }

    /// The default collation of a character set; the name is case-insensitive, and `utf8` is `utf8mb3`.
    pub fn default_of(charset: &str, family: Family) -> Option<&'static Collation> {
        let current = if charset.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { charset };
        let (_, mysql, mariadb) = DEFAULTS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(current))?;
        let id = match family {
            Family::MySql => mysql,
            Family::MariaDb => mariadb,
        };
        Self::by_id((*id)?, family)
    }

    /// Whether servers accept statements in its character set: character sets that use two or more bytes for an ASCII
    /// letter are for columns and results only (`character_set_client` in the manual).
    pub fn is_for_clients(&self) -> bool {
        !matches!(self.charset, "ucs2" | "utf16" | "utf16le" | "utf32")
    }

    /// Whether servers of that family support it.
    pub fn is_of(&self, family: Family) -> bool {
        self.servers == Servers::Both || self.servers == Servers::Only(family)
    }
}

#[cfg(test)]
mod tests {
    use super::{Family::*, *};

    fn name(id: u16, family: Family) -> Option<&'static str> {
        Collation::by_id(id, family).map(|collation| collation.name)
    }

    #[test]
    fn every_row_is_found_by_its_id_and_by_its_name() {
        for row in COLLATIONS {
            for family in [MySql, MariaDb].into_iter().filter(|family| row.is_of(*family)) {
                assert_eq!(Collation::by_id(row.id, family), Some(row));
                assert_eq!(Collation::by_name(&row.name.to_uppercase(), family), Some(row));
                assert!(Collation::default_of(row.charset, family).is_some(), "{}", row.charset);
            }
        }
        let count = |family| COLLATIONS.iter().filter(|row| row.is_of(family)).count();
        assert_eq!((count(MySql), count(MariaDb)), (286, 1242));
    }

    #[test]
    fn families_differ_where_they_do() {
        assert_eq!(name(245, MySql), Some("utf8mb4_croatian_ci"));
        assert_eq!(name(245, MariaDb), Some("utf8mb4_croatian_mysql561_ci"));
        assert_eq!(Collation::by_name("utf8mb4_croatian_ci", MariaDb).map(|row| row.id), Some(608));
        assert_eq!((name(255, MySql), name(255, MariaDb)), (Some("utf8mb4_0900_ai_ci"), None));
        assert_eq!((name(2304, MySql), name(2304, MariaDb)), (None, Some("utf8mb4_uca1400_ai_ci")));
    }

    #[test]
    fn a_character_set_has_the_default_of_its_family() {
        let default = |charset, family| Collation::default_of(charset, family).map(|row| row.name);
        assert_eq!(default("utf8mb4", MySql), Some("utf8mb4_0900_ai_ci"));
        assert_eq!(default("UTF8MB4", MariaDb), Some("utf8mb4_general_ci"));
        assert_eq!(default("utf8", MySql), Some("utf8mb3_general_ci"));
        assert_eq!(default("gb18030", MariaDb), None);
        assert_eq!(default("nonsense", MySql), None);
    }

    #[test]
    fn old_names_of_utf8mb3_are_known() {
        assert_eq!(Collation::by_name("utf8_bin", MySql).map(|row| row.id), Some(83));
        assert_eq!(Collation::by_name("utf8", MySql), None);
    }
}

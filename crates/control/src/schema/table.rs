//! What a table of the admin interface is: its columns, and the databases that have it.

/// A database that can be named in statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Database {
    /// In memory: what operators edit, and `runtime_*`.
    Main,
    /// The file `narrows.db`.
    Disk,
    /// In memory: statistics.
    Stats,
    /// In memory: results of checks of servers.
    Monitor,
    /// The file `narrows_stats.db`.
    StatsHistory,
}

impl Database {
    /// Its name in statements.
    pub fn name(self) -> &'static str {
        match self {
            Database::Main => "main",
            Database::Disk => "disk",
            Database::Stats => "stats",
            Database::Monitor => "monitor",
            Database::StatsHistory => "stats_history",
        }
    }
}

/// One table with its twins.
#[derive(Debug)]
pub struct Table {
    /// Its name, without the prefixes and suffixes of twins.
    pub name: &'static str,
    /// Where it is: the database, and the prefix and suffix of its name there.
    pub places: &'static [(Database, &'static str, &'static str)],
    /// What a row describes.
    pub doc: &'static str,
    /// Columns and constraints, in SQLite's syntax.
    pub definition: &'static [&'static str],
}

pub(super) const LAYERS: &[(Database, &str, &str)] =
    &[(Database::Main, "", ""), (Database::Main, "runtime_", ""), (Database::Disk, "", "")];
pub(super) const MAIN_AND_DISK: &[(Database, &str, &str)] =
    &[(Database::Main, "", ""), (Database::Disk, "", "")];
pub(super) const MAIN_AND_RUNTIME: &[(Database, &str, &str)] =
    &[(Database::Main, "", ""), (Database::Main, "runtime_", "")];
pub(super) const MAIN_ONLY: &[(Database, &str, &str)] = &[(Database::Main, "", "")];
pub(super) const DISK_ONLY: &[(Database, &str, &str)] = &[(Database::Disk, "", "")];
pub(super) const STATS: &[(Database, &str, &str)] = &[(Database::Stats, "", "")];
pub(super) const STATS_AND_RESET: &[(Database, &str, &str)] =
    &[(Database::Stats, "", ""), (Database::Stats, "", "_reset")];
pub(super) const MONITOR: &[(Database, &str, &str)] = &[(Database::Monitor, "", "")];
pub(super) const HISTORY: &[(Database, &str, &str)] = &[(Database::StatsHistory, "", "")];
pub(super) const HISTORY_BY_SPAN: &[(Database, &str, &str)] = &[
    (Database::StatsHistory, "", ""),
    (Database::StatsHistory, "", "_hour"),
    (Database::StatsHistory, "", "_day"),
];

pub(super) const TRAFFIC: &[(Database, &str, &str)] =
    &[(Database::StatsHistory, "", "_10s"), (Database::StatsHistory, "", "_5m")];

impl Table {
    /// Its name and those of its twins in `database`.
    pub fn names_in(&self, database: Database) -> impl Iterator<Item = String> + use<'_> {
        let here = self.places.iter().filter(move |(place, ..)| *place == database);
        here.map(|(_, before, behind)| format!("{before}{}{behind}", self.name))
    }

    /// The statement that creates it as `name` in `database`.
    pub fn create(&self, database: Database, name: &str) -> String {
        let definition = self.definition.join(",\n    ");
        format!("CREATE TABLE {}.{name} (\n    {definition}\n)", database.name())
    }

    /// The names of its columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.column_lines().map(|(name, _)| name)
    }

    /// Its columns, in order: the name, and the whole line of the definition.
    pub(super) fn column_lines(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_column = |line: &&str| !line.starts_with("PRIMARY KEY") && !line.starts_with("UNIQUE");
        let name = |line: &'static str| line.split(' ').next().unwrap_or(line).trim_matches('"');
        self.definition.iter().copied().filter(is_column).map(move |line| (name(line), line))
    }
}

//! What a server says about itself and about its replication. Pure.

use narrows_proxy::backend::Table;

use super::dialect::Dialect;

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How it spells its statements.
    pub dialect: Dialect,
    /// Its version.
    pub version: String,
    /// `server_id`.
    pub server_id: String,
    /// `server_uuid`; empty on MariaDB.
    pub server_uuid: String,
    /// Whether it refuses writes of ordinary accounts,
    pub read_only: bool,
    /// and of privileged ones.
    pub super_read_only: bool,
    /// Whether it has a binary log,
    pub log_bin: bool,
    /// with what it replicates in it.
    pub log_updates: bool,
    /// Whether its transactions have GTIDs.
    pub has_gtids: bool,
    /// Where it says that it can be reached; empty: it does not say.
    pub report_host: String,
    /// With that port.
    pub report_port: u16,
    /// What it replicates, one for each channel.
    pub channels: Vec<Channel>,
    /// The privileges of the account that has asked.
    pub grants: Vec<String>,
}

/// One channel of a replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// The source's `server_id`; 0 or empty: never connected.
    pub source_id: String,
    /// The source's `server_uuid`.
    pub source_uuid: String,
    /// The source's host, as the replica knows it.
    pub source_host: String,
    /// The source's port.
    pub source_port: u16,
    /// The account that logs in to the source.
    pub user: String,
    /// Whether it receives.
    pub io_runs: bool,
    /// Whether it applies.
    pub sql_runs: bool,
    /// Its lag in seconds.
    pub behind_s: Option<u64>,
    /// How many seconds later it is to apply everything.
    pub delay_s: u64,
    /// Why it does not continue.
    pub error: String,
    /// Whether it positions itself by GTID.
    pub uses_gtids: bool,
    /// Whether it uses TLS.
    pub tls: bool,
    /// Whether it asks its source for a key.
    pub asks_for_key: bool,
}

impl Facts {
    /// Reads the answers to [`Dialect::facts`], [`Dialect::replica_status`] and `SHOW GRANTS`.
    pub fn read(version: &str, variables: &Table, status: &Table, grants: &Table) -> Facts {
        let dialect = Dialect::of(version);
        let value = |name: &str| first(variables, name);
        Facts {
            dialect,
            version: version.to_owned(),
            server_id: value("server_id"),
            server_uuid: value("server_uuid"),
            read_only: is_on(&value("read_only")),
            super_read_only: is_on(&value("super_read_only")),
            log_bin: is_on(&value("log_bin")),
            log_updates: is_on(&value("log_updates")),
            has_gtids: is_on(&value("gtid_mode")),
            report_host: value("report_host"),
            report_port: value("report_port").parse().unwrap_or(0),
            channels: Channel::all(status),
            grants: grants.rows.iter().filter_map(|row| row.first().cloned().flatten()).collect(),
        }
    }

    /// The channel by which it replicates from that server, if there is one.
    pub fn channel_from(&self, source: &Facts) -> Option<&Channel> {
        let is_it = |channel: &&Channel| match source.server_uuid.is_empty() {
            true => channel.source_id == source.server_id,
            false => channel.source_uuid == source.server_uuid,
        };
        self.channels.iter().find(is_it)
    }
}

impl Channel {
    /// The channels of a replica, by its status.
    pub fn all(status: &Table) -> Vec<Channel> {
        (0..status.rows.len()).map(|row| Channel::read(status, row)).collect()
    }

    fn read(status: &Table, row: usize) -> Channel {
        let cell = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| status.column(name)?.nth(row).flatten());
            found.next().unwrap_or_default().to_owned()
        };
        let errors = [&["Last_IO_Error"], &["Last_SQL_Error"]].map(|name| cell(name));
        let error: Vec<String> = errors.into_iter().filter(|error| !error.is_empty()).collect();
        let by_position = cell(&["Using_Gtid"]).eq_ignore_ascii_case("No");
        let auto_position = cell(&["Auto_Position"]);
        Channel {
            source_id: cell(&["Source_Server_Id", "Master_Server_Id"]),
            source_uuid: cell(&["Source_UUID", "Master_UUID"]),
            source_host: cell(&["Source_Host", "Master_Host"]),
            source_port: cell(&["Source_Port", "Master_Port"]).parse().unwrap_or(0),
            user: cell(&["Source_User", "Master_User"]),
            io_runs: cell(&["Replica_IO_Running", "Slave_IO_Running"]) == "Yes",
            sql_runs: cell(&["Replica_SQL_Running", "Slave_SQL_Running"]) == "Yes",
            behind_s: cell(&["Seconds_Behind_Source", "Seconds_Behind_Master"]).parse().ok(),
            delay_s: cell(&["SQL_Delay"]).parse().unwrap_or(0),
            error: error.join("; "),
            uses_gtids: if auto_position.is_empty() { !by_position } else { auto_position == "1" },
            tls: cell(&["Source_SSL_Allowed", "Master_SSL_Allowed"]) == "Yes",
            asks_for_key: is_on(&cell(&["Get_Source_public_key", "Get_master_public_key"])),
        }
    }
}

/// The first cell of a column.
pub fn first(table: &Table, name: &str) -> String {
    let cell = table.column(name).and_then(|mut cells| cells.next().flatten());
    cell.unwrap_or_default().to_owned()
}

/// The first cell of all.
pub fn only(table: &Table) -> String {
    table.rows.first().and_then(|row| row.first().cloned().flatten()).unwrap_or_default()
}

fn is_on(value: &str) -> bool {
    matches!(value, "1" | "ON" | "YES" | "Yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cells: &[(&str, &str)]) -> Table {
        Table {
            columns: cells.iter().map(|(name, _)| (*name).to_owned()).collect(),
            rows: vec![cells.iter().map(|(_, cell)| Some((*cell).to_owned())).collect()],
        }
    }

    #[test]
    fn both_spellings_of_a_status_are_read() {
        let mysql = table(&[
            ("Source_Host", "a"),
            ("Source_Port", "3306"),
            ("Source_Server_Id", "7"),
            ("Source_UUID", "u-7"),
            ("Replica_IO_Running", "Yes"),
            ("Replica_SQL_Running", "No"),
            ("Seconds_Behind_Source", "3"),
            ("SQL_Delay", "60"),
            ("Last_IO_Error", ""),
            ("Last_SQL_Error", "no"),
            ("Auto_Position", "1"),
            ("Get_Source_public_key", "1"),
        ]);
        let channel = Channel::read(&mysql, 0);
        assert_eq!((channel.source_port, channel.behind_s, channel.error.as_str()), (3306, Some(3), "no"));
        assert_eq!(channel.delay_s, 60);
        assert!(channel.io_runs && !channel.sql_runs && channel.uses_gtids && channel.asks_for_key);
        let mariadb =
            table(&[("Master_Server_Id", "7"), ("Using_Gtid", "No"), ("Slave_IO_Running", "Preparing")]);
        let channel = Channel::read(&mariadb, 0);
        assert!(!channel.io_runs && !channel.uses_gtids);
        assert_eq!(channel.source_id, "7");
    }

    #[test]
    fn a_source_is_known_by_its_uuid_or_else_by_its_id() {
        let facts = |version: &str, id: &str, uuid: &str, status: &Table| {
            let variables =
                table(&[("server_id", id), ("server_uuid", uuid), ("read_only", "1"), ("log_bin", "ON")]);
            Facts::read(version, &variables, status, &Table::default())
        };
        let of = |id: &str, uuid: &str| table(&[("Source_Server_Id", id), ("Source_UUID", uuid)]);
        let primary = facts("9.7.0", "1", "u1", &Table::default());
        assert!(facts("9.7.0", "2", "u2", &of("1", "u1")).channel_from(&primary).is_some());
        assert!(facts("9.7.0", "2", "u2", &of("1", "u9")).channel_from(&primary).is_none());
        let primary = facts("11.8.2-MariaDB", "1", "", &Table::default());
        assert!(facts("11.8.2-MariaDB", "2", "", &of("1", "")).channel_from(&primary).is_some());
        assert!(primary.read_only && primary.log_bin && !primary.log_updates);
    }
}

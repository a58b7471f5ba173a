//! What one server says about itself.

use std::collections::HashMap;

use narrows_control::monitor::plan::Address;
use narrows_proxy::backend::{BackendError, Table};

use super::visit::{Credentials, Visit, VisitError};

/// A server.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Where it was found.
    pub address: Address,
    /// Its `server_uuid`; MariaDB has none, and is known by its host, port and `server_id`.
    pub identity: String,
    /// Its `server_id`.
    pub server_id: String,
    /// Whether it is a MariaDB.
    pub is_mariadb: bool,
    /// Its version, as it says it.
    pub version: String,
    /// `read_only`, or what has the same effect for clients.
    pub is_read_only: bool,
    /// Its `max_connections`.
    pub max_connections: u32,
    /// Whether it was connected to with TLS.
    pub is_encrypted: bool,
    /// Whether it offers TLS.
    pub offers_tls: bool,
    /// What it replicates from; `Err`: the account may not see it.
    pub sources: Result<Vec<Source>, String>,
    /// What it says about a cluster.
    pub cluster: Cluster,
}

/// A server from which another one replicates.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where the replica reaches it.
    pub address: Address,
    /// Its `server_id`; empty if the replica has never reached it.
    pub server_id: String,
    /// Seconds of lag; `None`: replication does not run.
    pub lag_s: Option<u64>,
    /// Seconds by which the replica is late on purpose.
    pub delay_s: u64,
    /// Why replication does not run.
    pub error: String,
}

/// Clusters that are no replication from a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// It is in none.
    None,
    /// A node of Galera.
    Galera {
        /// The addresses of all nodes, as far as they say them.
        nodes: Vec<String>,
        /// The number of nodes.
        size: usize,
    },
    /// A member of Group Replication; host and port of each member.
    Group(Vec<(String, String)>),
}

impl Facts {
    /// Asks the server at `address`.
    ///
    /// # Errors
    /// A server that cannot be logged in to, or does not answer.
    pub async fn ask(address: &Address, account: &Credentials) -> Result<Facts, VisitError> {
        let visit = Visit::begin(address, account).await?;
        let failed = |error| VisitError::new(address, &account.username, &error);
        let facts = Facts::of(&visit, address).await.map_err(failed)?;
        visit.end().await;
        Ok(facts)
    }

    async fn of(visit: &Visit, address: &Address) -> Result<Facts, BackendError> {
        let variables = pairs(&visit.ask(VARIABLES).await?);
        let status = pairs(&visit.ask(STATUS).await?);
        let variable = |name: &str| variables.get(name).cloned().unwrap_or_default();
        // Besides ON, newer versions of MariaDB have stricter values.
        let is_on = |name: &str| !matches!(variable(name).as_str(), "" | "OFF" | "0");
        let version = variable("version");
        let is_mariadb = [&version, &variable("version_comment")]
            .iter()
            .any(|text| text.to_ascii_lowercase().contains("mariadb"));
        let (server_id, uuid) = (variable("server_id"), variable("server_uuid"));
        let identity = match uuid.is_empty() {
            false => uuid,
            true => format!("{}:{}/{server_id}", variable("hostname"), variable("port")),
        };
        let cluster = match status.get("wsrep_cluster_size").and_then(|size| size.parse().ok()) {
            Some(size @ 1..) => Cluster::Galera { nodes: galera_nodes(&status), size },
            _ => group(visit).await?,
        };
        Ok(Facts {
            address: address.clone(),
            identity,
            server_id,
            is_mariadb,
            version,
            is_read_only: is_on("read_only") || is_on("super_read_only") || is_on("innodb_read_only"),
            max_connections: variable("max_connections").parse().unwrap_or(0),
            is_encrypted: visit.is_encrypted,
            offers_tls: visit.offers_tls,
            sources: sources(visit).await?,
            cluster,
        })
    }

    /// The first server that it replicates from.
    pub fn source(&self) -> Option<&Source> {
        self.sources.as_ref().ok().and_then(|sources| sources.first())
    }

    /// The numbers of its version.
    pub fn version_numbers(&self) -> Vec<u32> {
        // Old versions of MariaDB 10 announce themselves as 5.5.5-10.x to replicas.
        let version = self.version.strip_prefix("5.5.5-").unwrap_or(&self.version);
        let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
        version[..end].split('.').filter_map(|part| part.parse().ok()).collect()
    }

    /// Its software with the version.
    pub fn software(&self) -> String {
        let family = if self.is_mariadb { "MariaDB" } else { "MySQL" };
        let numbers: Vec<String> = self.version_numbers().iter().map(ToString::to_string).collect();
        format!("{family} {}", numbers.join("."))
    }
}

/// A table of names and values.
fn pairs(table: &Table) -> HashMap<String, String> {
    let pair = |row: &Vec<Option<String>>| match row.as_slice() {
        [Some(name), Some(value), ..] => Some((name.to_ascii_lowercase(), value.clone())),
        _ => None,
    };
    table.rows.iter().filter_map(pair).collect()
}

/// Runs the first of `statements` that the server understands and allows; `Err` inside: none is allowed, with the reason.
pub(super) async fn first_of(
    visit: &Visit,
    statements: &[&str],
) -> Result<Result<Table, String>, BackendError> {
    let mut reason = String::new();
    for statement in statements {
        match visit.ask(statement).await {
            Ok(table) => return Ok(Ok(table)),
            Err(BackendError::Server(error)) if error.code == PARSE_ERROR => {
                reason = format!("error {}: {}", error.code, error.message);
            }
            // What the server says about an older spelling is no better.
            Err(BackendError::Server(error)) => {
                return Ok(Err(format!("error {}: {}", error.code, error.message)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Err(reason))
}

/// What the server replicates from; `Err` inside: the account may not see it, with the reason.
pub(super) async fn sources(visit: &Visit) -> Result<Result<Vec<Source>, String>, BackendError> {
    let answer = first_of(visit, &["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"]).await?;
    Ok(answer.map(|table| (0..table.rows.len()).filter_map(|row| source(&table, row)).collect()))
}

/// One row of a replica's status. The channels of Group Replication name no source.
fn source(table: &Table, row: usize) -> Option<Source> {
    let cell = |names: [&str; 2]| {
        let mut columns = names.iter().filter_map(|name| table.column(name));
        columns.next().and_then(|mut column| column.nth(row).flatten().map(str::to_owned))
    };
    let text = |names| cell(names).unwrap_or_default();
    let hostname = text(["Source_Host", "Master_Host"]);
    if hostname.is_empty() || hostname == "<NULL>" {
        return None;
    }
    let port = text(["Source_Port", "Master_Port"]).parse().unwrap_or(3306);
    let errors = [text(["Last_IO_Error", "Last_Error"]), text(["Last_SQL_Error", "Last_Error"])];
    Some(Source {
        address: Address { hostname, port },
        server_id: text(["Source_Server_Id", "Master_Server_Id"]).trim_start_matches('0').to_owned(),
        lag_s: cell(["Seconds_Behind_Source", "Seconds_Behind_Master"]).and_then(|lag| lag.parse().ok()),
        delay_s: text(["SQL_Delay", "SQL_Delay"]).parse().unwrap_or(0),
        error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
    })
}

/// The addresses of the nodes of a Galera cluster.
fn galera_nodes(status: &HashMap<String, String>) -> Vec<String> {
    let addresses = status.get("wsrep_incoming_addresses").map(String::as_str).unwrap_or_default();
    // A node that was not given its address says AUTO.
    let is_known = |address: &&str| !address.is_empty() && !address.starts_with("AUTO");
    addresses.split(',').map(str::trim).filter(is_known).map(str::to_owned).collect()
}

/// The members of a group. A server that has no such table, or does not show it, is in none.
async fn group(visit: &Visit) -> Result<Cluster, BackendError> {
    let table = match visit.ask(MEMBERS).await {
        Ok(table) => table,
        Err(BackendError::Server(_)) => return Ok(Cluster::None),
        Err(error) => return Err(error),
    };
    let cell = |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    // A server with the plugin that is in no group lists itself without a host.
    let members: Vec<_> = table.rows.iter().filter(|row| !cell(row, 0).is_empty()).collect();
    if members.is_empty() {
        return Ok(Cluster::None);
    }
    Ok(Cluster::Group(members.iter().map(|row| (cell(row, 0), cell(row, 1))).collect()))
}

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'server_id', \
    'server_uuid', 'hostname', 'port', 'read_only', 'super_read_only', 'innodb_read_only', 'max_connections')";

const STATUS: &str =
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_incoming_addresses')";

const MEMBERS: &str = "SELECT MEMBER_HOST, MEMBER_PORT FROM performance_schema.replication_group_members \
     WHERE MEMBER_STATE <> 'OFFLINE'";

/// `ER_PARSE_ERROR`.
const PARSE_ERROR: u16 = 1064;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: &[&[Option<&str>]]) -> Table {
        let cell = |cell: &Option<&str>| cell.map(str::to_owned);
        Table {
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        }
    }

    #[test]
    fn the_status_of_a_replica_is_read_in_both_spellings() {
        for (host, port, lag) in [
            ("Source_Host", "Source_Port", "Seconds_Behind_Source"),
            ("Master_Host", "Master_Port", "Seconds_Behind_Master"),
        ] {
            let table = table(
                &[host, port, lag, "SQL_Delay", "Last_IO_Error"],
                &[&[Some("db1"), Some("3307"), None, Some("60"), Some("no route")]],
            );
            let source = source(&table, 0).expect("a source");
            assert_eq!(source.address, Address { hostname: "db1".to_owned(), port: 3307 });
            assert_eq!((source.lag_s, source.delay_s, source.error.as_str()), (None, 60, "no route"));
        }
        assert!(source(&table(&["Source_Host"], &[&[Some("<NULL>")]]), 0).is_none());
    }

    #[test]
    fn nodes_that_do_not_know_their_address_are_left_out() {
        let status = |text: &str| HashMap::from([("wsrep_incoming_addresses".to_owned(), text.to_owned())]);
        assert_eq!(
            galera_nodes(&status("10.0.0.1:3306,AUTO, 10.0.0.2:3306")),
            ["10.0.0.1:3306", "10.0.0.2:3306"]
        );
        assert!(galera_nodes(&status("")).is_empty() && galera_nodes(&HashMap::new()).is_empty());
    }
}

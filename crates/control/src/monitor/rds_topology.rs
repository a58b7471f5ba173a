//! `mysql.rds_topology` of RDS: the nodes of a Multi-AZ cluster, and how far the switchover of a Blue/Green deployment is.

use std::collections::BTreeSet;

use narrows_proxy::backend::Table;

use super::cluster::roster::{MOST_READ, address};
use super::plan::Address;

/// What a server's table says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The nodes of its Multi-AZ cluster; `None`: it is in none, or has not told.
    pub members: Option<BTreeSet<Address>>,
    /// How far a switchover is.
    pub switchover: BlueGreen,
}

/// How far the switchover of a Blue/Green deployment is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlueGreen {
    /// There is none, or it has not begun.
    #[default]
    None,
    /// It is over: the name leads to the new server, or soon will.
    Over,
    /// It runs: nothing may be written.
    Runs,
}

impl Topology {
    /// What an answer to [`QUESTION`] means. In a Multi-AZ cluster the table has no roles.
    pub fn of(answer: &Table) -> Topology {
        let cells = |name: &str| answer.column(name).map(|cells| cells.take(MOST_READ).collect::<Vec<_>>());
        if let Some(roles) = cells("role") {
            let statuses = cells("status").unwrap_or_default();
            let of_source = roles.iter().zip(&statuses).filter(|(role, _)| is(role, SOURCE));
            let switchover = of_source.map(|(_, status)| BlueGreen::named(status.unwrap_or_default())).max();
            return Topology { members: None, switchover: switchover.unwrap_or_default() };
        }
        let (hosts, ports) = (cells("endpoint").unwrap_or_default(), cells("port").unwrap_or_default());
        let pairs = hosts.iter().zip(&ports);
        let members: BTreeSet<Address> =
            pairs.filter_map(|(host, port)| address((*host)?, (*port)?)).collect();
        Topology { members: (!members.is_empty()).then_some(members), switchover: BlueGreen::None }
    }
}

impl BlueGreen {
    fn named(status: &str) -> BlueGreen {
        let is = |name: &str| status.eq_ignore_ascii_case(name);
        if is("SWITCHOVER_IN_PROGRESS") || is("SWITCHOVER_IN_POST_PROCESSING") {
            BlueGreen::Runs
        } else if is("SWITCHOVER_COMPLETED") {
            BlueGreen::Over
        } else {
            BlueGreen::None
        }
    }
}

fn is(cell: &Option<&str>, name: &str) -> bool {
    cell.is_some_and(|cell| cell.eq_ignore_ascii_case(name))
}

/// The statement. Which columns there are depends on what the server is part of.
pub const QUESTION: &str = "SELECT * FROM mysql.rds_topology LIMIT 200";

/// `ER_NO_SUCH_TABLE`: the server is not one of RDS, or of no deployment.
pub const NO_TABLE: u16 = 1146;

/// The role of the servers that are replaced.
const SOURCE: &str = "BLUE_GREEN_DEPLOYMENT_SOURCE";

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
        let cells = |row: &&[&str]| row.iter().map(|cell| Some((*cell).to_owned())).collect();
        Table {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }

    #[test]
    fn a_table_without_roles_names_the_nodes_of_a_multi_az_cluster() {
        let rows: &[&[&str]] = &[
            &["i-1", "c-instance-1.x.rds.amazonaws.com", "3306"],
            &["i-2", "c-instance-2.x.rds.amazonaws.com", "3306"],
            &["i-3", "not a host", "3306"],
            &["i-4", "c-instance-4", "0"],
        ];
        let topology = Topology::of(&table(&["id", "endpoint", "port"], rows));
        assert_eq!((topology.members.unwrap().len(), topology.switchover), (2, BlueGreen::None));
        assert_eq!(Topology::of(&Table::default()), Topology::default());
    }

    #[test]
    fn nothing_may_be_written_while_a_switchover_runs_and_green_servers_are_no_members() {
        const COLUMNS: &[&str] = &["id", "endpoint", "port", "role", "status", "version"];
        for (status, expected) in [
            ("AVAILABLE", BlueGreen::None),
            ("SWITCHOVER_INITIATED", BlueGreen::None),
            ("SWITCHOVER_IN_PROGRESS", BlueGreen::Runs),
            ("switchover_in_post_processing", BlueGreen::Runs),
            ("SWITCHOVER_COMPLETED", BlueGreen::Over),
            ("a status of tomorrow", BlueGreen::None),
        ] {
            let rows: &[&[&str]] = &[
                &["1", "db.x", "3306", "BLUE_GREEN_DEPLOYMENT_SOURCE", status, "1.0"],
                &["2", "db-green-1.x", "3306", "BLUE_GREEN_DEPLOYMENT_TARGET", "AVAILABLE", "1.0"],
            ];
            let expected = Topology { members: None, switchover: expected };
            assert_eq!(Topology::of(&table(COLUMNS, rows)), expected, "{status}");
        }
    }
}

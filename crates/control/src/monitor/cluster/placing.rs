//! The rows of a cluster's nodes, in the hostgroups of their roles.
//!
//! The rows that come in are the configured ones. A node has one row for each hostgroup of its role, with the columns of
//! the row that is configured there, or else of its row in the writer hostgroup, or else of any other. Rows that are not
//! ONLINE are the operator's, and stay where they are. Nodes that were found have rows like configured ones.

use std::collections::BTreeSet;

use narrows_proxy::snapshot::{
    AuroraRow, ClusterRow, HostgroupAttributesRow, HostgroupId, ServerRow, ServerStatus, ServersDefaults,
};

use super::Word;
use super::decide::{Decision, Member, NodeRole, Seat};
use super::roster::Found;
use crate::monitor::plan::Address;

/// The nodes of a cluster: the servers that have a row in one of its hostgroups that is not offline.
pub fn members<'a>(
    rows: &[ServerRow],
    cluster: &ClusterRow,
    found: &Found,
    word: impl Fn(&Address) -> Option<&'a Word>,
    votes: impl Fn(&Address) -> usize,
) -> Vec<Member> {
    let member = |address: Address| {
        let row = best_row(rows, cluster, &address)?;
        let is_barred = |row: &ServerRow| {
            row.hostgroup == cluster.writer_hostgroup && !is_live(row) && Address::of(row) == address
        };
        Some(Member {
            weight: row.weight,
            configured: role_of(row.hostgroup, cluster),
            may_write: !rows.iter().any(is_barred),
            word: word(&address).cloned(),
            is_found: found.presence(&address).is_some(),
            votes: votes(&address),
            address,
        })
    };
    addresses(rows, cluster).into_iter().filter_map(member).collect()
}

/// The servers that have a row in one of the hostgroups of a cluster that is not offline.
fn addresses(rows: &[ServerRow], cluster: &ClusterRow) -> BTreeSet<Address> {
    rows.iter().filter(|row| is_node(row, cluster)).map(Address::of).collect()
}

/// The servers that have any row in one of the hostgroups of a cluster: those that are offline there are not to be found.
pub fn configured(rows: &[ServerRow], cluster: &ClusterRow) -> BTreeSet<Address> {
    let is_of_cluster = |row: &&ServerRow| cluster.hostgroups().contains(&row.hostgroup);
    rows.iter().filter(is_of_cluster).map(Address::of).collect()
}

/// Rows for nodes that were found: with the columns of a node that is configured, apart from what
/// `mysql_hostgroup_attributes` has for such rows. Without any node that is configured, there are none.
pub fn found_rows(
    rows: &[ServerRow],
    cluster: &ClusterRow,
    (found, aurora): (&Found, Option<&AuroraRow>),
    attributes: &[HostgroupAttributesRow],
) -> Vec<ServerRow> {
    let nodes = rows.iter().filter(|row| is_node(row, cluster));
    let Some(template) = nodes.min_by_key(|row| role_of(row.hostgroup, cluster)) else { return Vec::new() };
    let defaults = defaults(cluster, attributes);
    let weight = defaults.weight.or(aurora.map(|row| row.new_reader_weight));
    let defaults = ServersDefaults { weight, ..defaults };
    let row = |address| found_row(address, cluster.offline_hostgroup, template, defaults);
    found.nodes().map(|(address, _)| row(address)).collect()
}

/// The row of a server that was found: with the columns of `template`, where `defaults` has none.
pub fn found_row(
    address: &Address,
    hostgroup: HostgroupId,
    template: &ServerRow,
    defaults: ServersDefaults,
) -> ServerRow {
    ServerRow {
        hostgroup,
        hostname: address.hostname.clone(),
        port: address.port,
        weight: defaults.weight.unwrap_or(1),
        max_connections: defaults.max_connections.unwrap_or(template.max_connections),
        use_ssl: defaults.use_ssl.unwrap_or(template.use_ssl),
        comment: "found by the monitor".to_owned(),
        ..template.clone()
    }
}

/// The columns of nodes that are found, as the reader hostgroup has them, or else the writer hostgroup.
fn defaults(cluster: &ClusterRow, attributes: &[HostgroupAttributesRow]) -> ServersDefaults {
    let of = |hostgroup| attributes.iter().find(|row| row.hostgroup == hostgroup);
    let row = of(cluster.reader_hostgroup).or_else(|| of(cluster.writer_hostgroup));
    // A row with an invalid value was left out.
    row.and_then(|row| row.servers_defaults().ok()).unwrap_or_default()
}

/// Puts the nodes of a cluster where they belong. `rows` has them as configured; `others` also has the other servers, some
/// of which are placed already.
pub fn place(
    others: Vec<ServerRow>,
    rows: &[ServerRow],
    cluster: &ClusterRow,
    decision: &Decision,
) -> Vec<ServerRow> {
    let mut placed = Vec::with_capacity(others.len());
    let mut done: BTreeSet<Address> = BTreeSet::new();
    for row in others {
        let address = Address::of(&row);
        let seat = decision.seats.get(&address).filter(|_| is_node(&row, cluster));
        match seat {
            None => placed.push(row),
            Some(seat) if done.insert(address.clone()) => {
                let wanted = hostgroups(seat.role, cluster).into_iter();
                let here = wanted.filter_map(|to| row_in(rows, cluster, &address, to));
                placed
                    .extend(here.map(|row| ServerRow { status: status_in_place(seat.role, cluster), ..row }));
            }
            Some(_) => {}
        }
    }
    placed
}

/// Rows for nodes that are offline, in the hostgroups that they were in: what runs there finishes, or is cut off.
pub fn remains(
    rows: &[ServerRow],
    placed: &[ServerRow],
    cluster: &ClusterRow,
    decision: &Decision,
) -> Vec<ServerRow> {
    let offline = decision.seats.iter().filter(|(_, seat)| !seat.role.serves() && seat.was.serves());
    let rows = offline.flat_map(|(address, seat)| {
        let template = best_row(rows, cluster, address);
        let wanted = hostgroups(seat.was, cluster).into_iter();
        let free = wanted
            .filter(|to| !placed.iter().any(|row| row.hostgroup == *to && Address::of(row) == *address));
        let status = status(seat);
        let row = move |hostgroup| template.map(|row| ServerRow { hostgroup, status, ..row.clone() });
        free.filter_map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

/// The state of a row where it is placed: in a cluster without a hostgroup for nodes that are out of use, it says so.
fn status_in_place(role: NodeRole, cluster: &ClusterRow) -> ServerStatus {
    match role {
        NodeRole::BackupWriter | NodeRole::OfflineSoft if cluster.shuns_in_place() => ServerStatus::Withheld,
        NodeRole::Offline if cluster.shuns_in_place() => ServerStatus::Unreachable,
        _ => ServerStatus::Online,
    }
}

fn status(seat: &Seat) -> ServerStatus {
    if seat.role == NodeRole::OfflineSoft { ServerStatus::Leaving } else { ServerStatus::Gone }
}

/// The hostgroups of a role. `writer_is_also_reader`: with 1 all that can be written to are read from too, with 2 only the
/// backup writers.
fn hostgroups(role: NodeRole, cluster: &ClusterRow) -> Vec<HostgroupId> {
    let reads = |yes: bool| yes.then_some(cluster.reader_hostgroup);
    let (first, second) = match role {
        NodeRole::Writer => (cluster.writer_hostgroup, reads(cluster.writer_is_also_reader == 1)),
        NodeRole::BackupWriter => (cluster.backup_writer_hostgroup, reads(cluster.writer_is_also_reader > 0)),
        NodeRole::Reader => (cluster.reader_hostgroup, None),
        NodeRole::OfflineSoft | NodeRole::Offline => (cluster.offline_hostgroup, None),
    };
    [Some(first), second.filter(|second| *second != first)].into_iter().flatten().collect()
}

/// The role that a hostgroup stands for.
fn role_of(hostgroup: HostgroupId, cluster: &ClusterRow) -> NodeRole {
    match hostgroup {
        _ if hostgroup == cluster.writer_hostgroup => NodeRole::Writer,
        // In a cluster with two hostgroups, it is that of backup writers, too.
        _ if hostgroup == cluster.reader_hostgroup => NodeRole::Reader,
        _ if hostgroup == cluster.backup_writer_hostgroup => NodeRole::BackupWriter,
        _ => NodeRole::Offline,
    }
}

/// The row of a node in `hostgroup`; `None`: the operator has put another one there.
fn row_in(
    rows: &[ServerRow],
    cluster: &ClusterRow,
    address: &Address,
    hostgroup: HostgroupId,
) -> Option<ServerRow> {
    let here = rows.iter().find(|row| row.hostgroup == hostgroup && Address::of(row) == *address);
    match here {
        Some(row) if !is_live(row) => None,
        Some(row) => Some(row.clone()),
        None => best_row(rows, cluster, address).map(|row| ServerRow { hostgroup, ..row.clone() }),
    }
}

/// The row of a node that the others are copied from.
fn best_row<'a>(rows: &'a [ServerRow], cluster: &ClusterRow, address: &Address) -> Option<&'a ServerRow> {
    let of_node = rows.iter().filter(|row| is_node(row, cluster) && Address::of(row) == *address);
    of_node.min_by_key(|row| role_of(row.hostgroup, cluster))
}

/// Whether a row makes its server a node of the cluster.
fn is_node(row: &ServerRow, cluster: &ClusterRow) -> bool {
    is_live(row) && cluster.hostgroups().contains(&row.hostgroup)
}

/// Whether the operator has left a server in use.
fn is_live(row: &ServerRow) -> bool {
    row.status == ServerStatus::Online
}

#[cfg(test)]
mod tests;

//! The rows of a cluster's nodes, in the hostgroups of their roles.
//!
//! The rows that come in are the configured ones. A node has one row for each hostgroup of its role, with the columns of
//! the row that is configured there, or else of its row in the writer hostgroup, or else of any other. Rows that are not
//! ONLINE are the operator's, and stay where they are.

use std::collections::BTreeSet;

use narrows_proxy::snapshot::{ClusterRow, HostgroupId, ServerRow, ServerStatus};

use super::Word;
use super::decide::{Decision, Member, NodeRole, Seat};
use crate::monitor::plan::Address;

/// The nodes of a cluster: the servers that have a row in one of its hostgroups that is not offline.
pub fn members<'a>(
    rows: &[ServerRow],
    cluster: &ClusterRow,
    word: impl Fn(&Address) -> Option<&'a Word>,
) -> Vec<Member> {
    let addresses: BTreeSet<Address> =
        rows.iter().filter(|row| is_node(row, cluster)).map(Address::of).collect();
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
            address,
        })
    };
    addresses.into_iter().filter_map(member).collect()
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
                placed.extend(wanted.filter_map(|to| row_in(rows, cluster, &address, to)));
            }
            Some(_) => {}
        }
    }
    placed
}

/// Rows for nodes that are offline, in the hostgroups that they were in: what runs there finishes, or is cut off.
pub fn remains(placed: &[ServerRow], cluster: &ClusterRow, decision: &Decision) -> Vec<ServerRow> {
    let offline = decision.seats.iter().filter(|(_, seat)| !seat.role.serves() && seat.was.serves());
    let rows = offline.flat_map(|(address, seat)| {
        let template = best_row(placed, cluster, address);
        let wanted = hostgroups(seat.was, cluster).into_iter();
        let free = wanted
            .filter(|to| !placed.iter().any(|row| row.hostgroup == *to && Address::of(row) == *address));
        let status = status(seat);
        let row = move |hostgroup| template.map(|row| ServerRow { hostgroup, status, ..row.clone() });
        free.filter_map(row).collect::<Vec<_>>()
    });
    rows.collect()
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
    [Some(first), second].into_iter().flatten().collect()
}

/// The role that a hostgroup stands for.
fn role_of(hostgroup: HostgroupId, cluster: &ClusterRow) -> NodeRole {
    match hostgroup {
        _ if hostgroup == cluster.writer_hostgroup => NodeRole::Writer,
        _ if hostgroup == cluster.backup_writer_hostgroup => NodeRole::BackupWriter,
        _ if hostgroup == cluster.reader_hostgroup => NodeRole::Reader,
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

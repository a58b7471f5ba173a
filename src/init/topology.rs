//! The servers that belong to the given one: its primary, followed upwards, and all replicas, followed downwards; or the
//! members of its cluster.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use narrows_control::monitor::cluster::ClusterKind;
use narrows_control::monitor::plan::Address;

use super::facts::{Cluster, Facts, Source};
use super::survey::{MOST_SERVERS, as_seen_from_here, ask_all};
use super::trust::Trust;
use super::visit::{Credentials, any_host};
use super::{address, replicas};

/// All servers.
#[derive(Debug)]
pub struct Topology {
    /// The server for writes.
    pub primary: Facts,
    /// The other ones.
    pub others: Vec<Facts>,
    /// How they belong together.
    pub relation: Relation,
    /// What could not be found out, and what to do about it.
    pub remarks: Vec<String>,
}

/// How servers belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// One server.
    Alone,
    /// A primary and its replicas: `read_only` tells which is which.
    Replication,
    /// As before, but some replica accepts writes: `read_only` tells nothing.
    WritableReplicas,
    /// Nodes that agree among themselves who may write; the monitor asks them.
    Cluster(ClusterKind),
}

impl Topology {
    /// Finds all servers, beginning with the one at `entry`.
    ///
    /// # Errors
    /// A server that is needed and does not answer; no server or no single server for writes.
    pub async fn find(entry: &Address, account: &Credentials, trust: &Trust) -> anyhow::Result<Topology> {
        let first = Facts::ask(entry, account).await?;
        match first.cluster.clone() {
            Cluster::Galera { nodes, size } => {
                let parse = |node: &String| address::parse(node).ok();
                let nodes = nodes.iter().filter_map(parse).collect();
                cluster((ClusterKind::Galera, size), first, nodes, (account, trust)).await
            }
            Cluster::Group(members) => {
                let parse = |(host, port): &(String, String)| {
                    port.parse().ok().map(|port| Address { hostname: host.clone(), port })
                };
                let (size, members) = (members.len(), members.iter().filter_map(parse).collect());
                cluster((ClusterKind::GroupReplication, size), first, members, (account, trust)).await
            }
            Cluster::None => replication(first, account, trust).await,
        }
    }

    /// The primary, then the others.
    pub fn servers(&self) -> impl Iterator<Item = &Facts> {
        std::iter::once(&self.primary).chain(&self.others)
    }
}

/// A server without a cluster, its primary and all replicas.
async fn replication(first: Facts, account: &Credentials, trust: &Trust) -> anyhow::Result<Topology> {
    let mut remarks = Vec::new();
    if let Err(reason) = &first.sources {
        ensure!(
            !first.is_read_only,
            "{} is read-only, and '{}' may not see what it replicates from: {}, and run this again ({reason})",
            first.address,
            account.username,
            grant_of(&first, &account.username)
        );
        remarks.push(format!(
            "'{}' may not see the replication of {} ({reason}): replicas, if there are any, are not used. To have them found: {}, \
             and run this again.",
            account.username,
            first.address,
            grant_of(&first, &account.username)
        ));
    }
    let known = climb(first, account, trust).await?;
    let known = replicas::below(known, (account, trust), &mut remarks).await?;
    settle(known, remarks)
}

/// The statement that lets an account see the replication of a server.
fn grant_of(facts: &Facts, username: &str) -> String {
    let account = any_host(username);
    match facts.is_mariadb && facts.version_numbers() >= vec![10, 5, 9] {
        true => format!("GRANT REPLICA MONITOR, REPLICATION MASTER ADMIN ON *.* TO {account}"),
        false => format!("GRANT REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO {account}"),
    }
}

/// The server and those that it replicates from, the last one first.
async fn climb(first: Facts, account: &Credentials, trust: &Trust) -> anyhow::Result<Vec<Facts>> {
    let mut known = vec![first];
    while let Some(source) = known[0].source().cloned() {
        ensure!(known.len() < MOST_SERVERS, "{} sources in a row have no end", known.len());
        let above = source_of(&known[0], &source, account, trust).await?;
        if known.iter().any(|facts| facts.identity == above.identity) {
            break;
        }
        known.insert(0, above);
    }
    Ok(known)
}

/// The server from which `replica` replicates.
async fn source_of(
    replica: &Facts,
    source: &Source,
    account: &Credentials,
    trust: &Trust,
) -> anyhow::Result<Facts> {
    let seen_from_here = as_seen_from_here(replica, &source.address).with_context(|| {
        let (replica, primary) = (&replica.address, &source.address);
        format!(
            "{replica} replicates from {primary}, which is not a host with a port: give --server the primary"
        )
    })?;
    let others = trust.sort(vec![seen_from_here.clone()])?.others;
    ensure!(others.is_empty(), "the primary of {} is needed: {}", replica.address, Trust::advice(&others));
    let found = Facts::ask(&seen_from_here, account).await.with_context(|| {
        format!(
            "the primary of {} cannot be examined: give --server the primary's address as seen from here",
            replica.address
        )
    })?;
    ensure!(
        source.server_id.is_empty() || source.server_id == found.server_id,
        "{seen_from_here} is not the server from which {} replicates (its server_id is {} and not {}): give --server the \
         primary's address as seen from here",
        replica.address,
        found.server_id,
        source.server_id
    );
    Ok(found)
}

/// Decides which server is for writes. `known` begins with the one that replicates from no other.
fn settle(mut known: Vec<Facts>, mut remarks: Vec<String>) -> anyhow::Result<Topology> {
    let writable: Vec<usize> =
        (0..known.len()).filter(|index| known.get(*index).is_some_and(|it| !it.is_read_only)).collect();
    let chosen = match (writable.first(), writable.len()) {
        (None, _) => bail!(
            "{} is read-only, and so is every other server of its replication: SET GLOBAL read_only = 0 on the primary, and run \
             this again",
            known[0].address
        ),
        // The top of a circle is an accident; that of a tree is the primary.
        (Some(first), 1) => *first,
        (Some(first), _) if *first == 0 && known[0].source().is_none() => 0,
        _ => bail!(
            "{} servers that replicate from each other accept writes ({}): SET GLOBAL read_only = 1 on all but one, and run this \
             again",
            writable.len(),
            names(writable.iter().filter_map(|index| known.get(*index)))
        ),
    };
    let primary = known.remove(chosen);
    known.sort_by(|one, other| one.address.cmp(&other.address));
    let relation = match (known.is_empty(), writable.len()) {
        (true, _) => Relation::Alone,
        (_, 1) => Relation::Replication,
        _ => Relation::WritableReplicas,
    };
    if relation == Relation::WritableReplicas {
        remarks.push(format!(
            "{} replicate but accept writes, so read_only does not tell Narrows which server is the primary: the hostgroups in the \
             file are fixed, and a failover is not followed. To change that: SET GLOBAL read_only = 1 there, and run this again.",
            names(known.iter().filter(|facts| !facts.is_read_only))
        ));
    }
    Ok(Topology { primary, others: known, relation, remarks })
}

/// The addresses, as part of a sentence.
fn names<'a>(servers: impl Iterator<Item = &'a Facts>) -> String {
    let names: Vec<String> = servers.map(|facts| facts.address.to_string()).collect();
    names.join(", ")
}

/// The nodes of a cluster of a kind and size. The one that is shown as its primary is the given one, if that can be
/// written to.
async fn cluster(
    (kind, size): (ClusterKind, usize),
    first: Facts,
    mut addresses: Vec<Address>,
    access: (&Credentials, &Trust),
) -> anyhow::Result<Topology> {
    let mut remarks = Vec::new();
    // Nodes do not always say where they are.
    let named = access.1.named().filter(|named| !addresses.contains(named)).cloned();
    addresses.extend(named.collect::<Vec<_>>());
    let others = members(&first, addresses, access, &mut remarks).await?;
    let found = others.len() + 1;
    if found < size {
        remarks.push(format!(
            "The cluster has {size} nodes, and {found} of them {} in the file: give each of the others as another --server, or set \
             wsrep_node_incoming_address on nodes of Galera that do not say theirs, and run this again.",
            if found == 1 { "is" } else { "are" }
        ));
    }
    let mut nodes: Vec<Facts> = std::iter::once(first).chain(others).collect();
    let Some(writable) = nodes.iter().position(|facts| !facts.is_read_only) else {
        bail!(
            "{} is read-only, and so is every other node of its cluster that was examined: make one of them writable, or give \
             --server one that is, and run this again",
            names(nodes.iter().take(1))
        );
    };
    let primary = nodes.remove(writable);
    nodes.sort_by(|one, other| one.address.cmp(&other.address));
    Ok(Topology { primary, others: nodes, relation: Relation::Cluster(kind), remarks })
}

/// The members at `addresses`, without the one that is known.
async fn members(
    first: &Facts,
    addresses: Vec<Address>,
    (account, trust): (&Credentials, &Trust),
    remarks: &mut Vec<String>,
) -> anyhow::Result<Vec<Facts>> {
    let addresses: Vec<Address> =
        addresses.iter().filter_map(|other| as_seen_from_here(first, other)).take(MOST_SERVERS).collect();
    let sorted = trust.sort(addresses)?;
    if !sorted.others.is_empty() {
        remarks.push(format!("A part of the cluster is left out: {}.", Trust::advice(&sorted.others)));
    }
    let mut seen = BTreeSet::from([first.identity.clone()]);
    let mut others = Vec::new();
    for (address, answer) in ask_all(sorted.trusted, account).await {
        match answer {
            Ok(facts) if seen.insert(facts.identity.clone()) => others.push(facts),
            Ok(_) => {}
            Err(error) => remarks.push(format!("The member {address} is left out: {error}.")),
        }
    }
    Ok(others)
}

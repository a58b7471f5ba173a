//! Other nodes of a cluster that have announced themselves: `stats_proxysql_servers_clients_status`.

use narrows_proxy::clock;

use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::schema::cells::Row;
use crate::schema::filled::{self, ClusterNode};

/// The nodes that have announced themselves.
#[derive(Default)]
pub struct Nodes(Vec<ClusterNode>);

impl Nodes {
    /// Records that another node has announced itself.
    pub fn note(&mut self, uuid: &str, caller: &Caller, interface: &str) -> Reply {
        self.0.retain(|node| node.uuid != uuid);
        if self.0.len() >= MOST_NODES {
            return Reply::error("too many nodes have announced themselves");
        }
        self.0.push(ClusterNode {
            uuid: uuid.to_owned(),
            host: caller.host.clone(),
            port: caller.port,
            interface: interface.to_owned(),
            last_seen: clock::now().as_secs(),
        });
        Reply::ok()
    }

    /// The nodes: UUID, host, port, and when they were last seen, in seconds since 1970.
    pub fn last_seen(&self) -> impl Iterator<Item = (&str, &str, u16, u64)> {
        self.0.iter().map(|node| (&*node.uuid, &*node.host, node.port, node.last_seen))
    }

    /// The rows of the table.
    pub fn rows(&self) -> Vec<Row> {
        self.0.iter().map(filled::clients_status).collect()
    }
}

/// How many nodes are remembered: far more than a cluster has.
const MOST_NODES: usize = 1_000;

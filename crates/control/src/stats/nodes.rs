//! Other nodes of a cluster that have announced themselves: `stats_proxysql_servers_clients_status`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::cells::{Row, number, text};
use crate::admin::reply::Reply;
use crate::admin::request::Caller;

/// The nodes that have announced themselves.
#[derive(Default)]
pub struct Nodes(Vec<Node>);

struct Node {
    uuid: String,
    host: String,
    port: u16,
    interface: String,
    last_seen: SystemTime,
}

impl Nodes {
    /// Records that another node has announced itself.
    pub fn note(&mut self, uuid: &str, caller: &Caller, interface: &str) -> Reply {
        self.0.retain(|node| node.uuid != uuid);
        if self.0.len() >= MOST_NODES {
            return Reply::error("too many nodes have named themselves");
        }
        self.0.push(Node {
            uuid: uuid.to_owned(),
            host: caller.host.clone(),
            port: caller.port,
            interface: interface.to_owned(),
            last_seen: SystemTime::now(),
        });
        Reply::ok()
    }

    /// The rows of the table.
    pub fn rows(&self) -> Vec<Row> {
        let row = |node: &Node| {
            let seen = node.last_seen.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            vec![
                text(node.uuid.as_str()),
                text(node.host.as_str()),
                number(node.port.into()),
                text(node.interface.as_str()),
                number(seen),
            ]
        };
        self.0.iter().map(row).collect()
    }
}

/// How many nodes are remembered: far more than a cluster has.
const MOST_NODES: usize = 1_000;

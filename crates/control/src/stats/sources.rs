//! What figures are made from, beside the workers' own.

use super::nodes::Nodes;
use crate::runtime::Runtime;
use crate::store::Store;

/// Where figures are looked up.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Variables.
    pub store: &'a Store,
    /// What runs, and what the monitor has found.
    pub runtime: &'a Runtime,
    /// Other nodes of a cluster.
    pub nodes: &'a Nodes,
}

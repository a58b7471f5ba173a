//! The sources of figures, besides the workers' own.

use super::nodes::Nodes;
use crate::runtime::Runtime;
use crate::store::Store;

/// Where figures come from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Variables.
    pub store: &'a Store,
    /// The runtime, including what the monitor has found.
    pub runtime: &'a Runtime,
    /// Other nodes of a cluster.
    pub nodes: &'a Nodes,
}

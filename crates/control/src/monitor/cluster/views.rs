//! Which nodes the others have excluded: a node that hangs or is cut off says nothing about it, and the others know first.
//!
//! Each node says which view of its cluster it has, and how many nodes that view has. Where as many nodes say the same one, they are
//! all of it: any node that last said an older one has been excluded. A node in between, which the others have not heard of yet
//! either, is not.

use std::collections::{BTreeMap, BTreeSet};

use crate::monitor::plan::Address;

/// A view of a cluster, as a node has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// What numbers of views are comparable in.
    pub history: String,
    /// Its number in that history.
    pub number: u64,
    /// How many nodes it has.
    pub size: u64,
}

/// The nodes that are not in the newest view that all of its nodes have. `views`: what the nodes that can be used said last, and
/// what those that are silent said before.
pub fn excluded<'a>(views: &BTreeMap<&'a Address, &View>) -> BTreeSet<&'a Address> {
    let is_complete = |view: &View| {
        let nodes = views.values().filter(|other| ***other == *view).count();
        view.size > 0 && u64::try_from(nodes).unwrap_or(u64::MAX) >= view.size
    };
    let complete: BTreeSet<&View> = views.values().copied().filter(|view| is_complete(view)).collect();
    let is_older = |view: &View| {
        complete.iter().any(|newer| newer.history == view.history && newer.number > view.number)
    };
    views.iter().filter(|(_, view)| is_older(view)).map(|(address, _)| *address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes that are excluded, of those that say these views: history, number and size.
    fn those(views: &[(&str, u64, u64)]) -> Vec<u16> {
        let views: Vec<(Address, View)> = (0..)
            .zip(views)
            .map(|(port, (history, number, size))| {
                let address = Address { hostname: "node".to_owned(), port };
                (address, View { history: (*history).to_owned(), number: *number, size: *size })
            })
            .collect();
        excluded(&views.iter().map(|(address, view)| (address, view)).collect())
            .into_iter()
            .map(|address| address.port)
            .collect()
    }

    #[test]
    fn a_node_with_an_older_view_than_all_nodes_of_a_newer_one_is_excluded() {
        let none: [u16; 0] = [];
        for (views, expected) in [
            // All agree.
            (&[("a", 3, 3), ("a", 3, 3), ("a", 3, 3)][..], &none[..]),
            // Two of three have another view, without the first one.
            (&[("a", 3, 3), ("a", 4, 2), ("a", 4, 2)], &[0]),
            // One of the two has not been heard since.
            (&[("a", 3, 3), ("a", 3, 3), ("a", 4, 2)], &none),
            // The first one has just joined, and was heard first.
            (&[("a", 5, 3), ("a", 4, 2), ("a", 4, 2)], &none),
            // A fourth one, which is not configured, has joined.
            (&[("a", 3, 3), ("a", 4, 4), ("a", 4, 4)], &none),
            // Another cluster.
            (&[("b", 3, 3), ("a", 4, 2), ("a", 4, 2)], &none),
            // Nodes that have left one after the other.
            (&[("a", 3, 3), ("a", 4, 2), ("a", 5, 1)], &[0, 1]),
            // A node that is in no view.
            (&[("a", 3, 0), ("a", 4, 2), ("a", 4, 2)], &[0]),
            (&[], &none),
        ] {
            assert_eq!(those(views), expected, "{views:?}");
        }
    }
}

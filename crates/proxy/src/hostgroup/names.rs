//! The current addresses of servers' host names: resolved by the control plane, so that no worker asks a resolver, and
//! carried by each snapshot.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Addresses by name.
pub type NameTable = BTreeMap<String, Arc<[IpAddr]>>;

/// The resolved names, and how often they were used.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The addresses by name.
    pub table: Arc<NameTable>,
    /// The counters.
    pub figures: Arc<NameFigures>,
}

/// The counters of names since the start.
#[derive(Debug, Default)]
pub struct NameFigures {
    /// Connections for which a name was looked up.
    pub queried: AtomicU64,
    /// Connections for which the name was known.
    pub found: AtomicU64,
    /// How often addresses of a name became known, or changed.
    pub updated: AtomicU64,
}

/// What is known about the name of one server.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    known: Option<Arc<[IpAddr]>>,
    /// `None` if the name is not resolved in advance.
    figures: Option<Arc<NameFigures>>,
    /// The address to start with for the next connection: a name with several addresses represents as many servers.
    turn: Arc<AtomicUsize>,
}

impl PartialEq for Names {
    fn eq(&self, other: &Names) -> bool {
        self.table == other.table
    }
}

impl Names {
    /// What is known about a row's host: nothing if it is an address.
    pub fn of(&self, hostname: &str, port: u16) -> Addresses {
        if port == 0 || hostname.parse::<IpAddr>().is_ok() {
            return Addresses::default();
        }
        let known = self.table.get(hostname).map(Arc::clone);
        Addresses { known, figures: Some(Arc::clone(&self.figures)), turn: Arc::default() }
    }
}

impl Addresses {
    /// A name with these addresses, for connections that are not counted.
    pub fn uncounted(known: Option<Arc<[IpAddr]>>) -> Addresses {
        Addresses { known, ..Addresses::default() }
    }

    /// The addresses to try, in this order; `None` if the system's resolver must be used.
    pub fn look_up(&self) -> Option<Vec<IpAddr>> {
        if let Some(figures) = &self.figures {
            figures.queried.fetch_add(1, Ordering::Relaxed);
            if self.known.is_some() {
                figures.found.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut addresses = self.known.as_ref()?.to_vec();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % addresses.len().max(1);
        addresses.rotate_left(turn);
        Some(addresses)
    }

    /// Whether the name no longer resolves to an address.
    pub fn have_left(&self, address: IpAddr) -> bool {
        self.known.as_ref().is_some_and(|known| !known.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_turns_and_what_is_an_address_is_not_looked_up() {
        let [one, two]: [IpAddr; 2] = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
        let table = NameTable::from([("db".to_owned(), Arc::from([one, two]))]);
        let names = Names { table: Arc::new(table), figures: Arc::default() };
        let db = names.of("db", 3306);
        assert_eq!(
            [db.look_up(), db.look_up(), db.look_up()],
            [[one, two], [two, one], [one, two]].map(|it| Some(it.into()))
        );
        assert!(!db.have_left(two) && db.have_left([127, 0, 0, 3].into()));
        let others = [("127.0.0.1", 3306), ("/run/mysqld.sock", 0), ("::1", 3306)];
        assert!(others.iter().all(|(host, port)| names.of(host, *port).look_up().is_none()));
        let unknown = names.of("other", 3306);
        assert!(unknown.look_up().is_none() && !unknown.have_left(one));
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((count(&names.figures.queried), count(&names.figures.found)), (4, 3));
    }
}

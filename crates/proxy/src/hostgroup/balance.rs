//! The choice among the servers of a hostgroup: smooth weighted round robin, exact in the long run.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Server, ServerFigures};

/// One worker's position in the round, per server.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// By identity of the server's figures, which outlive snapshots.
    credit: HashMap<*const ServerFigures, i64>,
}

impl RoundRobin {
    /// The next of `candidates`: each gains its weight, the richest is chosen and pays for all.
    pub fn next<'a>(
        &mut self,
        candidates: impl Iterator<Item = &'a Arc<Server>> + Clone,
    ) -> Option<&'a Arc<Server>> {
        let mut first_two = candidates.clone();
        if let (Some(only), None) = (first_two.next(), first_two.next()) {
            return Some(only);
        }
        let mut total = 0;
        let mut chosen: Option<(&'a Arc<Server>, i64)> = None;
        for server in candidates {
            let weight = i64::from(server.row.weight);
            total += weight;
            let credit = self.credit.entry(Arc::as_ptr(&server.figures)).or_default();
            *credit += weight;
            if chosen.is_none_or(|(_, most)| *credit > most) {
                chosen = Some((server, *credit));
            }
        }
        let (server, _) = chosen?;
        if let Some(credit) = self.credit.get_mut(&Arc::as_ptr(&server.figures)) {
            *credit -= total;
        }
        Some(server)
    }

    /// Forgets servers that no snapshot has any more.
    pub fn retain(&mut self, alive: impl Fn(*const ServerFigures) -> bool) {
        self.credit.retain(|server, _| alive(*server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::server;
    use crate::tls::SharedTls;

    #[test]
    fn weights_are_exact_and_turns_are_spread() {
        let servers: Vec<Arc<Server>> = [("a", 1), ("b", 2), ("c", 7)]
            .map(|(name, weight)| {
                let mut row = server(0, name, 3306);
                row.weight = weight;
                Arc::new(Server { row, figures: Arc::default(), tls: SharedTls::default() })
            })
            .into();
        let mut round = RoundRobin::default();
        let mut turns: HashMap<String, u32> = HashMap::new();
        for _ in 0..1_000 {
            *turns.entry(round.next(servers.iter()).unwrap().row.hostname.clone()).or_default() += 1;
        }
        assert_eq!((turns["a"], turns["b"], turns["c"]), (100, 200, 700));
    }
}

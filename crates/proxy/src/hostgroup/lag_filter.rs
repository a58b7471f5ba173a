//! Which servers of a hostgroup are near enough to their source for a statement that sets a limit.

use super::{Hostgroup, Server};
use crate::lag::LagLimit;

/// The limit of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagFilter {
    limit: LagLimit,
    /// Whether so many replicas are within the limit that the writer of an Aurora cluster is spared.
    spares_writer: bool,
}

impl From<LagLimit> for LagFilter {
    fn from(limit: LagLimit) -> LagFilter {
        LagFilter { limit, spares_writer: false }
    }
}

impl LagFilter {
    /// The same limit for a choice in `hostgroup`, as its servers are now. The writer of an Aurora cluster is spared, with
    /// all servers whose lag is not known, if enough replicas are within the limit.
    pub fn in_hostgroup(self, hostgroup: &Hostgroup) -> LagFilter {
        let enough = hostgroup.settings.aurora_replicas_instead;
        let is_within = |server: &Server| {
            let lag = server.figures.lag.get();
            hostgroup.may_use(server) && lag.is_some_and(|lag| lag.is_aurora) && self.limit.admits(lag)
        };
        let within = hostgroup.servers.iter().filter(|server| is_within(server)).take(enough).count();
        LagFilter { limit: self.limit, spares_writer: enough > 0 && within == enough }
    }

    /// Whether a server may get the statement.
    pub fn admits(&self, server: &Server) -> bool {
        let lag = server.figures.lag.get();
        self.limit.admits(lag) && !(self.spares_writer && lag.is_none())
    }

    /// Whether the limit keeps the statement from a server of `hostgroup` that others may use.
    pub fn excludes_any(self, hostgroup: &Hostgroup) -> bool {
        let here = self.in_hostgroup(hostgroup);
        hostgroup.servers.iter().any(|server| hostgroup.may_use(server) && !here.admits(server))
    }

    /// Why a server does not get the statement; `None` if it may.
    pub fn why_not(&self, server: &Server) -> Option<String> {
        match server.figures.lag.get() {
            _ if self.admits(server) => None,
            Some(lag) => Some(self.limit.why_not(lag)),
            None => Some("enough replicas are within the limit of the statement: it is left out, for mysql-aurora_max_lag_ms_only_read_from_replicas".to_owned()),
        }
    }

    /// What is known of the lag of a server that may get the statement.
    pub fn known_of(server: &Server) -> String {
        match server.figures.lag.get() {
            Some(lag) => format!("its lag was {} ms", lag.lag_ms),
            None => "its lag is not known: it counts as 0".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::hostgroup::{Alarm, Demand, HostgroupSettings};
    use crate::lag::ReplicaLag;
    use crate::rows::{HostgroupId, Variables, server};
    use crate::tls::SharedTls;

    /// A hostgroup of servers with these lags in milliseconds.
    fn hostgroup(lags: &[Option<u32>], enough: usize, is_aurora: bool) -> Hostgroup {
        let variables = Variables { aurora_replicas_instead: enough, ..Variables::default() };
        let server = |(port, lag): (u16, &Option<u32>)| {
            let server = Server::new(server(0, "a", port), SharedTls::default());
            server.figures.lag.set(lag.map(|lag_ms| ReplicaLag { lag_ms, at_ms: 1, is_aurora }));
            Arc::new(server)
        };
        Hostgroup {
            id: HostgroupId(0),
            servers: (1..).zip(lags).map(server).collect(),
            demand: Arc::new(Demand::new(HostgroupId(0), 1)),
            settings: HostgroupSettings::of(&variables, None),
            is_overfull: false,
            preference: None,
            writers: None,
            alarm: Alarm::default(),
        }
    }

    #[test]
    fn an_aurora_writer_is_left_out_when_enough_replicas_are_within_the_limit() {
        let (writer, near, far) = (None, Some(20), Some(900));
        // Servers, how many replicas are enough, and who is admitted with a limit of 100 ms.
        let cases: [(&[Option<u32>], usize, &str); 9] = [
            (&[writer, near, near], 2, "011"),
            (&[writer, near, far], 2, "110"),
            (&[writer, near, far], 1, "010"),
            (&[writer, far, far], 1, "100"),
            (&[writer, near, near], 0, "111"),
            (&[writer, near, near], 3, "111"),
            (&[writer], 2, "1"),
            (&[far, far], 2, "00"),
            (&[near, far, near], 2, "101"),
        ];
        for (lags, enough, admitted) in cases {
            for is_aurora in [true, false] {
                let hostgroup = hostgroup(lags, enough, is_aurora);
                let filter = LagFilter::from(LagLimit::MaxLagMs(100)).in_hostgroup(&hostgroup);
                let shown: String =
                    hostgroup.servers.iter().map(|it| if filter.admits(it) { '1' } else { '0' }).collect();
                let expected = match is_aurora {
                    true => admitted.to_owned(),
                    false => lags.iter().map(|lag| if *lag == far { '0' } else { '1' }).collect(),
                };
                assert_eq!(shown, expected, "{lags:?} {enough} {is_aurora}");
                let excludes = LagFilter::from(LagLimit::MaxLagMs(100)).excludes_any(&hostgroup);
                assert_eq!(excludes, shown.contains('0'));
                for server in &hostgroup.servers {
                    assert_eq!(filter.why_not(server).is_none(), filter.admits(server));
                }
            }
        }
    }
}

//! The switchover that runs, if one does: begun here, and given what it wants from the control thread.

use std::collections::BTreeSet;
use std::time::Instant;

use narrows_proxy::snapshot::{HostgroupId, ServerRow, ServerStatus};

use super::Runtime;
use crate::holds::CutOff;
use crate::monitor::Report;
use crate::monitor::cluster::{ClusterKind, clusters};
use crate::monitor::plan::Address;
use crate::store::Store;
use crate::switchover::{Journal, Step, StepState, SwitchoverOrder, Wanted, Wish};

/// The last switchover: it runs, or has ended.
pub struct Switchover {
    /// Its writer hostgroup.
    pub hostgroup: HostgroupId,
    /// When the command arrived.
    pub since: Instant,
    /// What it has done.
    pub journal: Journal,
}

impl Switchover {
    /// One that the end of its process has cut off.
    pub fn cut_off(it: &CutOff) -> Switchover {
        let journal = Journal::default();
        let state = StepState::Failed(format!("it was {}", it.reason));
        let (server, statement) = ("narrows".to_owned(), it.by.clone());
        journal.add(Step { server, statement, state, took_ms: 0 });
        journal.end(Err(it.reason.to_owned()));
        Switchover { hostgroup: it.hostgroup, since: Instant::now(), journal }
    }
}

impl Runtime {
    /// The last switchover, if there was any.
    pub fn switchover(&self) -> Option<&Switchover> {
        self.switchover.as_ref()
    }

    /// Whether a switchover runs.
    pub fn is_switching_over(&self) -> bool {
        self.switchover.as_ref().is_some_and(|it| it.journal.outcome().is_none())
    }

    /// Whether a switchover of that hostgroup runs.
    pub fn is_switching_over_in(&self, hostgroup: HostgroupId) -> bool {
        self.is_switching_over() && self.switchover.as_ref().is_some_and(|it| it.hostgroup == hostgroup)
    }

    /// Begins a switchover of a hostgroup to a server.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub fn begin_switchover(
        &mut self,
        store: &Store,
        (wish, to): (Wish, &Address),
        (by, since, is_dry): (String, Instant, bool),
    ) -> Result<(), String> {
        if self.is_switching_over() {
            return Err("another switchover is running (SHOW NARROWS SWITCHOVER)".to_owned());
        }
        let hostgroup = wish.hostgroup;
        if let Some(hold) = self.holds.of(hostgroup) {
            return Err(format!(
                "hostgroup {hostgroup} is held by {}: NARROWS RELEASE HOSTGROUP {hostgroup} first",
                hold.by
            ));
        }
        let order = self.order(store, wish, to, (by, is_dry))?;
        let observer =
            self.observer().ok_or_else(|| "nothing runs (PROXYSQL START serves again)".to_owned())?;
        let journal = Journal::default();
        (self.begin_work)(order, observer, journal.clone())
            .map_err(|error| format!("no thread for it: {error}"))?;
        self.switchover = Some(Switchover { hostgroup, since, journal });
        Ok(())
    }

    /// The servers that take part.
    fn order(
        &self,
        store: &Store,
        wish: Wish,
        to: &Address,
        (by, is_dry): (String, bool),
    ) -> Result<SwitchoverOrder, String> {
        let hostgroup = wish.hostgroup;
        let settings = store.variables().for_monitor();
        if self.servers.monitor.is_none() || !settings.enabled {
            return Err(
                "mysql-monitor_enabled is false: nothing would notice the state of the servers".to_owned()
            );
        }
        let pair = self.pair(hostgroup)?;
        let is_in_use =
            |row: &&ServerRow| !matches!(row.status, ServerStatus::OfflineSoft | ServerStatus::OfflineHard);
        let rows: Vec<&ServerRow> = self.servers.running.iter().filter(is_in_use).collect();
        let of = |wanted: HostgroupId| rows.iter().filter(move |row| row.hostgroup == wanted);
        let old = only_writer(hostgroup, of(hostgroup).map(|row| Address::of(row)).collect())?;
        if old == *to {
            return Err(format!("{to} is the writer of hostgroup {hostgroup} already"));
        }
        let readers: Vec<Address> = of(pair.1).map(|row| Address::of(row)).collect();
        if !readers.contains(to) {
            return Err(format!("{to} is no server of hostgroup {}, or is out of use there", pair.1));
        }
        let targets = self.servers.targets(&self.rows);
        let target = |address: &Address| targets.iter().find(|target| target.address == *address).cloned();
        let unchecked = |address: &Address| format!("{address} is not checked by the monitor");
        let others: BTreeSet<&Address> =
            readers.iter().filter(|address| **address != old && *address != to).collect();
        Ok(SwitchoverOrder {
            old: target(&old).ok_or_else(|| unchecked(&old))?,
            new: target(to).ok_or_else(|| unchecked(to))?,
            others: others.into_iter().filter_map(target).collect(),
            access: self.access_of_monitor(&settings),
            by,
            is_dry,
            wish,
        })
    }

    /// The pair of a writer hostgroup.
    fn pair(&self, hostgroup: HostgroupId) -> Result<(HostgroupId, HostgroupId), String> {
        if let Some(cluster) = clusters(&self.rows).find(|it| it.row.hostgroups().contains(&hostgroup)) {
            let instead = match cluster.id.kind {
                ClusterKind::Galera => "change weights in mysql_servers, and LOAD MYSQL SERVERS TO RUNTIME",
                ClusterKind::GroupReplication => {
                    "run SELECT group_replication_set_as_primary(server_uuid) on a member"
                }
                ClusterKind::Aurora => "fail over with the service's own command (failover-db-cluster)",
            };
            return Err(format!("hostgroup {hostgroup} belongs to {}: {instead}", cluster.id));
        }
        let pairs = &self.rows.replication_hostgroups;
        if let Some(pair) = pairs.iter().find(|pair| pair.writer_hostgroup == hostgroup) {
            if pair.check_type.to_ascii_lowercase().contains("innodb") {
                return Err(format!(
                    "check_type of hostgroup {hostgroup} is {}: no statement changes that",
                    pair.check_type
                ));
            }
            return Ok((pair.writer_hostgroup, pair.reader_hostgroup));
        }
        Err(match pairs.iter().find(|pair| pair.reader_hostgroup == hostgroup) {
            Some(pair) => format!(
                "hostgroup {hostgroup} has the readers of hostgroup {}: name that one",
                pair.writer_hostgroup
            ),
            None => format!("hostgroup {hostgroup} is no writer hostgroup of mysql_replication_hostgroups"),
        })
    }

    /// Does what a switchover wants.
    pub fn serve_switchover(&mut self, store: &mut Store, wanted: Wanted) {
        match wanted {
            Wanted::Hold { hostgroup, length, by, done } => {
                self.hold(store, hostgroup, (by, length, Instant::now()));
                // One that waits no longer has given up.
                let _ = done.send(());
            }
            Wanted::Roles { findings, done } => {
                self.learn(store, Report { records: Vec::new(), findings, names: None, taken: done });
            }
            Wanted::Released { hostgroup, done } => {
                self.holds.release_switchover(hostgroup);
                self.keep_what_runs(store);
                let _ = done.send(());
                tracing::info!(%hostgroup, "a hostgroup is held no longer");
            }
            Wanted::Ended(hostgroup) => {
                self.holds.end_switchover(hostgroup);
                self.keep_what_runs(store);
            }
        }
    }
}

/// The writer of a hostgroup that has these.
fn only_writer(hostgroup: HostgroupId, writers: Vec<Address>) -> Result<Address, String> {
    match writers.as_slice() {
        [] => Err(format!("hostgroup {hostgroup} has no writer: have a tool promote one")),
        [one] => Ok(one.clone()),
        more => Err(format!("hostgroup {hostgroup} has {} writers", more.len())),
    }
}

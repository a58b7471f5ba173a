//! Applies what the monitor has found.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_proxy::clock;
use narrows_proxy::hostgroup::{Hostgroup, Server};
use narrows_proxy::lag::ReplicaLag;
use narrows_proxy::server::DataPlane;
use narrows_proxy::snapshot::{ServerRow, ServerStatus};
use narrows_sql::ChangedDefaults;

use super::Runtime;
use super::servers::LAG_CHECKS;
use crate::monitor::Report;
use crate::monitor::cluster::{ClusterId, aurora_row};
use crate::monitor::finding::Finding;
use crate::monitor::log::Record;
use crate::monitor::ping;
use crate::monitor::plan::Address;
use crate::monitor::settings::MonitorSettings;
use crate::store::Store;

impl Runtime {
    /// Processes what the monitor has found.
    pub fn learn(&mut self, store: &mut Store, report: Report) {
        let settings = store.variables().for_monitor();
        let mut changed = false;
        for finding in &report.findings {
            if let Finding::Defaults(address, what) = finding {
                self.renew_defaults(address, *what);
            }
            changed |= self.servers.learn(finding, &self.rows, &settings);
        }
        self.servers.place_again(&self.rows, &settings);
        let now = Instant::now();
        if settings.enabled && self.servers.known.readers.is_due(now) {
            self.servers.find_readers(&self.rows, &settings, now);
            changed = true;
        }
        if changed || (settings.enabled && self.servers.known.seats.is_due(now)) {
            self.servers.seat(&self.rows, now);
            changed = true;
        }
        if let Some(table) = report.names {
            self.servers.learn_names(table);
            self.publish_servers(self.servers.running.clone());
        }
        if changed {
            self.put_into_force(store);
            self.servers.follow_writers(&self.rows);
        }
        self.keep_records(store, &report.records, &settings);
        self.keep_failovers(store);
        // A monitor that has ended reports no more.
        let _ = report.taken.send(());
    }

    /// Has the connections to a server take over again what it gives to new sessions.
    fn renew_defaults(&self, address: &Address, what: ChangedDefaults) {
        let Some(snapshot) = self.plane.running().map(DataPlane::snapshot) else { return };
        let servers = snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers);
        servers
            .filter(|server| Address::of(&server.row) == *address)
            .for_each(|server| server.figures.defaults.change(what));
    }

    /// Informs the workers of what has changed.
    fn put_into_force(&mut self, store: &mut Store) {
        let servers = self.servers.placement.with_states(&self.servers.known);
        // A reader that was found is checked before it is anywhere.
        let has_another_plan = std::mem::take(&mut self.servers.has_another_plan);
        let has_other_zones = self.servers.follow_zones();
        if servers == self.servers.running && !has_other_zones {
            if has_another_plan {
                self.announce_plan(store);
            }
            return;
        }
        if !self.publish_servers(servers.clone()) {
            return;
        }
        self.servers.version += 1;
        let placement = std::mem::take(&mut self.servers.placement);
        self.follow(store, servers, placement);
        self.keep_what_runs(store);
    }

    /// Makes the workers use these servers; returns whether they do.
    fn publish_servers(&mut self, servers: Vec<ServerRow>) -> bool {
        let rows = self.servers.with_found(servers, &self.rows);
        if let Err(error) = self.plane.publish(rows) {
            // Only servers have changed, and servers are never a reason to refuse a configuration.
            tracing::error!(%error, "cannot apply the findings of the monitor");
            return false;
        }
        true
    }

    fn keep_records(&mut self, store: &mut Store, records: &[Record], settings: &MonitorSettings) {
        let latencies = self.servers.note(records, settings);
        self.announce_latencies(&latencies);
        self.servers.latencies_us.extend(latencies);
        if records.iter().any(|record| LAG_CHECKS.contains(&record.kind)) {
            self.announce_lags();
        }
        self.announce_positions(records);
        self.announce_reached(records);
        if let Err(refusal) = store.record(records) {
            tracing::warn!(reason = refusal.message, "cannot store the results of checks");
        }
        if self.servers.purged.elapsed() < PURGE_INTERVAL {
            return;
        }
        self.servers.purged = Instant::now();
        let longest = settings.timings.values().map(|timing| timing.interval).max().unwrap_or_default();
        let oldest = clock::now().saturating_sub(settings.history.max(longest));
        if let Err(refusal) = store.forget_records_before(i64::try_from(oldest.as_micros()).unwrap_or(0)) {
            tracing::warn!(reason = refusal.message, "cannot delete old results of checks");
        }
    }

    /// Stores which nodes of Aurora clusters have become writers.
    fn keep_failovers(&mut self, store: &mut Store) {
        let writers = std::mem::take(&mut self.servers.new_writers).into_iter();
        let server_id = |(cluster, node): (ClusterId, Address)| {
            let domain = &aurora_row(&self.rows, cluster)?.domain_name;
            let id = node.hostname.strip_suffix(domain.as_str()).unwrap_or(&node.hostname);
            Some((cluster.writers, id.to_owned()))
        };
        let writers: Vec<_> = writers.filter_map(server_id).collect();
        if let Err(refusal) = store.record_writers(&writers) {
            tracing::warn!(reason = refusal.message, "cannot store who became a writer");
        }
    }

    /// Reports the latency of pings to the data plane.
    pub(super) fn announce_latencies(&self, latencies_us: &BTreeMap<Address, u64>) {
        let Some(snapshot) = self.plane.running().map(DataPlane::snapshot) else { return };
        let latencies_us: HashMap<(&str, u16), u64> =
            latencies_us.iter().map(|(of, us)| ((of.hostname.as_str(), of.port), *us)).collect();
        for server in snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
            if let Some(latency_us) = latencies_us.get(&(server.row.hostname.as_str(), server.row.port)) {
                server.figures.set_latency_us(*latency_us);
            }
        }
    }

    /// Reports to the data plane which servers have answered pings.
    fn announce_reached(&self, records: &[Record]) {
        let Some(plane) = self.plane.running() else { return };
        let now_us = clock::now_us();
        let is_answered = |record: &&Record| record.kind == &ping::CHECK && record.outcome.is_ok();
        for record in records.iter().filter(is_answered) {
            let ago_us = u64::try_from(now_us.saturating_sub(record.start_us)).unwrap_or(0);
            let address = &record.address;
            plane.was_checked(&address.hostname, address.port, Duration::from_micros(ago_us));
        }
    }

    /// Reports to the data plane which transactions servers have applied.
    fn announce_positions(&self, records: &[Record]) {
        let with_position = |record: &Record| record.position.is_some();
        let Some(snapshot) = self.plane.running().map(DataPlane::snapshot) else { return };
        if !snapshot.tracks_gtids || !records.iter().any(with_position) {
            return;
        }
        let mut servers: HashMap<(&str, u16), Vec<&Server>> = HashMap::new();
        for server in snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
            servers.entry((&server.row.hostname, server.row.port)).or_default().push(server);
        }
        for record in records {
            let Some(found) = &record.position else { continue };
            let of = servers.get(&(record.address.hostname.as_str(), record.address.port));
            for server in of.into_iter().flatten() {
                server.figures.position.checked(&found.applied, found.went_back, record.start_us);
            }
        }
    }

    /// Reports the lags of servers to the data plane. A writer waits for nobody, whatever a check of its replication says.
    pub(super) fn announce_lags(&self) {
        let Some(snapshot) = self.plane.running().map(DataPlane::snapshot) else { return };
        let mut lags: HashMap<(&str, u16), ReplicaLag> = HashMap::new();
        for check in LAG_CHECKS {
            for ((of, _), lag) in self.servers.lags.iter().filter(|((_, by), _)| *by == check) {
                lags.entry((of.hostname.as_str(), of.port)).or_insert(*lag);
            }
        }
        let servers =
            || snapshot.hostgroups.values().flat_map(|it| it.servers.iter().map(move |of| (it, of)));
        let is_writer = |(hostgroup, server): &(&Arc<Hostgroup>, &Arc<Server>)| {
            hostgroup.writers.is_some() && server.row.status == ServerStatus::Online
        };
        for (_, server) in servers().filter(is_writer) {
            lags.remove(&(server.row.hostname.as_str(), server.row.port));
        }
        for (_, server) in servers() {
            let lag = lags.get(&(server.row.hostname.as_str(), server.row.port));
            server.figures.lag.set(lag.copied());
        }
    }
}

/// How often old results are deleted.
const PURGE_INTERVAL: Duration = Duration::from_secs(5);

//! The report of a member: written under a lease, if it is this one's; and the reports of all.

use std::net::IpAddr;
use std::time::Duration;

use narrows_proxy::rt::{Instant, spawn_local};

use super::super::address;
use super::super::claim::{ReportClaim, claim};
use super::super::etcd::USUAL_TIME;
use super::super::figures::{FiguresWish, FleetFigures, ask_all};
use super::super::host_name;
use super::super::report::{NodeReport, ReportOrigin};
use super::super::taken_back::{self, TakenBack};
use super::super::transaction::{KeyValue, Transaction};
use super::{Runner, now_s};
use crate::versions::FleetPlace;

/// What this process knows of the report under its name.
pub(super) struct OwnReport {
    origin: ReportOrigin,
    /// When this process has begun, in seconds since 1970.
    began: i64,
    /// Where the others reach this one, if its settings say so.
    address: Option<String>,
    /// The name of this machine.
    host: String,
    /// The address of this machine towards etcd, as it was last.
    toward_etcd: Option<IpAddr>,
    /// The report that was written last, and when.
    written: Option<(NodeReport, Instant)>,
    /// What etcd calls the revision of the report; 0: there is none.
    revision: i64,
    /// Another Narrows that has this one's name.
    rival: Option<Rival>,
}

/// Another Narrows that reports under the name of this one.
struct Rival {
    /// The report, as it was seen first.
    report: NodeReport,
    /// Since when it is known, and when it was looked at last.
    since: Instant,
    looked: Instant,
    /// Whether it was logged: it lives.
    is_told: bool,
}

impl OwnReport {
    /// The report of a process with the data folder `uuid`, which others reach at `address`.
    pub fn new(uuid: String, address: Option<String>) -> OwnReport {
        OwnReport {
            origin: ReportOrigin { uuid, process: format!("{:016x}", rand::random::<u64>()) },
            began: now_s(),
            address,
            host: host_name(),
            toward_etcd: None,
            written: None,
            revision: 0,
            rival: None,
        }
    }

    /// Etcd was reached from that address of this machine.
    pub fn has_reached_etcd(&mut self, local: Option<IpAddr>) {
        self.toward_etcd = local.or(self.toward_etcd);
    }

    /// Whether this process has reported, and nobody else does so with its name.
    pub fn is_ours(&self) -> bool {
        self.written.is_some() && self.rival.is_none()
    }

    /// Whether another Narrows reports with the name of this one.
    pub fn has_rival(&self) -> bool {
        self.rival.is_some()
    }

    /// Why this one does not report, if another one does so with its name, under `key`.
    pub fn obstacle(&self, key: &str) -> Option<String> {
        let rival = &self.rival.as_ref()?.report;
        let place = match rival.address.is_empty() {
            true => String::new(),
            false => format!(", at {},", rival.address),
        };
        Some(format!(
            "another Narrows{place} has the name {}: give one of them another `node` in [fleet] (if there is no other one, \
             etcdctl del {key} removes its report)",
            rival.node
        ))
    }
}

impl Runner {
    /// Reports under a lease, if there is something to say or the last report is old.
    pub(super) async fn report(&mut self) -> Result<(), String> {
        let report = self.present();
        let is_known = |(last, at): &(NodeReport, Instant)| *last == report && at.elapsed() < KEEP;
        let is_written = self.own.rival.is_none() && self.own.written.as_ref().is_some_and(is_known);
        let is_looked_at = self.own.rival.as_ref().is_some_and(|rival| rival.looked.elapsed() < LOOK_AGAIN);
        if (is_written && self.lease.is_some()) || is_looked_at {
            return Ok(());
        }
        let lease = self.lease().await?;
        let key = self.keys.node(&self.member.node);
        let value = NodeReport { reported: now_s(), ..report.clone() }.encode();
        // What is found there may have gone until it is written over.
        for _ in 0..ATTEMPTS {
            let put = Transaction::default()
                .when(&key, self.own.revision)
                .put(&key, &value, Some(lease))
                .get_otherwise(&key);
            let outcome = self.etcd.run(&put, USUAL_TIME).await;
            let outcome = outcome.inspect_err(|_| self.lease = None)?;
            if outcome.has_succeeded {
                self.own.revision = outcome.revision;
                self.own.written = Some((report, Instant::now()));
                self.has_no_rival();
                return Ok(());
            }
            let has_written = self.own.written.is_some();
            match claim(&self.own.origin, self.own.began, has_written, outcome.first()) {
                ReportClaim::Write(revision) => self.own.revision = revision,
                ReportClaim::KeepAway(other) => {
                    self.has_rival(*other);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// How it is here.
    fn present(&self) -> NodeReport {
        let found = || address::reported(&self.status.listening, self.own.toward_etcd, &self.own.host);
        let address = self.own.address.clone().unwrap_or_else(found);
        NodeReport {
            node: self.member.node.clone(),
            origin: self.own.origin.clone(),
            running: self.member.running.as_ref().map(|place| place.mark),
            settled: self.member.running.as_ref().and_then(FleetPlace::settled),
            home: self.member.running.as_ref().map(|place| place.home.clone()),
            since: self.since,
            refused: self.member.refused.clone(),
            mismatch: self.mismatch().unwrap_or_default(),
            drift: self.status.drift,
            not_ready: self.status.not_ready.clone(),
            local_version: self.status.local_version,
            reported: 0,
            address,
            is_encrypted: self.status.is_encrypted,
            modules: self.status.modules.clone(),
            standing: self.standing(),
            revision: 0,
        }
    }

    /// Why it cannot be said that this member runs what the fleet has.
    fn mismatch(&self) -> Option<String> {
        self.member.mismatch.as_ref().map(|it| it.reason.clone()).or_else(|| self.strangers.clone())
    }

    /// Another Narrows reports with the name of this one. That it has only died, and this one is in its place, shows within
    /// the time of its lease.
    fn has_rival(&mut self, report: NodeReport) {
        let now = Instant::now();
        let rival = self.own.rival.get_or_insert_with(|| Rival {
            report: report.clone(),
            since: now,
            looked: now,
            is_told: false,
        });
        rival.looked = now;
        let is_alive = report.reported != rival.report.reported || rival.since.elapsed() > LONGEST_LEASE;
        if is_alive && !std::mem::replace(&mut rival.is_told, true) {
            let (node, address) = (&report.node, &report.address);
            tracing::error!(
                node,
                address,
                "another Narrows of the fleet has the same name: this one follows the fleet, does not report, and changes nothing"
            );
        }
        let obstacle = self.own.obstacle(&self.keys.node(&self.member.node));
        self.view.change(|view| view.rival = obstacle);
    }

    fn has_no_rival(&mut self) {
        if self.own.rival.take().is_some_and(|rival| rival.is_told) {
            tracing::info!(node = self.member.node, "no other Narrows of the fleet has this name any more");
        }
        self.view.change(|view| view.rival = None);
    }

    /// A lease that lasts.
    async fn lease(&mut self) -> Result<i64, String> {
        if let Some((lease, kept)) = self.lease {
            if kept.elapsed() < KEEP / 2 {
                return Ok(lease);
            }
            if self.etcd.keep(lease).await.unwrap_or(false) {
                self.lease = Some((lease, Instant::now()));
                return Ok(lease);
            }
        }
        let lease = self.etcd.grant(LEASE_SECONDS).await?;
        self.lease = Some((lease, Instant::now()));
        Ok(lease)
    }

    /// The reports of all members.
    pub(super) async fn members(&mut self) -> Result<Vec<NodeReport>, String> {
        let pairs = self.etcd.all(&self.keys.nodes(), MOST_MEMBERS).await?;
        // One without a lease was not written by a member.
        let report = |pair: &KeyValue| {
            if pair.lease == 0 {
                return None;
            }
            Some(NodeReport { revision: pair.revision, ..NodeReport::decode(&pair.value)? })
        };
        let members: Vec<_> = pairs.iter().filter_map(report).collect();
        self.known.clone_from(&members);
        Ok(members)
    }

    /// The versions that were taken back last.
    pub(super) async fn taken_back(&mut self) -> Result<Vec<TakenBack>, String> {
        let read = Transaction::default().get(&self.keys.taken_back());
        let outcome = self.etcd.run(&read, USUAL_TIME).await?;
        Ok(outcome.first().map(|pair| taken_back::decode(&pair.value)).unwrap_or_default())
    }

    /// Has the other members asked for figures: those that reported last, if etcd cannot be reached.
    pub(super) async fn ask_members(&mut self, wish: FiguresWish) {
        let mut figures = FleetFigures::default();
        if let Err(reason) = self.members().await {
            figures.warnings.push(format!(
                "etcd cannot be reached ({reason}): the members that were known before are asked"
            ));
        }
        figures.members.clone_from(&self.known);
        spawn_local(ask_all(self.member.node.clone(), wish, figures));
    }
}

/// After how long a report is written again, and its lease is kept.
const KEEP: Duration = Duration::from_secs(3);

/// How long the report of a member remains after its death.
const LEASE_SECONDS: u64 = 10;

/// After which time the report of a process that has died is gone for certain.
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(LEASE_SECONDS + 2);

/// After how long the report of another Narrows with the same name is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often a report is written at once: whenever it fails, it is known what is there.
const ATTEMPTS: u32 = 3;

/// The most members whose reports are read.
const MOST_MEMBERS: u32 = 1_000;

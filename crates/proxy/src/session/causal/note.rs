//! What statements have written, or may have: noted after their answers, for their own session and for those that must see the
//! writes of others.

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::Status;
use narrows_wire::charset::Family;
use narrows_wire::gtid::GtidSet;

use super::super::Session;
use super::super::job::Job;
use super::super::outcome::Outcome;
use super::written::Deed;
use crate::backend::{Backend, TRACK_GTIDS};
use crate::hostgroup::Writes;
use crate::rows::HostgroupId;
use crate::snapshot::Snapshot;

impl Session {
    /// A server has reported that it has written these transactions of the client; returns them if they are followed.
    pub(in super::super) fn publish_written(&self, backend: &Backend, gtids: &[u8]) -> Option<GtidSet> {
        let snapshot = self.snapshot();
        if !self.follows_writes(&snapshot) {
            return None;
        }
        let written = GtidSet::parse(std::str::from_utf8(gtids).ok()?).ok()?;
        let server = &backend.login.server;
        server.figures.position.learn(&written);
        if snapshot.tracks_gtids
            && let Some(writes) = writes(&snapshot, writer_of(&snapshot, server.row.hostgroup))
        {
            writes.add(&self.want.account.row.username, &written);
        }
        self.worker.counters.borrow_mut().gtids_collected += 1;
        Some(written)
    }

    /// Notes what a statement has written, after its answer. Most have only read.
    #[inline]
    pub(in super::super) fn note_written(&mut self, backend: &Backend, job: &Job, outcome: &mut Outcome) {
        let is_plain_read =
            job.statement.kind == Kind::Select && !job.statement.flags.intersects(Flags::MULTI);
        if !is_plain_read || outcome.gtids.is_some() || self.data.written.is_pending() {
            self.note_deed(backend, job, outcome);
        }
    }

    fn note_deed(&mut self, backend: &Backend, job: &Job, outcome: &mut Outcome) {
        let deed = deed(&job.statement, outcome);
        if deed == Deed::Read && outcome.gtids.is_none() && !self.data.written.is_pending() {
            return;
        }
        let snapshot = self.snapshot();
        let hostgroup = writer_of(&snapshot, backend.login.server.row.hostgroup);
        if !self.follows_writes(&snapshot) {
            return self.data.written.lose_track(hostgroup);
        }
        let is_open = self.is_open(outcome);
        self.data.written.note(deed, (hostgroup, outcome.gtids.take()), is_open);
        if has_untold(&job.statement, backend, outcome) {
            self.data.written.lose_track(hostgroup);
        }
    }

    /// Whether a transaction is open after an answer.
    fn is_open(&self, outcome: &Outcome) -> bool {
        outcome.status.unwrap_or(self.data.status).contains(Status::IN_TRANS)
    }

    /// A statement has ended, and the client does not know yet. If it may have written something of which no GTID is known, what
    /// others take for everything that was written is not that any more.
    pub(in super::super) fn publish_losses(
        &self,
        backend: &Backend,
        statement: &Statement,
        outcome: &Outcome,
    ) {
        let deed = deed(statement, outcome);
        if deed == Deed::Read && !self.data.written.is_pending() {
            return;
        }
        let snapshot = self.snapshot();
        let hostgroup = writer_of(&snapshot, backend.login.server.row.hostgroup);
        let Some(writes) = writes(&snapshot, hostgroup) else { return };
        let is_lost = match self.follows_writes(&snapshot) {
            // A setting may make others see it later.
            false => writes.are_followed(),
            true if !snapshot.tracks_gtids => false,
            true => {
                let is_told = outcome.gtids.is_some();
                self.data.written.would_lose(deed, is_told, self.is_open(outcome))
                    || has_untold(statement, backend, outcome)
            }
        };
        if is_lost {
            writes.lose_track();
        }
    }

    /// A server of `hostgroup` was lost with a statement, which may have written. A client that reads to find out must see it.
    pub(in super::super) fn doubt_written(&mut self, hostgroup: HostgroupId, job: &Job) {
        if !job.statement.writes_nothing_itself() || self.data.written.is_pending() {
            self.lose_track_of(hostgroup);
        }
    }

    /// Something is written in `hostgroup` of which no GTID will be known: by a statement that was taken for a read, or that was lost.
    pub(in super::super) fn lose_track_of(&mut self, hostgroup: HostgroupId) {
        let snapshot = self.snapshot();
        let hostgroup = writer_of(&snapshot, hostgroup);
        self.data.written.note(Deed::Wrote, (hostgroup, None), false);
        if let Some(writes) = writes(&snapshot, hostgroup) {
            writes.lose_track();
        }
    }

    /// After a SET, which may have been about the reports of the server: they are asked for again, which MySQL allows
    /// between transactions only.
    pub(in super::super) fn doubt_reports(&self, backend: &mut Backend) {
        if self.data.state.literal(TRACK_GTIDS).is_some() && !self.data.status.contains(Status::IN_TRANS) {
            backend.login.doubt_reports();
        }
    }
}

/// The writer hostgroup to which the writes of a server belong.
pub(super) fn writer_of(snapshot: &Snapshot, hostgroup: HostgroupId) -> HostgroupId {
    snapshot.writers.get(&hostgroup).copied().unwrap_or(hostgroup)
}

pub(super) fn writes(snapshot: &Snapshot, writer: HostgroupId) -> Option<&Writes> {
    snapshot.hostgroups.get(&writer).map(|hostgroup| &hostgroup.demand.writes)
}

/// What a statement has done to the data.
fn deed(statement: &Statement, outcome: &Outcome) -> Deed {
    // An error says nothing of what ran before it.
    if runs_others(statement) || outcome.rows_changed > 0 {
        return Deed::Wrote;
    }
    match statement.kind {
        _ if outcome.error.is_some() => Deed::Read,
        Kind::Rollback => Deed::RolledBack,
        _ if statement.writes_nothing_itself() || statement.tells_changed_rows() => Deed::Read,
        _ => Deed::Wrote,
    }
}

/// Whether a statement runs others: a routine, a prepared one, or several in one text.
fn runs_others(statement: &Statement) -> bool {
    statement.runs_others() || statement.flags.intersects(Flags::MULTI)
}

/// Whether a statement may have written more than its server has told: MariaDB reports the last transaction of a routine only,
/// which may be one of several domains.
fn has_untold(statement: &Statement, backend: &Backend, outcome: &Outcome) -> bool {
    runs_others(statement) && (outcome.error.is_some() || backend.login.family == Family::MariaDb)
}

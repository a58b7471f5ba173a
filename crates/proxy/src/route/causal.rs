//! Which writes a statement must see: from the most specific setting that says something, to the general one.

use crate::rows::CausalReads;
use crate::rules::RuleOutput;
use crate::snapshot::{Account, HostgroupId, Snapshot};

/// What rules and hints say of the writes that a statement must see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Causal {
    /// Which.
    pub(crate) level: Option<CausalReads>,
    /// Where they were written, unless replicas of that hostgroup say so.
    pub(crate) writer: Option<HostgroupId>,
    /// A hint names transactions.
    pub(crate) names_gtids: bool,
}

impl Causal {
    pub(super) fn of(output: &RuleOutput) -> Causal {
        let writer = output.gtid_from_hostgroup;
        let level = output.causal_reads.or(writer.map(|_| CausalReads::Session));
        Causal { level, writer, names_gtids: output.names_gtids }
    }

    /// The hostgroup where the writes are made that readers of `hostgroup` have to see; `None` if none is known.
    pub(crate) fn writer_for(self, snapshot: &Snapshot, hostgroup: HostgroupId) -> Option<HostgroupId> {
        self.writer.or_else(|| snapshot.writers.get(&hostgroup).copied())
    }

    /// Which writes a statement that goes to `hostgroup` must see. `of_session`: what the session's own variable says.
    pub(crate) fn level_for(
        self,
        snapshot: &Snapshot,
        account: &Account,
        hostgroup: HostgroupId,
        of_session: Option<CausalReads>,
    ) -> CausalReads {
        let of_hostgroup = || snapshot.hostgroups.get(&hostgroup).map(|it| it.settings.causal_reads);
        let specific = self.level.or(of_session).or(account.causal_reads);
        specific.or_else(of_hostgroup).unwrap_or_default()
    }
}

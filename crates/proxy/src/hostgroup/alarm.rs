//! The alarm of a writer hostgroup: what happens to a statement may mean that another server is the writer now, and the servers
//! should be checked at once.

use std::sync::{Arc, OnceLock};

use super::{Demand, Hostgroup};
use crate::rows::Bond;
use crate::rt::MailboxSender;

/// Where alarms go; nowhere until it is connected. All clones are one.
///
/// No hostgroup has more than one alarm on its way: see [`Demand::hears_alarm`].
#[derive(Debug, Clone, Default)]
pub struct Alarm(Arc<OnceLock<MailboxSender<Arc<Demand>>>>);

impl Alarm {
    /// Sends alarms there from now on, as the hostgroups of writers that they are about.
    pub fn connect(&self, to: MailboxSender<Arc<Demand>>) {
        // It is connected once, when its data plane starts.
        let _ = self.0.set(to);
    }
}

impl Hostgroup {
    /// Whether it has the writers of a cluster.
    pub fn is_of_cluster(&self) -> bool {
        self.writers.is_some_and(|(_, bond)| bond == Bond::Cluster)
    }

    /// Something happened to a statement that makes its writers doubtful. Roles of other hostgroups are not checked.
    pub fn raise_alarm(&self) {
        if self.writers.is_some()
            && let Some(to) = self.alarm.0.get()
            && self.demand.may_raise_alarm()
        {
            // Nobody hears it if there are no checks.
            let _ = to.send(Arc::clone(&self.demand));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rows::{ClusterRow, HostgroupId, ReplicationHostgroupRow};
    use crate::rt::mailbox;
    use crate::snapshot::{Rows, Snapshot};

    #[test]
    fn one_alarm_of_writers_is_on_its_way_until_it_is_heard_and_others_have_none() {
        let cluster = ClusterRow {
            writer_hostgroup: HostgroupId(1),
            backup_writer_hostgroup: HostgroupId(2),
            reader_hostgroup: HostgroupId(3),
            offline_hostgroup: HostgroupId(4),
            active: true,
            ..ClusterRow::default()
        };
        let pair = ReplicationHostgroupRow {
            writer_hostgroup: HostgroupId(5),
            reader_hostgroup: HostgroupId(6),
            check_type: "read_only".to_owned(),
            comment: String::new(),
        };
        let (galera_hostgroups, replication_hostgroups) = (vec![cluster], vec![pair]);
        let rows = Rows { galera_hostgroups, replication_hostgroups, ..Rows::default() };
        let first = Snapshot::compile(rows.clone(), 1, None).unwrap();
        first.raise_alarm(HostgroupId(1));
        let (to, mut heard) = mailbox();
        first.alarm.connect(to);
        // Configurations that follow have the same one.
        let second = Snapshot::compile(rows, 1, Some(&first)).unwrap();
        for hostgroup in [3, 1, 1, 9] {
            second.raise_alarm(HostgroupId(hostgroup));
        }
        let demand = heard.try_recv().unwrap();
        assert_eq!(demand.hostgroup, HostgroupId(1));
        assert!(heard.try_recv().is_err());
        second.raise_alarm(HostgroupId(6));
        second.raise_alarm(HostgroupId(5));
        assert_eq!(heard.try_recv().unwrap().hostgroup, HostgroupId(5));
        demand.hears_alarm();
        second.raise_alarm(HostgroupId(1));
        assert!(heard.try_recv().is_ok());
    }
}

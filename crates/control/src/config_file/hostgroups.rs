//! Hostgroups of several tables: each may be managed by one row only.

use narrows_proxy::snapshot::{ClusterRow, HostgroupId, ReplicationHostgroupRow};

use crate::monitor::cluster::ClusterKind;

/// The hostgroups that rows manage, with the table and the writer hostgroup of the row.
#[derive(Debug, Default)]
pub(crate) struct Managed(Vec<(HostgroupId, &'static str, HostgroupId)>);

impl Managed {
    /// The hostgroups of these pairs.
    pub fn by_pairs<'a>(pairs: impl Iterator<Item = &'a ReplicationHostgroupRow>) -> Managed {
        let both = pairs.flat_map(|pair| {
            let of_row = |hostgroup| (hostgroup, "mysql_replication_hostgroups", pair.writer_hostgroup);
            [pair.writer_hostgroup, pair.reader_hostgroup].map(of_row)
        });
        Managed(both.collect())
    }

    /// Adds the row of a cluster, unless it cannot work together with the others; then returns the reason.
    pub fn add_cluster(&mut self, kind: ClusterKind, row: &ClusterRow) -> Option<String> {
        if !row.active {
            return None;
        }
        let all = row.hostgroups();
        let two = [row.writer_hostgroup, row.reader_hostgroup];
        let own: &[HostgroupId] = if kind == ClusterKind::Aurora { &two } else { &all };
        if (1..own.len()).any(|index| own[..index].contains(&own[index])) {
            return Some("its hostgroups must differ from each other".to_owned());
        }
        if let Some((hostgroup, table, writers)) = self.0.iter().find(|(other, ..)| own.contains(other)) {
            return Some(format!(
                "hostgroup {hostgroup} belongs to the row of {table} with writer_hostgroup {writers} already"
            ));
        }
        self.0.extend(own.iter().map(|hostgroup| (*hostgroup, kind.table(), row.writer_hostgroup)));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: i32, active: bool) -> ClusterRow {
        let [writers, backup, readers, offline] = [0, 1, 2, 3].map(|more| HostgroupId(first + more));
        ClusterRow {
            writer_hostgroup: writers,
            backup_writer_hostgroup: backup,
            reader_hostgroup: readers,
            offline_hostgroup: offline,
            active,
            ..ClusterRow::default()
        }
    }

    #[test]
    fn a_hostgroup_belongs_to_one_row_of_one_table() {
        let pair = ReplicationHostgroupRow {
            writer_hostgroup: HostgroupId(10),
            reader_hostgroup: HostgroupId(11),
            check_type: String::new(),
            comment: String::new(),
        };
        let mut managed = Managed::by_pairs([&pair].into_iter());
        let galera = ClusterKind::Galera;
        let fault = managed.add_cluster(galera, &row(11, true)).expect("11 is taken");
        assert!(
            fault.starts_with("hostgroup 11 belongs to the row of mysql_replication_hostgroups"),
            "{fault}"
        );
        assert_eq!(managed.add_cluster(galera, &row(11, false)), None);
        assert_eq!(managed.add_cluster(galera, &row(20, true)), None);
        let fault = managed.add_cluster(ClusterKind::GroupReplication, &row(23, true)).expect("23 is taken");
        assert!(fault.contains("mysql_galera_hostgroups with writer_hostgroup 20"), "{fault}");
        let same = ClusterRow { offline_hostgroup: HostgroupId(30), ..row(30, true) };
        assert!(managed.add_cluster(galera, &same).is_some_and(|fault| fault.contains("must differ")));
    }
}

//! The members of a Group Replication group, as a member names them: by the group itself, and by the metadata of InnoDB
//! Cluster, whose addresses are those that clients can reach.

use std::collections::{BTreeMap, BTreeSet};

use narrows_proxy::backend::Table;

use super::node_task::Refused;
use super::roster::{MOST_READ, Roster, address, read_address};
use crate::monitor::plan::Address;

/// What a member says about all members.
#[derive(Debug, Default)]
pub struct MemberNames {
    /// Its own `server_uuid`.
    own: String,
    /// The members of the group by their `server_uuid`; `None`: it has refused to tell.
    group: Option<BTreeMap<String, Address>>,
    /// The same, as the metadata has them.
    metadata: BTreeMap<String, Address>,
    /// For how many more checks the metadata is not asked for, because there is none.
    pause: u32,
    /// A name that is none.
    odd: Option<String>,
    refused: Refused,
}

impl MemberNames {
    /// What a member is asked.
    pub fn questions(&mut self) -> Vec<&'static str> {
        if self.pause > 0 {
            self.pause -= 1;
            return vec![GROUP];
        }
        vec![GROUP, METADATA]
    }

    /// Reads an answer; `None`: the server has refused it.
    pub fn take(&mut self, question: &'static str, answer: Option<&Table>) {
        if question == GROUP {
            self.group = answer.map(|answer| {
                let cell =
                    |row: &[Option<String>], at: usize| row.get(at).cloned().flatten().unwrap_or_default();
                self.own = answer.rows.first().map(|row| cell(row, 3)).unwrap_or_default();
                let named =
                    answer.rows.iter().take(MOST_READ).map(|row| (cell(row, 0), cell(row, 1), cell(row, 2)));
                // A member that has left names only itself, and has no host and no port.
                let named =
                    named.filter(|(_, host, port)| !host.is_empty() || !matches!(port.as_str(), "" | "0"));
                let read = named.map(|(id, host, port)| (id, address(&host, &port), host));
                keep(read, &mut self.odd)
            });
            return;
        }
        self.metadata.clear();
        match answer {
            None => self.pause = PAUSE,
            Some(answer) => {
                let named = answer.rows.iter().take(MOST_READ);
                let named = named.filter_map(|row| Some((row.first()?.clone()?, row.get(1)?.clone()?)));
                let read = named.map(|(id, text)| (id, read_address(&text), text));
                self.metadata = keep(read, &mut self.odd);
            }
        }
    }

    /// The members. `server`: who says this.
    pub fn roster(&mut self, server: &Address) -> Roster {
        if let Some(odd) = self.odd.take() {
            self.refused.tell(server, &odd);
        }
        let Some(group) = &self.group else { return Roster::default() };
        let mut all = group.clone();
        all.extend(self.metadata.clone());
        let own = all.get(&self.own).cloned();
        let members: BTreeSet<Address> = all.into_values().collect();
        Roster { members: (!members.is_empty()).then_some(members), own, writer: None }
    }
}

/// The addresses that can be ones; one of the others is left in `odd`.
fn keep(
    named: impl Iterator<Item = (String, Option<Address>, String)>,
    odd: &mut Option<String>,
) -> BTreeMap<String, Address> {
    let address = |(id, address, text): (String, Option<Address>, String)| {
        if address.is_none() {
            *odd = Some(text);
        }
        Some((id, address?))
    };
    named.filter_map(address).collect()
}

/// The members of the group. A member that has left has one row, without host and port.
const GROUP: &str = "SELECT MEMBER_ID, MEMBER_HOST, MEMBER_PORT, @@server_uuid \
    FROM performance_schema.replication_group_members LIMIT 200";

/// The instances of the same InnoDB Cluster.
const METADATA: &str = "SELECT mysql_server_uuid, COALESCE(addresses->>'$.mysqlClassic', address) \
    FROM mysql_innodb_cluster_metadata.instances WHERE cluster_id = (SELECT cluster_id \
    FROM mysql_innodb_cluster_metadata.instances WHERE mysql_server_uuid = @@server_uuid LIMIT 1) LIMIT 200";

/// For how many checks the metadata is not asked for after the server had none.
const PAUSE: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let cells = |row: &&[&str]| row.iter().map(|cell| Some((*cell).to_owned())).collect();
        Table { columns: Vec::new(), rows: rows.iter().map(cells).collect() }
    }

    fn names(roster: &Roster) -> Vec<String> {
        roster.members.iter().flatten().map(ToString::to_string).collect()
    }

    #[test]
    fn the_metadata_corrects_the_names_of_members_and_adds_those_that_are_away() {
        let server = Address { hostname: "seed".to_owned(), port: 3306 };
        let mut member = MemberNames::default();
        assert_eq!(member.questions(), [GROUP, METADATA]);
        let group = table(&[&["u1", "inner1", "3306", "u1"], &["u2", "inner2", "3306", "u1"]]);
        member.take(GROUP, Some(&group));
        member.take(METADATA, None);
        let roster = member.roster(&server);
        assert_eq!(names(&roster), ["inner1:3306", "inner2:3306"]);
        assert_eq!(roster.own.unwrap().hostname, "inner1");
        assert_eq!(member.questions(), [GROUP], "a group without metadata is not asked for it each time");
        member.take(
            METADATA,
            Some(&table(&[&["u1", "db1:3307"], &["u3", "db3:3307"], &["u4", "not an address"]])),
        );
        let roster = member.roster(&server);
        assert_eq!(names(&roster), ["db1:3307", "db3:3307", "inner2:3306"]);
        assert_eq!(roster.own.unwrap().hostname, "db1");
    }

    #[test]
    fn a_member_that_has_left_names_nobody() {
        let server = Address { hostname: "seed".to_owned(), port: 3306 };
        let mut member = MemberNames::default();
        member.take(GROUP, Some(&table(&[&["", "", "", "u1"]])));
        assert_eq!(member.roster(&server).members, None);
        member.take(GROUP, None);
        assert_eq!(member.roster(&server), Roster::default());
    }
}

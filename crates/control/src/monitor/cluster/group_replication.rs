//! What a member of a Group Replication group says about itself (MySQL 8.0 and later).

use std::collections::BTreeSet;

use narrows_proxy::backend::Table;
use narrows_proxy::snapshot::AuroraRow;

use super::member_names::MemberNames;
use super::node_task::{NodeTask, Source, subjects};
use super::roster::Roster;
use super::views::View;
use super::{ClusterKind, Word};
use crate::monitor::check::{Check, LogCell};
use crate::monitor::plan::{Address, NodeOf};
use crate::monitor::settings::MonitorSettings;

/// Checks of members.
pub static CHECK: Check = Check {
    name: "group_replication",
    table: "mysql_server_group_replication_log",
    values: &[LogCell::Text("NO"), LogCell::Text("YES"), LogCell::Integer(0)],
    has_error_first: false,
    counters: None,
    decides_without_pings: true,
    consequence: "unless that is because the server is down, its state in the group is unknown and failovers are not followed",
    subjects: |target| subjects(target, ClusterKind::GroupReplication),
    begin: |subject| Box::new(NodeTask::new(subject, Member::default())),
};

/// A member, as it says.
#[derive(Debug, Default)]
struct Member {
    /// `MEMBER_STATE`; empty: it is no member of a group.
    state: String,
    /// How many members its view has, and how many of them it reaches.
    members: i64,
    reached: i64,
    /// `read_only` or `super_read_only`: in a group with one primary, all others are.
    is_read_only: bool,
    /// Transactions that it has to certify or to apply.
    behind: i64,
    /// `VIEW_ID`: a history and a number in it.
    view_id: String,
    /// How many checks in a row found it too far behind.
    late: u32,
    names: MemberNames,
}

impl Member {
    /// Whether it is a working part of the majority.
    fn is_viable(&self) -> bool {
        self.state == "ONLINE" && self.reached * 2 > self.members
    }

    /// What it says. `is_late`: it has been too far behind for long enough.
    fn says(&self, is_late: bool, limits_writers: bool, limits_readers: bool) -> Word {
        match self.state.as_str() {
            "" => return Word::Out("it is no member of a group".to_owned()),
            // It has left, or joins again: it answers, and may be read from until then.
            "OFFLINE" | "RECOVERING" => return Word::Leaving(format!("its member state is {}", self.state)),
            "ONLINE" => {}
            other => return Word::Out(format!("its member state is {other}")),
        }
        if !self.is_viable() {
            return Word::Out("it does not reach a majority of the group".to_owned());
        }
        let late = "its queue of transactions is above max_transactions_behind";
        match self.is_read_only {
            true if is_late && limits_readers => Word::Leaving(late.to_owned()),
            true => Word::Reads("read_only is ON: it is a secondary".to_owned()),
            false if is_late && limits_writers => Word::Late(late.to_owned()),
            false => Word::Writes,
        }
    }
}

impl Source for Member {
    fn question(&self, _: &MonitorSettings) -> String {
        QUESTION.to_owned()
    }

    fn more_questions(&mut self, settings: &MonitorSettings) -> Vec<&'static str> {
        if settings.group_replication.autodiscovery { self.names.questions() } else { Vec::new() }
    }

    fn take_more(&mut self, question: &'static str, answer: Option<&Table>) {
        self.names.take(question, answer);
    }

    fn take(&mut self, answer: &Table, _: Option<&AuroraRow>) -> Vec<LogCell> {
        let cell =
            |name: &str| answer.column(name).and_then(|mut cells| cells.next().flatten()).unwrap_or("");
        let number = |name: &str| cell(name).parse().unwrap_or(0);
        self.state = cell("member_state").to_owned();
        self.members = number("members");
        self.reached = number("reached");
        self.is_read_only = cell("read_only") != "0";
        self.behind = number("transactions_behind");
        self.view_id = cell("view_id").to_owned();
        let yes = |yes: bool| LogCell::Text(if yes { "YES" } else { "NO" });
        vec![yes(self.is_viable()), yes(self.is_read_only), LogCell::Integer(self.behind)]
    }

    fn roster(&mut self, _: &NodeOf, address: &Address, settings: &MonitorSettings) -> Roster {
        if !settings.group_replication.autodiscovery {
            return Roster { members: Some(BTreeSet::new()), ..Roster::default() };
        }
        self.names.roster(address)
    }

    fn word(&mut self, node: &NodeOf, _: &Address, settings: &MonitorSettings) -> Word {
        let is_above = node.most_behind > 0 && self.behind > node.most_behind.into();
        self.late = if is_above { self.late.saturating_add(1) } else { 0 };
        let is_late = self.late > 0 && self.late >= settings.group_replication.behind_count;
        // 0: the limit is for writers; 1: for readers; 2: for both.
        let limits = settings.group_replication.behind_for_read_only;
        self.says(is_late, limits != 1, limits != 0)
    }

    fn view(&self) -> Option<View> {
        let is_in =
            ["ONLINE", "RECOVERING"].contains(&self.state.as_str()) && self.reached * 2 > self.members;
        let (history, number) = self.view_id.split_once(':').filter(|_| is_in)?;
        let size = u64::try_from(self.members).ok()?;
        Some(View { history: history.to_owned(), number: number.parse().ok()?, size })
    }

    fn most_timeouts(&self, settings: &MonitorSettings) -> u32 {
        settings.group_replication.max_timeout_count
    }
}

/// The statement of a check. Servers without a group have no rows there, and servers of MariaDB no such tables.
const QUESTION: &str = "SELECT \
    (SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid) member_state, \
    (SELECT COUNT(*) FROM performance_schema.replication_group_members) members, \
    (SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE <> 'UNREACHABLE') reached, \
    @@global.read_only | @@global.super_read_only read_only, \
    (SELECT COUNT_TRANSACTIONS_IN_QUEUE + COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE \
     FROM performance_schema.replication_group_member_stats WHERE MEMBER_ID = @@server_uuid) transactions_behind, \
    (SELECT VIEW_ID FROM performance_schema.replication_group_member_stats WHERE MEMBER_ID = @@server_uuid) view_id";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::cluster::ClusterId;
    use crate::monitor::settings::GroupReplicationSettings;
    use narrows_proxy::snapshot::HostgroupId;

    fn answer(cells: [&str; 5]) -> Table {
        let columns = ["member_state", "members", "reached", "read_only", "transactions_behind"];
        let cell = |cell: &str| (!cell.is_empty()).then(|| cell.to_owned());
        Table { columns: columns.map(str::to_owned).to_vec(), rows: vec![cells.map(cell).to_vec()] }
    }

    fn node(most_behind: u32) -> NodeOf {
        let id = ClusterId { kind: ClusterKind::GroupReplication, writers: HostgroupId(1) };
        NodeOf { id, most_behind, aurora: None }
    }

    fn settings(behind_for_read_only: u32) -> MonitorSettings {
        let group_replication = GroupReplicationSettings {
            max_timeout_count: 3,
            behind_count: 2,
            behind_for_read_only,
            autodiscovery: false,
        };
        MonitorSettings { group_replication, ..MonitorSettings::default() }
    }

    /// The class of the word, and its reason, after as many checks.
    fn word(cells: [&str; 5], most_behind: u32, for_read_only: u32, checks: u32) -> String {
        let mut member = Member::default();
        let mut word = Word::Writes;
        for _ in 0..checks {
            member.take(&answer(cells), None);
            let address = Address { hostname: "a".to_owned(), port: 3306 };
            word = member.word(&node(most_behind), &address, &settings(for_read_only));
        }
        format!("{word:?}")
    }

    #[test]
    fn each_rule_of_the_contract_decides() {
        for (cells, part) in [
            // A primary, or any member of a group with several primaries.
            (["ONLINE", "3", "3", "0", "0"], "Writes"),
            (["ONLINE", "3", "2", "0", "0"], "Writes"),
            (["ONLINE", "3", "3", "1", "0"], "Reads(\"read_only is ON"),
            // A minority.
            (["ONLINE", "3", "1", "0", "0"], "Out(\"it does not reach a majority"),
            (["ONLINE", "2", "1", "0", "0"], "Out(\"it does not reach a majority"),
            (["ONLINE", "1", "1", "0", "0"], "Writes"),
            (["ERROR", "1", "1", "1", "0"], "Out(\"its member state is ERROR"),
            (["OFFLINE", "1", "1", "1", "0"], "Leaving(\"its member state is OFFLINE"),
            (["RECOVERING", "3", "3", "1", "9"], "Leaving(\"its member state is RECOVERING"),
            (["", "0", "0", "0", ""], "Out(\"it is no member"),
        ] {
            let found = word(cells, 0, 1, 1);
            assert!(found.starts_with(part), "{cells:?}: {found}");
        }
    }

    #[test]
    fn max_transactions_behind_counts_when_it_lasts_and_for_the_members_that_the_variable_names() {
        let (primary, secondary) = (["ONLINE", "3", "3", "0", "6"], ["ONLINE", "3", "3", "1", "6"]);
        for (cells, for_read_only, checks, part) in [
            (secondary, 1, 1, "Reads"),
            (secondary, 1, 2, "Leaving"),
            (secondary, 0, 2, "Reads"),
            (secondary, 2, 2, "Leaving"),
            (primary, 1, 2, "Writes"),
            (primary, 0, 1, "Writes"),
            (primary, 0, 2, "Late"),
            (primary, 2, 2, "Late"),
        ] {
            let found = word(cells, 5, for_read_only, checks);
            assert!(found.starts_with(part), "{cells:?} {for_read_only} {checks}: {found}");
            assert!(!word(cells, 0, for_read_only, 9).contains("above"), "0 is no limit");
            assert!(!word(cells, 6, for_read_only, 9).contains("above"), "as many are allowed");
        }
    }

    #[test]
    fn a_member_of_the_majority_has_a_view_with_a_number() {
        let view = |view_id: &str, [state, members, reached]: [&str; 3]| {
            let (members, reached) = (members.parse().unwrap(), reached.parse().unwrap());
            let (state, view_id) = (state.to_owned(), view_id.to_owned());
            Member { state, members, reached, view_id, ..Member::default() }.view()
        };
        let expected = View { history: "17956572502700468".to_owned(), number: 18, size: 3 };
        assert_eq!(view("17956572502700468:18", ["ONLINE", "3", "2"]), Some(expected.clone()));
        assert_eq!(view("17956572502700468:18", ["RECOVERING", "3", "3"]), Some(expected));
        assert_eq!(view("17956572502700468:18", ["ONLINE", "3", "1"]), None);
        assert_eq!(view("17956572502700468:18", ["OFFLINE", "1", "1"]), None);
        assert_eq!(view("", ["ONLINE", "3", "3"]), None);
    }

    #[test]
    fn a_result_has_the_columns_of_the_log() {
        let cells = Member::default().take(&answer(["ONLINE", "3", "3", "1", "7"]), None);
        assert_eq!(cells, [LogCell::Text("YES"), LogCell::Text("YES"), LogCell::Integer(7)]);
        assert_eq!(CHECK.values.len(), cells.len());
    }
}

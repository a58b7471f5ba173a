//! What can happen to a node, or to the cluster.

use std::time::Duration;

use narrows_testkit::{Cluster, Network, RealServer};

use super::stage::Stage;
use crate::chaos::load::{Failure, What};

/// The kinds of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Galera,
    Group,
}

/// Which node an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    Writer,
    Other,
}

/// Something that happens to a node, from its beginning to its end.
pub struct Event {
    pub name: &'static str,
    pub kinds: &'static [Kind],
    pub begin: fn(&mut Stage, usize),
    pub end: fn(&mut Stage, usize),
    /// How long it lasts, at least and at most; if the writer is replaced, from then on.
    pub lasts_ms: (u64, u64),
    /// Whether an operator does it: clients notice nothing.
    pub is_planned: bool,
    /// Whether the group moves the role of the primary: a transaction that has only read there so far cannot write any more.
    pub moves_primary: bool,
    pub needs_network: bool,
    /// Whether another node can write while it lasts.
    pub replaces_writer: bool,
    /// Whether writes wait for its end: no node takes any, or those under way wait for a lock.
    pub holds_up_writes: bool,
    /// Whether only silence tells Narrows of it, so that as many checks must time out as are configured.
    pub is_silent: bool,
}

const BOTH: &[Kind] = &[Kind::Galera, Kind::Group];
const GALERA: &[Kind] = &[Kind::Galera];
const GROUP: &[Kind] = &[Kind::Group];

const NOTHING: fn(&mut Stage, usize) = |_, _| {};

/// An ordinary event.
const fn event(
    name: &'static str,
    kinds: &'static [Kind],
    begin: fn(&mut Stage, usize),
    end: fn(&mut Stage, usize),
) -> Event {
    Event {
        name,
        kinds,
        begin,
        end,
        lasts_ms: (500, 3_000),
        is_planned: false,
        moves_primary: false,
        needs_network: false,
        replaces_writer: true,
        holds_up_writes: false,
        is_silent: false,
    }
}

/// One that an operator plans.
const fn planned(
    name: &'static str,
    kinds: &'static [Kind],
    begin: fn(&mut Stage, usize),
    end: fn(&mut Stage, usize),
) -> Event {
    Event { is_planned: true, lasts_ms: (1_500, 2_500), ..event(name, kinds, begin, end) }
}

/// A planned one with which a group moves its primary.
const fn moved(name: &'static str, begin: fn(&mut Stage, usize), end: fn(&mut Stage, usize)) -> Event {
    Event { moves_primary: true, ..planned(name, GROUP, begin, end) }
}

/// One of the network.
const fn cut(name: &'static str, kinds: &'static [Kind], begin: fn(&mut Stage, usize)) -> Event {
    Event { needs_network: true, ..event(name, kinds, begin, |stage, _| stage.network().mend()) }
}

/// Everything that can happen.
pub static EVENTS: [Event; 20] = [
    event("kill -9", BOTH, kill, start),
    event("kill -9, and a new copy of all data", GALERA, kill, |stage, node| {
        stage.cluster.servers[node].restart_without_data();
    }),
    event("stopped in an orderly way", BOTH, stop, start),
    Event { is_silent: true, ..event("SIGSTOP", BOTH, freeze, thaw) },
    Event {
        replaces_writer: false,
        lasts_ms: (100, 900),
        is_silent: true,
        ..event("SIGSTOP, short", BOTH, freeze, thaw)
    },
    Event { is_silent: true, ..cut("cut off from all", BOTH, |stage, node| stage.network().cut(node)) },
    cut("cut off from the other nodes", BOTH, |stage, node| stage.network().part(node)),
    Event {
        is_silent: true,
        ..cut("cut off from Narrows", GALERA, |stage, node| stage.network().hide(node))
    },
    // The primary stays what it is: there is nothing else to write to.
    Event {
        holds_up_writes: true,
        ..cut("cut off from Narrows, which its group does not notice", GROUP, |stage, node| {
            stage.network().hide(node);
        })
    },
    Event {
        holds_up_writes: true,
        lasts_ms: (1_000, 9_000),
        ..cut("two are cut off from all", BOTH, |stage, node| {
            stage.network().cut(node);
            stage.network().cut((node + 1) % 3);
        })
    },
    planned("wsrep_desync", GALERA, desync, sync),
    // At once, also in transactions.
    event("wsrep_reject_queries", GALERA, reject, accept),
    event("read_only", GALERA, forbid_writes, allow_writes),
    Event {
        holds_up_writes: true,
        ..planned("FLUSH TABLES WITH READ LOCK", GALERA, lock, |stage, _| stage.lock = None)
    },
    planned("OFFLINE_SOFT at the admin port", GALERA, take_out, put_back),
    planned("other weights at the admin port", GALERA, weigh, NOTHING),
    moved("group_replication_set_as_primary", elect, NOTHING),
    moved("several primaries, and one again", all_write, one_writes),
    event("STOP GROUP_REPLICATION", GROUP, |stage, node| stage.on(node, "STOP GROUP_REPLICATION"), rejoin),
    planned(
        "LOAD of the same servers",
        BOTH,
        |stage, _| stage.tell(&["LOAD MYSQL SERVERS TO RUNTIME"]),
        NOTHING,
    ),
];

/// The short form for Galera.
pub const SHORT_GALERA: [(&str, Victim); 8] = [
    ("wsrep_desync", Victim::Writer),
    ("kill -9", Victim::Writer),
    ("other weights at the admin port", Victim::Writer),
    ("cut off from the other nodes", Victim::Writer),
    ("SIGSTOP, short", Victim::Other),
    ("wsrep_reject_queries", Victim::Writer),
    ("cut off from Narrows", Victim::Writer),
    ("OFFLINE_SOFT at the admin port", Victim::Writer),
];

/// The short form for Group Replication.
pub const SHORT_GROUP: [(&str, Victim); 8] = [
    ("group_replication_set_as_primary", Victim::Writer),
    ("kill -9", Victim::Other),
    ("several primaries, and one again", Victim::Other),
    ("cut off from the other nodes", Victim::Writer),
    ("SIGSTOP, short", Victim::Other),
    ("STOP GROUP_REPLICATION", Victim::Writer),
    ("group_replication_set_as_primary", Victim::Writer),
    ("kill -9", Victim::Writer),
];

impl Event {
    /// Whether clients may see this error during it.
    pub fn explains(&self, failure: &Failure) -> bool {
        let has_read = failure.what == What::Transaction && failure.text.starts_with("1290 ");
        match self.is_planned {
            true => self.moves_primary && has_read,
            false => self.holds_up_writes || !failure.what.is_read(),
        }
    }

    /// Whether it happens to no node in particular.
    pub fn is_unlucky_for_all(&self) -> bool {
        self.holds_up_writes || !self.replaces_writer
    }
}

impl Kind {
    /// Starts a cluster in which no acknowledged write is lost with a process.
    pub fn start(self, network: Option<Network>) -> Cluster {
        let durable = ["--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=ON"];
        match self {
            Kind::Galera => Cluster::galera_in(network, &durable),
            Kind::Group => {
                let more = ["--loose-group-replication-member-expel-timeout=0", "--sync-binlog=0"];
                Cluster::group_in(network, &[durable, more].concat())
            }
        }
    }

    /// The table of its clusters.
    pub fn table(self) -> &'static str {
        match self {
            Kind::Galera => "mysql_galera_hostgroups",
            Kind::Group => "mysql_group_replication_hostgroups",
        }
    }

    /// How the variables of its checks begin.
    pub fn checks(self) -> &'static str {
        match self {
            Kind::Galera => "monitor_galera_healthcheck",
            Kind::Group => "monitor_groupreplication_healthcheck",
        }
    }

    /// The end of a statement that writes: a member that has just started accepts writes before it is one.
    pub fn is_writable(self) -> &'static str {
        match self {
            Kind::Galera => "",
            Kind::Group => {
                "FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid AND member_state = 'ONLINE'"
            }
        }
    }

    /// Whether a server is a working member.
    pub fn is_member(self, server: &RealServer) -> bool {
        let question = match self {
            Kind::Galera => {
                "SELECT COUNT(*) = 3 FROM information_schema.global_status WHERE (variable_name, variable_value) \
                 IN (('wsrep_cluster_status', 'Primary'), ('wsrep_cluster_size', '3'), ('wsrep_local_state', '4'))"
            }
            Kind::Group => {
                "SELECT COUNT(*) = 3 FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"
            }
        };
        let rows = server.root().query(question).text_rows();
        rows.first().is_some_and(|row| row[0].as_deref() == Some("1"))
    }

    /// How long it is left to itself before an operator makes it a member again.
    pub fn rejoins_by_itself_within(self) -> Duration {
        match self {
            Kind::Galera => Duration::from_secs(3_600),
            Kind::Group => Duration::from_secs(3),
        }
    }

    /// What an operator does with a member that does not come back by itself.
    pub fn rejoin(self, server: &RealServer) {
        let state = "SELECT member_state FROM performance_schema.replication_group_members WHERE member_id = @@server_uuid";
        let state = server.rows(state).concat();
        if let [Some(state)] = &state[..]
            && ["OFFLINE", "ERROR"].contains(&state.as_str())
        {
            // Whether it works is seen by what the member says.
            let mut root = server.root();
            let _ = root.query("STOP GROUP_REPLICATION");
            let _ = root.query("START GROUP_REPLICATION");
        }
    }
}

fn kill(stage: &mut Stage, node: usize) {
    stage.cluster.servers[node].kill();
}

fn stop(stage: &mut Stage, node: usize) {
    stage.cluster.servers[node].process().stop(Duration::from_secs(30));
}

fn start(stage: &mut Stage, node: usize) {
    stage.cluster.servers[node].restart();
    rejoin(stage, node);
}

fn rejoin(stage: &mut Stage, node: usize) {
    if stage.kind == Kind::Group {
        // Whether it works is seen by what the member says.
        let _ = stage.cluster.servers[node].root().query("START GROUP_REPLICATION");
    }
}

fn freeze(stage: &mut Stage, node: usize) {
    stage.cluster.servers[node].freeze();
}

fn thaw(stage: &mut Stage, node: usize) {
    stage.cluster.servers[node].thaw();
}

fn desync(stage: &mut Stage, node: usize) {
    stage.on(node, "SET GLOBAL wsrep_desync = ON");
}

fn sync(stage: &mut Stage, node: usize) {
    stage.on(node, "SET GLOBAL wsrep_desync = OFF");
}

fn forbid_writes(stage: &mut Stage, node: usize) {
    stage.on(node, "SET GLOBAL read_only = ON");
}

fn allow_writes(stage: &mut Stage, node: usize) {
    stage.on(node, "SET GLOBAL read_only = OFF");
}

fn reject(stage: &mut Stage, node: usize) {
    stage.on(node, "SET GLOBAL wsrep_reject_queries = ALL");
}

fn accept(stage: &mut Stage, node: usize) {
    stage.on(node, "SET GLOBAL wsrep_reject_queries = NONE");
}

fn lock(stage: &mut Stage, node: usize) {
    let mut root = stage.cluster.servers[node].root();
    assert!(root.query("FLUSH TABLES WITH READ LOCK").error().is_none());
    stage.lock = Some(root);
}

fn take_out(stage: &mut Stage, node: usize) {
    stage.change_row(node, "status = 'OFFLINE_SOFT'");
}

fn put_back(stage: &mut Stage, node: usize) {
    stage.change_row(node, "status = 'ONLINE'");
}

/// Makes the node after this one the writer.
fn weigh(stage: &mut Stage, node: usize) {
    stage.tell(&["UPDATE mysql_servers SET weight = 1"]);
    stage.change_row((node + 1) % 3, "weight = 10");
}

/// Makes the node after this one the primary. With a time limit for transactions, no new ones begin until it is.
fn elect(stage: &mut Stage, node: usize) {
    stage.on((node + 1) % 3, "SELECT group_replication_set_as_primary(@@server_uuid, 10)");
}

fn all_write(stage: &mut Stage, node: usize) {
    stage.on(node, "SELECT group_replication_switch_to_multi_primary_mode()");
}

/// The one that Narrows writes to.
fn one_writes(stage: &mut Stage, _: usize) {
    let writer = stage.writer();
    stage.on(writer, "SELECT group_replication_switch_to_single_primary_mode(@@server_uuid)");
}

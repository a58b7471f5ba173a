//! Who has which role in a cluster: a pure function of what the nodes have said and what was decided before.
//!
//! What holds after each decision:
//! 1. There are never more than `max_writers` writers, and a node that said that it cannot be written to is none of them.
//! 2. A writer keeps the role as long as it can be written to. A node that comes back does not take it again.
//! 3. A vacant place goes to a node that can be written to, by weight and then by name. One that came back within
//!    [`STEADY`] gets it only if there is no other writer, so that a node that comes and goes does not come and go as a
//!    writer too.
//! 4. A node that is reluctant to be written to is a writer only if there is no other one.
//! 5. If nodes name a writer, the one that most of them name goes before others that say that they can be written to.
//! 6. A writer that has never been heard, because it refuses the checks, is one only if no other node can be, once the
//!    others have waited for [`HEARD_WITHIN`].
//! 7. Until every node has been heard once, the first ones to answer have no advantage over the others. The same is true
//!    after an operator has changed weights: that is how a writer is chosen by hand, also one that has just come back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Word;
use crate::monitor::plan::Address;

/// A node, as configured and as heard.
#[derive(Debug, Clone)]
pub struct Member {
    /// The server.
    pub address: Address,
    /// Its weight, which is also its rank among those that could be writers.
    pub weight: u32,
    /// The role that its configured hostgroup gives it until it has been heard.
    pub configured: NodeRole,
    /// Whether the operator lets it be a writer.
    pub may_write: bool,
    /// What it has said; `None`: nothing so far.
    pub word: Option<Word>,
    /// Whether it was found: it gets no role before it has been heard.
    pub is_found: bool,
    /// How many nodes name it the writer, where they do (Aurora).
    pub votes: usize,
}

/// What a node is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRole {
    /// It is written to.
    Writer,
    /// It could be written to, but others are.
    BackupWriter,
    /// It is read from.
    Reader,
    /// It gets no new work, and finishes what runs there.
    OfflineSoft,
    /// It gets no work, and what runs there is cut off.
    Offline,
}

/// The role of a node, and how it got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// What it is used for.
    pub role: NodeRole,
    /// Why, in words.
    pub why: String,
    /// Since when.
    pub since: Instant,
    /// What it was used for before it went offline.
    pub was: NodeRole,
    /// The weight that counted for the decision.
    pub weight: u32,
    /// Whether it can be written to.
    pub fitness: Fitness,
}

/// Whether a node can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// It has not been heard.
    Unheard,
    /// It cannot, or only reluctantly.
    Unfit,
    /// It always could.
    Always,
    /// It can since then, and could not before.
    Since(Instant),
}

/// The roles of a cluster's nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The role of each node.
    pub seats: BTreeMap<Address, Seat>,
    /// Whether every node has been heard, or has had the time to be, so that writers keep their role.
    pub is_settled: bool,
    /// When a node was heard for the first time.
    pub begun: Option<Instant>,
    /// When time alone may change the decision.
    pub again: Option<Instant>,
}

/// A node that has another role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The server.
    pub address: Address,
    /// What it was used for.
    pub from: NodeRole,
    /// What it is used for.
    pub to: NodeRole,
    /// Why, in words.
    pub why: String,
}

/// How long the others wait for a node that is a writer and has not been heard: the default interval of checks, and three
/// checks that time out. After this, only a check that the server refuses can be the reason.
pub const HEARD_WITHIN: Duration = Duration::from_secs(20);

/// How long a node that has come back must be fit before it joins other writers.
pub const STEADY: Duration = Duration::from_secs(60);

impl NodeRole {
    /// Every role.
    pub const ALL: [NodeRole; 5] = [
        NodeRole::Writer,
        NodeRole::BackupWriter,
        NodeRole::Reader,
        NodeRole::OfflineSoft,
        NodeRole::Offline,
    ];

    /// Its name, in messages and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            NodeRole::Writer => "writer",
            NodeRole::BackupWriter => "backup_writer",
            NodeRole::Reader => "reader",
            NodeRole::OfflineSoft => "offline_soft",
            NodeRole::Offline => "offline",
        }
    }

    /// Whether the node gets statements.
    pub fn serves(self) -> bool {
        !matches!(self, NodeRole::OfflineSoft | NodeRole::Offline)
    }
}

/// Gives each node its role.
pub fn decide(max_writers: usize, members: &[Member], before: &Decision, now: Instant) -> Decision {
    let is_told = members
        .iter()
        .any(|member| before.seats.get(&member.address).is_some_and(|seat| seat.weight != member.weight));
    let common = Common {
        is_told,
        is_settled: before.is_settled,
        is_overdue: before.begun.is_some_and(|begun| now >= begun + HEARD_WITHIN),
        now,
    };
    let of_member = |member| Candidate::of(member, before.seats.get(&member.address), common);
    let mut candidates: Vec<Candidate<'_>> = members.iter().filter_map(of_member).collect();
    candidates.sort_by_key(Candidate::order);
    let mut writers: BTreeSet<&Address> = BTreeSet::new();
    for candidate in &candidates {
        if writers.len() < max_writers && (writers.is_empty() || candidate.rank == Rank::Fit) {
            writers.insert(&candidate.member.address);
        }
    }
    let waits_until = |candidate: &Candidate<'_>| match candidate.rank {
        Rank::Returned(at) if !writers.contains(&candidate.member.address) => Some(at + STEADY),
        _ => None,
    };
    let has_room = writers.len() < max_writers;
    let returns = candidates.iter().filter_map(waits_until).min().filter(|_| has_room);
    let is_heard = members.iter().any(|member| member.word.is_some());
    let begun = before.begun.or(is_heard.then_some(now));
    let overdue = begun.map(|begun| begun + HEARD_WITHIN).filter(|at| now < *at && has_unheard(members));
    let again = returns.into_iter().chain(overdue).min();
    let election = Election { max_writers, members, before, writers, now };
    Decision {
        seats: members.iter().map(|member| (member.address.clone(), election.seat(member))).collect(),
        is_settled: before.is_settled || is_settled(members, begun, now),
        begun,
        again,
    }
}

/// Whether a node that is configured has not been heard.
fn has_unheard(members: &[Member]) -> bool {
    members.iter().any(|member| member.word.is_none() && !member.is_found)
}

/// Whether every node has been heard. One that refuses the monitor's account never is, so the others wait for a while only.
fn is_settled(members: &[Member], begun: Option<Instant>, now: Instant) -> bool {
    let all = !members.is_empty() && !has_unheard(members);
    all || begun.is_some_and(|begun| now >= begun + HEARD_WITHIN)
}

/// The nodes whose role differs. A node that was not there before has not changed.
pub fn changes(before: &Decision, after: &Decision) -> Vec<Change> {
    let changed = after.seats.iter().filter_map(|(address, seat)| {
        let from = before.seats.get(address)?.role;
        (from != seat.role).then(|| Change {
            address: address.clone(),
            from,
            to: seat.role,
            why: seat.why.clone(),
        })
    });
    changed.collect()
}

/// What is common to all nodes when a decision is made.
#[derive(Debug, Clone, Copy)]
struct Common {
    /// The operator has changed weights.
    is_told: bool,
    /// As in [`Decision::is_settled`].
    is_settled: bool,
    /// A node that has not been heard could have been.
    is_overdue: bool,
    now: Instant,
}

/// A node that could be a writer.
#[derive(Debug)]
struct Candidate<'a> {
    member: &'a Member,
    rank: Rank,
    /// Whether it has the role already, and an advantage for it.
    holds: bool,
}

/// What speaks for a candidate, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It can be written to.
    Fit,
    /// The same, but it came back only then.
    Returned(Instant),
    /// It has not been heard, and all others have.
    Unheard,
    /// Writes may have to wait there.
    Reluctant,
}

impl<'a> Candidate<'a> {
    fn of(
        member: &'a Member,
        seat: Option<&Seat>,
        Common { is_told, is_settled, is_overdue, now }: Common,
    ) -> Option<Candidate<'a>> {
        if !member.may_write {
            return None;
        }
        let is_writer = seat.is_some_and(|seat| seat.role == NodeRole::Writer);
        let rank = match &member.word {
            Some(Word::Writes) => match fitness(member, seat, now) {
                Fitness::Since(at) if !is_writer && !is_told && member.votes == 0 && now < at + STEADY => {
                    Rank::Returned(at)
                }
                _ => Rank::Fit,
            },
            Some(Word::Reluctant(_) | Word::Late(_)) => Rank::Reluctant,
            Some(_) => return None,
            None => match seat.map_or(member.configured, |seat| seat.role) {
                NodeRole::Writer if is_overdue && is_unheard(seat) => Rank::Unheard,
                NodeRole::Writer => Rank::Fit,
                NodeRole::BackupWriter if is_settled => Rank::Unheard,
                NodeRole::BackupWriter => Rank::Fit,
                _ => return None,
            },
        };
        Some(Candidate { member, rank, holds: is_writer && is_settled && !is_told })
    }

    fn order(&self) -> (u8, Reverse<usize>, bool, Reverse<u32>, String, u16) {
        let class = match self.rank {
            Rank::Fit => 0,
            Rank::Returned(_) => 1,
            Rank::Unheard => 2,
            Rank::Reluctant => 3,
        };
        let Member { address, weight, votes, .. } = self.member;
        (class, Reverse(*votes), !self.holds, Reverse(*weight), address.hostname.clone(), address.port)
    }
}

/// Whether nothing was ever heard of a node with this seat.
fn is_unheard(seat: Option<&Seat>) -> bool {
    seat.is_none_or(|seat| seat.fitness == Fitness::Unheard)
}

/// Whether a node can be written to, and since when if it could not before.
fn fitness(member: &Member, seat: Option<&Seat>, now: Instant) -> Fitness {
    let before = seat.map_or(Fitness::Unheard, |seat| seat.fitness);
    match (&member.word, before) {
        (None, before) => before,
        (Some(Word::Writes), Fitness::Unheard) => Fitness::Always,
        (Some(Word::Writes), Fitness::Unfit) => Fitness::Since(now),
        (Some(Word::Writes), before) => before,
        (Some(_), _) => Fitness::Unfit,
    }
}

/// A decision whose writers are chosen.
struct Election<'a> {
    max_writers: usize,
    members: &'a [Member],
    before: &'a Decision,
    writers: BTreeSet<&'a Address>,
    now: Instant,
}

impl Election<'_> {
    fn seat(&self, member: &Member) -> Seat {
        let before = self.before.seats.get(&member.address);
        let fitness = fitness(member, before, self.now);
        let (role, why) = self.role(member, before, fitness);
        let since = before.filter(|seat| seat.role == role).map_or(self.now, |seat| seat.since);
        let was = match before {
            _ if role.serves() => role,
            Some(seat) if seat.role.serves() => seat.role,
            Some(seat) => seat.was,
            None => member.configured,
        };
        Seat { role, why, since, was, weight: member.weight, fitness }
    }

    /// The role of a node, and the reason.
    fn role(&self, member: &Member, before: Option<&Seat>, fitness: Fitness) -> (NodeRole, String) {
        if self.writers.contains(&member.address) {
            return (NodeRole::Writer, self.why_writer(member, before));
        }
        match &member.word {
            Some(Word::Writes) => (NodeRole::BackupWriter, self.why_backup(member, fitness)),
            Some(Word::Reluctant(why)) => (NodeRole::BackupWriter, why.clone()),
            Some(Word::Reads(why)) => (NodeRole::Reader, why.clone()),
            Some(Word::Late(why) | Word::Leaving(why)) => (NodeRole::OfflineSoft, why.clone()),
            Some(Word::Out(why)) => (NodeRole::Offline, why.clone()),
            None => match before {
                Some(Seat { role: NodeRole::Writer | NodeRole::BackupWriter, .. }) => {
                    (NodeRole::BackupWriter, self.why_backup(member, fitness))
                }
                Some(seat) => (seat.role, seat.why.clone()),
                None if member.is_found => {
                    (NodeRole::Offline, "it was found, and has not been heard yet".to_owned())
                }
                None if member.configured == NodeRole::Writer => {
                    (NodeRole::BackupWriter, self.why_backup(member, fitness))
                }
                None => (member.configured, "as configured: it has not been heard yet".to_owned()),
            },
        }
    }

    /// Why a node is a writer: because it became one, or because of those that no longer are.
    fn why_writer(&self, member: &Member, before: Option<&Seat>) -> String {
        let is_heard_first = |seat: &Seat| seat.fitness == Fitness::Unheard && member.word.is_some();
        if let Some(seat) = before.filter(|seat| seat.role == NodeRole::Writer && !is_heard_first(seat)) {
            return seat.why.clone();
        }
        let lost = |other: &&Member| {
            let seat = self.before.seats.get(&other.address);
            seat.is_some_and(|seat| seat.role == NodeRole::Writer) && !self.writers.contains(&other.address)
        };
        match self.members.iter().filter(|_| self.before.is_settled).find(lost) {
            Some(other) => match &other.word {
                Some(
                    Word::Reluctant(why)
                    | Word::Late(why)
                    | Word::Reads(why)
                    | Word::Leaving(why)
                    | Word::Out(why),
                ) => format!("{} no longer is: {why}", other.address),
                Some(Word::Writes) => format!("it has a higher rank than {}", other.address),
                None => format!("it can be written to, and {} has not been heard", other.address),
            },
            None if member.word.is_none() => "as configured: it has not been heard yet".to_owned(),
            None => "it can be written to".to_owned(),
        }
    }

    fn why_backup(&self, member: &Member, fitness: Fitness) -> String {
        match fitness {
            _ if !member.may_write => {
                "it can be written to, but its row in the writer hostgroup is offline".to_owned()
            }
            Fitness::Since(at) if self.now < at + STEADY && self.writers.len() < self.max_writers => {
                format!(
                    "it can be written to again, and is a writer once that has lasted {} s",
                    STEADY.as_secs()
                )
            }
            _ if self.max_writers == 0 => "max_writers is 0: no node is written to".to_owned(),
            _ if self.writers.len() < self.max_writers && member.word.is_none() => {
                "it has not been heard yet, and others can be written to".to_owned()
            }
            _ => format!("it can be written to, but max_writers ({}) others are", self.max_writers),
        }
    }
}

#[cfg(test)]
mod tests;

//! A change of the configuration becomes a version of the fleet, or does not: nothing between.

use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::rt::sleep;

use super::etcd::{Etcd, is_refusal};
use super::keys::Keys;
use super::member::{MemberState, Seen};
use super::record::{self, FleetVersion};
use super::transaction::Transaction;

/// A change of the configuration that is to be the next version.
#[derive(Debug)]
pub struct Proposal {
    /// What it holds.
    pub version: FleetVersion,
    /// The version that it was made from; 0: none of the fleet.
    pub base: i64,
    /// Who is to try it first; `None`: all get it at once.
    pub trial: Option<TrialWish>,
    /// Receives the number of the version once it is the head, or why it is not.
    pub outcome: Sender<Result<i64, String>>,
}

/// How a version is to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialWish {
    /// The members that try it.
    pub nodes: Vec<String>,
    /// For how many seconds it must run there.
    pub seconds: u64,
}

/// Stores a version, and makes it the head or the version on trial; returns its number.
pub async fn store(
    (etcd, keys): (&mut Etcd, &Keys),
    (member, seen, lease): (&MemberState, &Seen, Option<i64>),
    proposal: &Proposal,
) -> Result<i64, String> {
    if let Some(obstacle) = member.obstacle(seen) {
        return Err(obstacle);
    }
    let runs = member.running.map_or(0, |mark| mark.version);
    if runs != proposal.base {
        return Err(format!("version {runs} of the fleet was applied meanwhile: make another plan"));
    }
    let number = seen.last.max(runs) + 1;
    let transaction = transaction(keys, (seen, lease), number, proposal)?;
    match etcd.run(&transaction, STORE_TIME).await {
        Ok(outcome) if outcome.has_succeeded => Ok(number),
        Ok(_) => Err(moved()),
        Err(reason) if is_refusal(&reason) => Err(format!("etcd refuses it: {reason}")),
        Err(reason) => settle((etcd, keys), (seen, number), proposal, &reason).await,
    }
}

fn transaction(
    keys: &Keys,
    (seen, lease): (&Seen, Option<i64>),
    number: i64,
    proposal: &Proposal,
) -> Result<Transaction, String> {
    let value = proposal.version.encode()?;
    let transaction = Transaction::default()
        .when(&keys.head(), seen.revision)
        .when(&keys.trial(), 0)
        .put(&keys.version(number), value, None)
        .delete_between(&keys.version(0), &keys.version((number - KEPT).max(0)));
    Ok(match &proposal.trial {
        None => transaction.put(&keys.head(), record::head(number, number), None),
        Some(TrialWish { nodes, seconds }) => {
            let trial = record::trial(number, nodes, &proposal.version.node, *seconds);
            let head = record::head(seen.head, number);
            let lease = lease.ok_or("this member has no lease in etcd yet")?;
            transaction.put(&keys.head(), head, None).put(&keys.trial(), trial, Some(lease))
        }
    })
}

/// Finds out what has become of a transaction without an answer. The head is written as it is: if that succeeds, the transaction
/// can never succeed any more.
async fn settle(
    (etcd, keys): (&mut Etcd, &Keys),
    (seen, number): (&Seen, i64),
    proposal: &Proposal,
    reason: &str,
) -> Result<i64, String> {
    let fence = Transaction::default()
        .when(&keys.head(), seen.revision)
        .put(&keys.head(), record::head(seen.head, seen.last), None)
        .get_otherwise(&keys.version(number));
    for _ in 0..ATTEMPTS {
        etcd.turn_away();
        match etcd.run(&fence, STORE_TIME).await {
            Ok(outcome) if outcome.has_succeeded => {
                return Err(format!("etcd cannot be reached ({reason}); nothing has changed"));
            }
            Ok(outcome) => {
                let stored = outcome.found.iter().flatten().next();
                let is_ours = stored
                    .and_then(|pair| FleetVersion::decode(&pair.value).ok())
                    .is_some_and(|stored| stored.id == proposal.version.id);
                return if is_ours { Ok(number) } else { Err(moved()) };
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
    Err(format!(
        "etcd cannot be reached ({reason}); nothing has changed here, and it is not known whether etcd has taken version \
         {number}: SHOW NARROWS FLEET shows it once etcd is back"
    ))
}

fn moved() -> String {
    "another member has changed the configuration at the same time: make another plan".to_owned()
}

/// How many versions etcd keeps.
const KEPT: i64 = 50;

/// The limit of a transaction that writes.
const STORE_TIME: Duration = Duration::from_secs(2);

/// How often it is asked what has become of it: each of three servers twice.
const ATTEMPTS: u32 = 6;

/// The pause between.
const PAUSE: Duration = Duration::from_millis(200);

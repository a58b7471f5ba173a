//! A change of the configuration becomes a version of the fleet, or does not: nothing between.

use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::rt::sleep;

use super::etcd::{Etcd, is_refusal};
use super::keys::Keys;
use super::member::{MemberState, Seen, trial_obstacle};
use super::record::{self, FleetVersion};
use super::report::NodeReport;
use super::transaction::Transaction;
use crate::versions::{FleetMark, VersionId};

/// A change of the configuration that is to be the next version.
#[derive(Debug)]
pub struct Proposal {
    /// What it holds.
    pub version: FleetVersion,
    /// The version that it was made from; `None`: none of the fleet.
    pub base: Option<VersionId>,
    /// Who gets it.
    pub audience: Audience,
    /// Receives the version once it is the head, or why it is not.
    pub outcome: Sender<Result<FleetMark, String>>,
}

/// Who gets a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// All members that run the version before it.
    All,
    /// Some members, before the others.
    Trial(TrialWish),
    /// All members, whatever they run and whatever etcd has: an administrator has named the right configuration.
    Restore,
}

/// How a version is to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialWish {
    /// The members that try it.
    pub nodes: Vec<String>,
    /// For how many seconds it must run there.
    pub seconds: u64,
}

/// Stores a version, and makes it the head or the version on trial. `reports` are those of all members.
pub async fn store(
    (etcd, keys): (&mut Etcd, &Keys),
    (member, seen, lease): (&MemberState, &Seen, Option<i64>),
    reports: &[NodeReport],
    proposal: &Proposal,
) -> Result<FleetMark, String> {
    let runs = member.running.as_ref();
    let obstacle = match proposal.audience {
        Audience::All | Audience::Trial(_) => member.obstacle(seen).or_else(|| lost(keys, member, reports)),
        Audience::Restore => trial_obstacle(seen),
    };
    if let Some(obstacle) = obstacle {
        return Err(obstacle);
    }
    if runs.map(|place| place.mark.id) != proposal.base {
        let runs = runs.map_or(0, |place| place.mark.version);
        return Err(format!("version {runs} of the fleet was applied meanwhile: make another plan"));
    }
    let (version, greatest) = match proposal.audience {
        Audience::All | Audience::Trial(_) => (proposal.version.clone(), 0),
        Audience::Restore => restoring(member, seen, reports, &proposal.version),
    };
    let greatest = greatest.max(seen.last).max(runs.map_or(0, |place| place.mark.version));
    if greatest >= record::GREATEST_NUMBER {
        return Err(format!(
            "the numbers of versions are used up: the key {} has a last one that is no member's",
            keys.head()
        ));
    }
    let is_on_trial = matches!(proposal.audience, Audience::Trial(_));
    let mark = FleetMark { version: greatest + 1, id: version.id, is_on_trial };
    let transaction = transaction(keys, (seen, lease), mark, (&version, &proposal.audience))?;
    match etcd.run(&transaction, STORE_TIME).await {
        Ok(outcome) if outcome.has_succeeded && outcome.cluster == seen.home.cluster => Ok(mark),
        Ok(_) => Err(moved()),
        Err(reason) if is_refusal(&reason) => Err(format!("etcd refuses it: {reason}")),
        Err(reason) => settle((etcd, keys), seen, mark, &reason).await,
    }
}

/// Which member runs a version that etcd has lost; `None`: all run one that this member knows. A change here would give its number
/// to another version.
fn lost(keys: &Keys, member: &MemberState, reports: &[NodeReport]) -> Option<String> {
    let place = member.running.as_ref();
    let is_lost = |report: &&NodeReport| {
        let is_here = place.is_none_or(|place| report.home.as_ref() == Some(&place.home));
        let is_known = |id| place.is_some_and(|place| place.includes(id));
        is_here && report.settled.is_some_and(|id| !is_known(id))
    };
    let report = reports.iter().find(is_lost)?;
    let (node, version) = (&report.node, report.running.map_or(0, |mark| mark.version));
    let key = keys.node(node);
    Some(format!(
        "{node} runs a version {version} of the fleet that etcd does not have any more: NARROWS FLEET RESTORE on the member with the \
         right configuration makes it that of all (if there is no such member, etcdctl del {key} removes its report)"
    ))
}

/// The version that takes the place of those that all members report, and of what etcd has; and the greatest number of these.
fn restoring(
    member: &MemberState,
    seen: &Seen,
    reports: &[NodeReport],
    version: &FleetVersion,
) -> (FleetVersion, i64) {
    let place = member.running.as_ref();
    let of_reports = reports.iter().flat_map(|report| [report.settled, report.running.map(|mark| mark.id)]);
    let others = of_reports.flatten().chain(seen.head.map(|head| head.id));
    let homes = reports.iter().filter_map(|report| report.home.clone());
    let homes = homes.chain(place.map(|place| place.home.clone())).filter(|home| *home != seen.home);
    let greatest = reports.iter().filter_map(|report| Some(report.running?.version)).max();
    let restored = version.clone().after(place, others).instead_of(homes);
    (restored, greatest.unwrap_or_default().clamp(0, record::GREATEST_NUMBER))
}

fn transaction(
    keys: &Keys,
    (seen, lease): (&Seen, Option<i64>),
    mark: FleetMark,
    (version, audience): (&FleetVersion, &Audience),
) -> Result<Transaction, String> {
    let (number, value) = (mark.version, version.encode()?);
    let transaction = Transaction::default()
        .when(&keys.head(), seen.revision)
        .when(&keys.trial(), 0)
        .put(&keys.version(number), value, None)
        .delete_between(&keys.version(0), &keys.version((number - KEPT).max(0)));
    Ok(match audience {
        Audience::All | Audience::Restore => {
            transaction.put(&keys.head(), record::head(Some(mark), number), None)
        }
        Audience::Trial(TrialWish { nodes, seconds }) => {
            let trial = record::trial(mark, nodes, &version.node, *seconds);
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
    seen: &Seen,
    mark: FleetMark,
    reason: &str,
) -> Result<FleetMark, String> {
    let fence = Transaction::default()
        .when(&keys.head(), seen.revision)
        .put(&keys.head(), record::head(seen.head, seen.last), None)
        .get_otherwise(&keys.version(mark.version));
    for _ in 0..ATTEMPTS {
        etcd.turn_away();
        match etcd.run(&fence, STORE_TIME).await {
            // That of another cluster says nothing.
            Ok(outcome) if outcome.cluster != seen.home.cluster => sleep(PAUSE).await,
            Ok(outcome) if outcome.has_succeeded => {
                return Err(format!("etcd cannot be reached ({reason}); nothing has changed"));
            }
            Ok(outcome) => {
                let stored = outcome.found.iter().flatten().next();
                let is_ours = stored.is_some_and(|pair| FleetVersion::decode(mark.id, &pair.value).is_ok());
                return if is_ours { Ok(mark) } else { Err(moved()) };
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
    let version = mark.version;
    Err(format!(
        "etcd cannot be reached ({reason}); nothing has changed here, and it is not known whether etcd has taken version \
         {version}: SHOW NARROWS FLEET shows it once etcd is back"
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

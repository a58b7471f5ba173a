//! FLEET: how its members are, and changes that become its versions.

use narrows_proxy::clock;

use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::unquoted;
use crate::calendar::date_and_time;
use crate::fleet::{Audience, FleetView, LONGEST_TRIAL, NodeReport, TakenBack, TrialWish, shared};
use crate::runtime::{ChangeState, Runtime};
use crate::store::{Answer, Refusal, Store};
use crate::versions::{ConfigDocument, FleetMark, VersionOrigin, VersionSource};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "SHOW NARROWS FLEET",
        who: Who::Admin,
        run: |parts, call| Some(members(parts, call)),
        doc: "The members of the fleet: the version that each runs, what it has refused, and how many rows run differently there.",
    },
    Verb {
        pattern: "SHOW NARROWS FLEET DRIFT",
        who: Who::Admin,
        run: |parts, _| Some(drift(parts)),
        doc: "What runs here differently than in the version of the fleet.",
    },
    Verb {
        pattern: "SHOW NARROWS FLEET TRIALS",
        who: Who::Admin,
        run: |parts, call| Some(trials(parts, call)),
        doc: "The last versions of the fleet that some members tried and that were taken back, and why.",
    },
    Verb {
        pattern: "NARROWS APPLY PLAN <token> CANARY <nodes> FOR <time>",
        who: Who::Admin,
        run: |parts, call| Some(canary(parts, call, "")),
        doc: "Makes the plan a version that only these members of the fleet run first ('node,node'). If all of them run it and are ready for that time ('30s'), all members get it; otherwise it is taken back.",
    },
    Verb {
        pattern: "NARROWS APPLY PLAN <token> CANARY <nodes> FOR <time> COMMENT <comment...>",
        who: Who::Admin,
        run: |parts, call| Some(canary(parts, call, &unquoted(call.word(3)))),
        doc: "The same, with a comment for the new version.",
    },
    Verb {
        pattern: "NARROWS FLEET RESTORE",
        who: Who::Admin,
        run: |parts, call| Some(restore(parts, call, "")),
        doc: "Makes what runs here the next version of the fleet, in the place of whatever etcd has and the other members run: for when etcd has lost versions, or the fleet has moved to another etcd.",
    },
    Verb {
        pattern: "NARROWS FLEET RESTORE COMMENT <comment...>",
        who: Who::Admin,
        run: |parts, call| Some(restore(parts, call, &unquoted(call.word(0)))),
        doc: "The same, with a comment for the new version.",
    },
];

/// Makes `document` the next version of the fleet, and so the configuration here; `None`: this belongs to no fleet.
pub(super) fn change(
    parts: &mut Parts<'_>,
    call: &Call<'_>,
    origin: &VersionOrigin,
    document: impl FnOnce(&mut Parts<'_>) -> Result<ConfigDocument, Reply>,
) -> Option<Reply> {
    parts.runtime.fleet()?;
    if !call.is_first {
        return Some(state(parts, call));
    }
    let document = match document(parts) {
        Ok(document) => document,
        Err(reply) => return Some(reply),
    };
    if is_of_this_one(parts.runtime, parts.store, &document) {
        return None;
    }
    Some(propose(parts, call, origin, &document, Audience::All).unwrap_or_else(Reply::Refused))
}

/// Whether a configuration differs from what runs in nothing that the fleet shares.
fn is_of_this_one(runtime: &Runtime, store: &Store, document: &ConfigDocument) -> bool {
    let Some(fleet) = runtime.fleet() else { return true };
    let view = fleet.view();
    let is_newest = view.mismatch().is_none() && view.running() == view.seen.head;
    let is_newest = is_newest && view.seen.head.is_some();
    is_newest && fleet.drift(store).is_empty() && shared(document) == shared(store.current())
}

fn propose(
    parts: &mut Parts<'_>,
    call: &Call<'_>,
    origin: &VersionOrigin,
    document: &ConfigDocument,
    audience: Audience,
) -> Result<Reply, Refusal> {
    parts.runtime.propose(parts.store, document, (origin, audience, call.since))?;
    Ok(Reply::NotYet)
}

/// The answer to a command that has proposed a change.
fn state(parts: &mut Parts<'_>, call: &Call<'_>) -> Reply {
    match parts.runtime.proposed(call.since) {
        None => Reply::error("the change is not known any more (SHOW NARROWS FLEET)"),
        Some(ChangeState::Waits) => Reply::NotYet,
        Some(ChangeState::Refused(reason)) => Reply::error(reason),
        Some(ChangeState::InForce(mark)) => {
            let (version, id, here) = (mark.version, mark.id.short(), parts.store.version());
            let info = format!("version {version} of the fleet ({id}) is in force, as version {here} here");
            Reply::Answer(Answer::Done { affected: 0, info, warnings: Vec::new() })
        }
        Some(ChangeState::NotHere(mark, reason)) => Reply::error(format!(
            "this is version {} of the fleet, but it does not run here: {reason}",
            mark.version
        )),
    }
}

/// The answer to a command about the fleet that changes nothing: it was proposed already, or it must not be.
fn before_change(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    if parts.runtime.fleet().is_none() {
        return Some(no_fleet());
    }
    if !call.is_first {
        return Some(state(parts, call));
    }
    let is_read_only = parts.store.is_read_only();
    is_read_only.then(|| Reply::error("admin-read_only is true: nothing can be changed"))
}

fn canary(parts: &mut Parts<'_>, call: &Call<'_>, comment: &str) -> Reply {
    if let Some(reply) = before_change(parts, call) {
        return reply;
    }
    let nodes = unquoted(call.word(1));
    let nodes = nodes.split(',').map(|node| node.trim().to_owned()).filter(|node| !node.is_empty());
    let nodes: Vec<String> = nodes.collect();
    if nodes.is_empty() {
        return Reply::error("no member is named: expected 'node,node' as SHOW NARROWS FLEET shows them");
    }
    if nodes.len() > MOST_TRYING {
        return Reply::error(format!(
            "{} members are named, and at most {MOST_TRYING} try a version",
            nodes.len()
        ));
    }
    let time = unquoted(call.word(2));
    let Some(seconds) = seconds(&time) else {
        return Reply::error(format!("{time} is no time: expected seconds up to a day, as '30s' or 30"));
    };
    let origin = call.origin(VersionSource::Apply, comment);
    let token = unquoted(call.word(0));
    let planned = parts.runtime.planned(parts.store, &token);
    let trial = Audience::Trial(TrialWish { nodes, seconds });
    planned
        .and_then(|document| propose(parts, call, &origin, &document, trial))
        .unwrap_or_else(Reply::Refused)
}

fn restore(parts: &mut Parts<'_>, call: &Call<'_>, comment: &str) -> Reply {
    if let Some(reply) = before_change(parts, call) {
        return reply;
    }
    let origin = call.origin(VersionSource::Apply, comment);
    let document = parts.store.current().clone();
    propose(parts, call, &origin, &document, Audience::Restore).unwrap_or_else(Reply::Refused)
}

fn seconds(time: &str) -> Option<u64> {
    let seconds: u64 = time.strip_suffix(['s', 'S']).unwrap_or(time).trim().parse().ok()?;
    (1..=LONGEST_TRIAL).contains(&seconds).then_some(seconds)
}

fn members(parts: &mut Parts<'_>, call: &Call<'_>) -> Reply {
    let Some(fleet) = parts.runtime.fleet_mut() else { return no_fleet() };
    let (node, view) = (fleet.node().to_owned(), fleet.view());
    let reports = match fleet.reports(call.since) {
        None => return Reply::NotYet,
        Some(reports) => reports,
    };
    let now = clock::now_s();
    let mut rows: Vec<Vec<Option<String>>> = match &reports {
        Ok(reports) => reports.iter().map(|report| row_of(report, &node, &view, now)).collect(),
        Err(_) => Vec::new(),
    };
    // Only what is known here.
    let state = match (&reports, &view.rival) {
        (Err(_), _) => Some("etcd cannot be reached"),
        (Ok(_), Some(_)) => Some("same name"),
        (Ok(_), None) => None,
    };
    if let Some(state) = state {
        let drift = parts.runtime.fleet().map_or(0, |fleet| fleet.drift(parts.store).len());
        let mut own = vec![None; MEMBER_COLUMNS.len()];
        (own[0], own[1]) = (Some(node), number(view.running().map(|mark| mark.version)));
        (own[2], own[3]) = (number(head_of(&view)), Some(state.to_owned()));
        (own[4], own[5]) = (Some(drift.to_string()), view.rival.clone());
        own[9] =
            Some(reports.err().map_or_else(|| server_of(&view), |why| view.trouble.clone().unwrap_or(why)));
        rows.push(own);
    }
    Reply::optional_rows(MEMBER_COLUMNS, rows)
}

const MEMBER_COLUMNS: [&str; 11] = [
    "node",
    "version",
    "fleet_version",
    "state",
    "drift",
    "refused",
    "ready",
    "since",
    "age_s",
    "etcd",
    "address",
];

/// The row of a member that has reported.
fn row_of(report: &NodeReport, node: &str, view: &FleetView, now: i64) -> Vec<Option<String>> {
    let mismatch = Some(report.mismatch.clone()).filter(|reason| !reason.is_empty());
    let refused =
        report.refused.as_ref().map(|refused| format!("version {}: {}", refused.version, refused.reason));
    let ready = if report.not_ready.is_empty() { "yes".to_owned() } else { report.not_ready.clone() };
    let is_here = report.node == node && view.rival.is_none();
    vec![
        Some(report.node.clone()),
        number(report.running.map(|mark| mark.version)),
        number(head_of(view)),
        Some(state_of(report, view.seen.head).to_owned()),
        Some(report.drift.to_string()),
        mismatch.or(refused),
        Some(ready),
        Some(date_and_time(report.since)),
        Some(now.saturating_sub(report.reported).max(0).to_string()),
        is_here.then(|| view.trouble.clone().unwrap_or_else(|| server_of(view))),
        Some(report.address.clone()),
    ]
}

fn number(number: Option<i64>) -> Option<String> {
    number.map(|number| number.to_string())
}

/// The version that all members are to run; `None`: there is none yet.
fn head_of(view: &FleetView) -> Option<i64> {
    view.seen.head.map(|head| head.version)
}

/// The server of etcd that is asked, and what is wrong with what it has.
fn server_of(view: &FleetView) -> String {
    match &view.seen.stray_trial {
        Some(reason) => format!("{}: {reason}", view.endpoint),
        None => view.endpoint.clone(),
    }
}

fn trials(parts: &mut Parts<'_>, call: &Call<'_>) -> Reply {
    let Some(fleet) = parts.runtime.fleet_mut() else { return no_fleet() };
    let row = |it: &TakenBack| {
        let (version, nodes) = (it.version.to_string(), it.nodes.join(","));
        vec![version, it.by.clone(), nodes, date_and_time(it.at), it.reason.clone()]
    };
    match fleet.taken_back(call.since) {
        None => Reply::NotYet,
        Some(Ok(all)) => {
            let columns = ["version", "made_on", "tried_on", "taken_back", "reason"];
            Reply::rows(columns, all.iter().rev().map(row).collect())
        }
        Some(Err(reason)) => Reply::error(format!("etcd cannot be reached: {reason}")),
    }
}

fn state_of(report: &NodeReport, head: Option<FleetMark>) -> &'static str {
    let is_head = |id| head.is_some_and(|head| head.id == id);
    match (&report.running, &report.refused) {
        _ if !report.mismatch.is_empty() => "mismatch",
        (_, Some(refused)) if is_head(refused.id) => "refused",
        (Some(mark), _) if mark.is_on_trial => "on trial",
        (Some(mark), _) if is_head(mark.id) && report.drift > 0 => "drifted",
        (Some(mark), _) if is_head(mark.id) => "in force",
        // It has not found that out itself yet. A greater number may be one that was not seen here yet.
        (Some(mark), _) if head.is_some_and(|head| head.version == mark.version) => "mismatch",
        _ if head.is_none() => "no version",
        _ => "outdated",
    }
}

fn drift(parts: &mut Parts<'_>) -> Reply {
    let Some(fleet) = parts.runtime.fleet() else { return no_fleet() };
    let columns = ["table", "key", "change", "column", "fleet", "here"];
    let drift = fleet.drift(parts.store);
    Reply::optional_rows(columns, drift.iter().flat_map(super::change_rows::lines).collect())
}

fn no_fleet() -> Reply {
    Reply::error("this Narrows belongs to no fleet: [fleet] in the configuration file names one")
}

/// How many members may try a version: etcd takes 128 conditions at once (`--max-txn-ops`).
const MOST_TRYING: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_trials_are_seconds_up_to_a_day() {
        assert_eq!((seconds("30s"), seconds("1"), seconds("86400 s")), (Some(30), Some(1), Some(86_400)));
        for text in ["", "s", "0", "-1", "86401", "1m", "x"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}

//! HOLD and RELEASE: nothing new begins in a hostgroup while a tool changes its servers.

use std::time::Duration;

use narrows_proxy::snapshot::HostgroupId;
use narrows_proxy::stats::{Running, WaitingLine, wait};

use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::holds::{Hold, LONGEST_HOLD, USUAL_HOLD};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "NARROWS HOLD HOSTGROUP <hostgroup>",
        who: Who::Admin,
        run: |parts, call| Some(hold(parts, call, USUAL_HOLD)),
        doc: "The same for 10 seconds.",
    },
    Verb {
        pattern: "NARROWS HOLD HOSTGROUP <hostgroup> FOR <seconds>",
        who: Who::Admin,
        run: |parts, call| {
            Some(match seconds(call.word(1)) {
                Ok(length) => hold(parts, call, length),
                Err(reply) => reply,
            })
        },
        doc: "Has new statements and transactions of a hostgroup wait, for up to 300 seconds; answers when nothing runs there any more.",
    },
    Verb {
        pattern: "NARROWS RELEASE HOSTGROUP <hostgroup>",
        who: Who::Admin,
        run: |parts, call| Some(release(parts, call)),
        doc: "Ends a hold.",
    },
    Verb {
        pattern: "SHOW NARROWS HOLDS",
        who: Who::Everybody,
        run: |parts, _| Some(holds(parts)),
        doc: "The hostgroups that are held: by whom, for how long, what still runs there, and who waits.",
    },
    Verb {
        pattern: "SHOW NARROWS WAITERS",
        who: Who::Everybody,
        run: |parts, _| Some(waiters(parts)),
        doc: "The hostgroups that clients wait for: how many, with how many bytes of statements, since when, and why.",
    },
];

/// A number of seconds as it is typed, with or without an `s`.
pub(super) fn seconds(word: &str) -> Result<Duration, Reply> {
    let number = word.strip_suffix(['s', 'S']).unwrap_or(word).parse::<u64>().ok();
    let length =
        number.map(Duration::from_secs).filter(|length| !length.is_zero() && *length <= LONGEST_HOLD);
    length.ok_or_else(|| {
        Reply::error(format!("{word} is no number of seconds from 1 to {}", LONGEST_HOLD.as_secs()))
    })
}

/// A hostgroup that runs, as it is typed.
pub(super) fn hostgroup(parts: &Parts<'_>, word: &str) -> Result<HostgroupId, Reply> {
    let Ok(number) = word.parse::<i32>() else {
        return Err(Reply::error(format!("{word} is no hostgroup")));
    };
    match parts.runtime.snapshot() {
        None => Err(Reply::error("nothing runs (PROXYSQL START serves again)")),
        Some(snapshot) if !snapshot.hostgroups.contains_key(&HostgroupId(number)) => {
            Err(Reply::error(format!("hostgroup {number} has no servers, and never had any")))
        }
        Some(_) => Ok(HostgroupId(number)),
    }
}

fn hold(parts: &mut Parts<'_>, call: &Call<'_>, length: Duration) -> Reply {
    let hostgroup = match hostgroup(parts, call.word(0)) {
        Ok(hostgroup) => hostgroup,
        Err(reply) => return reply,
    };
    if parts.runtime.is_switching_over_in(hostgroup) {
        return Reply::error(format!("a switchover of hostgroup {hostgroup} is running"));
    }
    // The command is answered in several steps, and holds in the first one.
    let known = parts.runtime.holds().of(hostgroup);
    let is_ours = known.is_some_and(|hold| hold.began == Some(call.since));
    if !is_ours && call.is_first {
        let by = format!("{}@{}", call.caller.user, call.caller.host);
        parts.runtime.hold(parts.store, hostgroup, (by, length, call.since));
    } else if !is_ours {
        return Reply::error(format!("the hold of hostgroup {hostgroup} was ended, or replaced, meanwhile"));
    }
    let running = running(parts, hostgroup);
    let left = parts.runtime.holds().of(hostgroup).map_or(Duration::ZERO, Hold::left);
    // The rest of the time is for what it is held for.
    if running.sessions > 0 && left > length / 2 {
        return Reply::NotYet;
    }
    let row = vec![
        hostgroup.to_string(),
        running.sessions.to_string(),
        running.not_held.to_string(),
        waiting(parts, hostgroup).to_string(),
        left.as_millis().to_string(),
    ];
    Reply::rows(["hostgroup", "running", "not_held", "waiting", "left_ms"], vec![row])
}

fn running(parts: &Parts<'_>, hostgroup: HostgroupId) -> Running {
    parts.runtime.observer().map_or_else(Running::default, |observer| wait(observer.running(hostgroup)))
}

fn lines(parts: &Parts<'_>) -> Vec<WaitingLine> {
    parts.runtime.observer().map_or_else(Vec::new, |observer| wait(observer.waiting()))
}

fn waiting(parts: &Parts<'_>, hostgroup: HostgroupId) -> u64 {
    lines(parts).iter().find(|line| line.hostgroup == hostgroup).map_or(0, |line| line.clients)
}

fn release(parts: &mut Parts<'_>, call: &Call<'_>) -> Reply {
    let hostgroup = match hostgroup(parts, call.word(0)) {
        Ok(hostgroup) => hostgroup,
        Err(reply) => return reply,
    };
    if parts.runtime.is_switching_over_in(hostgroup) {
        return Reply::error(format!("a switchover of hostgroup {hostgroup} is running"));
    }
    match parts.runtime.release(parts.store, hostgroup) {
        true => Reply::ok(),
        false => Reply::error(format!("hostgroup {hostgroup} is not held")),
    }
}

fn holds(parts: &Parts<'_>) -> Reply {
    let row = |(hostgroup, hold): (HostgroupId, &Hold)| {
        let running = running(parts, hostgroup);
        vec![
            hostgroup.to_string(),
            hold.by.clone(),
            hold.left().as_millis().to_string(),
            running.sessions.to_string(),
            running.not_held.to_string(),
            waiting(parts, hostgroup).to_string(),
        ]
    };
    let rows = parts.runtime.holds().all().map(row).collect();
    Reply::rows(["hostgroup", "held_by", "left_ms", "running", "not_held", "waiting"], rows)
}

fn waiters(parts: &Parts<'_>) -> Reply {
    let row = |line: WaitingLine| {
        vec![
            line.hostgroup.to_string(),
            line.clients.to_string(),
            line.bytes.to_string(),
            line.longest_ms.to_string(),
            line.cause.to_owned(),
        ]
    };
    let rows = lines(parts).into_iter().filter(|line| line.clients > 0).map(row).collect();
    Reply::rows(["hostgroup", "waiting", "bytes", "longest_ms", "cause"], rows)
}

//! SWITCHOVER: another server becomes the primary, while clients wait.

use std::time::Duration;

use super::hold::{hostgroup, seconds};
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::unquoted;
use crate::monitor::plan::Address;
use crate::switchover::{Step, Wish};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "NARROWS SWITCHOVER HOSTGROUP <hostgroup> TO <server>",
        who: Who::Admin,
        run: |parts, call| Some(switch_over(parts, call, Some(USUAL_TIME), false)),
        doc: "Makes a replica the primary of a writer hostgroup, while clients are held for up to 5 seconds; shows each step.",
    },
    Verb {
        pattern: "NARROWS SWITCHOVER HOSTGROUP <hostgroup> TO <server> WITHIN <seconds>",
        who: Who::Admin,
        run: |parts, call| Some(switch_over(parts, call, None, false)),
        doc: "The same with another limit of the time for which clients are held.",
    },
    Verb {
        pattern: "NARROWS SWITCHOVER HOSTGROUP <hostgroup> TO <server> DRY RUN",
        who: Who::Admin,
        run: |parts, call| Some(switch_over(parts, call, Some(USUAL_TIME), true)),
        doc: "Checks whether that can be done, and shows every statement with the server that would get it. Changes nothing.",
    },
    Verb {
        pattern: "NARROWS SWITCHOVER HOSTGROUP <hostgroup> TO <server> WITHIN <seconds> DRY RUN",
        who: Who::Admin,
        run: |parts, call| Some(switch_over(parts, call, None, true)),
        doc: "The same with another limit.",
    },
    Verb {
        pattern: "SHOW NARROWS SWITCHOVER",
        who: Who::Everybody,
        run: |parts, _| Some(last(parts)),
        doc: "The steps of the switchover that runs, or of the last one.",
    },
];

fn switch_over(parts: &mut Parts<'_>, call: &Call<'_>, within: Option<Duration>, is_dry: bool) -> Reply {
    if !call.is_first {
        return answer(parts, call);
    }
    let within = match within.map_or_else(|| seconds(call.word(2)), Ok) {
        Ok(within) => within,
        Err(reply) => return reply,
    };
    let hostgroup = match hostgroup(parts, call.word(0)) {
        Ok(hostgroup) => hostgroup,
        Err(reply) => return reply,
    };
    let Some(to) = address(&unquoted(call.word(1))) else {
        return Reply::error(format!("{} is no server: expected 'host:port'", call.word(1)));
    };
    let snapshot = parts.runtime.snapshot().and_then(|snapshot| snapshot.hostgroups.get(&hostgroup));
    let longest_wait = snapshot.map_or(within, |hostgroup| hostgroup.settings.longest_wait);
    let variable = |name: &str| parts.store.variable(name).unwrap_or_default();
    let username = variable("mysql-switchover_replication_username");
    let password = variable("mysql-switchover_replication_password");
    let Some(password) = parts.runtime.secret(&password) else {
        return Reply::error(
            "mysql-switchover_replication_password refers to a password that cannot be looked up",
        );
    };
    let login = (!username.is_empty()).then(|| (username, password.to_owned()));
    let wish = Wish { hostgroup, within, longest_wait, login };
    let by = format!("{}@{}", call.caller.user, call.caller.host);
    match parts.runtime.begin_switchover(parts.store, (wish, &to), (by, call.since, is_dry)) {
        Ok(()) => Reply::NotYet,
        Err(reason) => Reply::error(reason),
    }
}

/// The answer to a command that has begun a switchover.
fn answer(parts: &Parts<'_>, call: &Call<'_>) -> Reply {
    let Some(ours) = parts.runtime.switchover().filter(|it| it.since == call.since) else {
        return Reply::error("the switchover has ended (SHOW NARROWS SWITCHOVER)");
    };
    match ours.journal.outcome() {
        None => Reply::NotYet,
        Some(Ok(())) => rows(&ours.journal.steps()),
        Some(Err(reason)) => Reply::error(reason),
    }
}

fn last(parts: &Parts<'_>) -> Reply {
    let steps = parts.runtime.switchover().map(|it| it.journal.steps()).unwrap_or_default();
    rows(&steps)
}

fn rows(steps: &[Step]) -> Reply {
    let row = |(number, step): (usize, &Step)| {
        let (state, took_ms) = (step.state.name(), step.took_ms.to_string());
        vec![number.to_string(), step.server.clone(), step.statement.clone(), state, took_ms]
    };
    let rows = (1..).zip(steps).map(row).collect();
    Reply::rows(["step", "server", "statement", "state", "ms"], rows)
}

/// A server as it is typed: `host:port`, an address of IPv6 in brackets.
fn address(text: &str) -> Option<Address> {
    let (hostname, port) = text.rsplit_once(':')?;
    let hostname = hostname.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(hostname);
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!hostname.is_empty()).then(|| Address { hostname: hostname.to_owned(), port })
}

/// For how long clients are held at most, if nothing else is said: half of what they wait by default.
const USUAL_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        let known = |text: &str| address(text).map(|it| (it.hostname, it.port));
        assert_eq!(known("db1:3306"), Some(("db1".to_owned(), 3306)));
        assert_eq!(known("[::1]:3306"), Some(("::1".to_owned(), 3306)));
        for text in ["db1", "db1:", ":3306", "db1:0", "db1:x", ""] {
            assert_eq!(known(text), None, "{text}");
        }
    }
}

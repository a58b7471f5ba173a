//! EXPLAIN ROUTE and SHOW PINS: where a statement would go, and what keeps sessions on their connections.

use narrows_proxy::rules::OwnedClient;
use narrows_proxy::stats::{ExplainedRoute, PinLine, RouteOutcome, RouteQuestion, RouteServer, wait};

use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::monitor::check::CheckKind;
use crate::monitor::cluster::ClusterId;
use crate::monitor::cluster::decide::Seat;
use crate::monitor::cluster::seats::Seats;
use crate::monitor::health::{Failing, Health};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "EXPLAIN ROUTE <question...>",
        who: Who::Admin,
        run: explain,
        doc: "`EXPLAIN ROUTE 'statement' [AS user] [SCHEMA schema] [column value]...`: the way of a statement, and why it is that one. A column of rules that is a condition on the client, such as `client_addr`, says what the client has; `SessionID` says which session it is, for rules with a `share`.",
    },
    Verb {
        pattern: "SHOW PINS",
        who: Who::Everybody,
        run: pins,
        doc: "Sessions that keep a backend connection: the reason, and the statement that caused it.",
    },
];

fn explain(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    // The text as typed, because blanks inside the statement matter.
    let question = narrows_sql::asked_route(call.statement.sql)?;
    let Some(observer) = parts.runtime.observer() else {
        return Some(Reply::error("no clients are served (STOP)"));
    };
    let username = match question.user {
        Some(user) => user,
        None => parts.runtime.only_user().unwrap_or_default(),
    };
    if username.is_empty() {
        return Some(Reply::error("which user? EXPLAIN ROUTE 'statement' AS user"));
    }
    let (proxy_addr, proxy_port) = parts.runtime.first_listener();
    let mut client = OwnedClient {
        client_addr: call.caller.host.clone(),
        proxy_addr,
        proxy_port,
        ..OwnedClient::default()
    };
    for (column, value) in &question.others {
        if !client.set(column, value) {
            return None;
        }
    }
    client.username = username;
    let asked = RouteQuestion { statement: question.statement.into_bytes(), client, schema: question.schema };
    Some(match wait(observer.explain_route(asked)) {
        Ok(route) => {
            let mut rows = lines(&route);
            rows.extend(nodes(parts.runtime.seats(), &route, rows.len()));
            rows.extend(failing_checks(parts.runtime.health(parts.store), &route, rows.len()));
            Reply::rows(["step", "what", "value", "why"], rows)
        }
        Err(error) => Reply::error(error),
    })
}

/// The route as rows, in the order of the decisions.
fn lines(route: &ExplainedRoute) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |what: &str, value: String, why: String| {
        rows.push(vec![(rows.len() + 1).to_string(), what.to_owned(), value, why]);
    };
    let digest = route.digest.map_or_else(|| "off".to_owned(), |digest| format!("0x{digest:016X}"));
    add("digest", digest, route.digest_text.clone());
    add("statement", route.kind.clone(), route.command.to_owned());
    for rule in &route.rules {
        let sets = rule.sets.iter().map(|(column, value)| format!("{column}={value}"));
        let why: Vec<String> = sets.chain(rule.remark.map(str::to_owned)).collect();
        add("rule", rule.rule_id.to_string(), why.join(", "));
    }
    for hint in &route.hints {
        let what = if hint.ignored.is_none() { "hint" } else { "hint ignored" };
        add(what, format!("{}={}", hint.key, hint.value), hint.ignored.unwrap_or_default().to_owned());
    }
    if let Some(rewritten) = &route.rewritten {
        add("rewritten", rewritten.clone(), String::new());
    }
    match &route.outcome {
        RouteOutcome::Hostgroup(hostgroup, why) => add("hostgroup", hostgroup.to_string(), why.clone()),
        RouteOutcome::Answered(what) => add("answered", what.clone(), String::new()),
    }
    if let (RouteOutcome::Hostgroup(hostgroup, _), true) = (&route.outcome, route.servers.is_empty()) {
        let why = "the statement waits until mysql-connect_timeout_server_max has passed, and fails with error 9001";
        add("no server", format!("hostgroup {hostgroup} has no server"), why.to_owned());
    }
    for server in &route.servers {
        let what = if server.eligible { "server" } else { "server passed over" };
        let name = format!("{}:{} weight {}", server.hostname, server.port, server.weight);
        add(what, name, server.reason.clone());
    }
    add("cache", route.cache.clone(), String::new());
    if let Some((value, why)) = &route.replay {
        add("transaction_replay", (*value).to_owned(), why.clone());
    }
    for (reason, cause) in &route.pins {
        add("pins", (*reason).to_owned(), cause.clone());
    }
    if let Some(dry_run) = &route.dry_run {
        let [present, candidate] = &dry_run.decisions;
        let rules: Vec<String> = dry_run.rules.iter().map(i64::to_string).collect();
        add("dry run", candidate.clone(), format!("instead of {present}; rules {}", rules.join(", ")));
    }
    rows
}

/// The roles that the servers have in clusters, and why.
fn nodes(seats: &Seats, route: &ExplainedRoute, steps: usize) -> Vec<Vec<String>> {
    let of_server = |server: &RouteServer| {
        let name = format!("{}:{}", server.hostname, server.port);
        let seats = seats.of(&server.hostname, server.port);
        let told = |(cluster, seat): (ClusterId, &Seat)| {
            (format!("{name} {} of {cluster}", seat.role.name()), seat.why.clone())
        };
        seats.map(told).collect::<Vec<_>>()
    };
    let numbered = route.servers.iter().flat_map(of_server).zip(steps + 1..);
    numbered.map(|((role, why), step)| vec![step.to_string(), "cluster node".to_owned(), role, why]).collect()
}

/// Failing checks of the servers: what is known about these servers may be outdated.
fn failing_checks(health: Option<&Health>, route: &ExplainedRoute, steps: usize) -> Vec<Vec<String>> {
    let Some(health) = health else { return Vec::new() };
    let servers = route.servers.iter();
    let failing = servers.flat_map(|server| {
        let name = format!("{}:{}", server.hostname, server.port);
        let row = move |(kind, failing): (CheckKind, &Failing)| {
            (format!("{name} {}", kind.name), failing.reason.clone())
        };
        health.failing(&server.hostname, server.port).map(row)
    });
    let numbered = failing.zip(steps + 1..);
    numbered
        .map(|((check, why), step)| vec![step.to_string(), "monitor check fails".to_owned(), check, why])
        .collect()
}

fn pins(parts: &mut Parts<'_>, _: &Call<'_>) -> Option<Reply> {
    let columns = [
        "SessionID",
        "user",
        "db",
        "cli_host",
        "hostgroup",
        "srv_host",
        "srv_port",
        "reason",
        "age_ms",
        "digest",
        "digest_text",
    ];
    let lines = parts.runtime.observer().map(|observer| wait(observer.pins())).unwrap_or_default();
    let row = |line: PinLine| {
        let backend = line.backend.as_ref();
        vec![
            line.id.to_string(),
            line.username.clone(),
            line.schema.clone().unwrap_or_default(),
            line.client_host.clone(),
            line.hostgroup.map(|hostgroup| hostgroup.to_string()).unwrap_or_default(),
            backend.map(|backend| backend.hostname.clone()).unwrap_or_default(),
            backend.map(|backend| backend.port.to_string()).unwrap_or_default(),
            line.reason.to_owned(),
            line.age_ms.to_string(),
            format!("0x{:016X}", line.digest),
            line.digest_text.clone(),
        ]
    };
    Some(Reply::rows(columns, lines.into_iter().map(row).collect()))
}

#[cfg(test)]
mod tests {
    use narrows_proxy::snapshot::HostgroupId;
    use narrows_proxy::stats::RouteRule;

    use super::*;

    #[test]
    fn a_hostgroup_without_servers_and_a_digest_that_is_not_asked_are_told() {
        let mut route = ExplainedRoute {
            digest: None,
            digest_text: String::new(),
            kind: "Select".to_owned(),
            command: "SELECT",
            rules: vec![RouteRule {
                rule_id: 3,
                sets: vec![("apply", "1".to_owned())],
                remark: Some("not asked"),
            }],
            hints: Vec::new(),
            rewritten: None,
            outcome: RouteOutcome::Hostgroup(HostgroupId(7), "a hint".to_owned()),
            servers: Vec::new(),
            cache: String::new(),
            replay: None,
            pins: Vec::new(),
            dry_run: None,
        };
        let told = |route: &ExplainedRoute, what: &str| {
            let row = lines(route).into_iter().find(|row| row[1] == what)?;
            Some((row[2].clone(), row[3].clone()))
        };
        assert_eq!(told(&route, "rule"), Some(("3".to_owned(), "apply=1, not asked".to_owned())));
        assert_eq!(told(&route, "no server").unwrap().0, "hostgroup 7 has no server");
        route.outcome = RouteOutcome::Answered("a rule".to_owned());
        assert_eq!(told(&route, "no server"), None);
    }
}

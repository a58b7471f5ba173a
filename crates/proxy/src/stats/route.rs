//! `EXPLAIN ROUTE`: where a statement would go, told from what routes it.

use std::collections::HashMap;
use std::sync::Arc;

use narrows_sql::{Flags, Kind, Scratch, Statement, digest_hash, digest_text};
use narrows_wire::Status;

use super::{
    CommandClass, Route, RouteError, RouteHint, RouteOutcome, RouteQuestion, RouteRule, RouteServer,
    ServerLine,
};
use crate::hostgroup::{Hostgroup, Server};
use crate::rules::{Memory, Passage, Question, Sender, Verdict, annotate};
use crate::session::{
    PinReason, destination, digest_options, doubt_of, expected, is_housekeeping, may_be_kept, reader,
};
use crate::snapshot::{Account, HostgroupId, RuleRow, Snapshot};
use crate::state::SessionState;

/// The way of a statement under `snapshot`, with `servers` as they are now. It is that of a session's first statement:
/// what a session has done before can only tie it to where it is.
pub(super) fn explain(
    snapshot: &Snapshot,
    question: &RouteQuestion,
    servers: &[ServerLine],
) -> Result<Route, RouteError> {
    let unknown = || RouteError::UnknownUser(question.username.clone());
    let account = snapshot.users.get(question.username.as_bytes()).ok_or_else(unknown)?;
    let text = question.statement.as_slice();
    let statement = narrows_sql::classify(text);
    let variables = &snapshot.variables;
    let mut scratch = Scratch::new();
    let digest_text = digest_text(text, &digest_options(variables), &mut scratch).to_vec();
    let digest = variables.query_digests.then(|| digest_hash(&digest_text));
    let is_cut = scratch.is_cut();
    let schema = match &question.schema {
        Some(schema) => schema,
        None if account.row.default_schema.is_empty() => &variables.default_schema,
        None => &account.row.default_schema,
    };
    let asked = Question {
        username: &question.username,
        schemaname: schema.as_bytes(),
        client_addr: &question.client_addr,
        proxy_addr: &question.proxy_addr,
        proxy_port: question.proxy_port,
        flag_in: 0,
        statement: text,
        digest: digest.map(|hash| (digest_text.as_slice(), hash)),
    };
    let mut memory = Memory::default();
    let (mut verdict, rewritten) = snapshot.rules.apply(&asked, &mut memory);
    let mut hints = Vec::new();
    if statement.flags.contains(Flags::COMMENT) {
        verdict = follow_hints(verdict, text, variables.query_digests, &mut hints);
    }
    let rows: HashMap<i64, &RuleRow> = snapshot.rules.rows().map(|row| (row.rule_id, row)).collect();
    let matched = memory.last_matched(&snapshot.rules).filter_map(|id| rows.get(&id));
    let rule = |row: &&RuleRow| {
        let is_unasked = digest.is_none() && (row.digest.is_some() || row.match_digest.is_some());
        let remark =
            is_unasked.then_some("digest and match_digest are not evaluated: mysql-query_digests is false");
        RouteRule { rule_id: row.rule_id, sets: sets(row), remark }
    };
    let rules = matched.map(rule).collect();
    let runs = rewritten.as_deref().unwrap_or(text);
    // A session that has set nothing else: texts in UTF-8, backslashes that escape.
    let mut usual = SessionState::default();
    usual.set_literal("character_set_client", "utf8mb4");
    let doubt = || doubt_of(&usual, Status::AUTOCOMMIT, &statement, (text, is_cut));
    let asked_of_firewall =
        variables.firewall_whitelist_enabled && !(is_housekeeping(&statement, text) && doubt().is_none());
    let sender = Sender {
        username: &question.username,
        client_addr: &question.client_addr,
        schemaname: schema.as_bytes(),
        flag: verdict.flag_out,
        digest,
    };
    let refused = asked_of_firewall && snapshot.firewall.ask(sender, doubt) == Passage::Refused;
    let statement = if rewritten.is_some() { narrows_sql::classify(runs) } else { statement };
    let runs_as = Question { statement: runs, ..asked };
    let outcome = outcome(snapshot, account, &runs_as, &statement, &verdict, refused);
    let servers = match &outcome {
        RouteOutcome::Hostgroup(hostgroup, _) => of_hostgroup(snapshot, *hostgroup, servers),
        RouteOutcome::Answered(_) => Vec::new(),
    };
    Ok(Route {
        digest,
        kind: format!("{:?}", statement.kind),
        command: CommandClass::of(&statement, || &digest_text).name(),
        digest_text: String::from_utf8_lossy(&digest_text).into_owned(),
        rules,
        hints,
        rewritten: rewritten.as_deref().map(|text| String::from_utf8_lossy(text).into_owned()),
        outcome,
        servers,
        cache: cache(snapshot, (&statement, runs), &verdict),
        pins: pins(snapshot, expected(&statement, runs), &verdict),
    })
}

/// What comes of a verdict with the hints in the comments of a statement, each of which goes into `hints`.
fn follow_hints(verdict: Verdict, text: &[u8], are_followed: bool, hints: &mut Vec<RouteHint>) -> Verdict {
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut followed = verdict;
    annotate(&mut followed, text, |key, value, hint| {
        let ignored = match are_followed {
            true => hint.why_ignored(),
            false => Some("hints are followed while mysql-query_digests is on"),
        };
        hints.push(RouteHint { key: text_of(key), value: text_of(value), ignored });
    });
    if are_followed { followed } else { verdict }
}

/// What the query cache does.
fn cache(snapshot: &Snapshot, (statement, text): (&Statement, &[u8]), verdict: &Verdict) -> String {
    match verdict.cache_ttl {
        None | Some(0) => "not cached: no rule and no comment says so".to_owned(),
        Some(_) if snapshot.variables.query_cache_size == 0 => {
            "not cached: mysql-query_cache_size_MB is 0".to_owned()
        }
        Some(_) if !may_be_kept(statement, text) => {
            "not cached: it does more than read, or asks for what belongs to one connection".to_owned()
        }
        Some(ttl) => format!("cached for {ttl} ms"),
    }
}

/// What becomes of a session's first statement.
fn outcome(
    snapshot: &Snapshot,
    account: &Account,
    question: &Question,
    statement: &Statement,
    verdict: &Verdict,
    refused: bool,
) -> RouteOutcome {
    if let Some(rule) = verdict.ok_msg {
        return RouteOutcome::Answered(format!("a rule answers with OK: {}", snapshot.rules.ok_msg(rule)));
    }
    if let Some(rule) = verdict.error_msg {
        let text = snapshot.rules.error_msg(rule);
        return RouteOutcome::Answered(format!("a rule answers with error 1148: {text}"));
    }
    if refused {
        let text = &snapshot.variables.firewall_whitelist_errormsg;
        return RouteOutcome::Answered(format!("the firewall answers with error 1148: {text}"));
    }
    if statement.kind == Kind::Kill {
        return RouteOutcome::Answered("Narrows kills its own sessions".to_owned());
    }
    let own = account.row.default_hostgroup;
    let (hostgroup, why) = match verdict.destination_hostgroup {
        Some(ruled) => destination(snapshot, &mut Memory::default(), statement, question, ruled, own),
        None => {
            let schema = Some(question.schemaname).filter(|schema| !schema.is_empty()).map(Into::into);
            let mut state = SessionState::default();
            state.schema = schema;
            match reader(snapshot, account, (&state, Status::AUTOCOMMIT), statement, question.statement) {
                Some(reader) => (reader, "a read, split off by mysql-auto_read_write_split"),
                None => (own, "the user's own: no rule says anything else"),
            }
        }
    };
    RouteOutcome::Hostgroup(hostgroup, why.to_owned())
}

/// What a rule sets, in the order of its columns.
fn sets(row: &RuleRow) -> Vec<(&'static str, String)> {
    fn number<T: ToString>(value: &Option<T>) -> Option<String> {
        value.as_ref().map(T::to_string)
    }
    let flag = |value: Option<bool>| value.map(|value| u8::from(value).to_string());
    let columns = [
        ("flagOUT", number(&row.flag_out)),
        ("replace_pattern", row.replace_pattern.clone()),
        ("destination_hostgroup", number(&row.destination_hostgroup)),
        ("cache_ttl", number(&row.cache_ttl)),
        ("cache_empty_result", flag(row.cache_empty_result)),
        ("timeout", number(&row.timeout)),
        ("retries", number(&row.retries)),
        ("delay", number(&row.delay)),
        ("next_query_flagIN", number(&row.next_query_flag_in)),
        ("mirror_flagOUT", number(&row.mirror_flag_out)),
        ("mirror_hostgroup", number(&row.mirror_hostgroup)),
        ("error_msg", row.error_msg.clone()),
        ("OK_msg", row.ok_msg.clone()),
        ("multiplex", number(&row.multiplex)),
        ("gtid_from_hostgroup", number(&row.gtid_from_hostgroup)),
        ("log", flag(row.log)),
        ("apply", Some(u8::from(row.apply).to_string())),
    ];
    columns.into_iter().filter_map(|(column, value)| Some((column, value?))).collect()
}

fn of_hostgroup(snapshot: &Snapshot, hostgroup: HostgroupId, lines: &[ServerLine]) -> Vec<RouteServer> {
    let Some(hostgroup) = snapshot.hostgroups.get(&hostgroup) else { return Vec::new() };
    let describe = |server: &Arc<Server>| {
        let row = &server.row;
        let same = |line: &&ServerLine| {
            line.hostgroup == row.hostgroup && line.hostname == row.hostname && line.port == row.port
        };
        let (eligible, reason) = eligibility(hostgroup, server, lines.iter().find(same));
        RouteServer { hostname: row.hostname.clone(), port: row.port, weight: row.weight, eligible, reason }
    };
    hostgroup.servers.iter().map(describe).collect()
}

/// Whether a server may be chosen, and why.
fn eligibility(hostgroup: &Hostgroup, server: &Server, line: Option<&ServerLine>) -> (bool, String) {
    if let Some(reason) = hostgroup.why_not(server) {
        return (false, reason);
    }
    let (used, free) = line.map_or((0, 0), |line| (line.used, line.free));
    if let Some(failure) = line.and_then(|line| line.failure.as_ref()) {
        let last = format!("not reached {} ms ago: {}", failure.age_ms, failure.text);
        return match failure.pause_ms {
            0 => (true, format!("{last}; the next statement tries it again")),
            pause => (false, format!("{last}; tried again in {pause} ms")),
        };
    }
    let most = server.row.max_connections;
    if free == 0 && !server.has_room() {
        return (false, format!("all of its max_connections ({most}) are in use: statements wait"));
    }
    (true, format!("ONLINE, {used} of {most} connections in use, {free} idle"))
}

/// Why a session would be tied to its connection.
fn pins(snapshot: &Snapshot, mut reasons: PinReason, verdict: &Verdict) -> Vec<(&'static str, String)> {
    if !snapshot.variables.multiplexing || verdict.multiplex == Some(0) {
        reasons.add(PinReason::MULTIPLEXING_OFF);
    }
    let named = PinReason::ALL.iter().filter(|(reason, _)| reasons.intersects(*reason));
    named.map(|(reason, name)| (*name, until(*reason).to_owned())).collect()
}

/// How long a reason holds.
fn until(reason: PinReason) -> &'static str {
    match reason {
        PinReason::TRANSACTION => "until the transaction ends",
        PinReason::LOCK_TABLES => "until the tables or the instance are unlocked",
        PinReason::TEMPORARY_TABLE => {
            "until the last temporary table is dropped, by a statement that is sure to"
        }
        PinReason::USER_LOCK => "until the lock is released, by a statement that is sure to",
        PinReason::PREPARED_STATEMENT => "until the last prepared statement is closed",
        PinReason::XA => "until the XA transaction ends",
        PinReason::NEXT_TRANSACTION => "until the next transaction has ended",
        PinReason::MULTIPLEXING_OFF => "while multiplexing is off, by mysql-multiplexing or a rule",
        _ => "until the session ends or is reset",
    }
}

#[cfg(test)]
mod tests;

//! `EXPLAIN ROUTE`: where a statement would go, determined by the code that routes it.

use std::collections::HashMap;
use std::sync::Arc;

use narrows_sql::{Flags, Scratch, Statement, digest_hash, digest_text};
use narrows_wire::Status;
use narrows_wire::charset::Family;

use super::{
    CommandClass, ExplainedRoute, RouteDryRun, RouteError, RouteHint, RouteOutcome, RouteQuestion, RouteRule,
    RouteServer, ServerLine,
};
use crate::client;
use crate::hostgroup::{Hostgroup, LagFilter, Preference, Server};
use crate::lag::LagLimit;
use crate::route::{
    Asking, DryRunDifference, DryRunMemory, Kills, Options, Route, Ruled, Step, digest_options, replays,
};
use crate::rows::{BackupAvailability, CausalReads, transaction_replay};
use crate::rules::{Client, Hint, Memory, RuleOutput, annotate, share_of};
use crate::session::{PinReason, expected, may_be_kept};
use crate::snapshot::{Account, HostgroupId, RuleRow, ServerStatus, Snapshot, Variables};
use crate::state::SessionState;

/// The route of a statement with `snapshot` and the current `servers`. It is the route of a session's first statement:
/// earlier statements could only pin the session to its connection.
pub(super) fn explain(
    snapshot: &Snapshot,
    question: &RouteQuestion,
    servers: &[ServerLine],
) -> Result<ExplainedRoute, RouteError> {
    let unknown = || RouteError::UnknownUser(question.client.username.clone());
    let account = snapshot.account_or_template(question.client.username.as_bytes()).ok_or_else(unknown)?;
    let text = question.statement.as_slice();
    let statement = narrows_sql::classify(text);
    let variables = &snapshot.variables;
    let mut scratch = Scratch::new();
    let digest_text = digest_text(text, &digest_options(variables), &mut scratch).to_vec();
    let digest = variables.query_digests.then(|| digest_hash(&digest_text));
    let state = state_after_login(snapshot, account, question);
    let schemaname = state.schema.as_deref().unwrap_or_default();
    let client = Client { schemaname, ..question.client.as_client() };
    let asking = Asking {
        snapshot,
        rules: &snapshot.rules,
        account,
        client,
        state: &state,
        status: Status::AUTOCOMMIT,
        is_pinned: false,
    };
    let mut hints = Hints { are_followed: variables.query_digests, found: Vec::new() };
    let mut memory = Memory::default();
    let mut ruled =
        asking.ask_rules((&mut memory, &mut scratch), (&statement, text), None, 0, |key, value, hint| {
            hints.add(key, value, hint);
        });
    if !hints.are_followed && statement.flags.contains(Flags::COMMENT) {
        let output = &mut RuleOutput::default();
        annotate(output, text, |key, value, hint| hints.add(key, value, hint));
    }
    let dry_run = dry_run(&asking, (&statement, text), &ruled);
    let rewritten = ruled.rewritten.take();
    let rules = matched_rules(snapshot, &memory, digest.is_none());
    let runs = rewritten.as_deref().unwrap_or(text);
    let statement = if rewritten.is_some() { narrows_sql::classify(runs) } else { statement };
    let output = ruled.output;
    let kills = asking.kills(0, (&statement, runs), true);
    let (statement, runs) = match &kills {
        Kills::First(_, rest) => (narrows_sql::classify(rest), rest.as_slice()),
        _ => (statement, runs),
    };
    let route = asking.route(&mut memory, (Step::Query, &statement, runs), &ruled, None);
    let outcome = match narrows_sql::internal_command(text) {
        Some(_) => RouteOutcome::Answered("Narrows describes the session".to_owned()),
        None => outcome((route, &ruled, &kills), |hostgroup, options| {
            seen_writes(snapshot, account, hostgroup, options)
        }),
    };
    let servers = match &outcome {
        RouteOutcome::Hostgroup(hostgroup, _) => of_hostgroup(snapshot, *hostgroup, servers, output.lag),
        RouteOutcome::Answered(_) => Vec::new(),
    };
    let family = client::family(snapshot, account).unwrap_or(Family::MySql);
    Ok(ExplainedRoute {
        digest,
        kind: format!("{:?}", statement.kind),
        command: CommandClass::of(&statement, runs).name(),
        digest_text: String::from_utf8_lossy(&digest_text).into_owned(),
        rules,
        hints: hints.found,
        rewritten: rewritten.as_deref().map(|text| String::from_utf8_lossy(text).into_owned()),
        servers,
        pins: pins(snapshot, expected(&statement, runs, family), &output, &outcome),
        cache: cache(snapshot, (&statement, runs), &output),
        replay: replay(variables, account, &output),
        dry_run,
        outcome,
    })
}

/// What the rules of a dry run would change.
fn dry_run(asking: &Asking<'_>, asked: (&Statement, &[u8]), ruled: &Ruled) -> Option<RouteDryRun> {
    let rules = asking.snapshot.dry_run.as_deref()?;
    let mut memory = DryRunMemory::default();
    let tools = (&mut memory.rules, &mut Scratch::new());
    let candidate = Asking { rules, ..*asking }.ask_rules(tools, asked, None, 0, |_, _, _| {});
    let matched = memory.rules.last_matched(rules).collect();
    let command = (Step::Query, asked.0, asked.1);
    let difference = DryRunDifference::of(asking, rules, &mut memory, command, [ruled, &candidate], None)?;
    Some(RouteDryRun { rules: matched, decisions: difference.texts([asking.rules, rules]) })
}

fn outcome(
    (route, ruled, kills): (Route, &Ruled, &Kills),
    sees: impl Fn(HostgroupId, &Options) -> String,
) -> RouteOutcome {
    match (route, kills) {
        (Route::Ok(text), _) => RouteOutcome::Answered(format!("a rule answers with OK: {text}")),
        (Route::Refuse(errno, text), _) => {
            let who = match ruled.output.error_msg {
                Some(_) => "a rule",
                None if !ruled.passes() => "the firewall",
                None => "Narrows",
            };
            RouteOutcome::Answered(format!("{who} answers with error {}: {text}", errno.number))
        }
        (Route::Run(..), Kills::Alone(_)) => {
            RouteOutcome::Answered("Narrows kills its own sessions".to_owned())
        }
        (Route::Run(..), Kills::Refused(errno, text)) => {
            RouteOutcome::Answered(format!("Narrows answers with error {}: {text}", errno.number))
        }
        (Route::Run(hostgroup, why, _), Kills::First(..)) => {
            RouteOutcome::Hostgroup(hostgroup, format!("after Narrows has killed its own sessions: {why}"))
        }
        (Route::Run(hostgroup, why, options), Kills::Nobody) => {
            RouteOutcome::Hostgroup(hostgroup, format!("{why}{}", sees(hostgroup, &options)))
        }
    }
}

/// Which writes a statement of a session without settings of its own must see, as the end of a sentence.
fn seen_writes(snapshot: &Snapshot, account: &Account, hostgroup: HostgroupId, options: &Options) -> String {
    let writer = options.causal.writer_for(snapshot, hostgroup).filter(|writer| *writer != hostgroup);
    let level = options.causal.level_for(snapshot, account, hostgroup, None);
    let whose = match level {
        CausalReads::None => return String::new(),
        CausalReads::Session => "of its session",
        CausalReads::User => "of its account",
        CausalReads::Global => "of all sessions",
    };
    writer.map_or(String::new(), |writer| {
        format!("; it must see the writes {whose} (causal_reads), and runs in hostgroup {writer} if no server has them in time")
    })
}

/// The state of a session after its login: UTF-8 texts, and the requested or default schema.
fn state_after_login(snapshot: &Snapshot, account: &Account, question: &RouteQuestion) -> SessionState {
    let schema = match &question.schema {
        Some(schema) => schema,
        None if account.row.default_schema.is_empty() => &snapshot.variables.default_schema,
        None => &account.row.default_schema,
    };
    // As of a client with CLIENT_MULTI_STATEMENTS.
    let mut state = SessionState::default();
    state.multi_statements = true;
    state.set_literal("character_set_client", "utf8mb4");
    state.schema = Some(schema.as_bytes()).filter(|schema| !schema.is_empty()).map(Into::into);
    state
}

/// The rules that matched last, with the outputs that each sets.
fn matched_rules(snapshot: &Snapshot, memory: &Memory, without_digests: bool) -> Vec<RouteRule> {
    let rows: HashMap<i64, &RuleRow> = snapshot.rules.rows().map(|row| (row.rule_id, row)).collect();
    let matched = memory.last_matched(&snapshot.rules).filter_map(|id| rows.get(&id));
    let rule = |row: &&RuleRow| {
        let is_unasked = without_digests && (row.digest.is_some() || row.match_digest.is_some());
        let remark =
            is_unasked.then_some("digest and match_digest are not evaluated: mysql-query_digests is false");
        RouteRule { rule_id: row.rule_id, sets: sets(row), remark }
    };
    matched.map(rule).collect()
}

/// The hints in the comment of a statement.
struct Hints {
    are_followed: bool,
    found: Vec<RouteHint>,
}

impl Hints {
    fn add(&mut self, key: &[u8], value: &[u8], hint: Hint) {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ignored = match self.are_followed {
            true => hint.why_ignored(),
            false => Some("hints are followed while mysql-query_digests is on"),
        };
        self.found.push(RouteHint { key: text_of(key), value: text_of(value), ignored });
    }
}

/// How the query cache handles the statement.
fn cache(snapshot: &Snapshot, (statement, text): (&Statement, &[u8]), output: &RuleOutput) -> String {
    match output.cache_ttl {
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

/// Whether a transaction that the statement begins is run again, and what says so; `None`: only the variable, which is off.
fn replay(variables: &Variables, account: &Account, output: &RuleOutput) -> Option<(&'static str, String)> {
    let most = variables.transaction_replay_max_size;
    match replays(variables, account, output) {
        (true, who) => Some(("on", format!("{who} says so; up to {most} bytes"))),
        (false, _) if output.transaction_replay.or(account.transaction_replay).is_none() => None,
        (false, who) => Some(("off", format!("{who} says so"))),
    }
}

/// The outputs that a rule sets, in the order of its columns.
fn sets(row: &RuleRow) -> Vec<(&'static str, String)> {
    let first = [
        ("flagOUT", row.flag_out.as_ref().map(u32::to_string)),
        ("replace_pattern", row.replace_pattern.clone()),
    ];
    let first = first.into_iter().filter_map(|(column, value)| Some((column, value?)));
    let replay =
        transaction_replay(&row.attributes).map(|on| ("transaction_replay", u8::from(on).to_string()));
    let share = share_of(&row.attributes).map(|percent| ("share", percent));
    let last = replay.into_iter().chain(share).chain([("apply", u8::from(row.apply).to_string())]);
    first.chain(row.outputs()).chain(last).collect()
}

fn of_hostgroup(
    snapshot: &Snapshot,
    hostgroup: HostgroupId,
    lines: &[ServerLine],
    lag: Option<LagLimit>,
) -> Vec<RouteServer> {
    let Some(hostgroup) = snapshot.hostgroups.get(&hostgroup) else { return Vec::new() };
    let describe = |server: &Arc<Server>| {
        let row = &server.row;
        let same = |line: &&ServerLine| {
            line.hostgroup == row.hostgroup && line.hostname == row.hostname && line.port == row.port
        };
        let (eligible, reason) = eligibility(hostgroup, server, lines.iter().find(same));
        RouteServer { hostname: row.hostname.clone(), port: row.port, weight: row.weight, eligible, reason }
    };
    let mut servers: Vec<RouteServer> = hostgroup.servers.iter().map(describe).collect();
    let lag = lag.map(|limit| LagFilter::from(limit).in_hostgroup(hostgroup));
    let mut of_servers: Vec<_> = hostgroup.servers.iter().zip(&mut servers).collect();
    match &hostgroup.preference {
        Some(preference) => preferred(hostgroup, preference, of_servers, lag),
        None => limited(lag, &mut of_servers),
    }
    servers
}

/// Says of each server that could be chosen whether it is within the limit of lag.
fn limited(lag: Option<LagFilter>, servers: &mut [(&Arc<Server>, &mut RouteServer)]) {
    let Some(limit) = lag else { return };
    for (server, told) in servers.iter_mut().filter(|(_, told)| told.eligible) {
        let far = limit.why_not(server);
        told.eligible = far.is_none();
        let known = far.unwrap_or_else(|| LagFilter::known_of(server));
        told.reason = format!("{}; {known}", told.reason);
    }
}

/// Adds what each server is in the order of its hostgroup; only the first servers that can be chosen stay eligible.
fn preferred(
    hostgroup: &Hostgroup,
    preference: &Preference,
    mut servers: Vec<(&Arc<Server>, &mut RouteServer)>,
    lag: Option<LagFilter>,
) {
    let counts = |server: &Server| {
        let is_online = server.row.status == ServerStatus::Online && !server.figures.shun.is_shunned();
        let can_be_chosen = servers.iter().any(|(it, told)| std::ptr::eq(&***it, server) && told.eligible);
        match preference.availability {
            BackupAvailability::Selectable => can_be_chosen,
            BackupAvailability::Status => is_online,
            BackupAvailability::Capacity => is_online && (server.has_room() || can_be_chosen),
        }
    };
    let (sets, backups) = preference.open(counts);
    limited(lag, &mut servers);
    let first = servers.iter().filter(|(_, told)| told.eligible).filter_map(|(it, _)| sets.set_of(it)).min();
    for (server, told) in &mut servers {
        let place = hostgroup.settings.place_of(server);
        if !place.is_empty() {
            told.reason = format!("{}; {place}", told.reason);
        }
        if !told.eligible {
            continue;
        }
        let is_backup = hostgroup.settings.preference.is_backup(server.row.weight);
        let why = match sets.set_of(server) {
            None => format!(
                ": backups are used while fewer than {} of the other servers can serve",
                preference.min_servers
            ),
            set if set > first => {
                format!(": used while no server of zone {} can take more", hostgroup.settings.own_zone)
            }
            _ if is_backup && backups => {
                format!(": fewer than {} of the other servers can serve", preference.min_servers)
            }
            _ => String::new(),
        };
        told.eligible = sets.set_of(server).is_some_and(|set| Some(set) == first);
        told.reason.push_str(&why);
    }
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

/// Why a session would keep its connection.
fn pins(
    snapshot: &Snapshot,
    mut reasons: PinReason,
    output: &RuleOutput,
    outcome: &RouteOutcome,
) -> Vec<(&'static str, String)> {
    let RouteOutcome::Hostgroup(hostgroup, _) = outcome else { return Vec::new() };
    if !snapshot.multiplexes(*hostgroup) || output.multiplex == Some(0) {
        reasons.add(PinReason::MULTIPLEXING_OFF);
    }
    let named = PinReason::ALL.iter().filter(|(reason, _)| reasons.intersects(*reason));
    named.map(|(reason, name)| (*name, reason.until().to_owned())).collect()
}

#[cfg(test)]
mod tests;

//! What another configuration would do with the statements that have run: determined from their digests, by the code that
//! routes them.
//!
//! A digest stands for statements with other values, of clients that may have been anywhere. Where a rule asks for more than
//! the digest, the account and the schema, the forecast says so instead of guessing.

use std::collections::{BTreeMap, HashSet};

use narrows_sql::Scratch;
use narrows_wire::Status;

use crate::figures::DigestLine;
use crate::recent_texts::TextDigest;
use crate::route::{Asking, Route, Step};
use crate::rules::{Client, Memory, Query, Question, RuleSet, flags_to_choose, share_of};
use crate::snapshot::{HostgroupId, RuleRow, Snapshot};
use crate::state::SessionState;

/// What happens to the statements with a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    /// Where they run; `None`: nowhere.
    pub hostgroup: Option<HostgroupId>,
    /// What Narrows answers instead of a server.
    pub answer: Option<String>,
    /// For how long their answers are cached, in ms.
    pub cache_ttl: Option<u32>,
    /// The rules that rewrite them.
    pub rewritten_by: Vec<i64>,
    /// Where copies run.
    pub mirror_hostgroup: Option<HostgroupId>,
    /// After how many ms they are killed, if a rule says so.
    pub timeout: Option<u32>,
    /// For how many ms they wait.
    pub delay: Option<u32>,
}

/// Statements with which another configuration would do something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// The account.
    pub username: String,
    /// The schema.
    pub schemaname: String,
    /// The digest.
    pub digest: u64,
    /// Its text.
    pub digest_text: String,
    /// How many of them have run, as the lines say.
    pub count: u64,
    /// What happens to them.
    pub before: Fate,
    /// What would happen to them.
    pub after: Fate,
    /// Rules that decide by more than is known here, of either configuration. Empty: this is what happens.
    pub depends_on: Vec<i64>,
}

/// The statements of `lines` with which `after` would do, or might do, something other than `before`.
pub fn forecast(before: &Snapshot, after: &Snapshot, lines: &[DigestLine]) -> Vec<Forecast> {
    type Key<'a> = (&'a str, &'a str, u64);
    let mut known: BTreeMap<Key<'_>, (&DigestLine, u64)> = BTreeMap::new();
    for line in lines {
        let key = (line.username.as_str(), line.schemaname.as_str(), line.digest);
        known.entry(key).or_insert((line, 0)).1 += line.count;
    }
    let (mut before, mut after) = (Oracle::new(before), Oracle::new(after));
    let told = |(line, count): (&DigestLine, u64)| {
        let (one, other) = (before.fates(line), after.fates(line));
        let mut depends_on = [one.depends_on.as_slice(), &other.depends_on].concat();
        depends_on.sort_unstable();
        depends_on.dedup();
        let is_same = one.usual == other.usual
            && one.without == other.without
            && one.within_reach == other.within_reach;
        (!is_same).then(|| Forecast {
            username: line.username.clone(),
            schemaname: line.schemaname.clone(),
            digest: line.digest,
            digest_text: line.digest_text.clone(),
            count,
            before: one.usual,
            after: other.usual,
            depends_on,
        })
    };
    known.into_values().filter_map(told).collect()
}

/// What may happen to the statements of a line.
struct Fates {
    /// What happens to one whose text is the text of the digest.
    usual: Fate,
    /// What happens if no rule matches that asks for more than is known.
    without: Fate,
    /// The rules that ask for more and would match if they did not.
    depends_on: Vec<i64>,
    /// If there are such rules: all that may match.
    within_reach: Vec<RuleRow>,
}

/// Answers for one configuration.
struct Oracle<'a> {
    usual: Decisions<'a>,
    /// The configuration without the rules that ask for more than is known, if it has any.
    without: Option<Snapshot>,
    memory_without: Memory,
    /// All rules, with those that ask for more matching always and ending nothing.
    reach: RuleSet,
    memory_of_reach: Memory,
    /// The rules that ask for more.
    asks_for_more: HashSet<i64>,
}

/// A configuration, and what is remembered of its rules.
struct Decisions<'a> {
    snapshot: &'a Snapshot,
    memory: Memory,
}

impl<'a> Oracle<'a> {
    fn new(snapshot: &'a Snapshot) -> Oracle<'a> {
        let asks = |row: &&RuleRow| asks_for_more(row);
        let asks_for_more: HashSet<i64> = snapshot.rules.rows().filter(asks).map(|row| row.rule_id).collect();
        let rows: Vec<RuleRow> = snapshot
            .rules
            .rows()
            .map(|row| if asks_for_more.contains(&row.rule_id) { always_matching(row) } else { row.clone() })
            .collect();
        let iterations = snapshot.variables.query_processor_iterations;
        // What compiled with more conditions compiles with fewer.
        let reach = RuleSet::compile(&rows, &[], iterations).unwrap_or_default();
        let without = || snapshot.with_rules(snapshot.rules.without(&asks_for_more));
        Oracle {
            usual: Decisions { snapshot, memory: Memory::default() },
            without: (!asks_for_more.is_empty()).then(without),
            memory_without: Memory::default(),
            reach,
            memory_of_reach: Memory::default(),
            asks_for_more,
        }
    }

    fn fates(&mut self, line: &DigestLine) -> Fates {
        let usual = self.usual.fate(line);
        let (depends_on, within_reach) = self.within_reach(line);
        let without = match &self.without {
            Some(snapshot) if !depends_on.is_empty() => {
                let memory = std::mem::take(&mut self.memory_without);
                let mut decisions = Decisions { snapshot, memory };
                let fate = decisions.fate(line);
                self.memory_without = decisions.memory;
                fate
            }
            _ => usual.clone(),
        };
        Fates { usual, without, depends_on, within_reach }
    }

    /// The rules that ask for more and would match if they did not; and if there are any, all that may match.
    fn within_reach(&mut self, line: &DigestLine) -> (Vec<i64>, Vec<RuleRow>) {
        if self.asks_for_more.is_empty() {
            return Default::default();
        }
        let snapshot = self.usual.snapshot;
        let digest = snapshot.variables.query_digests.then_some((line.digest_text.as_bytes(), line.digest));
        let query = Query { flag_in: 0, statement: line.digest_text.as_bytes(), digest };
        self.reach.apply(&Question { client: client_of(line), query }, &mut self.memory_of_reach);
        let matched: Vec<i64> = self.memory_of_reach.last_matched(&self.reach).collect();
        let depends_on: Vec<i64> =
            matched.iter().copied().filter(|id| self.asks_for_more.contains(id)).collect();
        if depends_on.is_empty() {
            return Default::default();
        }
        // A rule that may lead to another chain makes every rule one that may match.
        let leads_on = |row: &RuleRow| row.flag_out.is_some() && depends_on.contains(&row.rule_id);
        let any_leads_on = snapshot.rules.rows().any(leads_on);
        let may_match = |row: &&RuleRow| any_leads_on || matched.contains(&row.rule_id);
        let rows = snapshot.rules.rows().filter(may_match).cloned().collect();
        (depends_on, rows)
    }
}

impl Decisions<'_> {
    fn fate(&mut self, line: &DigestLine) -> Fate {
        let Some(account) = self.snapshot.account_or_template(line.username.as_bytes()) else {
            let answer = Some("the account does not exist: no new client can log in".to_owned());
            return Fate { answer, ..Fate::default() };
        };
        let (snapshot, client, status) = (self.snapshot, client_of(line), Status::AUTOCOMMIT);
        let text = line.digest_text.as_bytes();
        let digest = TextDigest { text: text.into(), hash: line.digest, is_cut: false };
        let mut state = SessionState::default();
        state.multi_statements = true;
        state.schema = Some(client.schemaname).filter(|schema| !schema.is_empty()).map(Into::into);
        let rules = &snapshot.rules;
        let asking = Asking { snapshot, rules, account, client, state: &state, status, is_pinned: false };
        let (statement, mut scratch) = (narrows_sql::classify(text), Scratch::new());
        let memory = &mut self.memory;
        let ruled =
            asking.ask_rules((memory, &mut scratch), (&statement, text), Some(&digest), 0, |_, _, _| {});
        let output = ruled.output;
        let rewrites =
            |id: &i64| snapshot.rules.rows().any(|row| row.rule_id == *id && row.replace_pattern.is_some());
        let rewritten_by = memory.last_matched(&snapshot.rules).filter(rewrites).collect();
        let route = asking.route(memory, (Step::Query, &statement, text), &ruled, None);
        let (hostgroup, answer, cache_ttl) = match route {
            Route::Ok(text) => (None, Some(format!("OK: {text}")), None),
            Route::Refuse(errno, text) => (None, Some(format!("error {}: {text}", errno.number)), None),
            Route::Run(hostgroup, _, options) => {
                (Some(hostgroup), None, options.caching.and(output.cache_ttl))
            }
        };
        Fate {
            hostgroup,
            answer,
            cache_ttl,
            rewritten_by,
            mirror_hostgroup: output.mirror_hostgroup,
            timeout: output.timeout,
            delay: output.delay,
        }
    }
}

fn client_of(line: &DigestLine) -> Client<'_> {
    Client {
        username: &line.username,
        schemaname: line.schemaname.as_bytes(),
        client_addr: &line.client_address,
        proxy_addr: "",
        proxy_port: &0,
        session: None,
    }
}

/// Whether a rule decides by more than the digest, the account and the schema.
fn asks_for_more(row: &RuleRow) -> bool {
    row.match_pattern.is_some()
        || row.client_addr.is_some()
        || row.proxy_addr.is_some()
        || row.proxy_port.is_some()
        || !flags_to_choose(&row.attributes).is_empty()
        || share_of(&row.attributes).is_some()
}

/// The same rule, matching whatever the text and the client are, and ending nothing.
fn always_matching(row: &RuleRow) -> RuleRow {
    let has_digest = row.digest.is_some() || row.match_digest.is_some();
    RuleRow {
        client_addr: None,
        proxy_addr: None,
        proxy_port: None,
        match_pattern: None,
        replace_pattern: None,
        negate_match_pattern: row.negate_match_pattern && has_digest,
        flag_out: None,
        apply: false,
        ..row.clone()
    }
}

//! Query rules: from a statement and its sender to a [`RuleOutput`].
//!
//! Rules are compiled once per configuration ([`RuleSet`]) and evaluated in three steps, each of which considers fewer
//! of them. The sender reduces them to a *profile*, and the digest to a *plan*; both are remembered. For the remaining
//! expressions on the statement itself, all literals are searched for in one pass, and only expressions with a literal
//! in the statement are run. So ten thousand rules cost as much as two. Each worker has its own [`Memory`].
//!
//! The walk over the remaining rules (`walk.rs`) is ProxySQL's, rule by rule in the order of their ids; `tests.rs`
//! compares it with an interpreter that evaluates every rule.

mod activity;
mod address;
mod annotation;
mod client;
mod columns;
mod expression;
mod fast_routing;
mod firewall;
mod literals;
mod memory;
mod rewrite;
mod rule;
mod screen;
mod share;
mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rows::{CausalReads, FastRoutingRow};

pub use activity::Activity;
pub use annotation::{Hint, annotate, is_of_gtids};
use columns::Conditions;
pub use columns::{Client, OwnedClient, RuleIndex, RuleOutput, RuleRow};
pub use expression::{ExpressionError, check_expression};
use fast_routing::FastRouting;
pub use firewall::{Firewall, Passage, Sender};
pub use memory::Memory;
pub use rewrite::why_nothing_is_replaced;
pub(crate) use rule::flaws_of_flags_out;
use rule::{Literals, Rule};
pub use rule::{RuleError, conditions_never_met, digest_of, flags_to_choose};
use screen::Screen;
pub(crate) use share::flaws_of_share;
pub use share::share_of;

/// Rules in order of their ids.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// Identifies the set among all rule sets of this process.
    id: u64,
    rules: Vec<Rule>,
    /// Rules without a condition on the digest or its text.
    undigested: Vec<u32>,
    /// Rules with a condition on the digest.
    by_digest: HashMap<u64, Vec<u32>>,
    /// Rules with `match_digest`, whose expression must be searched for.
    digest_searched: Vec<u32>,
    digest_screen: Screen,
    pattern_screen: Screen,
    fast_routing: FastRouting,
    conditions: Conditions,
    /// How often a flag may lead back to the first rule.
    iterations: u32,
}

/// What rules are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To decide: those that are in force.
    InForce,
    /// To tell what would change: those of the dry run too, as if they were in force.
    DryRun,
}

impl Purpose {
    /// The rows that are asked, in the order of their ids.
    fn rows(self, rows: &[RuleRow]) -> Vec<&RuleRow> {
        let is_asked = |row: &&RuleRow| match self {
            Purpose::InForce => row.active == Activity::InForce,
            Purpose::DryRun => row.active.is_asked(),
        };
        let mut asked: Vec<&RuleRow> = rows.iter().filter(is_asked).collect();
        asked.sort_by_key(|row| row.rule_id);
        asked
    }
}

/// A statement and its sender.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The sender.
    pub client: Client<'a>,
    /// The statement.
    pub query: Query<'a>,
}

/// The properties of a statement that rules can check, apart from its sender.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The flag at the beginning of the walk.
    pub flag_in: u32,
    /// The text of the statement.
    pub statement: &'a [u8],
    /// The digest text and its hash; `None` if digests are off: then conditions on them hold.
    pub digest: Option<(&'a [u8], u64)>,
}

impl RuleSet {
    /// Compiles the rows of `rows` that are in force, with the table that is consulted after them.
    ///
    /// # Errors
    /// The error of the first rule, in the order of ids, that cannot be used.
    pub fn compile(
        rows: &[RuleRow],
        fast_routing: &[FastRoutingRow],
        iterations: u32,
    ) -> Result<RuleSet, (i64, RuleError)> {
        RuleSet::compile_as(Purpose::InForce, rows, fast_routing, iterations)
    }

    /// Compiles the rows of `rows` that are asked for this purpose.
    ///
    /// # Errors
    /// See [`RuleSet::compile`].
    pub fn compile_as(
        purpose: Purpose,
        rows: &[RuleRow],
        fast_routing: &[FastRoutingRow],
        iterations: u32,
    ) -> Result<RuleSet, (i64, RuleError)> {
        let compile = |row: &RuleRow| Rule::compile(row).map_err(|error| (row.rule_id, error));
        let compiled = purpose.rows(rows).into_iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let (rules, literals): (Vec<Rule>, Vec<Literals>) = compiled.into_iter().unzip();
        let (in_digest, in_statement): (Vec<_>, Vec<_>) =
            literals.into_iter().map(|literals| (literals.in_digest, literals.in_statement)).unzip();
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut set = RuleSet {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            conditions: Conditions::new(rules.iter().map(|rule| &rule.row)),
            digest_screen: Screen::new(in_digest),
            pattern_screen: Screen::new(in_statement),
            fast_routing: FastRouting::new(fast_routing),
            iterations,
            ..RuleSet::default()
        };
        for (index, rule) in (0u32..).zip(&rules) {
            let screened = rule.match_digest.as_ref().is_some_and(|expression| expression.screened);
            match rule.digest {
                Some(digest) => set.by_digest.entry(digest).or_default().push(index),
                None if rule.match_digest.is_none() => set.undigested.push(index),
                None if !screened || rule.row.negate_match_pattern => set.digest_searched.push(index),
                None => {}
            }
        }
        set.rules = rules;
        Ok(set)
    }

    /// The same set without the rules of these ids; without all rules if the others cannot be used alone.
    pub(crate) fn without(&self, ids: &HashSet<i64>) -> RuleSet {
        let rows: Vec<RuleRow> = self.rows().filter(|row| !ids.contains(&row.rule_id)).cloned().collect();
        let compiled = RuleSet::compile(&rows, &[], self.iterations).unwrap_or_default();
        RuleSet { fast_routing: self.fast_routing.clone(), ..compiled }
    }

    /// Whether compiling these rows for this purpose would make the same set.
    pub fn is_of(
        &self,
        purpose: Purpose,
        rows: &[RuleRow],
        fast_routing: &[FastRoutingRow],
        iterations: u32,
    ) -> bool {
        self.iterations == iterations
            && purpose.rows(rows).into_iter().eq(self.rules.iter().map(|rule| &rule.row))
            && self.fast_routing == FastRouting::new(fast_routing)
    }

    /// The number that identifies the set among all rule sets of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether there is nothing to evaluate.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.fast_routing.is_empty()
    }

    /// Whether any rule checks digests.
    pub fn needs_digest(&self) -> bool {
        self.undigested.len() < self.rules.len()
    }

    /// Whether any rule makes reads wait for writes.
    pub fn makes_see_writes(&self) -> bool {
        let does = |rule: &Rule| {
            rule.row.gtid_from_hostgroup.is_some() || rule.causal_reads.is_some_and(CausalReads::is_on)
        };
        self.rules.iter().any(does)
    }

    /// Evaluates the rules. The second value is the statement as rewritten by them.
    pub fn apply(&self, question: &Question<'_>, memory: &mut Memory) -> (RuleOutput, Option<Vec<u8>>) {
        memory.renew(self);
        memory.matched.clear();
        let (client, query) = (&question.client, &question.query);
        let Some(last) = self.rules.last() else {
            let mut output = RuleOutput { flag_out: query.flag_in, ..RuleOutput::default() };
            self.route_fast(client, &mut output);
            return (output, None);
        };
        let profile = memory.profile(self, client);
        let (mut output, rewritten, stopped) = self.walk(&profile, query, memory);
        // ProxySQL checks `apply` of the last rule that it evaluated, whether it matched or not.
        if !stopped && !last.row.apply {
            self.route_fast(client, &mut output);
        }
        (output, rewritten)
    }

    /// Looks up the destination in the table that is consulted after the rules.
    fn route_fast(&self, client: &Client<'_>, output: &mut RuleOutput) {
        if !self.fast_routing.is_empty() {
            let found = self.fast_routing.find(client.username, client.schemaname, output.flag_out);
            output.destination_hostgroup = found.or(output.destination_hostgroup);
        }
    }

    /// The text of `error_msg` that a rule output refers to.
    pub fn error_msg(&self, index: RuleIndex) -> &str {
        self.rule(index).and_then(|rule| rule.row.error_msg.as_deref()).unwrap_or_default()
    }

    /// The text of `OK_msg` that a rule output refers to.
    pub fn ok_msg(&self, index: RuleIndex) -> &str {
        self.rule(index).and_then(|rule| rule.row.ok_msg.as_deref()).unwrap_or_default()
    }

    /// The id of a rule.
    pub fn rule_id(&self, index: RuleIndex) -> Option<i64> {
        self.rule(index).map(|rule| rule.row.rule_id)
    }

    /// The rules, in order.
    pub fn rows(&self) -> impl Iterator<Item = &RuleRow> {
        self.rules.iter().map(|rule| &rule.row)
    }

    /// Bytes that the rules and their automata take, without expressions that were compiled later.
    pub fn memory_usage(&self) -> usize {
        let texts = |row: &RuleRow| {
            [&row.match_digest, &row.match_pattern, &row.replace_pattern, &row.error_msg, &row.ok_msg]
                .into_iter()
                .flatten()
                .map(String::len)
                .sum::<usize>()
        };
        let rules: usize = self.rules.iter().map(|rule| size_of::<Rule>() + 2 * texts(&rule.row)).sum();
        rules
            + self.digest_screen.memory_usage()
            + self.pattern_screen.memory_usage()
            + self.fast_routing.memory_usage()
    }

    fn rule(&self, index: RuleIndex) -> Option<&Rule> {
        self.rules.get(index.0 as usize)
    }
}

#[cfg(test)]
mod tests;

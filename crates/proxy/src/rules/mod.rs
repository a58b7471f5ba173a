//! Query rules: from a statement and who sent it to a [`Verdict`].
//!
//! Rules are compiled once per configuration ([`RuleSet`]) and asked in three steps, each of which looks at fewer of
//! them: who asks leaves those of a *profile*; the digest leaves those of a *plan*, which is remembered; and where
//! expressions on the statement itself are left, their literals are looked for in one pass, and only expressions that
//! have one are run. So ten thousand rules cost what two cost. What is remembered belongs to one worker ([`Memory`]).
//!
//! The walk over what is left (`walk.rs`) is the one of ProxySQL, rule by rule in order of ids; `tests.rs` holds it
//! against an interpreter that asks every rule.

mod address;
mod annotation;
mod expression;
mod fast_routing;
mod firewall;
mod literals;
mod memory;
mod rewrite;
mod rule;
mod screen;
mod walk;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::snapshot::{FastRoutingRow, HostgroupId, RuleRow};

pub use annotation::{Hint, annotate};
pub use expression::{ExpressionError, check_expression};
use fast_routing::FastRouting;
pub use firewall::{Firewall, Passage, Sender};
pub use memory::Memory;
pub use rewrite::why_nothing_is_replaced;
pub(crate) use rule::flaws_of_flags_out;
use rule::{Literals, Rule};
pub use rule::{RuleError, RuleIndex, conditions_never_met, digest_of, flags_to_choose};
use screen::Screen;

/// Active rules in order of their ids.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// Tells it from every other one of this process.
    id: u64,
    rules: Vec<Rule>,
    /// Rules that ask neither for a digest nor for its text.
    undigested: Vec<u32>,
    /// Rules that ask for a digest.
    by_digest: HashMap<u64, Vec<u32>>,
    /// Rules with `match_digest` that only a search tells.
    digest_searched: Vec<u32>,
    digest_screen: Screen,
    pattern_screen: Screen,
    fast_routing: FastRouting,
    names: Names,
    /// How often a flag may lead back to the first rule.
    iterations: u32,
}

/// What rules say of who asks: names that no rule says are all alike to it.
#[derive(Debug, Default)]
struct Names {
    users: HashMap<Box<str>, u32>,
    schemas: HashMap<Box<[u8]>, u32>,
    client_addresses: bool,
    proxy_addresses: Vec<Box<str>>,
    proxy_ports: Vec<u16>,
}

/// What a statement is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who sent it.
    pub username: &'a str,
    /// In which schema.
    pub schemaname: &'a [u8],
    /// From where.
    pub client_addr: &'a str,
    /// To which of our addresses.
    pub proxy_addr: &'a str,
    /// To which of our ports.
    pub proxy_port: u16,
    /// The flag that the walk begins with.
    pub flag_in: u32,
    /// Its text.
    pub statement: &'a [u8],
    /// Its digest text and hash; `None` where digests are off: then conditions on them hold.
    pub digest: Option<(&'a [u8], u64)>,
}

/// What the rules say. `None`: they say nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Where to run the statement; `None`: the user's default hostgroup.
    pub destination_hostgroup: Option<HostgroupId>,
    /// The flag behind the rules.
    pub flag_out: u32,
    /// ms to cache the result.
    pub cache_ttl: Option<u32>,
    /// Whether empty results are cached.
    pub cache_empty_result: Option<bool>,
    /// ms until the statement is killed.
    pub timeout: Option<u32>,
    /// Repeated executions after a failure.
    pub retries: Option<u32>,
    /// ms to wait before running.
    pub delay: Option<u32>,
    /// Flag that the session's next statement starts with.
    pub next_query_flag_in: Option<u32>,
    /// Chain that a mirrored copy starts in.
    pub mirror_flag_out: Option<u32>,
    /// Hostgroup of a mirrored copy.
    pub mirror_hostgroup: Option<HostgroupId>,
    /// Answer error 1148 with the text of that rule.
    pub error_msg: Option<RuleIndex>,
    /// Answer OK with the text of that rule.
    pub ok_msg: Option<RuleIndex>,
    /// 0 disables multiplexing, 1 enables it, 2 keeps it for this statement.
    pub multiplex: Option<u8>,
    /// Whether the statement is logged.
    pub log: Option<bool>,
    /// A hint asks for a connection that nobody has used before.
    pub create_new_connection: bool,
}

impl Verdict {
    /// Whether a copy is to run somewhere.
    pub fn is_mirrored(&self) -> bool {
        self.mirror_hostgroup.is_some() || self.mirror_flag_out.is_some()
    }
}

impl RuleSet {
    /// Compiles the active ones of `rows`, with the table that is asked behind them.
    ///
    /// # Errors
    /// The first rule, in order of ids, that is not usable.
    pub fn compile(
        rows: &[RuleRow],
        fast_routing: &[FastRoutingRow],
        iterations: u32,
    ) -> Result<RuleSet, (i64, RuleError)> {
        let mut rows: Vec<&RuleRow> = rows.iter().filter(|row| row.active).collect();
        rows.sort_by_key(|row| row.rule_id);
        let compile = |row: &RuleRow| Rule::compile(row).map_err(|error| (row.rule_id, error));
        let compiled = rows.into_iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let (rules, literals): (Vec<Rule>, Vec<Literals>) = compiled.into_iter().unzip();
        let (in_digest, in_statement): (Vec<_>, Vec<_>) =
            literals.into_iter().map(|literals| (literals.in_digest, literals.in_statement)).unzip();
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut set = RuleSet {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            names: Names::of(&rules),
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

    /// Whether it was compiled from just these.
    pub fn is_of(&self, rows: &[RuleRow], fast_routing: &[FastRoutingRow], iterations: u32) -> bool {
        let mut rows: Vec<&RuleRow> = rows.iter().filter(|row| row.active).collect();
        rows.sort_by_key(|row| row.rule_id);
        self.iterations == iterations
            && rows.into_iter().eq(self.rules.iter().map(|rule| &rule.row))
            && self.fast_routing == FastRouting::new(fast_routing)
    }

    /// Whether anything is to be asked.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.fast_routing.is_empty()
    }

    /// Whether any rule looks at digests.
    pub fn needs_digest(&self) -> bool {
        self.undigested.len() < self.rules.len()
    }

    /// Goes through the rules. The second value is the statement as the rules have rewritten it.
    pub fn apply(&self, question: &Question<'_>, memory: &mut Memory) -> (Verdict, Option<Vec<u8>>) {
        memory.renew(self);
        let (mut verdict, rewritten, stopped) = self.walk(question, memory);
        // ProxySQL looks at `apply` of the rule it looked at last, whether that matched or not.
        let last_applies = self.rules.last().is_some_and(|rule| rule.row.apply);
        if !stopped && !last_applies && !self.fast_routing.is_empty() {
            let found = self.fast_routing.find(question.username, question.schemaname, verdict.flag_out);
            verdict.destination_hostgroup = found.or(verdict.destination_hostgroup);
        }
        (verdict, rewritten)
    }

    /// The text of `error_msg` or `OK_msg` that a verdict points to.
    pub fn error_msg(&self, index: RuleIndex) -> &str {
        self.rule(index).and_then(|rule| rule.row.error_msg.as_deref()).unwrap_or_default()
    }

    /// The text of `OK_msg` that a verdict points to.
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

    /// Bytes that the rules and their automata take, without expressions that were built since.
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

impl Names {
    fn of(rules: &[Rule]) -> Names {
        let mut names = Names::default();
        for rule in rules {
            let row = &rule.row;
            let said = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
            if let Some(user) = said(&row.username) {
                let next = names.users.len() as u32 + 1;
                names.users.entry(user.into()).or_insert(next);
            }
            if let Some(schema) = said(&row.schemaname) {
                let next = names.schemas.len() as u32 + 1;
                names.schemas.entry(schema.into_bytes().into()).or_insert(next);
            }
            names.client_addresses |= rule.client.is_some();
            if let Some(address) = said(&row.proxy_addr)
                && !names.proxy_addresses.iter().any(|known| **known == *address)
            {
                names.proxy_addresses.push(address.into());
            }
            if let Some(port) = row.proxy_port
                && !names.proxy_ports.contains(&port)
            {
                names.proxy_ports.push(port);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests;

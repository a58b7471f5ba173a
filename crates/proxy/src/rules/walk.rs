//! The walk over the rules: in the order of ids, each rule that is in the current chain and whose conditions hold takes
//! effect; the first one with `apply` ends the walk.

use super::columns::RuleIndex;
use super::memory::{Memory, Plan, Profile, Settled};
use super::rule::Rule;
use super::{Query, RuleOutput, RuleSet};

/// A walk in progress.
struct Walk<'a> {
    set: &'a RuleSet,
    output: RuleOutput,
    flag: u32,
    rewritten: Option<Vec<u8>>,
    matched: Vec<u32>,
    /// How often it may still return to the first rule.
    iterations: u32,
    /// Whether anything but the digest has influenced the result: the text of the statement, or a random choice.
    unsettled: bool,
}

/// How the walk continues after a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// With the next rule.
    On,
    /// With the next rule, and a rewritten statement.
    Rewritten,
    /// With the first rule.
    Again,
    /// The walk ends.
    Stop,
}

impl RuleSet {
    /// Evaluates the rules; the last value is whether a rule with `apply` ended the walk.
    pub(super) fn walk(
        &self,
        profile: &Profile,
        query: &Query<'_>,
        memory: &mut Memory,
    ) -> (RuleOutput, Option<Vec<u8>>, bool) {
        let plan = memory.plan(self, query, profile);
        if let Some(settled) = &plan.settled {
            memory.matched.extend_from_slice(&settled.matched);
            memory.count(&settled.matched);
            return (settled.output, None, settled.stopped);
        }
        let matched = std::mem::take(&mut memory.matched);
        let mut walk = Walk::new(self, query.flag_in, matched);
        let stopped = walk.run(query, profile, &plan, memory);
        memory.count(&walk.matched);
        memory.matched = walk.matched;
        (walk.output, walk.rewritten, stopped)
    }

    /// Evaluates everything that depends on the digest alone.
    pub(super) fn make_plan(&self, query: &Query<'_>, profile: &Profile, memory: &mut Memory) -> Plan {
        let mut always = profile.always.to_vec();
        let mut screened = Vec::new();
        let mut pass = |index: u32, rule: &Rule| match rule.is_screened() {
            true => screened.push(index),
            false => always.push(index),
        };
        match query.digest {
            Some((text, hash)) => {
                let mut candidates = std::mem::take(&mut memory.found);
                self.digest_screen.search(text, &mut candidates);
                let rule = |index: u32| self.rules.get(index as usize);
                let only_screened = |index: &u32| {
                    rule(*index).is_some_and(|rule| rule.digest.is_none() && !rule.row.negate_match_pattern)
                };
                candidates.retain(only_screened);
                candidates.extend_from_slice(&self.digest_searched);
                candidates.extend(self.by_digest.get(&hash).into_iter().flatten());
                for index in candidates.iter().copied().filter(|index| profile.allows(*index)) {
                    let Some(rule) = rule(index) else { continue };
                    let Some(work) = memory.work.get_mut(index as usize) else { continue };
                    let negated = rule.row.negate_match_pattern;
                    let matches = rule
                        .match_digest
                        .as_ref()
                        .is_none_or(|e| e.is_match(text, &mut work.digest) != negated);
                    if matches {
                        pass(index, rule);
                    }
                }
                memory.found = candidates;
            }
            // If digests are off, conditions on them hold.
            None => {
                let asking = (0u32..).zip(&self.rules).filter(|(_, rule)| rule.asks_digest());
                for (index, rule) in asking.filter(|(index, _)| profile.allows(*index)) {
                    pass(index, rule);
                }
            }
        }
        always.sort_unstable();
        screened.sort_unstable();
        let mut plan = Plan { always: always.into(), screened: screened.into(), settled: None };
        plan.settled = self.settle(query, profile, &plan);
        plan
    }

    /// The end of the walk, if it is the same for every statement with this digest.
    fn settle(&self, query: &Query<'_>, profile: &Profile, plan: &Plan) -> Option<Settled> {
        let mut walk = Walk::new(self, query.flag_in, Vec::new());
        let mut rules = plan.always.iter().copied();
        let mut end = u32::MAX;
        while let Some(index) = rules.next() {
            let rule = self.rules.get(index as usize)?;
            if rule.row.flag_in == walk.flag && rule.match_pattern.is_some() {
                return None;
            }
            match walk.step(index, rule, |_, _| true) {
                Step::On => {}
                Step::Rewritten => return None,
                Step::Again => rules = plan.always.iter().copied(),
                Step::Stop => {
                    end = index;
                    break;
                }
            }
        }
        let began_again = walk.iterations < self.iterations;
        let untouched = profile.first_screened == u32::MAX || profile.first_screened > end && !began_again;
        (untouched && !walk.unsettled).then(|| Settled {
            output: walk.output,
            matched: walk.matched.into(),
            stopped: end != u32::MAX,
        })
    }

    /// Puts the rules that the literals of `text` do not rule out into `found`.
    fn screen(&self, text: &[u8], query: &Query<'_>, profile: &Profile, plan: &Plan, found: &mut Vec<u32>) {
        self.pattern_screen.search(text, found);
        found.retain(|index| {
            profile.allows(*index)
                && self.rules.get(*index as usize).is_some_and(|rule| {
                    let asks = rule.asks_digest() && query.digest.is_some();
                    rule.is_screened() && (!asks || plan.screened.binary_search(index).is_ok())
                })
        });
    }
}

impl<'a> Walk<'a> {
    fn new(set: &'a RuleSet, flag: u32, matched: Vec<u32>) -> Walk<'a> {
        Walk {
            set,
            output: RuleOutput { flag_out: flag, ..RuleOutput::default() },
            flag,
            rewritten: None,
            matched,
            iterations: set.iterations,
            unsettled: false,
        }
    }

    /// Walks over the rules that the plan and the statement leave; returns whether a rule with `apply` ended the walk.
    fn run(&mut self, query: &Query<'_>, profile: &Profile, plan: &Plan, memory: &mut Memory) -> bool {
        let mut found = std::mem::take(&mut memory.found);
        self.set.screen(query.statement, query, profile, plan, &mut found);
        let (mut always, mut screened) = (0, 0);
        let stopped = loop {
            let index = match (plan.always.get(always), found.get(screened)) {
                (Some(one), other) if other.is_none_or(|other| one < other) => {
                    always += 1;
                    *one
                }
                (_, Some(other)) => {
                    screened += 1;
                    *other
                }
                (_, None) => break false,
            };
            let Some(rule) = self.set.rules.get(index as usize) else { break false };
            let Some(work) = memory.work.get_mut(index as usize) else { break false };
            let searches = |rule: &Rule, text: Option<&[u8]>| {
                let text = text.unwrap_or(query.statement);
                rule.match_pattern.as_ref().is_none_or(|pattern| {
                    pattern.is_match(text, &mut work.pattern) != rule.row.negate_match_pattern
                })
            };
            match self.step_on(query.statement, index, rule, searches) {
                Step::On => {}
                Step::Rewritten => {
                    let text = self.rewritten.as_deref().unwrap_or(query.statement);
                    self.set.screen(text, query, profile, plan, &mut found);
                    screened = found.partition_point(|other| *other <= index);
                }
                Step::Again => {
                    let text = self.rewritten.as_deref().unwrap_or(query.statement);
                    self.set.screen(text, query, profile, plan, &mut found);
                    (always, screened) = (0, 0);
                }
                Step::Stop => break true,
            }
        };
        memory.found = found;
        stopped
    }

    /// Evaluates a rule whose other conditions hold, and rewrites `statement` if the rule requires it.
    fn step_on(
        &mut self,
        statement: &[u8],
        index: u32,
        rule: &Rule,
        matches: impl FnOnce(&Rule, Option<&[u8]>) -> bool,
    ) -> Step {
        let before = self.matched.len();
        let step = self.step(index, rule, matches);
        let replaces = self.matched.len() > before && self.rewrite(statement, rule);
        match step {
            Step::On if replaces => Step::Rewritten,
            step => step,
        }
    }

    /// Evaluates a rule whose other conditions hold.
    fn step(&mut self, index: u32, rule: &Rule, matches: impl FnOnce(&Rule, Option<&[u8]>) -> bool) -> Step {
        if rule.row.flag_in != self.flag || !matches(rule, self.rewritten.as_deref()) {
            return Step::On;
        }
        self.matched.push(index);
        rule.row.act(RuleIndex(index), &mut self.output);
        self.output.causal_reads = rule.causal_reads.or(self.output.causal_reads);
        self.output.transaction_replay = rule.transaction_replay.or(self.output.transaction_replay);
        if rule.row.apply {
            return Step::Stop;
        }
        self.unsettled |= !rule.flags_out.is_empty();
        if let Some(flag) = rule.flag_out() {
            self.flag = flag;
            self.output.flag_out = flag;
            if self.iterations > 0 {
                self.iterations -= 1;
                return Step::Again;
            }
        }
        Step::On
    }

    fn rewrite(&mut self, statement: &[u8], rule: &Rule) -> bool {
        let Some((replacement, pattern)) = rule.replacement.as_ref().zip(rule.match_pattern.as_ref()) else {
            return false;
        };
        let text = self.rewritten.as_deref().unwrap_or(statement);
        let Some(rewritten) = replacement.apply(pattern, text, rule.replaces_all) else { return false };
        self.rewritten = Some(rewritten);
        true
    }
}

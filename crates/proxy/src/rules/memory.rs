//! What one worker remembers about the rules: which of them concern which clients, the result for each digest, and how
//! often each rule matched. It is cleared with each new [`RuleSet`].

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::columns::{ProfileKey, Seen};
use super::expression::Work;
use super::{Client, Query, RuleOutput, RuleSet};
use crate::hash::AsTheyAre;

/// One worker's part of the rules.
#[derive(Debug, Default)]
pub struct Memory {
    /// The id of the rule set that this belongs to.
    set: u64,
    /// For each rule, the memory for searching its two expressions.
    pub(super) work: Vec<Searches>,
    /// How often each rule matched.
    hits: Vec<u64>,
    seen: Seen,
    profiles: HashMap<ProfileKey, Rc<Profile>>,
    /// The last profile used.
    last_profile: Option<(ProfileKey, Rc<Profile>)>,
    plans: HashMap<PlanKey, Rc<Plan>, AsTheyAre>,
    /// The number of rules in all plans.
    planned: usize,
    /// Rules that remain in the current walk after checking a text's literals.
    pub(super) found: Vec<u32>,
    /// Rules that matched in the last walk.
    pub(super) matched: Vec<u32>,
}

/// The memory for searching a rule's expressions.
#[derive(Debug, Default)]
pub(super) struct Searches {
    pub(super) digest: Work,
    pub(super) pattern: Work,
}

/// The rules that concern one kind of client.
#[derive(Debug)]
pub(super) struct Profile {
    id: u32,
    /// A bit for each rule whose conditions on the client hold.
    allowed: Box<[u64]>,
    /// Rules without a condition on the digest, which must be evaluated for every statement.
    pub(super) always: Box<[u32]>,
    /// The first of these that need only be evaluated for statements with one of their literals; otherwise `u32::MAX`.
    pub(super) first_screened: u32,
}

impl Profile {
    pub(super) fn allows(&self, rule: u32) -> bool {
        let word = self.allowed.get(rule as usize / 64).copied().unwrap_or_default();
        word >> (rule % 64) & 1 == 1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlanKey {
    digest: u64,
    profile: u32,
    flag_in: u32,
}

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let rest =
            (u64::from(self.profile) << 32 | u64::from(self.flag_in)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.digest ^ rest).wrapping_mul(0xd6e8_feb8_6659_fd93);
        state.write_u64(mixed ^ mixed >> 32);
    }
}

/// The rules that must be evaluated for statements with one digest.
#[derive(Debug)]
pub(super) struct Plan {
    /// Rules that must be evaluated for each of these statements, in order.
    pub(super) always: Box<[u32]>,
    /// Rules with a condition on this digest that need only be evaluated for statements with one of their literals.
    pub(super) screened: Box<[u32]>,
    /// The result for all of these statements, if only the digest decides.
    pub(super) settled: Option<Settled>,
}

/// The end of a walk that is the same for every statement with a digest.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) output: RuleOutput,
    pub(super) matched: Box<[u32]>,
    /// Whether a rule with `apply` ended it.
    pub(super) stopped: bool,
}

impl Memory {
    /// Forgets everything when the rules have changed.
    #[inline]
    pub(super) fn renew(&mut self, set: &RuleSet) {
        if self.set != set.id {
            *self = Memory { set: set.id, hits: vec![0; set.rules.len()], ..Memory::default() };
            self.work.resize_with(set.rules.len(), Searches::default);
        }
    }

    /// How often each rule of `set` matched on this worker, in the order of the rules.
    pub fn hits<'a>(&'a self, set: &'a RuleSet) -> impl Iterator<Item = (i64, u64)> + 'a {
        let known = if self.set == set.id { self.hits.as_slice() } else { &[] };
        set.rows().map(|row| row.rule_id).zip(known.iter().copied().chain(std::iter::repeat(0)))
    }

    /// Ids of the rules that matched the last statement, in the order in which they did.
    pub fn last_matched<'a>(&'a self, set: &'a RuleSet) -> impl Iterator<Item = i64> + 'a {
        let id = |rule: &u32| set.rules.get(*rule as usize).map(|rule| rule.row.rule_id);
        self.matched.iter().filter_map(id)
    }

    /// The same rules, by their index.
    pub fn last_matched_places(&self) -> &[u32] {
        &self.matched
    }

    /// Counts a match of each rule that an earlier, equal statement was found to match.
    pub fn count_again(&mut self, set: &RuleSet, matched: &[u32]) {
        if self.set == set.id {
            self.count(matched);
        }
    }

    pub(super) fn count(&mut self, matched: &[u32]) {
        for rule in matched {
            if let Some(hits) = self.hits.get_mut(*rule as usize) {
                *hits += 1;
            }
        }
    }

    /// The rules that concern the client.
    #[inline]
    pub(super) fn profile(&mut self, set: &RuleSet, client: &Client<'_>) -> Rc<Profile> {
        let key = set.conditions.key(client, &mut self.seen);
        if let Some((last, profile)) = &self.last_profile
            && *last == key
        {
            return Rc::clone(profile);
        }
        let profile = match self.profiles.get(&key) {
            Some(profile) => Rc::clone(profile),
            None => self.new_profile(set, key),
        };
        self.last_profile = Some((key, Rc::clone(&profile)));
        profile
    }

    fn new_profile(&mut self, set: &RuleSet, key: ProfileKey) -> Rc<Profile> {
        if self.profiles.len() >= MOST_PROFILES {
            self.profiles.clear();
            // Plans name profiles by number.
            self.forget_plans();
        }
        let mut allowed = vec![0u64; set.rules.len().div_ceil(64)];
        for index in (0..set.rules.len()).filter(|rule| set.conditions.hold(*rule, &key, &self.seen)) {
            if let Some(word) = allowed.get_mut(index / 64) {
                *word |= 1 << (index % 64);
            }
        }
        let mut profile = Profile {
            id: self.profiles.len() as u32,
            allowed: allowed.into(),
            always: Box::default(),
            first_screened: u32::MAX,
        };
        let screened = |index: &u32| set.rules.get(*index as usize).is_some_and(|rule| rule.is_screened());
        profile.always = set
            .undigested
            .iter()
            .copied()
            .filter(|index| profile.allows(*index) && !screened(index))
            .collect();
        let mut indices = 0..set.rules.len() as u32;
        profile.first_screened =
            indices.find(|index| profile.allows(*index) && screened(index)).unwrap_or(u32::MAX);
        let profile = Rc::new(profile);
        self.profiles.insert(key, Rc::clone(&profile));
        profile
    }

    /// What remains to be evaluated for statements with a digest; computed when first needed.
    #[inline]
    pub(super) fn plan(&mut self, set: &RuleSet, query: &Query<'_>, profile: &Profile) -> Rc<Plan> {
        let digest = query.digest.filter(|_| set.needs_digest());
        let key = PlanKey {
            digest: digest.map_or(0, |(_, hash)| hash),
            profile: profile.id,
            flag_in: query.flag_in,
        };
        if let Some(plan) = self.plans.get(&key) {
            return Rc::clone(plan);
        }
        let plan = Rc::new(set.make_plan(query, profile, self));
        if self.plans.len() >= MOST_PLANS || self.planned >= MOST_PLANNED {
            self.forget_plans();
        }
        self.planned += plan.always.len() + plan.screened.len();
        self.plans.insert(key, Rc::clone(&plan));
        plan
    }

    fn forget_plans(&mut self) {
        self.plans.clear();
        self.planned = 0;
    }
}

/// How many kinds of clients are remembered: each costs a little more than one bit per rule.
const MOST_PROFILES: usize = 1_024;

/// How many digests are remembered for each kind of client.
const MOST_PLANS: usize = 8_192;

/// How many rules all plans together may contain: 4 MiB.
const MOST_PLANNED: usize = 1 << 20;

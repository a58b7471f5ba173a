//! Dry runs: what the rules with `active=2` would change about the statements of a session is counted. Nothing else comes of
//! it: no packet, no state that the session uses, and no hit of a rule in force.
//!
//! A dry run starts from the session as it is. What its rules would have done to earlier statements, such as turning
//! multiplexing off or sending a transaction elsewhere, is not followed, except `next_query_flagIN`.

use std::rc::Rc;

use narrows_sql::{Statement, digest_hash, digest_text};

use super::Session;
use super::query::changing;
use super::statements::{ClientStatement, Remembered};
use crate::clock;
use crate::figures::{DryRunChange, DryRunKey, DryRunLine, SHOWN_TEXT};
use crate::recent_texts::TextDigest;
use crate::route::{Asking, DryRunDifference, Ruled, Step, digest_options, may_differ};
use crate::rules::RuleSet;
use crate::worker::LocalSnapshot;

impl Session {
    /// `COM_QUERY` with this text, about which the rules in force have said `ruled`, from `flag_in` on.
    #[cold]
    pub(super) fn dry_run_text(
        &mut self,
        snapshot: &LocalSnapshot,
        (statement, text): (&Statement, &[u8]),
        known: Option<&TextDigest>,
        (flag_in, ruled): (u32, &Ruled),
    ) {
        let Some(rules) = &snapshot.dry_run else { return };
        let flag_in = self.dry_run_flag_in(rules, flag_in);
        let candidate = self.ask_dry_run(snapshot, rules, (statement, text), known, flag_in);
        self.keep_dry_run_flag(rules, &candidate);
        self.compare(snapshot, rules, (Step::Query, statement, text), [ruled, &candidate]);
    }

    /// `COM_STMT_PREPARE`.
    #[cold]
    pub(super) fn dry_run_preparation(
        &self,
        snapshot: &LocalSnapshot,
        (statement, text): (&Statement, &[u8]),
        ruled: &Ruled,
    ) {
        let Some(rules) = &snapshot.dry_run else { return };
        let candidate = self.ask_dry_run(snapshot, rules, (statement, text), None, 0);
        self.compare(snapshot, rules, (Step::Prepare, statement, text), [ruled, &candidate]);
    }

    /// `COM_STMT_EXECUTE` and `COM_STMT_BULK_EXECUTE`. The text is the one that the rules in force have made of it.
    #[cold]
    pub(super) fn dry_run_execution(
        &mut self,
        snapshot: &LocalSnapshot,
        statement: &ClientStatement,
        (flag_in, ruled): (u32, &Ruled),
    ) {
        let Some(rules) = &snapshot.dry_run else { return };
        let flag_in = self.dry_run_flag_in(rules, flag_in);
        let remembered = statement.dry_run.borrow();
        let known = remembered
            .as_ref()
            .filter(|known| flag_in == 0 && known.holds(snapshot, changing(&self.rule_client())));
        if let Some(known) = known {
            self.worker.dry_run.borrow_mut().rules.count_again(rules, &known.matched);
            self.keep_dry_run_flag(rules, &known.ruled);
            self.compare_execution(snapshot, rules, statement, [ruled, &known.ruled]);
            return;
        }
        drop(remembered);
        let prepared = &statement.prepared;
        let asked = (&prepared.statement, &*prepared.text);
        let candidate = Ruled { rewritten: None, ..self.ask_dry_run(snapshot, rules, asked, None, flag_in) };
        let matched = self.worker.dry_run.borrow().rules.last_matched_places().to_vec();
        self.keep_dry_run_flag(rules, &candidate);
        self.compare_execution(snapshot, rules, statement, [ruled, &candidate]);
        if flag_in == 0 {
            let (snapshot, client) = (Rc::downgrade(snapshot), changing(&self.rule_client()).into());
            let remembered = Remembered { snapshot, client, matched, ruled: candidate };
            *statement.dry_run.borrow_mut() = Some(Box::new(remembered));
        }
    }

    /// The chain that the next statement begins in for these rules; `present`: for those in force, with which a dry run
    /// begins.
    fn dry_run_flag_in(&self, rules: &RuleSet, present: u32) -> u32 {
        let own = self.data.dry_run_flag_in.filter(|(of, _)| *of == rules.id());
        own.map_or(present, |(_, flag)| flag)
    }

    fn keep_dry_run_flag(&mut self, rules: &RuleSet, candidate: &Ruled) {
        let next = candidate.output.next_query_flag_in.unwrap_or_default();
        self.data.dry_run_flag_in = Some((rules.id(), next));
    }

    fn compare_execution(
        &self,
        snapshot: &LocalSnapshot,
        rules: &RuleSet,
        statement: &ClientStatement,
        ruled: [&Ruled; 2],
    ) {
        let prepared = &statement.prepared;
        self.compare(snapshot, rules, (Step::Execute, &prepared.statement, &prepared.text), ruled);
    }

    /// Asks the rules of the dry run, and with what they say the comment and the firewall.
    fn ask_dry_run(
        &self,
        snapshot: &LocalSnapshot,
        rules: &RuleSet,
        asked: (&Statement, &[u8]),
        known: Option<&TextDigest>,
        flag_in: u32,
    ) -> Ruled {
        let asking = Asking { rules, ..self.asking(snapshot) };
        let mut memory = self.worker.dry_run.borrow_mut();
        let tools = (&mut memory.rules, &mut *self.worker.scratch.borrow_mut());
        asking.ask_rules(tools, asked, known, flag_in, |_, _, _| {})
    }

    /// Compares what the rules in force and those of the dry run lead to, and counts a difference.
    fn compare(
        &self,
        snapshot: &LocalSnapshot,
        rules: &RuleSet,
        command: (Step, &Statement, &[u8]),
        [ruled, candidate]: [&Ruled; 2],
    ) {
        let (step, statement, text) = command;
        if !may_differ(statement, (&snapshot.rules, ruled), (rules, candidate)) {
            return;
        }
        let wanted = self.data.information.wanted_hostgroup(statement);
        let memory = &mut self.worker.dry_run.borrow_mut();
        let asking = self.asking(snapshot);
        let difference = DryRunDifference::of(&asking, rules, memory, command, [ruled, candidate], wanted);
        // Otherwise its executions are counted.
        let counts = |difference: &DryRunDifference| step != Step::Prepare || difference.is_of_preparation();
        if let Some(difference) = difference.filter(counts) {
            self.count_change(snapshot, rules, text, &difference, [ruled, candidate]);
        }
    }

    fn count_change(
        &self,
        snapshot: &LocalSnapshot,
        rules: &RuleSet,
        text: &[u8],
        difference: &DryRunDifference,
        [ruled, candidate]: [&Ruled; 2],
    ) {
        let mut scratch = self.worker.scratch.borrow_mut();
        let options = digest_options(&snapshot.variables);
        let known = ruled.digest.as_ref().map(|digest| digest.hash);
        let digest = known.unwrap_or_else(|| digest_hash(digest_text(text, &options, &mut scratch)));
        let username = &self.want.account.row.username;
        let schemaname = self.data.state.schema.as_deref().unwrap_or_default();
        let key = DryRunKey { schemaname, username, digest, decisions: difference.number() };
        let now = clock::now().as_secs();
        let mut table = self.worker.figures.dry_run.borrow_mut();
        let mut counters = self.worker.counters.borrow_mut();
        counters.dry_run_changes += 1;
        table.renew([snapshot.rules.id(), rules.id()]);
        if table.add(&key, now) {
            return;
        }
        let cut = |text: &[u8]| text.get(..SHOWN_TEXT).unwrap_or(text).to_vec();
        let rewritten = candidate.rewritten.as_deref().filter(|_| ruled.rewritten != candidate.rewritten);
        let line = DryRunLine {
            schemaname: schemaname.to_vec(),
            username: username.clone(),
            digest,
            decisions: key.decisions,
            change: DryRunChange {
                digest_text: digest_text(text, &options, &mut scratch).to_vec(),
                hostgroups: difference.hostgroups(),
                decisions: difference.texts([&snapshot.rules, rules]),
                sample: cut(text),
                rewritten: rewritten.map(cut),
            },
            count: 1,
            first_seen: now,
            last_seen: now,
        };
        if !table.insert(line) {
            counters.dry_run_overflow += 1;
        }
    }
}

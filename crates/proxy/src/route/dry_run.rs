//! Dry runs: what would happen to a statement if the rules with `active=2` were in force. Two decisions are made as for a
//! statement that runs, and compared; nothing follows from the second one.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use narrows_sql::{Flags, Kind, Statement};

use super::{Asking, Causal, Options, Route, Ruled, Step, is_logged, read_otherwise};
use crate::rules::{Memory, RuleIndex, RuleOutput, RuleSet};
use crate::snapshot::HostgroupId;

/// What one worker remembers for dry runs.
#[derive(Debug, Default)]
pub(crate) struct DryRunMemory {
    /// About the rules of the dry run.
    pub(crate) rules: Memory,
    /// About the rules in force, if parts of a text are asked about again: those questions are not counted as hits.
    in_force: Memory,
}

/// The decisions about a statement that the rules in force and those of a dry run lead to.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct DryRunDifference {
    present: Decision,
    candidate: Decision,
}

/// What happens to a statement, as far as rules can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Decision {
    answer: Answer,
    rewriting: Rewriting,
    mirror_hostgroup: Option<HostgroupId>,
    mirror_flag_out: Option<u32>,
    is_logged: bool,
    /// How it runs, if it does.
    run: Option<Run>,
}

/// Who answers a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Answer {
    /// A server of this hostgroup.
    Hostgroup(HostgroupId),
    /// A rule, with OK.
    Ok(RuleIndex),
    /// A rule, with an error.
    Error(RuleIndex),
    /// The firewall.
    Firewall,
    /// Narrows, with an error of that number.
    Other(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rewriting {
    No,
    Yes,
    /// Into something else than the rules in force.
    Differently,
}

/// The options of a statement that rules set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Run {
    is_split: bool,
    cache_ttl: Option<Duration>,
    cache_empty_result: Option<bool>,
    timeout: Option<Duration>,
    delay: Duration,
    retries: Option<u32>,
    multiplex: Option<u8>,
    causal_reads: Option<&'static str>,
    gtid_from_hostgroup: Option<HostgroupId>,
    transaction_replay: bool,
}

/// Whether the output of the rules in force and that of a dry run may lead to different decisions. False for nearly every
/// statement, at little cost.
pub(crate) fn may_differ(
    statement: &Statement,
    (rules, ruled): (&RuleSet, &Ruled),
    (dry_run, candidate): (&RuleSet, &Ruled),
) -> bool {
    // What acts on this statement, apart from texts, which are in the rules.
    let acting = |output: &RuleOutput| RuleOutput {
        error_msg: None,
        ok_msg: None,
        next_query_flag_in: None,
        flag_out: 0,
        ..*output
    };
    let texts = |rules: &'_ RuleSet, output: &RuleOutput| {
        let text = |text: &str| text.to_owned();
        (
            output.ok_msg.map(|rule| text(rules.ok_msg(rule))),
            output.error_msg.map(|rule| text(rules.error_msg(rule))),
        )
    };
    let (one, other) = (&ruled.output, &candidate.output);
    let has_text = |output: &RuleOutput| output.ok_msg.is_some() || output.error_msg.is_some();
    acting(one) != acting(other)
        || ruled.rewritten != candidate.rewritten
        || ruled.passage != candidate.passage
        || (has_text(one) || has_text(other)) && texts(rules, one) != texts(dry_run, other)
        // The rules are asked again for a part of the text.
        || statement.kind == Kind::Select && statement.flags.contains(Flags::MULTI)
}

impl DryRunDifference {
    /// The decisions about a command, if they are not the same. `dry_run`: the rules of the dry run; `ruled`: what the rules in
    /// force have said, and what those of the dry run have said.
    pub(crate) fn of(
        asking: &Asking<'_>,
        dry_run: &RuleSet,
        memory: &mut DryRunMemory,
        command: (Step, &Statement, &[u8]),
        [ruled, candidate]: [&Ruled; 2],
        wanted: Option<HostgroupId>,
    ) -> Option<DryRunDifference> {
        let present = Decision::of(asking, &mut memory.in_force, command, ruled, wanted);
        let other = Asking { rules: dry_run, ..*asking };
        let rewritten = ruled.rewritten.is_some() && candidate.rewritten.is_some();
        let is_rewritten_differently = rewritten && ruled.rewritten != candidate.rewritten;
        let mut candidate = Decision::of(&other, &mut memory.rules, command, candidate, wanted);
        if is_rewritten_differently {
            candidate.rewriting = Rewriting::Differently;
        }
        let same_answer = match (present.answer, candidate.answer) {
            (Answer::Ok(one), Answer::Ok(other)) => asking.rules.ok_msg(one) == dry_run.ok_msg(other),
            (Answer::Error(one), Answer::Error(other)) => {
                asking.rules.error_msg(one) == dry_run.error_msg(other)
            }
            (one, other) => one == other,
        };
        let is_same = same_answer && present == Decision { answer: present.answer, ..candidate };
        (!is_same).then_some(DryRunDifference { present, candidate })
    }

    /// A number that is the same for the same decisions, with the same rules, in all workers.
    pub(crate) fn number(&self) -> u64 {
        static KEYS: OnceLock<DefaultHashBuilder> = OnceLock::new();
        KEYS.get_or_init(DefaultHashBuilder::default).hash_one(self)
    }

    /// Whether executions of a prepared statement would not show it: there are none, or their text is already another one.
    pub(crate) fn is_of_preparation(&self) -> bool {
        !matches!(self.present.answer, Answer::Hostgroup(_))
            || self.present.rewriting != self.candidate.rewriting
    }

    /// The two hostgroups; -1 if Narrows answers.
    pub(crate) fn hostgroups(&self) -> [HostgroupId; 2] {
        [self.present, self.candidate].map(|decision| match decision.answer {
            Answer::Hostgroup(hostgroup) => hostgroup,
            _ => HostgroupId(-1),
        })
    }

    /// Both decisions as text: what is not the same in them. `rules`: those in force, and those of the dry run.
    pub(crate) fn texts(&self, rules: [&RuleSet; 2]) -> [String; 2] {
        let [one, other] = [self.present.attributes(rules[0]), self.candidate.attributes(rules[1])];
        let differ = one.iter().zip(&other).filter(|(one, other)| one != other);
        let (mut texts, mut more) = ([String::new(), String::new()], "");
        for ((name, one), (_, other)) in differ {
            for (text, value) in texts.iter_mut().zip([one, other]) {
                text.push_str(&format!("{more}{name}={}", value.as_deref().unwrap_or("NULL")));
            }
            more = ", ";
        }
        texts
    }
}

impl Decision {
    fn of(
        asking: &Asking<'_>,
        memory: &mut Memory,
        (step, statement, text): (Step, &Statement, &[u8]),
        ruled: &Ruled,
        wanted: Option<HostgroupId>,
    ) -> Decision {
        let Asking { snapshot, state, status, .. } = *asking;
        let rewritten = ruled.rewritten.as_deref();
        let read = |text| read_otherwise(state, status, text, narrows_sql::classify(text));
        let statement = rewritten.map_or(*statement, read);
        let output = &ruled.output;
        let is_mirrored = step == Step::Query && ruled.passes();
        let route = asking.route(memory, (step, &statement, rewritten.unwrap_or(text)), ruled, wanted);
        let (answer, run) = match &route {
            Route::Run(hostgroup, _, options) => (Answer::Hostgroup(*hostgroup), Some(options)),
            Route::Ok(_) | Route::Refuse(..) => (Answer::by(&route, ruled), None),
        };
        Decision {
            answer,
            rewriting: if rewritten.is_some() { Rewriting::Yes } else { Rewriting::No },
            mirror_hostgroup: output.mirror_hostgroup.filter(|_| is_mirrored),
            mirror_flag_out: output.mirror_flag_out.filter(|_| is_mirrored),
            is_logged: is_logged(&snapshot.variables, output),
            run: run.map(|options| Run::of(options, output)),
        }
    }

    /// Everything that it says, by name; the same names in the same order for every decision.
    fn attributes(&self, rules: &RuleSet) -> Vec<(&'static str, Option<String>)> {
        let cut = |text: &str| Some(text.chars().take(SHOWN_MESSAGE).collect());
        let flag = |flag: bool| Some(u8::from(flag).to_string());
        let ms = |duration: Duration| duration.as_millis().to_string();
        let rewriting = match self.rewriting {
            Rewriting::No => "no",
            Rewriting::Yes => "yes",
            Rewriting::Differently => "differently",
        };
        let (mut hostgroup, mut ok_msg, mut error_msg, mut error) = (None, None, None, None);
        match self.answer {
            Answer::Hostgroup(id) => hostgroup = Some(id.to_string()),
            Answer::Ok(rule) => ok_msg = cut(rules.ok_msg(rule)),
            Answer::Error(rule) => error_msg = cut(rules.error_msg(rule)),
            Answer::Firewall => error = Some("firewall".to_owned()),
            Answer::Other(number) => error = Some(number.to_string()),
        }
        let run = self.run.as_ref();
        vec![
            ("hostgroup", hostgroup),
            ("OK_msg", ok_msg),
            ("error_msg", error_msg),
            ("error", error),
            ("rewritten", Some(rewriting.to_owned())),
            ("auto_read_write_split", run.filter(|run| run.is_split).and_then(|_| flag(true))),
            ("cache_ttl", run.and_then(|run| run.cache_ttl).map(ms)),
            ("cache_empty_result", run.and_then(|run| run.cache_empty_result).and_then(flag)),
            ("timeout", run.and_then(|run| run.timeout).map(ms)),
            ("delay", run.map(|run| run.delay).filter(|delay| !delay.is_zero()).map(ms)),
            ("retries", run.and_then(|run| run.retries).map(|retries| retries.to_string())),
            ("multiplex", run.and_then(|run| run.multiplex).map(|multiplex| multiplex.to_string())),
            ("mirror_hostgroup", self.mirror_hostgroup.map(|id| id.to_string())),
            ("mirror_flagOUT", self.mirror_flag_out.map(|flag| flag.to_string())),
            ("log", flag(self.is_logged)),
            ("causal_reads", run.and_then(|run| run.causal_reads).map(str::to_owned)),
            ("gtid_from_hostgroup", run.and_then(|run| run.gtid_from_hostgroup).map(|id| id.to_string())),
            ("transaction_replay", run.filter(|run| run.transaction_replay).and_then(|_| flag(true))),
        ]
    }
}

impl Answer {
    /// Who has answered instead of a server, in the order in which they are asked.
    fn by(route: &Route, ruled: &Ruled) -> Answer {
        match (route, &ruled.output) {
            (Route::Ok(_), RuleOutput { ok_msg: Some(rule), .. }) => Answer::Ok(*rule),
            (_, RuleOutput { error_msg: Some(rule), .. }) => Answer::Error(*rule),
            _ if !ruled.passes() => Answer::Firewall,
            (Route::Refuse(errno, _), _) => Answer::Other(errno.number),
            _ => Answer::Other(0),
        }
    }
}

impl Run {
    fn of(options: &Options, output: &RuleOutput) -> Run {
        let Causal { level, writer, .. } = options.causal;
        Run {
            is_split: options.writer.is_some(),
            cache_ttl: options.caching.map(|caching| caching.ttl),
            cache_empty_result: options.caching.map(|caching| caching.without_rows),
            timeout: options.timeout,
            delay: options.delay,
            retries: options.retries,
            multiplex: output.multiplex,
            causal_reads: level.map(|level| level.name()),
            gtid_from_hostgroup: writer,
            transaction_replay: options.replay,
        }
    }
}

/// Characters of a message of a rule that are shown.
const SHOWN_MESSAGE: usize = 200;

#[cfg(test)]
mod tests;

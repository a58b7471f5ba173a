//! What a run did, in figures for its summary.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::script::Burst;
use super::side::{Leave, Step, Victim};

/// Counts of one run.
#[derive(Debug, Default)]
pub struct Figures {
    steps: usize,
    statements: usize,
    sessions: usize,
    /// Bursts, by the name of their form.
    forms: BTreeMap<&'static str, usize>,
    /// Ways to leave and kills, by name.
    ends: BTreeMap<&'static str, usize>,
    /// By the name of the exception.
    exceptions: BTreeMap<&'static str, usize>,
}

impl Figures {
    /// Counts the steps of a burst.
    pub fn count(&mut self, burst: &Burst) {
        self.steps += burst.steps.len();
        *self.forms.entry(burst.name).or_default() += 1;
        for step in &burst.steps {
            self.sessions += usize::from(matches!(step, Step::Reconnect { .. }));
            let end = match step {
                Step::Query(_) | Step::Prepared(_) | Step::PreparedCall(_) => {
                    self.statements += 1;
                    continue;
                }
                Step::InitDb(_) | Step::MultiStatements(_) => continue,
                Step::ResetConnection => "resets",
                Step::ChangeUser { .. } => "changes of user",
                Step::Reconnect { leave: Leave::Quit, .. } => "farewells",
                Step::Reconnect { leave: Leave::Vanish, .. } => "disconnects",
                Step::Reconnect { leave: Leave::VanishInStatement, .. } => "disconnects within a statement",
                Step::Kill { victim: Victim::Statement, .. } => "killed statements",
                Step::Kill { victim: Victim::IdleInTransaction, .. } => "killed sessions in a transaction",
                Step::Kill { victim: Victim::Running, .. } => "killed sessions within a statement",
            };
            *self.ends.entry(end).or_default() += 1;
        }
    }

    /// Counts a session.
    pub fn count_session(&mut self) {
        self.sessions += 1;
    }

    /// Counts the exceptions that one answer needed.
    pub fn count_exceptions(&mut self, names: &[&'static str]) {
        for name in names {
            *self.exceptions.entry(name).or_default() += 1;
        }
    }

    /// The summary, with the pins from Narrows' log.
    pub fn summary(&self, log: &str) -> String {
        let mut pins: BTreeMap<&str, usize> = BTreeMap::new();
        for line in log.lines().filter(|line| line.contains("narrows_proxy::pins")) {
            if let Some((_, reason)) = line.split_once("reason=\"") {
                *pins.entry(reason.split('"').next().unwrap_or_default()).or_default() += 1;
            }
        }
        let mut text = format!(
            "    {} steps, {} of them statements, in {} sessions\n",
            self.steps, self.statements, self.sessions
        );
        let forms: Vec<String> = self.forms.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(text, "    forms: {}", forms.join(", ")).expect("writing to a String cannot fail");
        let ends: Vec<String> = self.ends.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let pins: Vec<String> = pins.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(text, "    {}", ends.join(", ")).expect("writing to a String cannot fail");
        writeln!(text, "    pins: {}", pins.join(", ")).expect("writing to a String cannot fail");
        let total: usize = self.exceptions.values().sum();
        write!(text, "    {total} answers differ as documented").expect("writing to a String cannot fail");
        for (name, count) in &self.exceptions {
            write!(text, "\n      {count} x {name}").expect("writing to a String cannot fail");
        }
        text
    }
}

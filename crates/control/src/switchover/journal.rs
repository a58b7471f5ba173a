//! What a switchover has done so far, for administrators: written by its thread, read by the control thread.

use std::sync::{Arc, Mutex, PoisonError};

/// What has become of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    /// It is only shown.
    Planned,
    /// It is done.
    Done,
    /// It has failed, for this reason.
    Failed(String),
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The server; `narrows`: none.
    pub server: String,
    /// The statement, without passwords, or what is done.
    pub statement: String,
    /// What has become of it.
    pub state: StepState,
    /// How long it took, in ms.
    pub took_ms: u64,
}

#[derive(Debug, Default)]
struct Pages {
    steps: Vec<Step>,
    outcome: Option<Result<(), String>>,
}

/// The steps of one switchover.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Pages>>);

impl Journal {
    fn pages<T>(&self, with: impl FnOnce(&mut Pages) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a step.
    pub fn add(&self, step: Step) {
        self.pages(|pages| pages.steps.push(step));
    }

    /// The switchover has ended.
    pub fn end(&self, outcome: Result<(), String>) {
        self.pages(|pages| pages.outcome = Some(outcome));
    }

    /// The steps so far.
    pub fn steps(&self) -> Vec<Step> {
        self.pages(|pages| pages.steps.clone())
    }

    /// How it has ended; `None`: it has not.
    pub fn outcome(&self) -> Option<Result<(), String>> {
        self.pages(|pages| pages.outcome.clone())
    }
}

impl StepState {
    /// Its name.
    pub fn name(&self) -> String {
        match self {
            StepState::Planned => "planned".to_owned(),
            StepState::Done => "done".to_owned(),
            StepState::Failed(reason) => format!("failed: {reason}"),
        }
    }
}

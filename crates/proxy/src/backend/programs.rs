//! In which sessions the stored programs were resolved that a connection has run.

use std::sync::Arc;

use crate::state::SharedState;

/// MySQL resolves a stored program when a session runs it first, and keeps it so until the session is reset. Which programs a
/// statement runs, by triggers and views, no text shows.
#[derive(Debug, Clone)]
pub enum Programs {
    /// None has run.
    None,
    /// All in this one, or in states in which they mean the same.
    In(SharedState),
    /// In several.
    InSeveral,
}

impl Programs {
    /// A statement that may call stored programs has run in this state.
    #[inline]
    pub fn ran_in(&mut self, state: &SharedState) {
        match self {
            Programs::In(first) if Arc::ptr_eq(first, state) || state.resolves_programs_like(first) => {}
            Programs::None => *self = Programs::In(Arc::clone(state)),
            Programs::In(_) | Programs::InSeveral => *self = Programs::InSeveral,
        }
    }

    /// Whether they may mean something else to a client in this state than in a session of its own.
    #[inline]
    pub fn differ_for(&self, state: &SharedState) -> bool {
        match self {
            Programs::None => false,
            Programs::In(first) => !Arc::ptr_eq(first, state) && !state.resolves_programs_like(first),
            Programs::InSeveral => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SessionState;

    fn state(increment: &str) -> SharedState {
        let mut state = SessionState::default();
        state.set_literal("div_precision_increment", increment);
        Arc::new(state)
    }

    #[test]
    fn a_session_in_which_programs_were_resolved_in_several_states_is_nobodys() {
        let (one, other, like_one) = (state("1"), state("2"), state("1"));
        let mut programs = Programs::None;
        assert!(!programs.differ_for(&one));
        programs.ran_in(&one);
        programs.ran_in(&like_one);
        assert_eq!([&one, &like_one, &other].map(|state| programs.differ_for(state)), [false, false, true]);
        programs.ran_in(&other);
        programs.ran_in(&one);
        assert_eq!([&one, &other].map(|state| programs.differ_for(state)), [true, true]);
    }
}

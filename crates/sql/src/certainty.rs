//! Certain or opaque: whether everything that a statement can do to its session is known.
//!
//! Lists of what is allowed, not of what is dangerous: a kind ([`Statement::runs_others`]), a function or a hint that is not on a
//! list is opaque.

use crate::flags::Flags;
use crate::leftovers::may_call;
use crate::statement::Statement;

impl Statement {
    /// Whether everything that the statement can do to its session is known from its text and from what servers report.
    /// What is not certain is opaque: it may have set, taken or left anything, and may ask for anything.
    ///
    /// A text of several statements is opaque as a whole; its [`crate::parts`] may be certain. So is `SET STATEMENT`, unless
    /// the statement in it is looked at. Triggers, and functions that a view calls, are not in any text: servers report most
    /// of what they change (`session_track_state_change`).
    #[inline]
    #[must_use]
    pub fn is_certain(&self, query: &[u8]) -> bool {
        self.is_plain() || self.is_certain_by_lists(query)
    }

    fn is_certain_by_lists(&self, query: &[u8]) -> bool {
        const IN_DOUBT: Flags =
            Flags::MULTI.union(Flags::UNSURE).union(Flags::UNTERMINATED).union(Flags::UNKNOWN_HINT);
        !self.flags.intersects(IN_DOUBT) && !may_call(query, self) && !self.runs_others()
    }
}

#[cfg(test)]
mod tests {
    use crate::classify;

    /// The rows of `tests/vectors/certain.txt`.
    #[test]
    fn tells_what_is_certain() {
        let rows = include_str!("../tests/vectors/certain.txt").lines();
        let cases: Vec<(bool, String)> = rows
            .filter(|row| !row.starts_with('#') && !row.is_empty())
            .map(|row| row.split_once('|').expect("two parts"))
            .map(|(what, query)| (what.trim() == "certain", query.trim().replace("\\n", "\n")))
            .collect();
        let is_certain = |query: &str| classify(query.as_bytes()).is_certain(query.as_bytes());
        let wrong: Vec<_> = cases.iter().filter(|(certain, query)| is_certain(query) != *certain).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(cases.len() > 120, "{}", cases.len());
    }
}

//! Which transactions servers have applied, as checks of `read_only` find while reads must see writes: a replica that no statement
//! has asked is known then, too.

use std::time::Duration;

use narrows_proxy::backend::{AppliedGtids, Backend, BackendError};
use narrows_wire::gtid::GtidSet;

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPosition {
    /// Everything that the server has applied.
    pub applied: GtidSet,
    /// It had more at the check before, or is another server: it was filled with other data.
    pub went_back: bool,
}

/// The questions to one server.
#[derive(Debug, Default)]
pub struct PositionQuestions {
    last: Option<AppliedGtids>,
    found: Option<CheckedPosition>,
}

impl PositionQuestions {
    /// Asks once, within `limit`; returns whether the connection can be used again. A server that does not answer has failed no check.
    pub async fn ask(&mut self, backend: &Backend, limit: Duration) -> bool {
        match backend.applied_gtids(limit).await {
            Ok(said) => {
                self.note(said);
                true
            }
            Err(BackendError::Server(_)) => true,
            Err(_) => false,
        }
    }

    /// What has been found since this was called.
    pub fn take(&mut self) -> Option<CheckedPosition> {
        self.found.take()
    }

    fn note(&mut self, said: Option<AppliedGtids>) {
        let Some(said) = said else { return };
        let is_less = |last: &AppliedGtids| last.server != said.server || !said.gtids.contains(&last.gtids);
        let went_back = self.last.as_ref().is_some_and(is_less);
        self.found = Some(CheckedPosition { applied: said.gtids.clone(), went_back });
        self.last = Some(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_goes_back_if_it_has_less_or_is_another_one() {
        let mut questions = PositionQuestions::default();
        let mut after = |server: &str, gtids: &str| {
            let gtids = GtidSet::parse(gtids).unwrap();
            questions.note(Some(AppliedGtids { server: server.to_owned(), gtids }));
            questions.take().unwrap().went_back
        };
        let said =
            [("1", "0-1-5"), ("1", "0-1-6"), ("1", "0-1-5"), ("1", "0-2-7"), ("2", "0-2-8"), ("2", "0-2-8")];
        let went_back = said.map(|(server, gtids)| after(server, gtids));
        assert_eq!(went_back, [false, false, true, false, true, false]);
        questions.note(None);
        assert_eq!(questions.take(), None);
    }
}

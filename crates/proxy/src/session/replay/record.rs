//! The statements of an open transaction and the answers to them, as far as it can be run again.

use std::rc::Rc;

use narrows_sql::Statement;
use narrows_wire::Command;
use narrows_wire::response::Expect;

use super::super::statements::ClientStatement;
use super::answer::Answer;
use crate::pin_reason::PinReason;
use crate::rows::HostgroupId;
use crate::state::SharedState;

/// An open transaction on the connection that the client keeps.
#[derive(Debug)]
pub(in super::super) struct Record {
    /// Where the connection is from.
    pub(super) hostgroup: HostgroupId,
    /// Why the client keeps it.
    pub(super) reasons: PinReason,
    statements: Vec<Recorded>,
    bytes: usize,
    stopped: Option<Stopped>,
}

/// A statement that has run, and what the client has received.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The command as a packet. A prepared one has the types of its parameters.
    pub(super) packet: Box<[u8]>,
    pub(super) command: Command,
    pub(super) statement: Statement,
    pub(super) prepared: Option<Rc<ClientStatement>>,
    pub(super) expect: Expect,
    /// The client's state before it, and after it.
    pub(super) before: SharedState,
    pub(super) after: SharedState,
    pub(super) answer: Answer,
}

/// Why a transaction cannot be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It has more bytes, or statements, than are kept.
    TooLarge,
    /// Because of this.
    NotPossible(&'static str),
}

impl Record {
    /// Of a transaction that has just begun.
    pub(super) fn new(hostgroup: HostgroupId) -> Box<Record> {
        let reasons = PinReason::default();
        Box::new(Record { hostgroup, reasons, statements: Vec::new(), bytes: 0, stopped: None })
    }

    /// The next statement has run; at most `most` bytes are kept.
    pub(super) fn add(&mut self, recorded: Recorded, most: usize) {
        if self.stopped.is_some() {
            return;
        }
        self.bytes += recorded.bytes();
        if self.bytes > most || self.statements.len() == MOST_STATEMENTS {
            return self.stop(Stopped::TooLarge);
        }
        self.statements.push(recorded);
    }

    /// From now on the transaction cannot be run again. The first reason counts.
    pub(super) fn stop(&mut self, why: Stopped) {
        self.stopped.get_or_insert(why);
        self.statements = Vec::new();
    }

    /// Why it cannot be run again.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// What has run, in order.
    pub(super) fn statements(&self) -> &[Recorded] {
        &self.statements
    }
}

impl Recorded {
    /// Bytes that it takes; states are shared.
    fn bytes(&self) -> usize {
        let text = self.prepared.as_ref().map_or(0, |prepared| prepared.prepared.text.len());
        size_of::<Recorded>() + self.packet.len() + text
    }
}

/// Statements that are kept of a transaction: at a tenth of a millisecond each, running them again takes a second.
const MOST_STATEMENTS: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::session::replay::answer::Reading;
    use crate::state::SessionState;

    fn recorded(bytes: usize) -> Recorded {
        let state = Arc::new(SessionState::default());
        let mut reading = Reading::default();
        let ok = narrows_wire::response::Next::Ok { length: 11 };
        reading.read(&[], ok, &[0, 1, 0, 3, 0, 0, 0], narrows_wire::Capabilities::PROTOCOL_41);
        Recorded {
            packet: vec![b'x'; bytes].into(),
            command: Command::Query,
            statement: narrows_sql::classify(b"SELECT 1"),
            prepared: None,
            expect: Expect::Result,
            before: Arc::clone(&state),
            after: state,
            answer: reading.end().unwrap(),
        }
    }

    #[test]
    fn a_transaction_that_has_become_too_large_keeps_nothing() {
        let mut record = Record::new(HostgroupId(0));
        for _ in 0..3 {
            record.add(recorded(1000), 10_000);
        }
        assert_eq!((record.statements().len(), record.stopped()), (3, None));
        record.add(recorded(8000), 10_000);
        assert_eq!((record.statements().len(), record.stopped()), (0, Some(Stopped::TooLarge)));
        // Nor does it begin again in the middle.
        record.add(recorded(1), 10_000);
        record.stop(Stopped::NotPossible("later"));
        assert_eq!((record.statements().len(), record.stopped()), (0, Some(Stopped::TooLarge)));
    }

    #[test]
    fn the_number_of_statements_is_limited_too() {
        let mut record = Record::new(HostgroupId(0));
        for _ in 0..MOST_STATEMENTS {
            record.add(recorded(1), usize::MAX);
        }
        assert_eq!((record.statements().len(), record.stopped()), (MOST_STATEMENTS, None));
        record.add(recorded(1), usize::MAX);
        assert_eq!(record.stopped(), Some(Stopped::TooLarge));
    }
}

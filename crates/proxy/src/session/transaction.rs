//! Whether a transaction is open on a connection after a command. What follows from it is `track.rs` and `aside.rs`.

use narrows_sql::{Effect, Kind, effect_on_transaction};
use narrows_wire::{Command, Status};

use super::Session;
use super::query::Job;
use super::relay::Outcome;
use super::track::{PinReason, Pins};
use crate::rt::Instant;

impl Session {
    /// Takes note of whether a transaction is open after a command, where `before` says what was before.
    pub(super) fn note_transaction(
        &mut self,
        pins: &mut Pins,
        (job, text): (&Job, &[u8]),
        outcome: &Outcome,
        before: Status,
    ) {
        let was_open = pins.reasons.intersects(PinReason::TRANSACTION);
        let in_transaction = match outcome.status {
            Some(status) if status.contains(Status::IN_TRANS) => true,
            Some(status) if status.contains(Status::AUTOCOMMIT) => false,
            _ if job.orders.apart => false,
            // With autocommit off the flag does not tell of all that lasts until a transaction ends.
            Some(_) => match effect_of(job, text) {
                Effect::Opens => true,
                Effect::Ends => was_open && outcome.error.is_some(),
                Effect::Keeps => was_open,
            },
            // An ERR packet has no flags: a transaction may have ended, or begun where autocommit is off.
            None if outcome.error.is_some() => self.may_be_in_transaction((job, text), was_open),
            None => was_open,
        };
        if in_transaction {
            pins.reasons.add(PinReason::TRANSACTION);
            self.transaction_since.get_or_insert_with(Instant::now);
        } else {
            // Where an error left it open whether there is one, none may have been.
            if before.contains(Status::IN_TRANS) {
                let of_one_transaction = pins.reasons.intersects(PinReason::NEXT_TRANSACTION)
                    || before.contains(Status::IN_TRANS_READONLY)
                    || self.state.literal("transaction_read_only").is_some();
                pins.reasons = pins.reasons.without(PinReason::NEXT_TRANSACTION);
                // `SET autocommit = 1` commits, but what was for this transaction alone is then for the next one.
                if job.statement.kind == Kind::Set && of_one_transaction {
                    pins.reasons.add(PinReason::NEXT_TRANSACTION);
                }
            }
            pins.reasons = pins.reasons.without(PinReason::TRANSACTION);
            self.transaction_since = None;
        }
    }

    fn may_be_in_transaction(&self, (job, text): (&Job, &[u8]), was_open: bool) -> bool {
        if job.command == Command::StmtPrepare {
            return was_open;
        }
        let plain = matches!(
            job.statement.kind,
            Kind::Select
                | Kind::Insert
                | Kind::Replace
                | Kind::Update
                | Kind::Delete
                | Kind::Show
                | Kind::Set
                | Kind::Use
                | Kind::Explain
        );
        let opens = || was_open || effect_of(job, text) == Effect::Opens;
        self.status.contains(Status::IN_TRANS)
            || !plain
            || !self.status.contains(Status::AUTOCOMMIT) && opens()
    }
}

/// What a command does to the transaction, where autocommit is off.
fn effect_of(job: &Job, text: &[u8]) -> Effect {
    match job.command {
        Command::Query if !job.whole => Effect::Opens,
        Command::Query | Command::StmtExecute | Command::StmtBulkExecute => {
            effect_on_transaction(text, job.statement)
        }
        _ => Effect::Keeps,
    }
}

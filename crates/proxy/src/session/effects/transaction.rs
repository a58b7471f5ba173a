//! Whether a transaction is open on a connection after a command.

use narrows_sql::{Effect, Flags, Kind, effect_on_transaction};
use narrows_wire::{Command, Status};

use super::changes::View;
use super::{Done, PinReason, Pins, ServerReport, nothing_ran};
use crate::backend::Coverage;

/// Sets or removes the pin of a transaction after a command; `before` has the status before it.
pub(super) fn settle(
    pins: &mut Pins,
    done: &Done<'_>,
    report: &ServerReport<'_>,
    before: Status,
    view: &View<'_, '_, '_>,
) {
    if is_open(done, report, before, pins.reasons().intersects(PinReason::TRANSACTION)) {
        return pins.add(PinReason::TRANSACTION);
    }
    // Otherwise the transaction was only assumed, after an error.
    if before.contains(Status::IN_TRANS) {
        let of_one_transaction = pins.reasons().intersects(PinReason::NEXT_TRANSACTION)
            || before.contains(Status::IN_TRANS_READONLY)
            || view.has("transaction_read_only");
        pins.keep_none_of(PinReason::NEXT_TRANSACTION);
        // `SET autocommit = 1` commits, but what was set for this transaction only then applies to the next one.
        if done.statement.kind == Kind::Set && of_one_transaction {
            pins.add(PinReason::NEXT_TRANSACTION);
        }
    }
    pins.keep_none_of(PinReason::TRANSACTION);
}

/// Takes over what the server reports of the next transaction. It knows of what was set while it was asked for that, and
/// tells at once when a transaction takes it.
pub(super) fn note_characteristics(
    pins: &mut Pins,
    done: &Done<'_>,
    report: &ServerReport<'_>,
    coverage: Coverage,
) {
    let is_open = report.status.is_some_and(|status| status.contains(Status::IN_TRANS));
    match report.characteristics {
        Some(b"") => {
            // Right after the client has asked for it itself, the report is of what has been set since. A `SET` that ends a
            // transaction leaves what was set for that one.
            let is_proof = coverage == Coverage::All
                && report.error.is_none()
                && !matches!(done.statement.kind, Kind::Set | Kind::SetStatement);
            if is_proof {
                pins.keep_none_of(PinReason::NEXT_TRANSACTION);
            }
        }
        Some(_) if !is_open => pins.add(PinReason::NEXT_TRANSACTION),
        Some(_) | None => {}
    }
}

fn is_open(done: &Done<'_>, report: &ServerReport<'_>, before: Status, was_open: bool) -> bool {
    match report.status {
        Some(status) if status.contains(Status::IN_TRANS) => true,
        Some(status) if status.contains(Status::AUTOCOMMIT) => false,
        _ if done.apart => false,
        // With autocommit off, the flag does not show everything that lasts until the end of a transaction.
        Some(_) => match effect_of(done) {
            Effect::Opens => true,
            Effect::Ends => was_open && report.error.is_some(),
            Effect::Keeps => was_open,
        },
        // An ERR packet has no flags: a transaction may have ended, or begun if autocommit is off.
        None => match report.error {
            Some(_) => may_be_open(done, report.error, before, was_open),
            None => was_open,
        },
    }
}

fn may_be_open(done: &Done<'_>, error: Option<u16>, before: Status, was_open: bool) -> bool {
    if done.command == Command::StmtPrepare {
        return was_open;
    }
    if before.contains(Status::IN_TRANS) {
        return true;
    }
    let statement = &done.statement;
    if before.contains(Status::AUTOCOMMIT) {
        // One that was assumed after an error is not disproved by another error.
        let is_one = done.whole && !done.statement.flags.contains(Flags::MULTI);
        let begins_none = || {
            matches!(done.command, Command::InitDb | Command::FieldList)
                || statement.reads_or_writes()
                || statement.begins_no_transaction(done.text)
                || nothing_ran(statement.kind, done.text, error)
        };
        return was_open || !(is_one && begins_none());
    }
    // Its locks on metadata may stay.
    !statement.reads_or_writes() || was_open || effect_of(done) == Effect::Opens
}

/// The effect of a command on the transaction, if autocommit is off.
fn effect_of(done: &Done<'_>) -> Effect {
    match done.command {
        Command::Query if !done.whole => Effect::Opens,
        Command::Query | Command::StmtExecute | Command::StmtBulkExecute => {
            effect_on_transaction(done.text, done.statement)
        }
        _ => Effect::Keeps,
    }
}

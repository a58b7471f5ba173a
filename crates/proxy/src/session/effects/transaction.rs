//! Whether a transaction is open on a connection after a command.

use narrows_sql::{Effect, Kind, effect_on_transaction};
use narrows_wire::{Command, Status};

use super::changes::View;
use super::{Done, PinReason, Pins, ServerReport};

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
        None if report.error.is_some() => may_be_open(done, before, was_open),
        None => was_open,
    }
}

fn may_be_open(done: &Done<'_>, before: Status, was_open: bool) -> bool {
    if done.command == Command::StmtPrepare {
        return was_open;
    }
    let plain = matches!(
        done.statement.kind,
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
    let opens = || was_open || effect_of(done) == Effect::Opens;
    before.contains(Status::IN_TRANS) || !plain || !before.contains(Status::AUTOCOMMIT) && opens()
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

//! Whether a transaction is open on a connection after a command.

use narrows_sql::{Effect, Flags, Kind, effect_on_transaction};
use narrows_wire::{Command, Status};

use super::changes::View;
use super::{Done, PinReason, Pins, ServerReport, nothing_ran};

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
    let kind = done.statement.kind;
    if before.contains(Status::AUTOCOMMIT) {
        // One that was assumed after an error is not disproved by another error.
        let is_one = done.whole && !done.statement.flags.contains(Flags::MULTI);
        let begins_none = || {
            reads_or_writes(kind) || begins_none(done.command, kind) || nothing_ran(kind, done.text, error)
        };
        return was_open || !(is_one && begins_none());
    }
    // Its locks on metadata may stay.
    !reads_or_writes(kind) || was_open || effect_of(done) == Effect::Opens
}

fn reads_or_writes(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Select
            | Kind::Insert
            | Kind::Replace
            | Kind::Update
            | Kind::Delete
            | Kind::Show
            | Kind::Set
            | Kind::Use
            | Kind::Explain
    )
}

/// Whether a command begins no transaction while autocommit is on, even if it fails.
fn begins_none(command: Command, kind: Kind) -> bool {
    matches!(command, Command::InitDb | Command::FieldList)
        || matches!(
            kind,
            Kind::Do
                | Kind::Create
                | Kind::CreateTemporaryTable
                | Kind::Alter
                | Kind::Drop
                | Kind::DropTable
                | Kind::DropTemporaryTable
                | Kind::Truncate
                | Kind::Rename
                | Kind::Grant
                | Kind::LockTables
                | Kind::Prepare
                | Kind::Deallocate
                | Kind::Signal
                | Kind::GetDiagnostics
                | Kind::ReleaseSavepoint
                | Kind::RollbackToSavepoint
                | Kind::Empty
        )
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

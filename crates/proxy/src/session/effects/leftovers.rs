//! What a client has left on its connection and servers do not report: locks, temporary tables, prepared texts.
//!
//! A pin ends when an answer proves that its cause is gone. A statement that should have removed it is no proof: it may not
//! have run, or may have affected something else. If there is no proof, the pin stays for the rest of the session. A
//! connection that ever had such a pin is reset before another client uses it ([`Pins::exit_if_free`]), so that a wrong
//! conclusion costs its own client a lock, but shows no other client a table.

use narrows_sql::{Escapes, Flags, Kind, LockCall, Statement, may_call, may_rename, word_at};
use narrows_wire::Command;

use super::names::Named;
use super::{Done, PinReason, Pins, Reported, ServerReport};

/// A statement that has run.
pub(super) struct Read<'t> {
    pub(super) text: &'t [u8],
    pub(super) statement: Statement,
    /// The schema of names without one.
    pub(super) schema: Option<&'t [u8]>,
    pub(super) ran: Ran,
}

/// How often a statement has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// Once, and its answer has this many rows; `None`: it is an OK packet.
    Once(Option<u64>),
    /// At most once, and it failed.
    Failed,
    /// Unknown: it is one of several in a text, or ran for each row of a bulk execution, or has not run yet.
    Unknown,
}

impl Ran {
    pub(super) fn of(done: &Done<'_>, report: &ServerReport<'_>) -> Ran {
        // Whether a server executes an executable comment depends on its version.
        const UNSURE: Flags = Flags::EXECUTABLE_COMMENT.union(Flags::UNTERMINATED);
        match report.error {
            _ if matches!(report.reported, Reported::Whatever) => Ran::Unknown,
            _ if done.command == Command::StmtBulkExecute => Ran::Unknown,
            _ if done.statement.flags.intersects(UNSURE) => Ran::Unknown,
            None => Ran::Once(report.rows),
            Some(_) => Ran::Failed,
        }
    }
}

impl Pins {
    /// Reads the flags of a statement, whether it succeeded or not, because functions may have run before an error.
    pub(super) fn note_flags(&mut self, read: &Read<'_>, in_several: bool) {
        let flags = read.statement.flags;
        let assigns = Flags::ASSIGNS_USER_VARIABLE | Flags::INTO_VARIABLE;
        let set = matches!(read.statement.kind, Kind::Set | Kind::SetTransaction);
        if flags.intersects(assigns) && (in_several || !set) {
            self.add(PinReason::USER_VARIABLE);
        }
        // The kinds of statements that run others are looked at once it is known whether they have run.
        let is_opaque = match read.statement.runs_others() {
            true => {
                may_call(read.text, &read.statement) || read.statement.flags.intersects(Flags::UNKNOWN_HINT)
            }
            false => !read.statement.is_certain(read.text),
        };
        if is_opaque {
            self.add(PinReason::ROUTINE);
        }
        const LOCKS: Flags = Flags::GET_LOCK.union(Flags::RELEASE_LOCK).union(Flags::RELEASE_ALL_LOCKS);
        if flags.intersects(LOCKS) {
            self.note_user_locks(read);
        }
    }

    /// Locks of `GET_LOCK()`: each call may have taken one, and each release that is proven to have run has released one.
    fn note_user_locks(&mut self, read: &Read<'_>) {
        let calls = narrows_sql::lock_calls(read.text).filter(|_| read.ran != Ran::Unknown);
        let calls = calls.as_deref();
        let locks = &mut self.left().user_locks;
        if read.statement.flags.intersects(Flags::GET_LOCK) {
            // The order of the calls is undefined, so none of this statement counts as a release.
            let name =
                |call: &LockCall| if let LockCall::Get(name) = call { Some(name.clone()) } else { None };
            match calls {
                Some(calls) => calls.iter().filter_map(name).for_each(|name| locks.add(Some(name))),
                None => locks.add(None),
            }
        } else if matches!(read.ran, Ran::Once(None | Some(1))) {
            for call in calls.unwrap_or_default() {
                match call {
                    LockCall::Release(name) => locks.remove(name),
                    LockCall::ReleaseAll => *locks = Named::default(),
                    LockCall::Get(_) => {}
                }
            }
        }
        let is_held = !locks.is_empty();
        self.hold_while(is_held, PinReason::USER_LOCK);
    }

    /// Reads the kind of a statement that succeeded, or that runs others.
    pub(super) fn note_kind(&mut self, read: &Read<'_>) {
        let is_proven = matches!(read.ran, Ran::Once(_));
        match read.statement.kind {
            Kind::LockTables | Kind::FlushTablesWithReadLock => self.left().tables_are_locked = true,
            Kind::LockInstance if *word_at(read.text, 0) == *b"LOCK" => self.left().instance_is_locked = true,
            Kind::LockInstance => self.left().backup_is_locked = true,
            Kind::UnlockTables if is_proven => self.left().tables_are_locked = false,
            Kind::UnlockInstance if is_proven && *word_at(read.text, 0) == *b"UNLOCK" => {
                self.left().instance_is_locked = false;
            }
            Kind::CreateTemporaryTable => {
                let name = narrows_sql::created_temporary_table(read.text, read.schema);
                let name = name.filter(|_| read.ran != Ran::Unknown);
                let tables = &mut self.left().temporary_tables;
                if !name.as_ref().is_some_and(|name| tables.names.contains(name)) {
                    tables.add(name);
                }
            }
            Kind::DropTemporaryTable | Kind::DropTable if is_proven => {
                let dropped = narrows_sql::dropped_tables(read.text, read.schema);
                let tables = &mut self.left().temporary_tables;
                dropped.iter().flatten().for_each(|name| tables.remove(name));
            }
            // A temporary table may have a different name now.
            Kind::Rename => self.note_renamed(),
            Kind::Alter if may_rename(read.text) => self.note_renamed(),
            Kind::Prepare => self.add(PinReason::TEXT_STATEMENT),
            Kind::Handler => self.add(PinReason::HANDLER),
            Kind::Xa => self.note_xa(read.text, is_proven),
            Kind::SetStatement => self.note_set_statement(read),
            // The statements that it executes may have set anything.
            Kind::Call | Kind::Execute | Kind::Other => self.add(PinReason::ROUTINE),
            _ => return,
        }
        let left = self.left();
        let is_locked = left.tables_are_locked || left.instance_is_locked || left.backup_is_locked;
        let has_tables = !left.temporary_tables.is_empty();
        self.hold_while(is_locked, PinReason::LOCK_TABLES);
        self.hold_while(has_tables, PinReason::TEMPORARY_TABLE);
    }

    fn note_renamed(&mut self) {
        let tables = &mut self.left().temporary_tables;
        tables.others |= !tables.is_empty();
    }

    fn note_xa(&mut self, text: &[u8], is_proven: bool) {
        match &*word_at(text, 1) {
            b"COMMIT" | b"ROLLBACK" if is_proven => self.hold_while(false, PinReason::XA),
            b"RECOVER" => {}
            _ => self.add(PinReason::XA),
        }
    }

    /// `SET STATEMENT .. FOR`, whose statement never proves that anything is gone.
    fn note_set_statement(&mut self, read: &Read<'_>) {
        let Some(inner) = narrows_sql::set::for_one_statement(read.text, Escapes::Backslash) else {
            return self.add(PinReason::ROUTINE);
        };
        if !inner.is_undone() {
            self.add(PinReason::UNKNOWN_SET);
        }
        let (text, statement) = (inner.text, inner.statement);
        match statement.kind {
            Kind::Set | Kind::SetTransaction => self.add(PinReason::UNKNOWN_SET),
            _ => self.note_kind(&Read { text, statement, ran: Ran::Unknown, ..*read }),
        }
    }

    fn hold_while(&mut self, holds: bool, reason: PinReason) {
        self.keep_none_of(reason);
        if holds {
            self.add(reason);
        }
    }
}

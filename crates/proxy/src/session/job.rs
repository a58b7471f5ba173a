//! A command for a server: what it is, where it goes, and how it runs there.

use std::rc::Rc;

use narrows_sql::Statement;
use narrows_wire::Command;
use narrows_wire::execute::Parameters;
use narrows_wire::response::Expect;

use super::causal::must_see::MustSee;
use super::outcome::{Answering, HoldBack, may_load_a_file};
use super::request::Request;
use super::statements::ClientStatement;
use crate::route::{Digest, Options};
use crate::rows::HostgroupId;

/// A command and where it goes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) statement: Statement,
    /// Its digest, if digests are counted.
    pub(super) digest: Option<Digest>,
    /// Where it is to run. A client that keeps a connection has it run there, whatever this says. ARCHITECTURE.md has a table of
    /// which hostgroup is shown where.
    pub(super) hostgroup: HostgroupId,
    pub(super) options: Options,
    /// The writes that it must see.
    pub(super) sees: Option<Box<MustSee>>,
    /// It runs outside of the session's transaction.
    pub(super) apart: bool,
    /// Errors after which it runs again.
    pub(super) hold_back: HoldBack,
    pub(super) expect: Expect,
    /// Whether all of its text was read.
    pub(super) whole: bool,
    /// Bytes of query attributes before the text.
    pub(super) attributes: usize,
    /// The prepared statement that the command is about.
    pub(super) prepared: Option<Rc<ClientStatement>>,
    /// Where its parameters are in the argument, if the command executes it.
    pub(super) parameters: Option<Parameters>,
}

impl Job {
    /// A command for the account's default hostgroup that is answered with a result.
    pub(super) fn new(command: Command, statement: Statement, whole: bool) -> Job {
        Job {
            command,
            statement,
            digest: None,
            hostgroup: NOWHERE,
            options: Options::default(),
            sees: None,
            apart: false,
            hold_back: HoldBack::default(),
            expect: Expect::Result,
            whole,
            attributes: 0,
            prepared: None,
            parameters: None,
        }
    }

    /// The properties of its answer, unless it is about a prepared statement.
    pub(super) fn answering(&self) -> Answering {
        let Job { expect, statement: of, hold_back, apart, .. } = *self;
        Answering {
            expect,
            of,
            statement: 0,
            hold_back,
            apart,
            columns_told: 0,
            file: may_load_a_file(&of),
            throttle: 0,
        }
    }

    /// The text of its statement, as far as it is held.
    #[inline]
    pub(super) fn text<'t>(&'t self, request: &'t Request) -> &'t [u8] {
        match &self.prepared {
            Some(statement) => &statement.prepared.text,
            None => request.argument_after(self.attributes),
        }
    }
}

/// The hostgroup that is shown for a statement that goes to no server.
pub(super) const NOWHERE: HostgroupId = HostgroupId(-1);

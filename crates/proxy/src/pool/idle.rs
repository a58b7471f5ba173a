//! Idle connections of one hostgroup on one worker, and how near each is to what is asked.

use std::sync::Arc;

use narrows_wire::charset::Family;

use super::{Ask, Group};
use crate::backend::{Backend, Use};
use crate::hostgroup::{Hostgroup, Server};
use crate::rt::Instant;
use crate::snapshot::Snapshot;

impl Group {
    pub(super) fn has_idle(&self, server: &Server) -> bool {
        let of_server = |backend: &Backend| std::ptr::eq(&*backend.login.server.figures, &*server.figures);
        self.idle.borrow().iter().rev().any(of_server)
    }

    /// The idle connection that was used last in that lease, and by nobody since.
    pub(super) fn take_untouched(&self, last: Use) -> Option<Backend> {
        self.take_untouched_if(last, |_| true)
    }

    /// The same, if its server is one of these.
    pub(super) fn take_untouched_if(&self, last: Use, of: impl Fn(&Server) -> bool) -> Option<Backend> {
        let mut idle = self.idle.borrow_mut();
        let index = idle.iter().position(|backend| backend.login.last_use() == last)?;
        idle.get(index).filter(|backend| of(&backend.login.server))?;
        Some(idle.remove(index)).filter(Backend::is_alive)
    }

    /// The idle connection of `server` with the lowest [`fitness`], and that fitness; among equals one that has the
    /// statement, and else the one used last.
    pub(super) fn take_idle(&self, server: &Server, ask: &Ask<'_>) -> Option<(Backend, u32)> {
        let lacks = |backend: &Backend| ask.statement.is_some_and(|it| !backend.login.statements.has(it));
        let mut idle = self.idle.borrow_mut();
        let mut best: Option<(usize, (u32, bool))> = None;
        let mut near = 0;
        for (index, backend) in idle.iter().enumerate().rev() {
            if !std::ptr::eq(&*backend.login.server.figures, &*server.figures) {
                continue;
            }
            let rank = (fitness(backend, ask), lacks(backend));
            if best.is_none_or(|(_, least)| rank < least) {
                best = Some((index, rank));
            }
            near += u32::from(rank.0 == 0);
            if rank == (0, false) || near == LOOKED_AT {
                break;
            }
        }
        best.map(|(index, (fitness, _))| (idle.remove(index), fitness))
    }
}

/// The server of a connection, as a configuration has it.
fn server_of<'s>(backend: &Backend, snapshot: &'s Snapshot) -> Option<(&'s Hostgroup, &'s Arc<Server>)> {
    let known = &backend.login.server;
    let hostgroup = snapshot.hostgroups.get(&known.row.hostgroup)?;
    let server = hostgroup.servers.iter().find(|server| Arc::ptr_eq(&server.figures, &known.figures))?;
    Some((hostgroup, server))
}

/// Whether the server of a connection is still one of its hostgroup, by a configuration.
pub fn is_of_its_hostgroup(backend: &Backend, snapshot: &Snapshot) -> bool {
    server_of(backend, snapshot).is_some()
}

/// Whether a connection leads to a machine that its server's name no longer stands for, or its server has more connections
/// than it may have.
fn must_go(backend: &Backend, server: &Server) -> bool {
    backend.login.is_elsewhere(server) || server.has_too_many()
}

/// The server of a connection that may stay open for its next client: the server may be chosen, and the connection is not
/// too old.
pub(super) fn home<'s>(
    backend: &Backend,
    snapshot: &'s Snapshot,
    now: Instant,
) -> Option<(&'s Hostgroup, &'s Arc<Server>)> {
    let age = snapshot.variables.connection_max_age;
    let is_too_old = !age.is_zero() && now.duration_since(backend.login.created) > age;
    server_of(backend, snapshot)
        .filter(|(_, server)| server.is_eligible() && !is_too_old && !must_go(backend, server))
}

/// Whether an idle connection stays open when another configuration is put in force. One whose server may not be chosen does,
/// for the next check of idle connections: a server often comes back in the next configuration.
pub(super) fn stays(backend: &Backend, snapshot: &Snapshot) -> bool {
    server_of(backend, snapshot).is_none_or(|(_, server)| !must_go(backend, server))
}

/// How much must be done to an idle connection: 0 nothing, 1 a `SET`, 2 also a change of schema, [`NEW_LOGIN`], or, beyond,
/// close it and open another in its place.
pub(super) fn fitness(backend: &Backend, ask: &Ask<'_>) -> u32 {
    let Ask { want, state, new, .. } = *ask;
    if new || !backend.fits_class(want) {
        return NEW_LOGIN + 1;
    }
    if !backend.fits_account(want) {
        // MariaDB keeps the role of the account before over COM_CHANGE_USER.
        return if backend.login.family == Family::MySql { NEW_LOGIN } else { NEW_LOGIN + 1 };
    }
    if Arc::ptr_eq(&backend.login.state, state) {
        return 0;
    }
    match (&backend.login.state.schema, &state.schema) {
        (found, wanted) if found == wanted => u32::from(backend.login.state != *state),
        (Some(_), None) => NEW_LOGIN,
        _ => 2,
    }
}

/// The [`fitness`] of a connection that needs `COM_CHANGE_USER`: another account's, or one whose schema must go.
pub(super) const NEW_LOGIN: u32 = 3;

/// Idle connections in the client's state among which one that has its statement is looked for: to prepare it once more
/// costs less than looking at all of hundreds.
const LOOKED_AT: u32 = 32;

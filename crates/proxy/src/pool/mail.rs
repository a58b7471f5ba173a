//! Messages between the workers' pools.

use std::rc::Rc;
use std::sync::Arc;

use super::Pool;
use crate::backend::{DetachedBackend, DiagnosticsReceiver, Use};
use crate::hostgroup::{Demand, LagFilter, Server, ServerFigures};
use crate::rows::HostgroupId;

/// A message of one worker's pool to another's. As many wait in a mailbox at most as each kind says.
#[derive(Debug)]
pub enum Mail {
    /// Another worker has waiters of a hostgroup; lend it an idle connection. One of each worker and hostgroup
    /// ([`Demand::may_ask`](crate::hostgroup::Demand::may_ask)).
    Borrow {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// The worker that asks.
        to: usize,
        /// How far behind its server may be.
        lag: Option<LagFilter>,
    },
    /// A connection that was requested, or is needed more here. As many as servers have `max_connections`: each has its
    /// slot.
    Backend(Lent),
    /// A waiter of the hostgroup should look again. One of each hostgroup
    /// ([`Demand::poke_oldest`](crate::hostgroup::Demand::poke_oldest)).
    Poke(HostgroupId),
    /// A client waits for what a connection keeps for it; if that is idle, fetch it. One of each connection that keeps
    /// something ([`DiagnosticsReceiver::ask`]).
    Fetch {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// Its last use, which was the client's.
        last_use: Use,
    },
    /// The server has too many prepared statements; idle connections to it close theirs. One of each server
    /// ([`ServerFigures::may_ask_to_close`]).
    CloseStatements(Arc<ServerFigures>),
    /// An account has all the connections that a server allows it: idle ones are closed. One of each search that rests after it
    /// was refused.
    CloseIdleOf {
        /// The server.
        server: Arc<Server>,
        /// The account.
        username: Box<str>,
    },
}

/// A connection on its way to another worker. Only a pool lends one.
#[derive(Debug)]
pub struct Lent(pub(super) Box<DetachedBackend>);

impl Pool {
    /// Has a connection asked for what it keeps for a client of this worker, as soon as it is idle wherever it is. A connection
    /// that is leased meanwhile leaves it by itself.
    pub fn ask_for(&self, receiver: &DiagnosticsReceiver, hostgroup: HostgroupId, last_use: Use) {
        if let Some(worker) = receiver.ask(self.worker) {
            self.outbox.send(worker, Mail::Fetch { hostgroup, last_use });
        }
    }

    /// Makes idle connections to a server, on any of the workers, close their statements.
    pub fn close_statements_of(&self, figures: &Arc<ServerFigures>, workers: usize) {
        for worker in (0..workers).filter(|worker| figures.may_ask_to_close(*worker)) {
            self.outbox.send(worker, Mail::CloseStatements(Arc::clone(figures)));
        }
    }

    /// Closes the idle connections of an account to a server, on all workers that have idle ones of the hostgroup.
    pub(super) fn close_idle_of(&self, demand: &Demand, server: &Arc<Server>, username: &str) {
        self.close_own_idle_of(server, username);
        for worker in demand.all_idle_elsewhere(self.worker) {
            let username = username.into();
            self.outbox.send(worker, Mail::CloseIdleOf { server: Arc::clone(server), username });
        }
    }

    /// Another worker's pool, or a connection that was closed there, has sent a message.
    pub fn receive(self: &Rc<Pool>, mail: Mail) {
        match mail {
            Mail::Borrow { hostgroup, to, lag } => self.lend_idle(hostgroup, to, lag),
            Mail::Backend(lent) => self.take_in(lent),
            Mail::Poke(hostgroup) => self.poke(hostgroup),
            Mail::Fetch { hostgroup, last_use } => self.fetch(hostgroup, last_use),
            Mail::CloseStatements(figures) => {
                figures.hears_closing(self.worker);
                self.close_statements(figures);
            }
            Mail::CloseIdleOf { server, username } => self.close_own_idle_of(&server, &username),
        }
    }
}

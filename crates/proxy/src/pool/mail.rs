//! What the pools of the workers tell each other.

use std::rc::Rc;
use std::sync::Arc;

use super::Pool;
use crate::backend::{DetachedBackend, Use};
use crate::hostgroup::ServerFigures;
use crate::rows::HostgroupId;

/// A message of one worker's pool to another's.
#[derive(Debug)]
pub enum Mail {
    /// Another worker has waiters of a hostgroup; lend it an idle connection.
    Borrow {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// The worker that asks.
        to: usize,
    },
    /// A connection that was asked for, or is wanted more here.
    Backend(Lent),
    /// A waiter of the hostgroup should look again.
    Poke(HostgroupId),
    /// A client waits for what a connection keeps for it; where that is idle, it is to be asked.
    Fetch {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// Its last use, which was the client's.
        last_use: Use,
    },
    /// The server has too many prepared statements; idle connections to it close theirs.
    CloseStatements(Arc<ServerFigures>),
}

/// A connection on its way to another worker. Only a pool lends one.
#[derive(Debug)]
pub struct Lent(pub(super) Box<DetachedBackend>);

impl Pool {
    /// Has a connection that is idle on any of the workers asked for what it keeps.
    pub fn fetch_anywhere(&self, workers: usize, hostgroup: HostgroupId, last_use: Use) {
        (0..workers).for_each(|worker| self.outbox.send(worker, Mail::Fetch { hostgroup, last_use }));
    }

    /// Has idle connections to a server, on any of the workers, close their statements.
    pub fn close_statements_of(&self, figures: &Arc<ServerFigures>, workers: usize) {
        (0..workers).for_each(|worker| self.outbox.send(worker, Mail::CloseStatements(Arc::clone(figures))));
    }

    /// Another worker's pool, or a connection that was closed there, has something to say.
    pub fn receive(self: &Rc<Pool>, mail: Mail) {
        match mail {
            Mail::Borrow { hostgroup, to } => self.lend_idle(hostgroup, to),
            Mail::Backend(lent) => self.take_in(lent),
            Mail::Poke(hostgroup) => self.poke(hostgroup),
            Mail::Fetch { hostgroup, last_use } => self.fetch(hostgroup, last_use),
            Mail::CloseStatements(figures) => self.close_statements(figures),
        }
    }
}

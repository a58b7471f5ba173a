//! A backend connection outside the pool: how it is handed out, and the only way to return it.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

use super::idle::{NEW_LOGIN, home};
use super::{Ask, Attempt, Exit, LeaseError, Pool, count};
use crate::backend::{Backend, Want};
use crate::rows::HostgroupId;
use crate::rt::{Instant, spawn_local};
use crate::snapshot::Snapshot;

/// A backend connection that the pool has handed out.
///
/// Only the pool makes one, and it ends in one of two ways: [`Lease::settle`] returns the connection, after doing what
/// is necessary; dropping the lease closes the connection. Forgetting to settle costs a connection, but never passes on
/// a dirty one.
///
/// ```
/// # use std::rc::Rc;
/// # use narrows_proxy::{backend::Want, pool::{Exit, Lease, Pool}, rt::Instant};
/// fn give_back(lease: Lease, pool: &Rc<Pool>, want: &Want) {
///     lease.settle(Exit::Reset, pool, want, Instant::now());
/// }
/// ```
///
/// The pool takes nothing back from anybody else:
///
/// ```compile_fail,E0624
/// # use narrows_proxy::{backend::Backend, pool::Pool, rt::Instant, snapshot::Snapshot};
/// fn give_back(backend: Backend, pool: &Pool, snapshot: &Snapshot) {
///     pool.release(snapshot, backend, Instant::now());
/// }
/// ```
///
/// nor from another worker anything that its pool has not lent:
///
/// ```compile_fail,E0423
/// # use std::rc::Rc;
/// # use narrows_proxy::{backend::Backend, pool::{Lent, Mail, Pool}};
/// fn give_back(backend: Backend, pool: &Rc<Pool>) {
///     pool.receive(Mail::Backend(Lent(Box::new(backend.detach().unwrap()))));
/// }
/// ```
///
/// Owning a connection does not make a lease,
///
/// ```compile_fail,E0451
/// # use narrows_proxy::{backend::Backend, pool::Lease};
/// fn lease(backend: Backend) -> Lease {
///     Lease { backend }
/// }
/// ```
///
/// no connection leaves its lease,
///
/// ```compile_fail,E0507
/// # use narrows_proxy::{backend::Backend, pool::Lease};
/// fn keep(lease: Lease) -> Backend {
///     *lease
/// }
/// ```
///
/// and a returned connection cannot be used any more.
///
/// ```compile_fail,E0382
/// # use std::rc::Rc;
/// # use narrows_proxy::{backend::Want, pool::{Exit, Lease, Pool}, rt::Instant};
/// fn give_back(lease: Lease, pool: &Rc<Pool>, want: &Want) {
///     lease.settle(Exit::Return, pool, want, Instant::now());
///     assert!(lease.is_alive());
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping a lease closes the connection"]
pub struct Lease {
    backend: Backend,
    /// The serial number of the connection that was handed out.
    serial: u64,
}

/// A lease that takes time: what was found at once, if anything. Pass it to [`Pool::lease_later`].
#[must_use = "it may hold a connection, or a slot for one"]
pub struct Later(Option<Attempt>);

impl Later {
    /// Whether no server of the hostgroup can be used at the moment.
    pub fn has_no_server(&self) -> bool {
        matches!(self.0, None | Some(Attempt::NoServer))
    }
}

impl Pool {
    /// A connection of `hostgroup` that fits what is asked, its state as near as can be had.
    ///
    /// # Errors
    /// See [`LeaseError`]. Nothing takes longer than `max_waiting_ms` of the hostgroup, or `connect_timeout_server_max`.
    pub async fn lease(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        ask: Ask<'_>,
    ) -> Result<Lease, LeaseError> {
        match self.lease_at_once(snapshot, hostgroup, &ask) {
            Ok(lease) => Ok(lease),
            Err(later) => self.lease_later(snapshot, hostgroup, ask, later).await,
        }
    }

    /// The same, if it is idle and nobody waits before this one.
    ///
    /// # Errors
    /// If it takes longer.
    pub fn lease_at_once(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        ask: &Ask<'_>,
    ) -> Result<Lease, Later> {
        count(&self.figures.asked);
        if ask.lag.is_some() {
            count(&self.figures.with_lag);
        }
        let Some(known) = snapshot.hostgroups.get(&hostgroup) else { return Err(Later(None)) };
        let group = self.group(&known.demand);
        let must_wait = group.waiters.is_anyone_next() || self.held_until(hostgroup).is_some();
        let first = if must_wait { Attempt::Busy } else { self.attempt(&group, known, ask) };
        match first {
            Attempt::Idle(mut backend, fitness) if fitness < NEW_LOGIN => {
                count(&self.figures.immediate);
                if backend.in_use.is_none() {
                    backend.in_use = Some(group.use_of(&backend.login.server, ask.now));
                }
                Ok(self.hand_out(backend))
            }
            first => Err(Later(Some(first))),
        }
    }

    /// The rest of a lease that takes time.
    ///
    /// # Errors
    /// As for [`Pool::lease`].
    pub async fn lease_later(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        ask: Ask<'_>,
        Later(first): Later,
    ) -> Result<Lease, LeaseError> {
        let found = Box::pin(self.search(snapshot, hostgroup, ask, first)).await;
        if let Err(error) = &found {
            count(&self.figures.failed);
            if matches!(error, LeaseError::Unavailable(_)) {
                count(&self.figures.timeouts);
            }
        }
        found.map(|backend| self.hand_out(backend))
    }

    fn hand_out(&self, mut backend: Backend) -> Lease {
        count(&self.figures.given);
        backend.login.count_lease();
        Lease::new(backend)
    }

    /// Takes a connection back: for the waiter that waits longest, or for later. It must be idle and in a state
    /// that is known. `now` was read not long ago.
    pub(super) fn release(&self, snapshot: &Snapshot, mut backend: Backend, now: Instant) {
        if backend.in_use.take().is_some() {
            count(&self.figures.returned);
        }
        backend.login.last_used = now;
        let Some((hostgroup, server)) = home(&backend, snapshot, now) else { return self.let_go(backend) };
        if !Arc::ptr_eq(&backend.login.server, server) {
            backend.login.server = Arc::clone(server);
        }
        let group = self.group(&hostgroup.demand);
        if let Some((worker, _)) = group.demand.oldest_waiter()
            && worker != self.worker
        {
            return self.lend(worker, backend);
        }
        self.put_idle(&group, backend);
        group.waiters.poke();
    }
}

impl Lease {
    pub(super) fn new(backend: Backend) -> Lease {
        Lease { serial: backend.login.serial(), backend }
    }

    /// Returns the connection for its next user, after applying `exit`; if that fails, it is closed. It was leased for
    /// `want`, and `now` was read recently. A connection that was put in the place of the one handed out is closed.
    pub fn settle(mut self, exit: Exit, pool: &Rc<Pool>, want: &Want, now: Instant) {
        if self.backend.login.serial() != self.serial {
            return;
        }
        self.backend.login.sequences_are_own = false;
        self.backend.login.is_in_xa = false;
        self.backend.login.mark_leftovers();
        self.backend.login.is_for_anybody();
        match exit {
            Exit::Return => pool.release(&pool.in_force.get(), self.backend, now),
            Exit::Close => drop(self),
            Exit::UndoTimeouts | Exit::Reset | Exit::ChangeUser => {
                let (pool, want) = (Rc::clone(pool), want.clone());
                spawn_local(async move { pool.clean(self.backend, exit, &want).await });
            }
        }
    }
}

impl Deref for Lease {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        &self.backend
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Backend {
        &mut self.backend
    }
}

//! A backend connection outside the pool, and the only way to return it.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::{Exit, Pool};
use crate::backend::{Backend, Want};
use crate::rt::{Instant, spawn_local};

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

//! A backend connection that is out of the pool, and the one way back.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::{Exit, Pool};
use crate::backend::{Backend, Want};
use crate::rt::{Instant, spawn_local};

/// A backend connection that the pool has given out.
///
/// Only the pool makes one, and it ends in one of two ways: [`Lease::settle`] gives the connection back, with what must be done
/// to it before; dropping the lease closes the connection. Whoever forgets to settle costs a connection and never gives a
/// dirty one away.
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
/// nor from another worker what its pool has not lent:
///
/// ```compile_fail,E0423
/// # use std::rc::Rc;
/// # use narrows_proxy::{backend::Backend, pool::{Lent, Mail, Pool}};
/// fn give_back(backend: Backend, pool: &Rc<Pool>) {
///     pool.receive(Mail::Backend(Lent(Box::new(backend.detach().unwrap()))));
/// }
/// ```
///
/// A connection of one's own makes no lease,
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
/// and what was given back is used no more.
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
}

impl Lease {
    pub(super) fn new(backend: Backend) -> Lease {
        Lease { backend }
    }

    /// Gives the connection back for its next user, once what `exit` says is done; where that fails, it is closed. It is one of
    /// `want`, and `now` was read not long ago.
    pub fn settle(mut self, exit: Exit, pool: &Rc<Pool>, want: &Want, now: Instant) {
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

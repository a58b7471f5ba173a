//! Returning a connection: what a backend connection may carry decides what is done before anybody else gets it. Its
//! user passes that to [`Lease::settle`](super::Lease::settle).

use std::rc::Rc;
use std::sync::Arc;

use super::{Pool, count};
use crate::backend::{Backend, BackendError, Use, Want};
use crate::hostgroup::ServerFigures;
use crate::rows::HostgroupId;
use crate::rt::{Instant, spawn_local};

/// What is done to a connection before anybody else gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Nothing: it is idle, and its state is known.
    Return,
    /// The client's own timeouts are reset: a server would close an idle connection because of them.
    UndoTimeouts,
    /// `COM_RESET_CONNECTION`.
    Reset,
    /// `COM_CHANGE_USER`, which removes the roles that a reset leaves. It is closed if it may still have one.
    ChangeUser,
    /// It is closed: nothing removes what it carries.
    Close,
}

impl Pool {
    /// Applies `exit` to a connection of `want`, and returns it to the pool; if that fails, it is closed.
    pub(super) async fn clean(&self, mut backend: Backend, exit: Exit, want: &Want) {
        let limit = self.in_force.get().variables.connect_timeout_server;
        // If this fails, the connection is lost, and what it still keeps for its client with it: answers may be unread.
        if exit != Exit::UndoTimeouts && backend.collect_diagnostics(limit).await.is_err() {
            return;
        }
        let cleaned = match exit {
            Exit::UndoTimeouts => {
                let state = Arc::new(backend.login.state.without_short_timeouts());
                backend.align(&state, true, None, limit).await.is_ok()
            }
            Exit::ChangeUser => match backend.change_user(want, limit).await {
                Ok(()) => backend.may_have_role(limit).await.is_ok_and(|may| !may),
                Err(_) => false,
            },
            Exit::Reset => backend.reset(limit).await.is_ok(),
            Exit::Return => true,
            Exit::Close => false,
        };
        if cleaned {
            if exit != Exit::UndoTimeouts {
                count(&self.figures.resets);
            }
            self.release(&self.in_force.get(), backend, Instant::now());
        }
    }

    /// Fetches what an idle connection keeps, and passes it to its client.
    pub(super) fn fetch(self: &Rc<Pool>, hostgroup: HostgroupId, last_use: Use) {
        if let Some(backend) = self.take_untouched(hostgroup, last_use) {
            self.collect_from(backend);
        }
    }

    /// The same of a connection that nobody has.
    pub(super) fn collect_from(self: &Rc<Pool>, mut backend: Backend) {
        // It no longer has everything that its client left there.
        backend.login.count_lease();
        let limit = self.in_force.get().variables.connect_timeout_server;
        self.look_after(backend, async move |backend| backend.collect_diagnostics(limit).await);
    }

    /// Puts a connection back that was looked after: its last client may have begun to wait meanwhile for what it keeps.
    pub(super) fn put_back(self: &Rc<Pool>, backend: Backend) {
        match backend.is_asked_for_something() {
            true => self.collect_from(backend),
            false => self.release(&self.in_force.get(), backend, Instant::now()),
        }
    }

    /// Pings the idle connections that are due, and opens connections in advance.
    pub fn tend(self: &Rc<Pool>) {
        self.forget_ended_holds();
        let snapshot = self.in_force.get();
        let limit = snapshot.variables.ping_timeout_server;
        for backend in self.take_due(&snapshot) {
            self.look_after(backend, async move |backend| backend.ping(limit).await);
        }
        for opening in self.take_openings(&snapshot) {
            let pool = Rc::clone(self);
            spawn_local(async move { pool.open_early(&pool.in_force.get(), opening).await });
        }
    }

    /// Closes the statements of idle connections to a server.
    pub(super) fn close_statements(self: &Rc<Pool>, figures: Arc<ServerFigures>) {
        let pool = Rc::clone(self);
        spawn_local(async move { pool.close_idle_statements(&figures).await });
    }

    /// Does something with an idle connection, and returns it to the pool; if that fails, it is closed.
    fn look_after(
        self: &Rc<Pool>,
        mut backend: Backend,
        what: impl AsyncFnOnce(&mut Backend) -> Result<(), BackendError> + 'static,
    ) {
        let pool = Rc::clone(self);
        spawn_local(async move {
            if what(&mut backend).await.is_ok() {
                pool.put_back(backend);
            }
        });
    }
}

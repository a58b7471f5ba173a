//! Periodic work on idle connections: pings, and closing those that are too old or no longer needed.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::idle::home;
use super::{Group, Pool, keep_idle};
use crate::backend::Backend;
use crate::hostgroup::{Server, ServerFigures};
use crate::rt::{Instant, spawn_local};
use crate::snapshot::Snapshot;

impl Pool {
    /// Closes idle connections that have expired and takes those that are due for a ping, oldest use first; the caller
    /// pings them and returns them. A ping also prevents a server's `wait_timeout` from ending them.
    pub(super) fn take_due(&self, snapshot: &Snapshot) -> Vec<Backend> {
        let groups: Vec<_> = self.groups.borrow().values().map(Rc::clone).collect();
        let now = Instant::now();
        let mut due = Vec::new();
        for group in groups {
            let hostgroup = snapshot.hostgroups.get(&group.demand.hostgroup);
            let all = std::mem::take(&mut *group.idle.borrow_mut());
            let mut kept: HashMap<*const ServerFigures, usize> = HashMap::new();
            // The most recently used come first here, so that the excess are those unused for longest.
            let mut wanted: Vec<Backend> = Vec::with_capacity(all.len());
            for backend in all.into_iter().rev() {
                let server = &backend.login.server;
                let count = kept.entry(Arc::as_ptr(&server.figures)).or_default();
                *count += 1;
                let resting = now.duration_since(backend.login.last_used) >= REST;
                let too_many = *count > hostgroup.map_or(0, |it| keep_idle(server, it))
                    && resting
                    && !backend.keeps_something();
                if !too_many && home(&backend, snapshot, now).is_some() {
                    wanted.push(backend);
                } else {
                    self.let_go(backend);
                }
            }
            for backend in wanted.into_iter().rev() {
                if now.duration_since(backend.login.last_used) >= snapshot.variables.ping_interval_server {
                    due.push(backend);
                } else {
                    group.idle.borrow_mut().push(backend);
                }
            }
            self.publish_idle(&group);
        }
        due
    }

    /// Closes the statements of idle connections to a server. Closing those that no client has open would be enough,
    /// but an idle connection can prepare again what it needs.
    pub(super) async fn close_idle_statements(self: &Rc<Pool>, figures: &Arc<ServerFigures>) {
        let groups: Vec<_> = self.groups.borrow().values().map(Rc::clone).collect();
        for group in groups {
            let of_server = |backend: &mut Backend| {
                Arc::ptr_eq(&backend.login.server.figures, figures) && !backend.login.statements.is_empty()
            };
            let busy: Vec<Backend> = group.idle.borrow_mut().extract_if(.., of_server).collect();
            self.publish_idle(&group);
            for mut backend in busy {
                backend.login.statements.make_room(1);
                let closings = backend.login.statements.take_closings();
                if backend.stream.write_all(&closings).await.is_ok() {
                    self.put_back(backend);
                }
            }
        }
    }

    /// Closes the idle connections of a group that may not stay.
    pub(super) fn let_go_idle(&self, group: &Group, which: impl Fn(&Backend) -> bool) {
        let gone: Vec<Backend> = group.idle.borrow_mut().extract_if(.., |idle| which(idle)).collect();
        gone.into_iter().for_each(|backend| self.let_go(backend));
        self.publish_idle(group);
    }

    /// Closes this worker's idle connections of an account to a server.
    pub(super) fn close_own_idle_of(&self, server: &Server, username: &str) {
        let is_of = |idle: &Backend| {
            idle.login.account.row.username == username && idle.login.server.address() == server.address()
        };
        for group in self.groups.borrow().values() {
            self.let_go_idle(group, is_of);
        }
    }

    /// Closes a connection that may not stay, after what it keeps for its last client was fetched.
    pub(super) fn let_go(&self, mut backend: Backend) {
        if backend.keeps_something() {
            let limit = self.in_force.get().variables.connect_timeout_server;
            spawn_local(async move {
                // If that fails, it is lost, as when the server closes the connection.
                let _ = backend.collect_diagnostics(limit).await;
            });
        }
    }

    /// Closes every idle connection.
    pub fn close_idle(&self) {
        for group in self.groups.borrow().values() {
            group.idle.borrow_mut().clear();
            self.publish_idle(group);
        }
    }
}

/// An idle connection above the share that is kept is closed when it has been unused for this long: under load,
/// connections are idle for moments, and opening one costs more than many statements.
const REST: Duration = Duration::from_secs(1);

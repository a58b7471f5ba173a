//! The data plane, running or not.

use std::sync::Arc;

use narrows_proxy::server::DataPlane;
use narrows_proxy::snapshot::{CompileError, Rows, Snapshot};
use narrows_proxy::tls::SharedTls;

/// Whether clients are served at all.
pub enum Plane {
    /// Clients are served.
    Running(DataPlane),
    /// Clients are not served, because of `PROXYSQL STOP`.
    Stopped,
}

impl Plane {
    /// The running data plane.
    pub fn running(&self) -> Option<&DataPlane> {
        match self {
            Plane::Running(plane) => Some(plane),
            Plane::Stopped => None,
        }
    }

    /// The running data plane, mutable.
    pub fn running_mut(&mut self) -> Option<&mut DataPlane> {
        match self {
            Plane::Running(plane) => Some(plane),
            Plane::Stopped => None,
        }
    }

    /// Applies `rows`, or verifies that they could be applied.
    ///
    /// # Errors
    /// Rows that cannot be applied; the previous ones stay in force.
    pub fn publish(&mut self, rows: Rows) -> Result<(), CompileError> {
        self.compile(rows).map(|snapshot| self.put_into_force(snapshot))
    }

    /// Compiles `rows` without applying them.
    ///
    /// # Errors
    /// Rows that cannot be applied.
    pub fn compile(&self, rows: Rows) -> Result<Arc<Snapshot>, CompileError> {
        match self {
            Plane::Running(plane) => plane.compile(rows),
            Plane::Stopped => Snapshot::compile(rows, 1, None).map(Arc::new),
        }
    }

    /// Applies what [`Plane::compile`] has just returned; while nothing runs, nothing.
    pub fn put_into_force(&mut self, snapshot: Arc<Snapshot>) {
        if let Plane::Running(plane) = self {
            plane.put_into_force(snapshot);
        }
    }

    /// Applies other keys and certificates.
    pub fn replace_tls(&mut self, tls: SharedTls) {
        if let Plane::Running(plane) = self {
            plane.replace_tls(tls);
        }
    }

    /// Closes the listeners, and ends all sessions and the workers.
    pub fn stop(&mut self) {
        if let Plane::Running(mut plane) = std::mem::replace(self, Plane::Stopped) {
            plane.pause();
            plane.stop();
        }
    }
}

//! The data plane, running or not.

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
        match self {
            Plane::Running(plane) => plane.publish(rows),
            Plane::Stopped => Snapshot::compile(rows, 1, None).map(drop),
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

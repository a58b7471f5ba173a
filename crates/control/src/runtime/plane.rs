//! The data plane, running or not.

use narrows_proxy::server::DataPlane;
use narrows_proxy::snapshot::{CompileError, Rows, Snapshot};
use narrows_proxy::tls::SharedTls;

/// Whether clients are served at all.
pub enum Plane {
    /// They are.
    Running(DataPlane),
    /// They are not: `PROXYSQL STOP`.
    Stopped,
}

impl Plane {
    /// The data plane that runs.
    pub fn running(&self) -> Option<&DataPlane> {
        match self {
            Plane::Running(plane) => Some(plane),
            Plane::Stopped => None,
        }
    }

    /// The data plane that runs, to be changed.
    pub fn running_mut(&mut self) -> Option<&mut DataPlane> {
        match self {
            Plane::Running(plane) => Some(plane),
            Plane::Stopped => None,
        }
    }

    /// Puts `rows` into force, or makes sure that they could be.
    ///
    /// # Errors
    /// Rows that cannot be honoured; the ones before stay in force.
    pub fn publish(&mut self, rows: Rows) -> Result<(), CompileError> {
        match self {
            Plane::Running(plane) => plane.publish(rows),
            Plane::Stopped => Snapshot::compile(rows, 1, None).map(drop),
        }
    }

    /// Puts other keys and certificates into force.
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

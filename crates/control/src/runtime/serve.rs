//! Whether clients are served: STOP and START, PAUSE and RESUME.

use std::sync::Arc;

use narrows_proxy::server::{DataPlane, Listening};

use super::Runtime;
use super::plane::Plane;
use crate::admin::reply::Reply;

impl Runtime {
    /// `PROXYSQL STOP`
    pub fn stop(&mut self) -> Reply {
        self.plane.stop();
        (self.on_pulse)(None);
        Reply::ok()
    }

    /// `PROXYSQL START`
    pub fn start(&mut self) -> Reply {
        if self.plane.running().is_some() {
            return Reply::error("ProxySQL already started");
        }
        let (rows, sockets) = (self.servers.over(&self.rows), Arc::clone(&self.sockets));
        match DataPlane::start_with(rows, sockets, Listening::On, Some(self.logs.clone())) {
            Ok(plane) => {
                self.servers.monitor.iter().for_each(|monitor| plane.raise_alarms_at(monitor.alarms()));
                (self.on_pulse)(Some(plane.pulse()));
                self.holds.put_into_force(&plane.observer());
                self.plane = Plane::Running(plane);
                Reply::ok()
            }
            Err(error) => Reply::error(error),
        }
    }

    /// `PROXYSQL PAUSE`
    pub fn pause(&mut self) -> Reply {
        match self.plane.running_mut() {
            None => Reply::error("ProxySQL MySQL module not running, impossible to pause"),
            Some(plane) if plane.listening() == Listening::Paused => {
                Reply::error("ProxySQL MySQL module is already paused, impossible to pause")
            }
            Some(plane) => {
                plane.pause();
                Reply::ok()
            }
        }
    }

    /// `PROXYSQL RESUME`
    pub fn resume(&mut self) -> Reply {
        match self.plane.running_mut() {
            None => Reply::error("ProxySQL MySQL module not running, impossible to resume"),
            Some(plane) if plane.listening() == Listening::On => {
                Reply::error("ProxySQL MySQL module is not paused, impossible to resume")
            }
            Some(plane) => match plane.resume() {
                Ok(()) => Reply::ok(),
                Err(error) => Reply::error(error),
            },
        }
    }
}

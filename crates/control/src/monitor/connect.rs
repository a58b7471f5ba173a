//! Trial connections: whether the monitor's account can log in, and how long that takes. Their results have no
//! consequences.

use std::time::Duration;

use super::check::{Asking, Check, Subject, Task};
use super::connections::MonitorConnections;
use super::settings::MonitorSettings;

/// Trial connections.
pub static CHECK: Check = Check {
    name: "connect",
    table: "mysql_server_connect_log",
    values: &[],
    has_error_first: false,
    counters: Some(("MySQL_Monitor_connect_check_OK", "MySQL_Monitor_connect_check_ERR")),
    decides_without_pings: false,
    consequence: "until it succeeds, it is unknown whether the server answers, its role and its lag",
    subjects: |_| vec![Subject::Server],
    begin: |_| Box::new(Connects),
};

/// The trial connections to one server.
struct Connects;

impl Task for Connects {
    /// Connects, logs in, and disconnects.
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        _: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a> {
        Box::pin(async move {
            connections.open(limit).await?.quit().await;
            Ok(Vec::new())
        })
    }
}

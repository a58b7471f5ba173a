//! `SHOW NARROWS READINESS`: whether new clients should be sent here, as health checks ask.

use narrows_proxy::server::Listening;
use narrows_proxy::snapshot::ServerStatus;
use narrows_proxy::stats::{ServerLine, Take, wait};

use super::sources::Sources;
use super::status::reason;

/// Why clients cannot be served; `None`: they can.
pub fn obstacle(sources: &Sources<'_>) -> Option<String> {
    let observer = match (sources.runtime.listening(), sources.runtime.observer()) {
        (Some(Listening::On), Some(observer)) => observer,
        (Some(Listening::Paused), _) => {
            return Some("paused (PROXYSQL RESUME accepts clients again)".to_owned());
        }
        _ => return Some("stopped (PROXYSQL START serves again)".to_owned()),
    };
    let lines = wait(observer.connection_pool(Take::Copy));
    if lines.is_empty() {
        return Some("there is no server in mysql_servers".to_owned());
    }
    if lines.iter().any(|line| line.status == ServerStatus::Online) {
        return None;
    }
    let state = |line: &ServerLine| {
        let (hostgroup, status) = (line.hostgroup, line.status);
        format!(
            "{}:{} in hostgroup {hostgroup} is {}{}",
            line.hostname,
            line.port,
            status.name(),
            reason(status)
        )
    };
    let mut states: Vec<String> = lines.iter().take(MOST_NAMED).map(state).collect();
    if lines.len() > MOST_NAMED {
        states.push(format!("and {} more", lines.len() - MOST_NAMED));
    }
    Some(format!("no server is ONLINE: {}", states.join("; ")))
}

/// How many servers are named.
const MOST_NAMED: usize = 10;

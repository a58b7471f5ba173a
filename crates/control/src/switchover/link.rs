//! A connection to a server whose role changes: opened before clients are held, and opened again if it is lost.

use std::cell::RefCell;
use std::time::Duration;

use narrows_proxy::backend::{Backend, BackendError, Table};

use crate::monitor::connections::MonitorConnections;
use crate::monitor::plan::{Address, MonitorLogin, Target};

/// A server, with the monitor's account.
#[derive(Debug)]
pub struct Link {
    /// Where it is.
    pub address: Address,
    connections: MonitorConnections,
    open: RefCell<Option<Backend>>,
}

/// Why a statement has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    /// The reason.
    pub text: String,
    /// Whether it is certain that the statement has done nothing: the server has refused it, or never got it.
    pub is_certain: bool,
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Link {
    /// A link to a server that is not connected to yet.
    pub fn new(target: &Target, access: &MonitorLogin) -> Link {
        Link {
            address: target.address.clone(),
            connections: MonitorConnections::new(target, access, None),
            open: RefCell::default(),
        }
    }

    /// Runs a statement; the limit is for its answer, and for the connection too if there is none.
    pub async fn ask(&self, statement: &str, limit: Duration) -> Result<Table, LinkError> {
        let kept = self.open.take().filter(Backend::is_alive);
        let backend = match kept {
            Some(backend) => backend,
            None => match self.connections.open(limit).await {
                Ok(backend) => backend,
                Err(error) => return Err(LinkError { text: error.to_string(), is_certain: true }),
            },
        };
        let answer = backend.ask(statement, limit).await;
        match answer {
            Ok(table) => {
                self.open.replace(Some(backend));
                Ok(table)
            }
            Err(error @ BackendError::Server(_)) => {
                self.open.replace(Some(backend));
                Err(LinkError { text: error.to_string(), is_certain: true })
            }
            Err(error) => {
                let thread_id = backend.card().thread_id;
                drop(backend);
                if matches!(error, BackendError::Timeout) {
                    self.kill(thread_id).await;
                }
                Err(LinkError { text: error.to_string(), is_certain: false })
            }
        }
    }

    /// Makes a server end a statement that has not answered in time, so that it does nothing later.
    async fn kill(&self, thread_id: u32) {
        let Ok(backend) = self.connections.open(KILL_TIME).await else { return };
        // A thread that is gone has done what it had to do.
        let _ = backend.ask(&format!("KILL {thread_id}"), KILL_TIME).await;
        self.open.replace(Some(backend));
    }

    /// Closes the connection.
    pub async fn quit(&self) {
        if let Some(backend) = self.open.take() {
            backend.quit().await;
        }
    }
}

/// How long it may take to kill a statement.
const KILL_TIME: Duration = Duration::from_secs(1);

//! The repeated check of one node: the same for all sources, which say what is asked and what the answer means.

use std::time::Duration;

use narrows_proxy::backend::{BackendError, Table};

use super::{ClusterId, ClusterKind, Word};
use crate::monitor::check::{Asking, LogCell, Outcome, Subject, Task};
use crate::monitor::connections::MonitorConnections;
use crate::monitor::finding::Finding;
use crate::monitor::plan::{NodeOf, Target};
use crate::monitor::settings::MonitorSettings;

/// What differs between the kinds of clusters.
pub trait Source {
    /// The statement that is sent to a node.
    fn question(&self) -> String;

    /// Whether another statement should be sent, after the server has refused [`Source::question`] with this error.
    fn asks_differently(&mut self, _: u16) -> bool {
        false
    }

    /// Reads an answer; returns the columns of the log.
    fn take(&mut self, answer: &Table) -> Vec<LogCell>;

    /// What the last answer means.
    fn word(&mut self, node: NodeOf, settings: &MonitorSettings) -> Word;

    /// How many checks in a row must time out before a node is offline.
    fn most_timeouts(&self, settings: &MonitorSettings) -> u32;
}

/// The subjects of the checks of clusters of one kind: one for each cluster that a server is a node of.
pub fn subjects(target: &Target, kind: ClusterKind) -> Vec<Subject> {
    let of_kind = target.clusters.iter().filter(|it| it.id.kind == kind);
    of_kind.map(|it| Subject::Node(it.id)).collect()
}

/// The checks of one node for one row.
pub struct NodeTask<S> {
    cluster: Option<ClusterId>,
    source: S,
    timeouts: u32,
    /// What was reported last: only changes are.
    told: Option<Word>,
}

impl<S: Source> NodeTask<S> {
    /// The checks of a subject, which is a node.
    pub fn new(subject: Subject, source: S) -> NodeTask<S> {
        let cluster = match subject {
            Subject::Node(cluster) => Some(cluster),
            Subject::Server | Subject::Role(_) => None,
        };
        NodeTask { cluster, source, timeouts: 0, told: None }
    }

    async fn read(&mut self, connections: &MonitorConnections, limit: Duration) -> Outcome {
        let backend = connections.lease(limit).await?;
        let mut answer = backend.ask(&self.source.question(), limit).await;
        if let Err(BackendError::Server(error)) = &answer
            && self.source.asks_differently(error.code)
        {
            answer = backend.ask(&self.source.question(), limit).await;
        }
        let values = self.source.take(&answer?);
        connections.give_back(backend);
        Ok(values)
    }
}

impl<S: Source> Task for NodeTask<S> {
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        _: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a> {
        Box::pin(async move {
            match self.read(connections, limit).await {
                // The connection may have been idle for so long that the server has closed it.
                Err(BackendError::Io(_) | BackendError::Closed) => self.read(connections, limit).await,
                read => read,
            }
        })
    }

    fn decide(&mut self, outcome: &Outcome, settings: &MonitorSettings, target: &Target) -> Vec<Finding> {
        let node = target.clusters.iter().copied().find(|it| Some(it.id) == self.cluster);
        let Some(node) = node else { return Vec::new() };
        let word = match outcome {
            Ok(_) => {
                self.timeouts = 0;
                Some(self.source.word(node, settings))
            }
            Err(error) => failure(error, &mut self.timeouts, self.source.most_timeouts(settings)),
        };
        let Some(word) = word.filter(|word| self.told.as_ref() != Some(word)) else { return Vec::new() };
        self.told = Some(word.clone());
        vec![Finding::Node(target.address.clone(), node.id, word)]
    }
}

/// What a check that failed means: nothing if the server refused it, or if it has not been silent for long.
fn failure(error: &BackendError, timeouts: &mut u32, most_timeouts: u32) -> Option<Word> {
    if is_timeout(error) {
        *timeouts = timeouts.saturating_add(1);
        return (*timeouts >= most_timeouts)
            .then(|| Word::Out("it has not answered too many checks in time".to_owned()));
    }
    *timeouts = 0;
    match error {
        BackendError::Io(_) | BackendError::Closed => Some(Word::Out("it cannot be reached".to_owned())),
        BackendError::Server(error) if NOT_READY.contains(&error.code) => {
            Some(Word::Out("it refuses statements: it is not ready, or shuts down".to_owned()))
        }
        _ => None,
    }
}

fn is_timeout(error: &BackendError) -> bool {
    match error {
        BackendError::Timeout => true,
        BackendError::Io(error) => error.kind() == std::io::ErrorKind::TimedOut,
        _ => false,
    }
}

/// `ER_UNKNOWN_COM_ERROR`, with which a node that has lost its cluster refuses everything, and `ER_SERVER_SHUTDOWN`.
const NOT_READY: [u16; 2] = [1047, 1053];

#[cfg(test)]
mod tests {
    use narrows_proxy::backend::ServerError;

    use super::*;

    #[test]
    fn silence_counts_when_it_lasts_a_refused_connection_at_once_and_a_refused_login_never() {
        let mut timeouts = 0;
        let mut silent = |most| failure(&BackendError::Timeout, &mut timeouts, most);
        assert_eq!((silent(3), silent(3)), (None, None));
        assert!(matches!(silent(3), Some(Word::Out(_))));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(matches!(failure(&refused.into(), &mut 0, 3), Some(Word::Out(_))));
        let error = |code| {
            BackendError::Server(ServerError { code, sqlstate: "HY000".to_owned(), message: String::new() })
        };
        assert_eq!(failure(&error(1045), &mut 2, 3), None);
        assert!(matches!(failure(&error(1047), &mut 0, 3), Some(Word::Out(_))));
    }
}

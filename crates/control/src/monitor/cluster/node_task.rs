//! The repeated check of one node: the same for all sources, which say what is asked and what the answer means.

use std::sync::Arc;
use std::time::Duration;

use narrows_proxy::backend::{BackendError, Table};
use narrows_proxy::snapshot::AuroraRow;

use super::roster::Roster;
use super::views::View;
use super::{ClusterId, ClusterKind, Word};
use crate::monitor::check::{Asking, LogCell, Outcome, Subject, Task};
use crate::monitor::connections::MonitorConnections;
use crate::monitor::finding::Finding;
use crate::monitor::plan::{Address, NodeOf, Target};
use crate::monitor::settings::MonitorSettings;

/// What differs between the kinds of clusters.
pub trait Source {
    /// The statement that is sent to a node.
    fn question(&self, settings: &MonitorSettings) -> String;

    /// Whether another statement should be sent, after the server has refused [`Source::question`] with this error.
    fn asks_differently(&mut self, _: u16) -> bool {
        false
    }

    /// Reads an answer, of a node with this row for Aurora; returns the columns of the log.
    fn take(&mut self, answer: &Table, row: Option<&AuroraRow>) -> Vec<LogCell>;

    /// More statements, which ask a node for the others. If the server refuses one, the check continues.
    fn more_questions(&mut self, _: &MonitorSettings) -> Vec<&'static str> {
        Vec::new()
    }

    /// Reads the answer to one of them; `None`: the server has refused it.
    fn take_more(&mut self, _: &'static str, _: Option<&Table>) {}

    /// What the last answer means.
    fn word(&mut self, node: &NodeOf, address: &Address, settings: &MonitorSettings) -> Word;

    /// Which nodes it names.
    fn roster(&mut self, node: &NodeOf, address: &Address, settings: &MonitorSettings) -> Roster;

    /// The lag of the node in milliseconds; `None`: it follows nobody, or its lag is not known.
    fn lag_ms(&self, _: Option<&AuroraRow>) -> Option<u32> {
        None
    }

    /// The view of its cluster that it has by the last answer; `None`: it has none, or is not in its cluster.
    fn view(&self) -> Option<View> {
        None
    }

    /// The zone that the node says it is in.
    fn zone(&self) -> Option<String> {
        None
    }

    /// How many checks in a row must time out before a node is offline.
    fn most_timeouts(&self, settings: &MonitorSettings) -> u32;
}

/// A name that a server has given and that is not taken: one line of the log for all of one server, until it is another
/// kind of server.
#[derive(Debug, Default)]
pub struct Refused {
    is_told: bool,
}

impl Refused {
    /// Logs that `text` is not taken, unless that of this server has been logged before.
    pub fn tell(&mut self, server: &Address, text: &str) {
        if !std::mem::replace(&mut self.is_told, true) {
            let shown: String = text.chars().take(MOST_SHOWN).collect();
            tracing::warn!(%server, name = ?shown, "a node names a server that cannot be one, which is ignored");
        }
    }
}

/// How much of such a name the log has.
const MOST_SHOWN: usize = 64;

/// The subjects of the checks of clusters of one kind: one for each cluster that a server is a node of.
pub fn subjects(target: &Target, kind: ClusterKind) -> Vec<Subject> {
    let of_kind = target.clusters.iter().filter(|it| it.id.kind == kind);
    of_kind.map(|it| Subject::Node(it.id)).collect()
}

/// The checks of one node for one row.
pub struct NodeTask<S> {
    cluster: Option<ClusterId>,
    /// The row, if it is one of Aurora.
    row: Option<Arc<AuroraRow>>,
    source: S,
    timeouts: u32,
    /// What was reported last: only changes are.
    told: Option<Word>,
    /// The same, of the view of the cluster that it has.
    told_view: Option<View>,
    /// The same, of the nodes that it names.
    named: Roster,
    /// The same, of the zone that it says it is in.
    told_zone: Option<String>,
    /// Whether the last check has succeeded.
    is_fresh: bool,
}

impl<S: Source> NodeTask<S> {
    /// The checks of a subject, which is a node.
    pub fn new(subject: Subject, source: S) -> NodeTask<S> {
        let cluster = match subject {
            Subject::Node(cluster) => Some(cluster),
            Subject::Server | Subject::Role(_) => None,
        };
        NodeTask {
            cluster,
            row: None,
            source,
            timeouts: 0,
            told: None,
            told_view: None,
            named: Roster::default(),
            told_zone: None,
            is_fresh: false,
        }
    }

    async fn read(
        &mut self,
        connections: &MonitorConnections,
        settings: &MonitorSettings,
        limit: Duration,
    ) -> Outcome {
        let backend = connections.lease(limit).await?;
        let mut answer = backend.ask_briefly(&self.source.question(settings), limit).await;
        if let Err(BackendError::Server(error)) = &answer
            && self.source.asks_differently(error.code)
        {
            answer = backend.ask_briefly(&self.source.question(settings), limit).await;
        }
        let values = self.source.take(&answer?, self.row.as_deref());
        for question in self.source.more_questions(settings) {
            match backend.ask_briefly(question, limit).await {
                Ok(answer) => self.source.take_more(question, Some(&answer)),
                Err(BackendError::Server(_)) => self.source.take_more(question, None),
                Err(error) => return Err(error),
            }
        }
        connections.give_back(backend);
        Ok(values)
    }

    /// Which nodes it names, if that has changed. What a node says that cannot be asked now counts no longer for who is
    /// the writer.
    fn named(&mut self, node: &NodeOf, address: &Address, settings: &MonitorSettings) -> Option<Finding> {
        let named = if self.is_fresh {
            self.source.roster(node, address, settings)
        } else {
            Roster { writer: None, ..self.named.clone() }
        };
        (named != self.named).then(|| {
            self.named.clone_from(&named);
            Finding::Roster(address.clone(), node.id, named)
        })
    }
}

impl<S: Source> Task for NodeTask<S> {
    fn prepare(&mut self, target: &Target) {
        let node = target.clusters.iter().find(|it| Some(it.id) == self.cluster);
        self.row = node.and_then(|node| node.aurora.clone());
    }

    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        settings: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a> {
        Box::pin(async move {
            match self.read(connections, settings, limit).await {
                // The connection may have been idle for so long that the server has closed it.
                Err(BackendError::Io(_) | BackendError::Closed) => {
                    self.read(connections, settings, limit).await
                }
                read => read,
            }
        })
    }

    fn decide(&mut self, outcome: &Outcome, settings: &MonitorSettings, target: &Target) -> Vec<Finding> {
        let node = target.clusters.iter().find(|it| Some(it.id) == self.cluster);
        let Some(node) = node else { return Vec::new() };
        self.is_fresh = outcome.is_ok();
        let (word, view) = match outcome {
            Ok(_) => {
                self.timeouts = 0;
                (Some(self.source.word(node, &target.address, settings)), self.source.view())
            }
            Err(error) => {
                let word = failure(error, &mut self.timeouts, self.source.most_timeouts(settings));
                let view = self.told_view.clone().filter(|_| word.is_none());
                (word, view)
            }
        };
        // First the nodes that it names: what it says of itself is judged by them.
        let mut findings: Vec<Finding> = self.named(node, &target.address, settings).into_iter().collect();
        if view != self.told_view {
            self.told_view.clone_from(&view);
            findings.push(Finding::View(target.address.clone(), node.id, view));
        }
        let zone = self.source.zone();
        if zone.is_some() && zone != self.told_zone {
            self.told_zone.clone_from(&zone);
            findings.push(Finding::Zone(target.address.clone(), zone.unwrap_or_default()));
        }
        if let Some(word) = word.filter(|word| self.told.as_ref() != Some(word)) {
            self.told = Some(word.clone());
            findings.push(Finding::Node(target.address.clone(), node.id, word));
        }
        findings
    }

    fn lag_ms(&self) -> Option<u32> {
        self.source.lag_ms(self.row.as_deref()).filter(|_| self.is_fresh)
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

/// `ER_UNKNOWN_COM_ERROR`, with which a node that has lost its cluster refuses everything, `ER_SERVER_SHUTDOWN`, and
/// `ER_SERVER_OFFLINE_MODE`, which a member that was expelled may be in.
const NOT_READY: [u16; 3] = [1047, 1053, 3032];

#[cfg(test)]
mod tests {
    use narrows_proxy::backend::ServerError;
    use narrows_wire::Errno;

    use super::*;

    #[test]
    fn silence_counts_when_it_lasts_a_refused_connection_at_once_and_a_refused_login_never() {
        let mut timeouts = 0;
        let mut silent = |most| failure(&BackendError::Timeout, &mut timeouts, most);
        assert_eq!((silent(3), silent(3)), (None, None));
        assert!(matches!(silent(3), Some(Word::Out(_))));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(matches!(failure(&refused.into(), &mut 0, 3), Some(Word::Out(_))));
        let error = |number| BackendError::Server(ServerError::of(Errno { number, sqlstate: *b"HY000" }, ""));
        assert_eq!(failure(&error(1045), &mut 2, 3), None);
        for code in NOT_READY {
            assert!(matches!(failure(&error(code), &mut 0, 3), Some(Word::Out(_))), "{code}");
        }
    }
}

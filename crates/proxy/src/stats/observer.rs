//! How the control plane asks the workers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use narrows_sql::KillKind;

use super::{
    ClientHostLine, CommandLine, Counters, DigestLine, ErrorLine, FreeConnection, MemoryFigures, PinLine,
    PreparedLine, ProcessLine, Route, RouteError, RouteQuestion, RuleLine, ServerLine, Take, UserLine,
};
use crate::rt::oneshot;
use crate::snapshot::Snapshot;
use crate::worker::{KillAnswer, Message, Peers, Worker};

/// Something that a worker is asked: it runs on the worker's thread, between two events, so it must be short.
pub struct Question(Box<dyn FnOnce(&Worker) + Send>);

impl Question {
    /// Has the worker answer.
    pub(crate) fn put_to(self, worker: &Worker) {
        (self.0)(worker);
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

/// Asks the workers for figures, from any thread. Its futures need no particular runtime; [`wait`] runs them on a
/// thread that may block. A worker that has stopped is passed over.
#[derive(Debug, Clone)]
pub struct Observer {
    peers: Arc<Peers>,
}

impl Observer {
    pub(crate) fn new(peers: Arc<Peers>) -> Observer {
        Observer { peers }
    }

    /// The counters of `stats_mysql_global`, and how often sessions were pinned, by reason.
    pub async fn global(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in self.counters().await {
            sum.add(&counters);
        }
        sum.uptime_s = self.peers.started.elapsed().as_secs();
        sum.connected_clients = self.peers.clients().into();
        sum.created_clients = self.peers.accepted.load(Ordering::Relaxed);
        sum.workers = self.peers.workers() as u64;
        sum
    }

    /// The counters of each worker; gauges and what workers share are not in them.
    pub async fn counters(&self) -> Vec<Counters> {
        self.ask_all(|worker| worker.counters.borrow().clone()).await
    }

    /// `stats_mysql_connection_pool`: each server of each hostgroup, in order.
    pub async fn connection_pool(&self, _take: Take) -> Vec<ServerLine> {
        Vec::new()
    }

    /// `stats_mysql_commands_counters`: every class of statements, those never seen included.
    pub async fn commands(&self) -> Vec<CommandLine> {
        Vec::new()
    }

    /// `stats_mysql_query_digest`.
    pub async fn digests(&self, _take: Take) -> Vec<DigestLine> {
        Vec::new()
    }

    /// Empties the table of digests; returns how many rows it had.
    pub async fn forget_digests(&self) -> usize {
        self.digests(Take::Reset).await.len()
    }

    /// `stats_mysql_query_rules`: the rules in force, in order.
    pub async fn rule_hits(&self) -> Vec<RuleLine> {
        Vec::new()
    }

    /// `stats_mysql_users`: every account of the configuration in force.
    pub async fn users(&self) -> Vec<UserLine> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let line = |account: &Arc<crate::snapshot::Account>| UserLine {
            username: account.row.username.clone(),
            connections: account.connections.load(Ordering::Relaxed),
            max_connections: account.row.max_connections,
        };
        let mut lines: Vec<UserLine> = snapshot.users.values().map(line).collect();
        lines.sort_by(|one, two| one.username.cmp(&two.username));
        lines
    }

    /// `stats_mysql_errors`.
    pub async fn errors(&self, _take: Take) -> Vec<ErrorLine> {
        Vec::new()
    }

    /// `stats_mysql_free_connections`.
    pub async fn free_connections(&self) -> Vec<FreeConnection> {
        Vec::new()
    }

    /// `stats_mysql_prepared_statements_info`.
    pub async fn prepared_statements(&self) -> Vec<PreparedLine> {
        Vec::new()
    }

    /// `stats_mysql_client_host_cache`.
    pub async fn client_hosts(&self, _take: Take) -> Vec<ClientHostLine> {
        Vec::new()
    }

    /// What the memory is used for.
    pub async fn memory(&self) -> MemoryFigures {
        MemoryFigures::default()
    }

    /// `stats_mysql_processlist`, by session id.
    pub async fn processes(&self) -> Vec<ProcessLine> {
        Vec::new()
    }

    /// Every reason for which any session is pinned, by session id.
    pub async fn pins(&self) -> Vec<PinLine> {
        Vec::new()
    }

    /// Ends a session, or the statement that it runs, whoever's it is.
    pub async fn kill(&self, id: u32, kind: KillKind) -> KillAnswer {
        let answers = self.ask_all(move |worker| worker.kill(id, kind, None)).await;
        let done = answers.contains(&KillAnswer::Done);
        if done { KillAnswer::Done } else { KillAnswer::Unknown }
    }

    /// Where a statement would go now, and why.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub async fn explain_route(&self, question: RouteQuestion) -> Result<Route, RouteError> {
        Err(RouteError::UnknownUser(question.username))
    }

    /// The configuration that the first worker has in force.
    async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.ask(0, |worker| Arc::clone(&worker.snapshot())).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce(&Worker) -> T + Send + 'static,
    ) -> Option<T> {
        self.put(worker, question).await.ok()
    }

    /// Puts the same question to all workers at once.
    async fn ask_all<T: Send + 'static>(
        &self,
        question: impl Fn(&Worker) -> T + Send + Clone + 'static,
    ) -> Vec<T> {
        let workers = 0..self.peers.workers();
        let replies: Vec<_> = workers.map(|worker| self.put(worker, question.clone())).collect();
        let mut answers = Vec::with_capacity(replies.len());
        for reply in replies {
            answers.extend(reply.await.ok());
        }
        answers
    }

    fn put<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce(&Worker) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, reply) = oneshot::channel();
        let ask = move |worker: &Worker| drop(answer.send(question(worker)));
        self.peers.send(worker, Message::Ask(Question(Box::new(ask))));
        reply
    }
}

/// Runs a future of [`Observer`] to its end on the calling thread, which sleeps meanwhile.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

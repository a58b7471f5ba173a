//! How the control plane asks the workers.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, btree_map};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use narrows_sql::{KillKind, Scratch, digest_hash, digest_text};

use super::merge::{
    DigestName, Epoch, error_line, give_back_digest, give_back_error, merge_digest, milliseconds,
};
use super::{
    ClientLine, CommandLine, Counters, DigestLine, ErrorFigures, ErrorKey, ErrorLine, ExplainedRoute,
    FreeConnection, HostgroupLine, MemoryFigures, PasswordLine, PinLine, PreparedLine, ProcessLine,
    RouteError, RouteQuestion, RuleLine, ServerFailure, ServerGtids, ServerLine, ServerTiming, Take, Tally,
    UserLine, memory, route,
};
use crate::auth_query::QueriedAccount;
use crate::event_loop::{Event, Task, Workers};
use crate::hostgroup::Server;
use crate::passthrough::FoundAccount;
use crate::pool::ServerReport;
use crate::prepared;
use crate::route::digest_options;
use crate::rt::{Instant, oneshot};
use crate::rules::Activity;
use crate::snapshot::{Account, HostgroupId, PasswordSide, ServerStatus, Snapshot, Variables};
use crate::tokens::IssuerFigures;
use crate::worker::{ClientHost, Handle, KillAnswer, Peers, Worker};

/// Requests figures from the workers, from any thread. Its futures need no particular runtime; [`wait`] runs them on a
/// thread that may block. Stopped workers are skipped.
#[derive(Debug, Clone)]
pub struct Observer {
    workers: Workers,
}

impl Observer {
    pub(crate) fn new(workers: Workers) -> Observer {
        Observer { workers }
    }

    /// The number of workers.
    pub(super) fn count(&self) -> usize {
        self.workers.count()
    }

    pub(super) fn peers(&self) -> &Peers {
        self.workers.peers()
    }

    /// The counters of `stats_mysql_global`, and how often sessions were pinned, by reason.
    pub async fn global(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in self.counters().await {
            sum.add(&counters);
        }
        sum.uptime_s = self.peers().started.elapsed().as_secs();
        sum.connected_clients = self.peers().clients().into();
        sum.created_clients = self.peers().accepted.load(Ordering::Relaxed);
        sum.workers = self.workers.count() as u64;
        if let Some(snapshot) = self.snapshot().await {
            for server in snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
                let figures = &server.figures;
                sum.connected_backends += u64::from(figures.connections());
                sum.backend_prepares += figures.prepared_in_all.load(Ordering::Relaxed);
                sum.backend_closes += figures.prepared_closed.load(Ordering::Relaxed);
            }
        }
        sum.highest_statement = prepared::highest_number();
        sum.known_statements = prepared::living();
        sum.pool_destroyed = sum.created_backends.saturating_sub(sum.connected_backends);
        sum
    }

    /// The counters of each worker, without those that workers share.
    pub async fn counters(&self) -> Vec<Counters> {
        self.ask_all(Worker::count).await
    }

    /// `stats_mysql_connection_pool`: each server of each hostgroup, in order.
    pub async fn connection_pool(&self, take: Take) -> Vec<ServerLine> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let reports = self.ask_all(move |worker| worker.pool.servers(take)).await;
        let servers = snapshot
            .hostgroups
            .values()
            .flat_map(|hostgroup| hostgroup.servers.iter().map(move |server| (hostgroup, server)));
        let mut lines: Vec<ServerLine> = servers
            .map(|(hostgroup, server)| {
                let of_server = |report: &&ServerReport| {
                    report.hostgroup == server.row.hostgroup && Arc::ptr_eq(&report.figures, &server.figures)
                };
                let mut line = self.server_line(server, reports.iter().flatten().filter(of_server));
                line.place = hostgroup.settings.place_of(server);
                if take == Take::Reset {
                    server.figures.forget_most_connections();
                }
                line
            })
            .collect();
        lines.sort_by(|one, two| {
            (one.hostgroup, &one.hostname, one.port).cmp(&(two.hostgroup, &two.hostname, two.port))
        });
        lines
    }

    /// `stats_mysql_gtid_executed`: the servers that have said what they have applied, in order.
    pub async fn gtids_executed(&self) -> Vec<ServerGtids> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let servers = snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers);
        let mut lines: Vec<ServerGtids> = servers
            .map(|server| {
                let (executed, reports) = server.figures.position.shown();
                ServerGtids {
                    hostname: server.row.hostname.clone(),
                    port: server.row.port,
                    executed,
                    reports,
                }
            })
            .filter(|line| line.reports > 0)
            .collect();
        lines.sort_by(|one, two| (&one.hostname, one.port).cmp(&(&two.hostname, two.port)));
        lines.dedup_by(|one, two| (&one.hostname, one.port) == (&two.hostname, two.port));
        lines
    }

    fn server_line<'a>(
        &self,
        server: &Server,
        reports: impl Iterator<Item = &'a ServerReport>,
    ) -> ServerLine {
        let row = &server.row;
        let mut line = ServerLine {
            hostgroup: row.hostgroup,
            hostname: row.hostname.clone(),
            port: row.port,
            status: row.status,
            used: 0,
            free: 0,
            most_used: 0,
            tally: Tally::default(),
            latency_us: server.figures.latency_us(),
            failure: None,
            timing: ServerTiming::default(),
            place: String::new(),
        };
        let now = Instant::now();
        let reached = self.peers().started + Duration::from_nanos(server.figures.reached_ns());
        let mut failed_at = None;
        for report in reports {
            line.used += report.used;
            line.free += report.idle;
            line.most_used += report.most_used;
            line.tally.add(report.tally);
            line.timing.add(&report.timing);
            let Some((at, until, text)) = &report.failure else { continue };
            if *at >= reached && failed_at.is_none_or(|last| *at > last) {
                failed_at = Some(*at);
                line.failure = Some(ServerFailure {
                    text: text.clone(),
                    age_ms: milliseconds(now.saturating_duration_since(*at)),
                    pause_ms: milliseconds(until.saturating_duration_since(now)),
                });
            }
        }
        line.most_used = line.most_used.min(server.figures.most_connections().into());
        let is_shunned = line.failure.is_some() || server.figures.shun.is_shunned();
        if is_shunned && line.status == ServerStatus::Online {
            line.status = ServerStatus::Shunned;
        }
        line
    }

    /// `stats_mysql_commands_counters`: every class of statements, including those never seen.
    pub async fn commands(&self) -> Vec<CommandLine> {
        let mut sum: Vec<CommandLine> = Vec::new();
        for lines in self.ask_all(|worker| worker.figures.commands.lines()).await {
            match sum.is_empty() {
                true => sum = lines,
                false => sum.iter_mut().zip(&lines).for_each(|(sum, line)| sum.add(line)),
            }
        }
        sum
    }

    /// `stats_mysql_query_digest`, in no particular order.
    pub async fn digests(&self, take: Take) -> Vec<DigestLine> {
        let mut sum: HashMap<DigestName, DigestLine> = HashMap::new();
        let epoch = Epoch::new(self.peers().started);
        for worker in 0..self.workers.count() {
            let mut next = 0;
            loop {
                let rows = move |worker: &Worker| {
                    let mut digests = worker.figures.digests.borrow_mut();
                    match take {
                        Take::Copy => digests.copy(next, AT_ONCE),
                        Take::Reset => (digests.take(), 0),
                    }
                };
                let Some((rows, all)) = self.ask(worker, rows).await else { break };
                rows.into_iter().for_each(|row| merge_digest(&mut sum, row, &epoch));
                next += AT_ONCE;
                if next >= all {
                    break;
                }
            }
        }
        sum.into_values().collect()
    }

    /// Returns digests that were taken and could not be stored: they are counted as if they had not been taken.
    pub async fn give_back_digests(&self, lines: Vec<DigestLine>) {
        let workers = self.workers.count().max(1);
        let mut shares: Vec<Vec<DigestLine>> = Vec::new();
        shares.resize_with(workers, Vec::new);
        for line in lines {
            // Rows with the same text go to the same worker, which keeps it once.
            let worker = usize::try_from(line.digest % workers as u64).unwrap_or(0);
            if let Some(share) = shares.get_mut(worker) {
                share.push(line);
            }
        }
        let started = self.peers().started;
        for (worker, mut share) in shares.into_iter().enumerate() {
            while !share.is_empty() {
                let some = share.split_off(share.len().saturating_sub(AT_ONCE));
                let put = move |worker: &Worker| {
                    let (epoch, mut table) = (Epoch::new(started), worker.figures.digests.borrow_mut());
                    some.iter().for_each(|line| give_back_digest(&mut table, line, &epoch));
                };
                // A stopped worker no longer counts anything.
                let _ = self.ask(worker, put).await;
            }
        }
    }

    /// The same for errors.
    pub async fn give_back_errors(&self, lines: Vec<ErrorLine>) {
        let started = self.peers().started;
        let put = move |worker: &Worker| {
            let (epoch, mut table) = (Epoch::new(started), worker.figures.errors.borrow_mut());
            lines.into_iter().for_each(|line| give_back_error(&mut table, line, &epoch));
        };
        let _ = self.ask(0, put).await;
    }

    /// Empties the table of digests; returns how many rows it had.
    pub async fn forget_digests(&self) -> usize {
        self.digests(Take::Reset).await.len()
    }

    /// Empties the query cache. Answers that servers are sending at this moment are not cached either.
    pub async fn flush_query_cache(&self) {
        self.peers().cache.flush();
        self.ask_all(|worker| worker.cache.clear()).await;
    }

    /// `stats_mysql_query_rules`: the rules in force, and those of a dry run as if they were, in order.
    pub async fn rule_hits(&self) -> Vec<RuleLine> {
        let of_worker = |worker: &Worker| {
            let snapshot = worker.snapshot();
            let mut hits: Vec<(i64, u64)> = worker.rules.borrow().hits(&snapshot.rules).collect();
            if let Some(rules) = &snapshot.dry_run {
                let memory = &worker.dry_run.borrow().rules;
                let asked = memory.hits(rules).zip(rules.rows());
                let of_dry_run = asked.filter(|(_, row)| row.active == Activity::DryRun);
                hits.extend(of_dry_run.map(|(hits, _)| hits));
            }
            hits
        };
        let mut sum: BTreeMap<i64, u64> = BTreeMap::new();
        for (rule_id, hits) in self.ask_all(of_worker).await.into_iter().flatten() {
            *sum.entry(rule_id).or_default() += hits;
        }
        sum.into_iter().map(|(rule_id, hits)| RuleLine { rule_id, hits }).collect()
    }

    /// `stats_mysql_users`: every account of the configuration in force, and those that servers have accepted, by name.
    pub async fn users(&self) -> Vec<UserLine> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let line = |account: &Arc<Account>| UserLine {
            username: account.row.username.clone(),
            connections: account.connections.load(Ordering::Relaxed),
            max_connections: account.row.max_connections,
        };
        let mut lines: Vec<UserLine> = snapshot.users.values().map(line).collect();
        let found = self.found_accounts(&snapshot.variables).into_iter();
        let found = found.map(|it| (it.username, it.connections));
        let queried = self.queried_accounts().into_iter().map(|it| (it.username, it.connections));
        let unlisted = found.chain(queried).filter(|(name, _)| !snapshot.users.contains_key(name.as_bytes()));
        lines.extend(unlisted.map(|(username, (connections, max_connections))| UserLine {
            username,
            connections,
            max_connections,
        }));
        lines.sort_by(|one, two| one.username.cmp(&two.username));
        lines
    }

    /// `stats_narrows_passwords`: every account of the configuration in force, by name.
    pub async fn passwords(&self) -> Vec<PasswordLine> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let line = |account: &Arc<Account>| {
            let of = |side| [0, 1].map(|number| account.passwords.read(side, number));
            PasswordLine {
                username: account.row.username.clone(),
                clients: of(PasswordSide::Client),
                servers: of(PasswordSide::Server),
            }
        };
        let mut lines: Vec<PasswordLine> = snapshot.users.values().map(line).collect();
        lines.sort_by(|one, two| one.username.cmp(&two.username));
        lines
    }

    /// `stats_narrows_token_issuers`, by name.
    pub async fn token_issuers(&self) -> Vec<IssuerFigures> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let mut lines: Vec<IssuerFigures> =
            snapshot.issuers.values().map(|issuer| issuer.figures()).collect();
        lines.sort_by(|one, two| one.name.cmp(&two.name));
        lines
    }

    /// `stats_mysql_errors`, in no particular order.
    pub async fn errors(&self, take: Take) -> Vec<ErrorLine> {
        let ask = move |worker: &Worker| {
            let mut errors = worker.figures.errors.borrow_mut();
            if take == Take::Reset { errors.take() } else { errors.copy() }
        };
        let epoch = Epoch::new(self.peers().started);
        let mut sum: HashMap<ErrorKey, ErrorFigures> = HashMap::new();
        for (key, figures) in self.ask_all(ask).await.into_iter().flatten() {
            match sum.entry(key) {
                Entry::Vacant(place) => drop(place.insert(figures)),
                Entry::Occupied(mut place) => place.get_mut().add(figures),
            }
        }
        sum.into_iter().map(|(key, figures)| error_line(key, figures, &epoch)).collect()
    }

    /// `stats_mysql_free_connections`, in no particular order.
    pub async fn free_connections(&self) -> Vec<FreeConnection> {
        let mut lines = Vec::new();
        for worker in 0..self.workers.count() {
            let mut skip = 0;
            loop {
                let some = move |worker: &Worker| {
                    worker.pool.idle_connections(skip, SESSIONS_AT_ONCE, Instant::now())
                };
                let Some(some) = self.ask(worker, some).await else { break };
                skip += SESSIONS_AT_ONCE;
                let more = some.len() == SESSIONS_AT_ONCE;
                lines.extend(some);
                if !more {
                    break;
                }
            }
        }
        lines
    }

    /// `stats_mysql_prepared_statements_info`, by number. Workers share no statements, so several may have the same
    /// text.
    pub async fn prepared_statements(&self) -> Vec<PreparedLine> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let options = digest_options(&snapshot.variables);
        let mut scratch = Scratch::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = self.ask_all(|worker| worker.prepared.all()).await;
        let mut lines: Vec<PreparedLine> = all
            .iter()
            .flatten()
            .map(|prepared| PreparedLine {
                id: prepared.number,
                schemaname: text(prepared.state.schema.as_deref().unwrap_or_default()),
                username: prepared.username.to_string(),
                digest: digest_hash(digest_text(&prepared.text, &options, &mut scratch)),
                clients: prepared.clients().into(),
                backends: prepared.servers().into(),
                columns: prepared.columns.load(Ordering::Relaxed),
                parameters: prepared.params.load(Ordering::Relaxed),
                query: text(&prepared.text),
            })
            .collect();
        lines.sort_by_key(|line| line.id);
        lines
    }

    /// `stats_mysql_passthrough_auth_cache`, by name.
    pub async fn passthrough(&self) -> Vec<FoundAccount> {
        let snapshot = self.snapshot().await;
        snapshot.map(|snapshot| self.found_accounts(&snapshot.variables)).unwrap_or_default()
    }

    fn found_accounts(&self, variables: &Variables) -> Vec<FoundAccount> {
        self.peers().found.list(variables)
    }

    /// Forgets what servers have said about one account, or about all.
    pub fn forget_passthrough(&self, username: Option<&str>) {
        self.peers().found.forget(username);
        self.peers().queried.forget(username);
    }

    /// `stats_narrows_auth_query`, by name.
    pub fn queried_accounts(&self) -> Vec<QueriedAccount> {
        self.peers().queried.list()
    }

    /// `stats_mysql_client_host_cache`, by address.
    pub fn client_hosts(&self, take: Take) -> Vec<ClientHost> {
        let hosts = self.peers().client_hosts.list();
        if take == Take::Reset {
            self.peers().client_hosts.clear();
        }
        hosts
    }

    /// The memory usage.
    pub async fn memory(&self) -> MemoryFigures {
        let mut sum = MemoryFigures::of_process();
        for figures in self.ask_all(Worker::memory).await {
            sum.add(&figures);
        }
        if let Some(snapshot) = self.snapshot().await {
            sum.accounts = memory::of_accounts(&snapshot);
            let rules = std::iter::once(&snapshot.rules).chain(&snapshot.dry_run);
            sum.rules = rules.map(|rules| rules.memory_usage() as u64).sum();
        }
        sum
    }

    /// `stats_mysql_processlist`, by session id.
    pub async fn processes(&self) -> Vec<ProcessLine> {
        let mut lines = self.sessions(|worker, handle, now| vec![handle.process(worker.index, now)]).await;
        lines.sort_by_key(|line| line.id);
        lines
    }

    /// How many clients there are of each kind, in no particular order.
    pub async fn clients(&self) -> Vec<(ClientLine, u64)> {
        let mut clients: HashMap<ClientLine, u64> = HashMap::new();
        for line in self.sessions(|_, handle, _| vec![handle.client_line()]).await {
            *clients.entry(line).or_default() += 1;
        }
        clients.into_iter().collect()
    }

    /// Statements and waits of each hostgroup that had any, in order.
    pub async fn hostgroups(&self) -> Vec<HostgroupLine> {
        let mut sum: BTreeMap<HostgroupId, HostgroupLine> = BTreeMap::new();
        for line in self.ask_all(|worker| worker.figures.hostgroups.lines()).await.into_iter().flatten() {
            match sum.entry(line.hostgroup) {
                btree_map::Entry::Vacant(place) => drop(place.insert(line)),
                btree_map::Entry::Occupied(mut place) => {
                    place.get_mut().statements.add(&line.statements);
                    place.get_mut().waits.add(&line.waits);
                }
            }
        }
        sum.into_values().collect()
    }

    /// Every reason for which any session is pinned, by session id.
    pub async fn pins(&self) -> Vec<PinLine> {
        let of_session = |worker: &Worker, handle: &Handle, now| {
            let text_of = |digest| worker.figures.digests.borrow().text(digest).map(Arc::clone);
            handle.pin_lines(worker.index, now, text_of)
        };
        let mut lines = self.sessions(of_session).await;
        lines.sort_by_key(|line| line.id);
        lines
    }

    /// The results of `of_session` for all sessions, which each worker processes some at a time.
    async fn sessions<T: Send + 'static>(
        &self,
        of_session: impl Fn(&Worker, &Handle, Instant) -> Vec<T> + Copy + Send + 'static,
    ) -> Vec<T> {
        let mut lines = Vec::new();
        for worker in 0..self.workers.count() {
            let ids = self.ask(worker, Worker::session_ids).await.unwrap_or_default();
            for ids in ids.chunks(SESSIONS_AT_ONCE) {
                let ids = ids.to_vec();
                let some = move |worker: &Worker| {
                    let now = Instant::now();
                    let handles = ids.iter().filter_map(|id| worker.session(*id));
                    handles.flat_map(|handle| of_session(worker, &handle, now)).collect::<Vec<T>>()
                };
                lines.extend(self.ask(worker, some).await.into_iter().flatten());
            }
        }
        lines
    }

    /// Ends a session of any user, or the statement that it runs.
    pub async fn kill(&self, id: u32, kind: KillKind) -> KillAnswer {
        let answers = self.ask_all(move |worker| worker.kill(id, kind, None)).await;
        let done = answers.contains(&KillAnswer::Done);
        if done { KillAnswer::Done } else { KillAnswer::Unknown }
    }

    /// Where a statement would go now, and why.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub async fn explain_route(&self, question: RouteQuestion) -> Result<ExplainedRoute, RouteError> {
        let snapshot = self.snapshot().await.ok_or(RouteError::Stopped)?;
        let servers = self.connection_pool(Take::Copy).await;
        route::explain(&snapshot, &question, &servers)
    }

    /// The configuration that is in force on the first worker.
    pub(super) async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.ask(0, |worker| Arc::clone(&worker.snapshot())).await
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce(&Worker) -> T + Send + 'static,
    ) -> Option<T> {
        self.put(worker, question).await.ok()
    }

    /// Sends the same question to all workers at once.
    pub(super) async fn ask_all<T: Send + 'static>(
        &self,
        question: impl Fn(&Worker) -> T + Send + Clone + 'static,
    ) -> Vec<T> {
        let workers = 0..self.workers.count();
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
        self.workers.send(worker, Event::Ask(Task::new(ask)));
        reply
    }
}

/// Runs a future of [`Observer`] to its end on the calling thread, which sleeps in the meantime.
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

/// How many rows of digests a worker copies between two events: this takes some 50 us.
const AT_ONCE: usize = 512;

/// The same for sessions and connections, whose names are copied too.
const SESSIONS_AT_ONCE: usize = 128;

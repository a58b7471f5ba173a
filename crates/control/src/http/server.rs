//! What all HTTP connections share: settings, the channel to the control thread, whether Narrows is draining.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_proxy::log_limit::Limiter;
use narrows_proxy::rt::{Semaphore, oneshot, spawn_local, timeout};
use narrows_proxy::threads::Threads;

use super::login::Credentials;
use super::peer::Peer;
use super::settings::HttpSettings;
use crate::admin::reply::Reply;
use crate::admin::request::{Caller, Request};
use crate::admin::settings::is_local_only;
use crate::store::{Abandoned, Answer, Role};

/// The state of the interface.
pub struct Server {
    settings: RefCell<HttpSettings>,
    /// Passes a statement to the control thread; returns false if that thread has ended.
    statements: Box<dyn Fn(Request) -> bool>,
    /// Questions that the control thread may have at a time.
    questions: Arc<Semaphore>,
    /// The same for the console, so that health checks do not wait for its pages.
    questions_of_console: Arc<Semaphore>,
    /// Makes logins of unknown users take as long as those of known ones.
    decoy_key: [u8; 32],
    threads: Threads,
    failures: Rc<Limiter>,
    /// Who has asked for it, while Narrows is draining.
    draining: RefCell<Option<String>>,
    /// The last answer about readiness, for a while in which the control thread is busy.
    readiness: RefCell<Option<(Instant, Readiness)>>,
}

/// Whether Narrows can serve clients, and why not.
pub type Readiness = Result<(), String>;

impl Server {
    /// The state before any connection.
    pub fn new(settings: HttpSettings, statements: Box<dyn Fn(Request) -> bool>) -> Server {
        Server {
            settings: RefCell::new(settings),
            statements,
            questions: Arc::new(Semaphore::new(MOST_QUESTIONS)),
            questions_of_console: Arc::new(Semaphore::new(MOST_QUESTIONS_OF_CONSOLE)),
            decoy_key: rand::random(),
            threads: Threads::for_logins(1),
            failures: Limiter::new(|suppressed| {
                tracing::info!(suppressed, "more HTTP clients were refused");
            }),
            draining: RefCell::default(),
            readiness: RefCell::default(),
        }
    }

    /// Uses these settings from now on.
    pub fn set(&self, settings: HttpSettings) {
        self.settings.replace(settings);
    }

    /// The TLS configuration; `None`: connections are not encrypted.
    pub fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        let settings = self.settings.borrow();
        settings.admin.tls.0.clients.clone().filter(|_| settings.tls)
    }

    /// Logs that a client was refused.
    pub fn refused(&self, peer: &Peer, error: &str) {
        self.failures.tell(|| {
            tracing::info!(client = peer.host, port = peer.port, error, "an HTTP client was refused");
        });
    }

    /// The role of an account, if the password is right.
    pub async fn role(&self, peer: &Peer, credentials: Credentials) -> Option<Role> {
        let (account, role) =
            self.settings.borrow().admin.account(credentials.user.as_bytes(), &self.decoy_key);
        let password = credentials.password;
        // Stored hashes take milliseconds.
        let accepted = self.threads.run(move || account.accepts(&password)).await.unwrap_or(false);
        let allowed = peer.is_local || !is_local_only(credentials.user.as_bytes());
        role.filter(|_| accepted && allowed)
    }

    /// Begins or ends draining, in the name of `user`.
    pub fn drain(&self, peer: &Peer, user: &str, drains: bool) {
        let by = format!("{user} from {}", if peer.host.is_empty() { "a Unix socket" } else { &peer.host });
        match drains {
            true => tracing::info!(by, "draining: /readyz says that this Narrows is not ready"),
            false => tracing::info!(by, "draining has ended"),
        }
        self.draining.replace(drains.then_some(by));
    }

    /// Whether clients can be served.
    pub async fn readiness(self: &Rc<Server>, peer: &Peer) -> Readiness {
        if let Some(by) = &*self.draining.borrow() {
            return Err(format!("draining (POST /drain by {by}; DELETE /drain undoes it)"));
        }
        let known = self.readiness.borrow().clone();
        let fresh = match timeout(READINESS_TIME, self.rows(peer, "SHOW NARROWS READINESS")).await {
            Ok(Ok(rows)) => match rows.into_iter().next() {
                Some([ready, _]) if ready == "yes" => Ok(()),
                Some([_, reason]) => Err(reason),
                None => Err("the state is not known".to_owned()),
            },
            Ok(Err(error)) => Err(error),
            // Clients are served while the control thread is busy.
            Err(_) => match known {
                Some((since, readiness)) if since.elapsed() < READINESS_LIFE => return readiness,
                _ => return Err("the control thread has not answered in time".to_owned()),
            },
        };
        self.readiness.replace(Some((Instant::now(), fresh.clone())));
        fresh
    }

    /// The rows of a statement that statistics users may send; a row lacks or ends in empty texts if it has another number
    /// of cells.
    pub async fn rows<const CELLS: usize>(
        self: &Rc<Server>,
        peer: &Peer,
        statement: &str,
    ) -> Result<Vec<[String; CELLS]>, String> {
        let caller = Caller {
            role: Role::Stats,
            user: "http".to_owned(),
            host: peer.host.clone(),
            port: peer.port,
            ..Caller::default()
        };
        match self.ask(&self.questions, caller, statement).await? {
            Reply::Answer(Answer::Rows(set)) => Ok(set
                .rows
                .into_iter()
                .map(|row| {
                    let mut cells = row.into_iter().map(|cell| {
                        cell.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
                    });
                    std::array::from_fn(|_| cells.next().unwrap_or_default())
                })
                .collect()),
            Reply::Refused(refusal) => Err(refusal.message),
            _ => Err("Narrows is ending".to_owned()),
        }
    }

    /// The outcome of a statement of the console, with the rights of `caller`.
    ///
    /// # Errors
    /// If Narrows is ending.
    pub async fn reply(&self, caller: Caller, statement: &str) -> Result<Reply, String> {
        self.ask(&self.questions_of_console, caller, statement).await
    }

    /// Passes a statement to the control thread. Its place among the questions is free when the answer has come, even if
    /// nobody waits for it any more.
    async fn ask(
        &self,
        questions: &Arc<Semaphore>,
        caller: Caller,
        statement: &str,
    ) -> Result<Reply, String> {
        let ending = || "Narrows is ending".to_owned();
        let place = Arc::clone(questions).acquire_owned().await.map_err(|_| ending())?;
        let (reply, answer) = oneshot::channel();
        let (text, abandoned) = (statement.as_bytes().to_vec(), Abandoned::default());
        if !(self.statements)(Request { caller, text, since: Instant::now(), abandoned, reply }) {
            return Err(ending());
        }
        let (told, heard) = oneshot::channel();
        spawn_local(async move {
            let answer = answer.await;
            drop(place);
            let _ = told.send(answer);
        });
        match heard.await {
            Ok(Ok((_, reply))) => Ok(reply),
            _ => Err(ending()),
        }
    }
}

/// Questions that the control thread may have at a time: others wait here, and not in its mailbox.
const MOST_QUESTIONS: usize = 4;

/// Questions of the console that are open at a time, however many look at it.
const MOST_QUESTIONS_OF_CONSOLE: usize = 2;

/// How long a health check waits for the control thread: Kubernetes gives a probe 1 s.
const READINESS_TIME: Duration = Duration::from_millis(700);

/// How long an answer about readiness is repeated while the control thread is busy.
const READINESS_LIFE: Duration = Duration::from_secs(60);

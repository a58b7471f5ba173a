//! The issuers whose keys are kept: one task for each, which fetches the keys again in time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_proxy::rt::{self, Instant, JoinHandle, MailboxReceiver, MailboxSender};
use narrows_proxy::tokens::{Issuer, IssuerQuestion, KeySource, KeysQuestion, SharedIssuers};

use super::fetch;
use super::review::Reviews;
use crate::files::FileMark;

/// The issuers whose keys are kept.
#[derive(Default)]
pub(super) struct KeptIssuers {
    /// Two may have the same name: that of a row before a LOAD, and that of the row after it.
    kept: Vec<KeptIssuer>,
    reviews: Rc<Reviews>,
}

struct KeptIssuer {
    issuer: Arc<Issuer>,
    asked: MailboxSender<KeysQuestion>,
    task: JoinHandle<()>,
}

impl Drop for KeptIssuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KeptIssuers {
    /// Keeps the keys of these issuers, and of no others.
    pub(super) fn follow(&mut self, issuers: &SharedIssuers) {
        self.kept.retain(|kept| issuers.values().any(|issuer| Arc::ptr_eq(issuer, &kept.issuer)));
        for issuer in issuers.values().filter(|issuer| has_keys(issuer)) {
            self.keep(issuer);
        }
    }

    /// Answers a question of a login, at once or later.
    pub(super) fn answer(&mut self, question: IssuerQuestion) {
        match question {
            IssuerQuestion::Keys(issuer, question) => {
                // A login may be earlier than the order. Without its task, the question is dropped, and so the login does not wait.
                let _ = self.keep(&issuer).asked.send(question);
            }
            IssuerQuestion::Review(issuer, question) => Reviews::ask(&self.reviews, issuer, question),
        }
    }

    fn keep(&mut self, issuer: &Arc<Issuer>) -> &KeptIssuer {
        let known = self.kept.iter().position(|kept| Arc::ptr_eq(issuer, &kept.issuer));
        let index = known.unwrap_or_else(|| {
            let (asked, questions) = rt::mailbox();
            let task = rt::spawn_local(keep(Arc::clone(issuer), questions));
            self.kept.push(KeptIssuer { issuer: Arc::clone(issuer), asked, task });
            self.kept.len() - 1
        });
        &self.kept[index]
    }
}

fn has_keys(issuer: &Issuer) -> bool {
    !matches!(issuer.settings.source, KeySource::TokenReview(_))
}

/// Fetches the keys of an issuer, now and again.
async fn keep(issuer: Arc<Issuer>, mut questions: MailboxReceiver<KeysQuestion>) {
    let mut waiting: Vec<KeysQuestion> = Vec::new();
    let (mut failures, teller) = (0, Teller::default());
    loop {
        let (began, mark) = (Instant::now(), mark_of(&issuer));
        let result = fetch::keys(&issuer.settings).await;
        failures = if result.is_ok() { 0 } else { failures + 1 };
        teller.tell(&issuer, result);
        for question in waiting.drain(..) {
            answer(question);
        }
        let mut due = began + pause(issuer.settings.refresh, failures);
        while Instant::now() < due && mark == mark_of(&issuer) {
            let look = due.min(Instant::now() + LOOK);
            rt::select! {
                question = questions.recv() => match question {
                    Some(question) if question.found_none && issuer.keys().is_some() => answer(question),
                    // Others may have a newer key than the last fetch has brought.
                    Some(question) => {
                        waiting.push(question);
                        due = due.min(began + SHORTEST_PAUSE);
                    }
                    None => return,
                },
                () = rt::sleep_until(Some(look)) => {}
            }
        }
    }
}

fn answer(question: KeysQuestion) {
    // A login that has ended waits no more.
    let _ = question.answer.send(());
}

/// How long after the beginning of a fetch the next one begins: not at the same time as that of all others that know the issuer,
/// and sooner after failures.
fn pause(refresh: Duration, failures: u32) -> Duration {
    let usual = refresh.mul_f64(rand::random_range(0.8..1.0));
    match failures {
        0 => usual,
        _ => usual.min(SHORTEST_PAUSE * 2_u32.saturating_pow(failures.min(8))),
    }
}

/// The mark of the file with the keys; `None`: they are in none, or it is not there.
fn mark_of(issuer: &Issuer) -> Option<FileMark> {
    match &issuer.settings.source {
        KeySource::File(path) => FileMark::of(path),
        _ => None,
    }
}

/// Logs what has become of fetches: when that is something else than before, and not too often.
#[derive(Default)]
struct Teller {
    last_told: Cell<Option<Instant>>,
}

impl Teller {
    fn tell(&self, issuer: &Issuer, result: Result<narrows_proxy::tokens::KeySet, String>) {
        let is_first = issuer.keys().is_none();
        let error = result.as_ref().err().cloned();
        let is_news = issuer.fetched(result);
        let (name, keys) = (&*issuer.settings.name, issuer.keys().map_or(0, |keys| keys.len()));
        match error {
            None if is_news || is_first => {
                tracing::info!(issuer = name, keys, "the keys of an issuer are here")
            }
            Some(error) if is_news && self.may_tell() => {
                let what = match is_first {
                    true => "the keys of an issuer cannot be fetched: no token of it is accepted",
                    false => "the keys of an issuer cannot be fetched again: those before stay in force",
                };
                tracing::warn!(issuer = name, error, "{what}");
            }
            _ => {}
        }
    }

    fn may_tell(&self) -> bool {
        let may = self.last_told.get().is_none_or(|last| last.elapsed() >= QUIET);
        if may {
            self.last_told.set(Some(Instant::now()));
        }
        may
    }
}

/// The shortest time between the beginnings of two fetches: strangers can make Narrows fetch by sending tokens with keys that do
/// not exist. It is shorter than the time that a login waits, 5 s.
const SHORTEST_PAUSE: Duration = Duration::from_secs(3);

/// The time between two looks at a file.
const LOOK: Duration = Duration::from_secs(1);

/// The time after a failure was logged in which no other one is.
const QUIET: Duration = Duration::from_secs(60);

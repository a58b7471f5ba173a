//! Asks API servers of Kubernetes about the tokens of logins: about each at most once at a time, and about few that are refused.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use narrows_proxy::rt::{self, Instant, oneshot, spawn_local};
use narrows_proxy::tokens::{Issuer, IssuerSettings, KeySet, ReviewAnswer, ReviewQuestion};
use narrows_wire::auth::Password;

use super::api_server;
use super::remembered::Remembered;
use super::turns::{Outcome, TokenHash, Turn, Turns};

/// What was asked, and what is known.
pub(super) struct Reviews {
    state: RefCell<State>,
    /// Whether a task waits for credit.
    is_waiting: Cell<bool>,
    last_told: Cell<Option<Instant>>,
}

struct State {
    remembered: Remembered,
    turns: Turns,
    asked: HashMap<TokenHash, Asked>,
}

/// A token that an API server is asked about, or will be.
struct Asked {
    issuer: Arc<Issuer>,
    token: Password,
    expires: u64,
    /// Logins that wait for the answer. Each waits for one, so there are no more than logins.
    answers: Vec<oneshot::Sender<ReviewAnswer>>,
}

impl Default for Reviews {
    fn default() -> Reviews {
        let (remembered, turns) = (Remembered::default(), Turns::new(Instant::now()));
        let state = RefCell::new(State { remembered, turns, asked: HashMap::new() });
        Reviews { state, is_waiting: Cell::default(), last_told: Cell::default() }
    }
}

impl Reviews {
    /// Answers a login, from memory or after asking the API server.
    pub(super) fn ask(reviews: &Rc<Reviews>, issuer: Arc<Issuer>, question: ReviewQuestion) {
        let hash = hash(&issuer.settings, &question.token);
        if !reviews.state.borrow_mut().take(hash, issuer, question) {
            Reviews::go_on(reviews);
        }
    }

    /// Asks about everything that may be asked about now, and about the others as soon as there is credit again.
    fn go_on(reviews: &Rc<Reviews>) {
        let now = Instant::now();
        let next = || reviews.state.borrow_mut().next(now);
        while let Some(turn) = next() {
            let reviews = Rc::clone(reviews);
            spawn_local(async move {
                reviews.run(turn).await;
                Reviews::go_on(&reviews);
            });
        }
        let state = reviews.state.borrow();
        if !state.turns.is_short_of_credit(now) || reviews.is_waiting.replace(true) {
            return;
        }
        reviews.tell(&state.turns, now);
        let (due, reviews) = (state.turns.due(now), Rc::clone(reviews));
        spawn_local(async move {
            rt::sleep_until(due).await;
            reviews.is_waiting.set(false);
            Reviews::go_on(&reviews);
        });
    }

    async fn run(&self, turn: Turn) {
        let asked =
            self.state.borrow().asked.get(&turn.hash).map(|it| (Arc::clone(&it.issuer), it.token.clone()));
        let answer = match asked {
            Some((issuer, token)) => {
                let answer = api_server::review(&issuer.settings, &token).await;
                note(&issuer, &answer);
                answer
            }
            None => Err("nobody waits for it any more".to_owned()),
        };
        self.state.borrow_mut().answered(turn, &answer);
    }

    /// Logs that new tokens have to wait, and who has sent the most that were refused, once in a while.
    fn tell(&self, turns: &Turns, now: Instant) {
        if self.last_told.get().is_some_and(|last| now.duration_since(last) < QUIET) {
            return;
        }
        self.last_told.set(Some(now));
        let (source, refused) = turns.most_refused().unwrap_or_default();
        let client = source.map_or_else(|| "localhost".to_owned(), |address: IpAddr| address.to_string());
        tracing::warn!(
            client,
            refused,
            "many tokens are refused: the API server is asked about ten a second of those that were never good"
        );
    }
}

impl State {
    /// Takes the question of a login over. Returns whether it is answered.
    fn take(&mut self, hash: TokenHash, issuer: Arc<Issuer>, question: ReviewQuestion) -> bool {
        let ReviewQuestion { token, expires, from, answer } = question;
        if let Some(said) = self.remembered.said(&hash, Instant::now()) {
            // A login that has ended waits no more.
            let _ = answer.send(Ok(said));
            return true;
        }
        if let Some(asked) = self.asked.get_mut(&hash) {
            asked.answers.push(answer);
        } else {
            self.asked.insert(hash, Asked { issuer, token, expires, answers: vec![answer] });
            self.turns.wait(hash, from, self.remembered.was_good(&hash));
        }
        false
    }

    /// The next token to ask about. Those whose logins have ended are forgotten: there must not be more of them than logins.
    fn next(&mut self, now: Instant) -> Option<Turn> {
        let State { turns, asked, .. } = self;
        turns.next(now, |hash| {
            let is_wanted =
                asked.get(hash).is_some_and(|it| !it.answers.iter().all(oneshot::Sender::is_closed));
            if !is_wanted {
                asked.remove(hash);
            }
            is_wanted
        })
    }

    fn answered(&mut self, turn: Turn, answer: &ReviewAnswer) {
        let outcome = match answer {
            Ok(Ok(_)) => Outcome::Good,
            Ok(Err(_)) => Outcome::Refused,
            Err(_) => Outcome::Unanswered,
        };
        self.turns.done(turn, outcome, Instant::now());
        let Some(asked) = self.asked.remove(&turn.hash) else { return };
        if let Ok(said) = answer {
            self.remembered.note(turn.hash, asked.expires, said);
        }
        for waiting in asked.answers {
            let _ = waiting.send(answer.clone());
        }
    }
}

/// Counts an answer, and logs that the API server cannot be asked, once.
fn note(issuer: &Issuer, answer: &ReviewAnswer) {
    let result = answer.as_ref().map(|_| KeySet::default()).map_err(Clone::clone);
    let name = &*issuer.settings.name;
    match (issuer.fetched(result), answer) {
        (true, Ok(_)) => tracing::info!(issuer = name, "the API server answers again"),
        (true, Err(error)) => {
            tracing::warn!(issuer = name, error, "the API server cannot be asked about tokens")
        }
        _ => {}
    }
}

/// The hash of a token, and of everything that its answer depends on.
fn hash(issuer: &IssuerSettings, token: &Password) -> TokenHash {
    let mut context = Context::new(&SHA256);
    context.update(format!("{issuer:?}").as_bytes());
    context.update(&[0]);
    context.update(token.bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// The time after the log has said that tokens have to wait in which it does not say so again.
const QUIET: Duration = Duration::from_secs(60);

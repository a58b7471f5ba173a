//! The issuers of `narrows_token_issuers`: fetches their keys, and asks API servers about tokens.
//!
//! A thread of its own does it; it exists while there are issuers. `crates/proxy/src/tokens/` verifies the tokens of logins.

mod api_server;
mod fetch;
mod kept;
mod remembered;
mod request;
mod review;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;

use narrows_proxy::rt::{self, MailboxReceiver, MailboxSender};
use narrows_proxy::snapshot::TokenIssuerRow;
use narrows_proxy::tokens::{Issuer, IssuerQuestion, IssuerSettings, Issuers, KeySource, SharedIssuers};

use crate::http_client::address::WebAddress;
use kept::KeptIssuers;

/// The handle of the thread, which ends when this is dropped.
#[derive(Debug, Default)]
pub struct TokenKeeper {
    thread: Option<Thread>,
    /// The issuers that were made last.
    made: SharedIssuers,
}

#[derive(Debug)]
struct Thread {
    /// The issuers in force. One message for each LOAD.
    orders: MailboxSender<SharedIssuers>,
    questions: MailboxSender<IssuerQuestion>,
}

impl TokenKeeper {
    /// The issuers of the active rows. Those whose rows are as before keep what is known of them.
    pub fn issuers(&mut self, rows: &[TokenIssuerRow]) -> SharedIssuers {
        let active = rows.iter().filter(|row| row.active);
        let settings: Vec<IssuerSettings> = active.filter_map(|row| IssuerSettings::of(row).ok()).collect();
        let is_as_before = |settings: &IssuerSettings| {
            self.made.get(&*settings.name).is_some_and(|known| known.settings == *settings)
        };
        if settings.len() == self.made.len() && settings.iter().all(is_as_before) {
            return self.made.clone();
        }
        let Some(questions) = self.questions() else { return SharedIssuers::default() };
        let issuer = |settings: IssuerSettings| {
            let known = self.made.get(&*settings.name).filter(|known| known.settings == settings);
            let new = || Arc::new(Issuer::new(settings.clone(), questions.clone()));
            (settings.name.to_string(), known.map_or_else(new, Arc::clone))
        };
        let issuers: Issuers = settings.into_iter().map(issuer).collect();
        self.made = SharedIssuers(Arc::new(issuers));
        self.made.clone()
    }

    /// Keeps the keys of these issuers from now on, and of no others.
    pub fn follow(&self, issuers: &SharedIssuers) {
        if let Some(thread) = &self.thread {
            // A thread that has ended keeps nothing.
            let _ = thread.orders.send(issuers.clone());
        }
    }

    /// Where questions go; starts the thread.
    fn questions(&mut self) -> Option<MailboxSender<IssuerQuestion>> {
        if self.thread.is_none() {
            let (orders, received) = rt::mailbox();
            let (questions, asked) = rt::mailbox();
            let main = move || drop(rt::block_on(run(received, asked)));
            match std::thread::Builder::new().name("tokens".to_owned()).spawn(main) {
                Ok(_) => self.thread = Some(Thread { orders, questions }),
                Err(error) => tracing::error!(%error, "the thread that fetches keys of issuers cannot start"),
            }
        }
        self.thread.as_ref().map(|thread| thread.questions.clone())
    }
}

/// Follows orders and answers questions until the handle is dropped.
async fn run(mut orders: MailboxReceiver<SharedIssuers>, mut questions: MailboxReceiver<IssuerQuestion>) {
    let mut kept = KeptIssuers::default();
    loop {
        rt::select! {
            order = orders.recv() => match order {
                Some(issuers) => kept.follow(&issuers),
                None => return,
            },
            question = questions.recv() => match question {
                Some(question) => kept.answer(question),
                None => return,
            },
        }
    }
}

/// Why a row cannot be used.
pub fn fault(row: &TokenIssuerRow) -> Option<String> {
    let settings = match IssuerSettings::of(row) {
        Ok(settings) => settings,
        Err(fault) => return Some(fault),
    };
    let address = match &settings.source {
        KeySource::Url(address) | KeySource::TokenReview(Some(address)) => address,
        KeySource::File(_) | KeySource::TokenReview(None) => return None,
    };
    match WebAddress::parse(address) {
        None => {
            Some(format!("{address:?} is no address: expected https://host or https://host:port, and a path"))
        }
        Some(address) if !address.is_encrypted && !address.is_here() => {
            Some(format!("{address} is not encrypted: anyone on the way could replace the keys"))
        }
        Some(_) => None,
    }
}

/// What is doubtful about a row that can be used.
pub fn doubt(row: &TokenIssuerRow) -> Option<String> {
    let is_plain = row.active && row.jwks.starts_with("http://");
    is_plain.then(|| {
        format!(
            "narrows_token_issuers name='{}': its keys are fetched without encryption, from this machine",
            row.name
        )
    })
}

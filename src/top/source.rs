//! Reads the views from the admin port, on a thread of its own, so that the screen answers keys while a server does not.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use narrows_control::monitor::plan::Address;
use narrows_proxy::backend::{BackendError, Table};
use narrows_proxy::rt;

use super::state::Sample;
use super::view::VIEWS;
use crate::init::visit::{Credentials, Visit, VisitError};

/// What the screen asks for.
#[derive(Debug)]
pub enum Question {
    /// From now on this view, at once.
    Show(usize),
    /// Run this statement.
    Run(String),
}

/// What the screen receives.
#[derive(Debug)]
pub enum News {
    /// The view again.
    Sample(Sample),
    /// The answer to a statement, as lines.
    Lines(Vec<String>),
    /// There is no answer; it is tried again.
    Failure(String),
}

/// The admin port.
pub struct AdminPort {
    /// Where it is.
    pub address: Address,
    /// As whom.
    pub account: Credentials,
    /// The time between two samples.
    pub interval: Duration,
}

impl AdminPort {
    /// Follows the orders until nobody wants the answers any more.
    ///
    /// # Errors
    /// If there can be no connections at all.
    pub fn run(&self, orders: &Receiver<Question>, news: &Sender<News>) -> std::io::Result<()> {
        // Nothing else runs on this thread, so orders may be waited for in the middle of it.
        rt::block_on(self.follow(orders, news))
    }

    async fn follow(&self, orders: &Receiver<Question>, news: &Sender<News>) {
        let mut view = 0;
        let mut visit: Option<Visit> = None;
        let mut statement = None;
        loop {
            let begun = Instant::now();
            if news.send(self.ask(&mut visit, view, statement.take()).await).is_err() {
                return;
            }
            let left = self.interval.saturating_sub(begun.elapsed());
            match orders.recv_timeout(left) {
                Ok(Question::Show(wanted)) => view = wanted,
                Ok(Question::Run(wanted)) => statement = Some(wanted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The answer to a statement, or else the rows of the view. After a failure, the next attempt connects again.
    async fn ask(&self, visit: &mut Option<Visit>, view: usize, statement: Option<String>) -> News {
        let connected = match visit.take() {
            Some(connected) => connected,
            None => match Visit::begin(&self.address, &self.account).await {
                Ok(connected) => connected,
                Err(error) => return News::Failure(error.to_string()),
            },
        };
        let is_view = statement.is_none();
        let answer = match statement {
            Some(statement) => {
                connected.ask_within(&statement, PATIENCE).await.map(|table| News::Lines(lines(table)))
            }
            None => sample(&connected, view).await.map(News::Sample),
        };
        let (news, lives) = match answer {
            Ok(news) => (news, true),
            Err(BackendError::Server(error)) => {
                // What statistics users may not see is not there for them, and what they may not do is no statement.
                let refusal = match error.code {
                    REFUSED => format!("only administrators may: {}", error.message),
                    code => format!("error {code}: {}", error.message),
                };
                (if is_view { News::Failure(refusal) } else { News::Lines(vec![refusal]) }, true)
            }
            Err(error) => {
                let error = VisitError::new(&self.address, &self.account.username, &error);
                (News::Failure(error.to_string()), false)
            }
        };
        *visit = lives.then_some(connected);
        news
    }
}

async fn sample(visit: &Visit, view: usize) -> Result<Sample, BackendError> {
    let statement = VIEWS.get(view).map_or("SHOW PINS", |view| view.statement);
    let at = Instant::now();
    let rows = visit.ask_within(statement, PATIENCE).await?.rows;
    let figures =
        visit.ask_within("SELECT variable_name, variable_value FROM stats_mysql_global", PATIENCE).await?;
    let ready = visit.ask_within("SHOW NARROWS READINESS", PATIENCE).await?;
    let figure = |row: Vec<Option<String>>| {
        let [name, value] = <[Option<String>; 2]>::try_from(row).ok()?;
        Some((name?, value?.parse().ok()?))
    };
    let obstacle = ready.rows.into_iter().next().and_then(|row| row.into_iter().nth(1).flatten());
    Ok(Sample {
        view,
        at,
        rows: rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect(),
        global: figures.rows.into_iter().filter_map(figure).collect::<HashMap<String, u64>>(),
        obstacle: obstacle.unwrap_or_default(),
    })
}

fn lines(table: Table) -> Vec<String> {
    if table.rows.is_empty() {
        return vec!["done".to_owned()];
    }
    let line = |row: Vec<Option<String>>| {
        row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("  ")
    };
    table.rows.into_iter().map(line).collect()
}

/// The code of errors of the admin interface's own.
const REFUSED: u16 = 1045;

/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

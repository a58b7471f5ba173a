//! Figures of the other members: each is asked on its port for administrators, all at the same time, within a second.
//!
//! A member that does not answer is a warning, and those of the others are there all the same.

use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use narrows_proxy::backend::BackendError;
use narrows_proxy::rt::{Semaphore, spawn_local, timeout};

use super::report::NodeReport;
use crate::config::form::host_and_port;
use crate::monitor::connections::MonitorConnections;
use crate::monitor::plan::{MonitorLogin, Target};
use crate::schema::listed;

/// What all other members are asked for.
#[derive(Debug)]
pub struct FiguresWish {
    /// The tables, each with its columns.
    pub tables: Vec<(&'static str, Vec<&'static str>)>,
    /// How to log in to them, or why that is not possible.
    pub access: Result<MonitorLogin, String>,
    /// Receives what they say.
    pub outcome: Sender<FleetFigures>,
}

/// What the other members have said.
#[derive(Debug, Default)]
pub struct FleetFigures {
    /// The reports of all members.
    pub members: Vec<NodeReport>,
    /// Their rows.
    pub answers: Vec<MemberFigures>,
    /// What is missing, one sentence for each member.
    pub warnings: Vec<String>,
}

/// What one member has said of one table.
#[derive(Debug)]
pub struct MemberFigures {
    /// Its name.
    pub node: String,
    /// The table.
    pub table: &'static str,
    /// The rows.
    pub rows: Vec<Vec<Option<String>>>,
    /// How long it took to connect and to answer.
    pub took: Duration,
}

/// Asks all members but `own`, and sends what they say.
pub async fn ask_all(own: String, wish: FiguresWish, mut figures: FleetFigures) {
    let FiguresWish { tables, access, outcome } = wish;
    match access {
        _ if tables.is_empty() => {}
        Err(reason) => figures.warnings.push(format!("no other member is asked: {reason}")),
        Ok(access) => {
            let others: Vec<_> = figures.members.iter().filter(|it| it.node != own).cloned().collect();
            ask_each(others, tables, access, &mut figures).await;
        }
    }
    // An administrator that waits no longer needs no answer.
    let _ = outcome.send(figures);
}

async fn ask_each(
    members: Vec<NodeReport>,
    tables: Vec<(&'static str, Vec<&'static str>)>,
    access: MonitorLogin,
    figures: &mut FleetFigures,
) {
    let bytes = (MOST_BYTES / members.len().max(1)).max(LEAST_BYTES);
    let (asked, places) = (Rc::new((tables, access)), Rc::new(Semaphore::new(AT_ONCE)));
    let begin = |member: NodeReport| {
        let (name, asked, places) =
            (format!("{} ({})", member.node, member.address), Rc::clone(&asked), Rc::clone(&places));
        let task = spawn_local(async move {
            // It is never closed.
            let _place = places.acquire().await;
            let told = timeout(ASK_TIME, ask(&member, &asked, bytes)).await;
            told.unwrap_or_else(|_| Err(format!("no answer within {} ms", ASK_TIME.as_millis())))
        });
        (name, task)
    };
    let tasks: Vec<_> = members.into_iter().map(begin).collect();
    for (name, task) in tasks {
        match task.await {
            Ok(Ok(mut told)) => {
                for it in told.iter_mut().filter(|it| it.rows.len() > MOST_ROWS) {
                    it.rows.truncate(MOST_ROWS);
                    let table = it.table;
                    figures.warnings.push(format!("{name}: only {MOST_ROWS} rows of its {table} are here"));
                }
                figures.answers.extend(told);
            }
            Ok(Err(reason)) => figures.warnings.push(format!("{name}: its rows are missing: {reason}")),
            Err(_) => figures.warnings.push(format!("{name}: its rows are missing: asking it has failed")),
        }
    }
}

/// Asks one member for all tables, on one connection.
async fn ask(
    member: &NodeReport,
    (tables, access): &(Vec<(&'static str, Vec<&'static str>)>, MonitorLogin),
    bytes: usize,
) -> Result<Vec<MemberFigures>, String> {
    let Some((host, port)) = host_and_port(&member.address) else {
        return Err("it does not say where it listens for administrators (address in [fleet])".to_owned());
    };
    let began = Instant::now();
    let target = Target::to(host, port, member.is_encrypted);
    let connections = MonitorConnections::new(&target, access, None);
    let backend = connections.open(ASK_TIME).await.map_err(|error| told(&error))?;
    let (mut all, mut left) = (Vec::new(), bytes);
    for (table, columns) in tables {
        let statement = format!("SELECT {} FROM {table} LIMIT {}", listed(columns), MOST_ROWS + 1);
        let answer = backend.ask_within(&statement, ASK_TIME, left).await.map_err(|error| told(&error))?;
        left = left.saturating_sub(answer.rows.iter().flatten().flatten().map(String::len).sum());
        let (rows, took) = (answer.rows, began.elapsed());
        all.push(MemberFigures { node: member.node.clone(), table, rows, took });
    }
    backend.quit().await;
    Ok(all)
}

/// What a member has said, without what only the protocol has.
fn told(error: &BackendError) -> String {
    match error {
        BackendError::Server(error) => error.message.clone(),
        other => other.to_string(),
    }
}

/// How long a member may take for the connection and all its answers.
const ASK_TIME: Duration = Duration::from_secs(1);

/// The most rows of one table of one member: more than an operator reads, and than most `stats_mysql_query_digest` have.
const MOST_ROWS: usize = 10_000;

/// The most bytes of all members together, of which each may send its part: half of what one answer may have.
const MOST_BYTES: usize = 64 << 20;

/// What each member may send, however many there are: some hundred rows.
const LEAST_BYTES: usize = 256 << 10;

/// How many members are asked at the same time: each takes a descriptor, of which a process has 1024 at least.
const AT_ONCE: usize = 200;

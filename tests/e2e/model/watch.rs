//! Notices when a run stands still, and reports who waits for what.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use narrows_testkit::{Login, Narrows, RawClient, RealServer};

/// How long a step may take before it is reported. On a loaded machine, waiting for one of the two connections takes
/// half a minute.
const TOO_LONG: Duration = Duration::from_secs(45);

/// What each client does, and since when.
#[derive(Debug)]
pub struct Watch {
    doing: Mutex<Vec<Option<(Instant, String)>>>,
}

impl Watch {
    pub fn new(clients: usize) -> Watch {
        Watch { doing: Mutex::new(vec![None; clients]) }
    }

    /// A client starts something.
    pub fn note(&self, client: usize, what: String) {
        self.doing.lock().expect("nobody panics with it")[client] = Some((Instant::now(), what));
    }

    /// A client has finished everything.
    pub fn done(&self, client: usize) {
        self.doing.lock().expect("nobody panics with it")[client] = None;
    }

    /// Watches until the other end of `over` is dropped; reports the first standstill.
    pub fn run(&self, over: &Receiver<()>, narrows: &Narrows, servers: [(&str, &RealServer); 2]) {
        while over.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            let slow = self.slow();
            if !slow.is_empty() {
                eprintln!("stands still:\n{}\n{}", slow.join("\n"), circumstances(narrows, servers));
                return;
            }
        }
    }

    fn slow(&self) -> Vec<String> {
        let doing = self.doing.lock().expect("nobody panics with it");
        let slow = doing.iter().enumerate().filter_map(|(client, doing)| {
            let (since, what) = doing.as_ref().filter(|(since, _)| since.elapsed() > TOO_LONG)?;
            Some(format!("    client {client} for {:.1?}: {what}", since.elapsed()))
        });
        slow.collect()
    }
}

fn circumstances(narrows: &Narrows, servers: [(&str, &RealServer); 2]) -> String {
    let mut text = String::new();
    let mut add = |what: &str, rows: Vec<Vec<Option<String>>>| {
        writeln!(text, "  {what}").expect("writing to a String cannot fail");
        for row in rows {
            let row: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
            writeln!(text, "    {}", row.join(" | ")).expect("writing to a String cannot fail");
        }
    };
    let mut admin = RawClient::connect(&narrows.admin_endpoint());
    if admin.login(&Login::new("admin", "admin")).is_ok() {
        add("pins", admin.query("SHOW PINS").text_rows());
        add("processes", admin.query("SELECT * FROM stats_mysql_processlist").text_rows());
    }
    for (name, server) in servers {
        let list = server
            .rows("SELECT * FROM information_schema.processlist WHERE command <> 'Sleep' OR time < 300");
        add(name, list);
        add("transactions", server.rows("SELECT * FROM information_schema.innodb_trx"));
    }
    text
}

//! Clients that stop halfway, and many clients at once: they do not hold what others wait for, and the memory that they
//! used is released.

use std::time::{Duration, Instant};

use narrows_testkit::{Login, RawClient, command, wait_until};

use super::cluster::PLACES;
use super::load::Load;
use super::report::{Report, Times};
use super::servers::recovered;
use super::{Scene, short_or_long};

/// Half of them send the rest after a while, and are answered.
pub fn stop_sending(scene: &mut Scene, report: &mut Report) {
    report.peak("clients stop during an upload", |load| {
        let mut clients: Vec<Upload> = (0..PLACES + 20).map(|number| Upload::begin(scene, number)).collect();
        let since = Instant::now();
        others_go_on(scene, load, since);
        std::thread::sleep(short_or_long(Duration::from_secs(1), Duration::from_secs(20)));
        others_go_on(scene, load, Instant::now());
        let going_on = clients.split_off(clients.len() / 2);
        drop(clients);
        let defects = going_on.into_iter().filter_map(Upload::finish).collect();
        Times { defects, ..recovered(&scene.cluster, load, scene.cluster.replicas()[0]) }
    });
}

/// All of them are closed for it, in time for those that wait for their connections.
pub fn stop_reading(scene: &mut Scene, report: &mut Report) {
    report.peak("clients stop reading a large result", |load| {
        let before = stalled(scene);
        let count = 2 * PLACES + 10;
        let mut clients: Vec<RawClient> = (0..count).map(|_| scene.client()).collect();
        for client in &mut clients {
            client.send_command(command::QUERY, LARGE_RESULT.as_bytes()).expect("it is sent");
        }
        wait_until("all clients that do not read are closed", || stalled(scene) >= before + count as u64);
        let stay = clients.iter_mut().filter_map(|client| (!client.is_closed_within(SOON)).then_some(()));
        let defects = stay.map(|()| "a client that does not read is counted and not closed".to_owned());
        let defects = defects.collect();
        drop(clients);
        let replicas = scene.cluster.replicas();
        recovered(&scene.cluster, load, replicas[1]);
        Times { defects, ..recovered(&scene.cluster, load, replicas[0]) }
    });
}

/// They connect, run a statement, stay for a while, and disconnect.
pub fn crowd(scene: &mut Scene, report: &mut Report) {
    report.peak("many clients come at once", |load| {
        let count = short_or_long(500, 3_000);
        let mut defects = Vec::new();
        let mut clients: Vec<RawClient> = (0..count).map(|_| scene.client()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = client.query(format!("SELECT value + {number} FROM chaos.facts WHERE id = 1"));
            match answer.error() {
                Some(error) => defects.push(format!("one of many: {} {}", error.code, error.message)),
                None => assert_eq!(answer.cell(), Some((7 + number).to_string()), "another client's answer"),
            }
        }
        others_go_on(scene, load, Instant::now());
        drop(clients);
        Times { defects, ..recovered(&scene.cluster, load, scene.cluster.replicas()[0]) }
    });
}

fn others_go_on(scene: &Scene, load: &Load, since: Instant) {
    for server in scene.cluster.replicas() {
        let id = scene.cluster.nodes[server].id;
        wait_until("others read", || load.is_answered_by(id, since));
    }
    wait_until("others write", || load.has_written_since(since));
}

/// How many clients Narrows has closed because they stalled for too long.
fn stalled(scene: &Scene) -> u64 {
    let rows = scene.admin().query("SHOW NARROWS STATUS").text_rows();
    let row = rows.iter().find(|row| row[0].as_deref() == Some("Narrows_stalled_clients"));
    row.and_then(|row| row[1].as_deref()?.parse().ok()).expect("a figure of that name")
}

/// A client in the middle of a command of 8 MiB.
struct Upload {
    client: RawClient,
    statement: Vec<u8>,
    /// Whether the answer is its length.
    is_read: bool,
}

impl Upload {
    fn begin(scene: &Scene, number: usize) -> Upload {
        let is_read = number.is_multiple_of(2);
        let [head, tail] = if is_read { ["SELECT LENGTH('", "')"] } else { ["DO LENGTH('", "')"] };
        let mut statement = head.as_bytes().to_vec();
        statement.resize(ALL - tail.len(), b'x');
        statement.extend(tail.as_bytes());
        let mut client = RawClient::open(&scene.narrows.endpoint(), &Login::new("app", "app"));
        let mut begun = ((ALL + 1) as u32).to_le_bytes().to_vec();
        begun.push(command::QUERY);
        begun.extend(&statement[..SENT]);
        client.send_bytes(&begun).expect("it is sent");
        Upload { client, statement, is_read }
    }

    /// Sends the rest; returns what is wrong with the answer.
    fn finish(mut self) -> Option<String> {
        // If its command is streamed, it holds a server connection, and may have been closed for that: then the error
        // is its answer.
        let _ = self.client.send_bytes(&self.statement[SENT..]);
        let answer = self.client.answer(command::QUERY);
        match answer.error() {
            Some(error) if error.code == NOT_SENT => None,
            Some(error) => Some(format!("an upload that continued: {} {}", error.code, error.message)),
            None if !self.is_read => None,
            None => {
                let expected = ALL - "SELECT LENGTH('')".len();
                let found = answer.cell();
                (found != Some(expected.to_string())).then(|| format!("{expected} bytes were {found:?}"))
            }
        }
    }
}

/// Length of the statement, and of the part sent before it stops, in bytes.
const ALL: usize = 8 << 20;
const SENT: usize = 2 << 20;

/// Error 1159 of MySQL: `ER_NET_READ_INTERRUPTED`.
const NOT_SENT: u16 = 1159;

/// 60 MB.
const LARGE_RESULT: &str = "SELECT REPEAT('x', 60000) FROM chaos.facts";

/// How long a closed client may take to notice.
const SOON: Duration = Duration::from_secs(10);

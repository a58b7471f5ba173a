//! Fully known traffic: how many statements of each digest, their rows and their bytes.

use std::collections::BTreeMap;

use narrows_testkit::{Answer, Endpoint, Login, RawClient, command};

/// What was sent and received.
#[derive(Debug, Default)]
pub struct Traffic {
    /// By class.
    classes: BTreeMap<&'static str, u64>,
    /// By digest text and hostgroup: statements, rows sent, rows changed.
    pub digests: BTreeMap<(String, i32), (u64, u64, u64)>,
    /// Statements that rules send to hostgroup 1.
    pub reads: u64,
    /// Statements that the server refused.
    pub errors: u64,
    /// Bytes of the commands.
    pub bytes: u64,
    /// Bytes of the `COM_QUIT`s.
    pub quits: u64,
    /// Bytes of the answers.
    pub answer_bytes: u64,
    /// Bytes of the cells of their rows: a lower bound.
    pub row_bytes: u64,
}

impl Traffic {
    /// Makes `clients` clients send `rounds` rounds each, concurrently.
    pub fn run(endpoint: &Endpoint, clients: u64, rounds: u64) -> Traffic {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                let endpoint = endpoint.clone();
                std::thread::spawn(move || Traffic::of_one(&endpoint, client, rounds))
            })
            .collect();
        let mut sum = Traffic::default();
        for thread in threads {
            sum.add(thread.join().expect("every answer is correct"));
        }
        sum
    }

    fn of_one(endpoint: &Endpoint, client: u64, rounds: u64) -> Traffic {
        let mut connection = RawClient::open(endpoint, &Login::new("sbtest", "sbtest"));
        let mut traffic = Traffic::default();
        let id = 1_000 + client;
        let insert = format!("INSERT INTO t VALUES ({id}, 'x')");
        traffic.send(&mut connection, "INSERT", "INSERT INTO t VALUES (?,?)", &insert, 0);
        for round in 0..rounds {
            let select = format!("SELECT v FROM t WHERE id = {}", 1 + round % 3);
            traffic.send(&mut connection, "SELECT", "SELECT v FROM t WHERE id = ?", &select, 1);
            let update = format!("UPDATE t SET v = 'round {round}' WHERE id = {id}");
            let (begin, end) = if round % 2 == 0 { ("BEGIN", "COMMIT") } else { ("BEGIN", "ROLLBACK") };
            traffic.send(&mut connection, begin, begin, begin, 0);
            traffic.send(&mut connection, "UPDATE", "UPDATE t SET v = ? WHERE id = ?", &update, 0);
            traffic.send(&mut connection, end, end, end, 0);
        }
        traffic.send(&mut connection, "DELETE", "DELETE FROM missing", "DELETE FROM missing", 0);
        // Only a later statement can be sure that the answer has been counted.
        traffic.send(&mut connection, "SELECT", "SELECT ?", "SELECT 1", 1);
        connection.send_command(command::QUIT, b"").expect("connected");
        traffic.quits += 5;
        assert!(connection.is_closed_within(std::time::Duration::from_secs(30)));
        traffic
    }

    fn send(
        &mut self,
        client: &mut RawClient,
        class: &'static str,
        digest: &str,
        statement: &str,
        hostgroup: i32,
    ) {
        let answer = client.query(statement);
        *self.classes.entry(class).or_default() += 1;
        self.bytes += 5 + statement.len() as u64;
        self.answer_bytes += answer.packets.iter().map(|packet| 4 + packet.payload.len() as u64).sum::<u64>();
        self.reads += u64::from(hostgroup == 1);
        let (rows, affected) = self.take(class, &answer);
        let line = self.digests.entry((digest.to_owned(), hostgroup)).or_default();
        line.0 += 1;
        line.1 += rows;
        line.2 += affected;
    }

    /// Rows sent and rows changed; the answer must be that of the class.
    fn take(&mut self, class: &str, answer: &Answer) -> (u64, u64) {
        match (class, answer.error()) {
            ("DELETE", Some(error)) => {
                assert_eq!(error.code, 1146, "{error:?}");
                self.errors += 1;
                (0, 0)
            }
            (_, Some(error)) => panic!("{class}: {error:?}"),
            ("SELECT", None) => {
                let cell = answer.cell().expect("a value");
                self.row_bytes += cell.len() as u64;
                (1, 0)
            }
            (_, None) => (0, answer.ok().expect("OK").affected_rows),
        }
    }

    /// Total number of statements.
    pub fn statements(&self) -> u64 {
        self.classes.values().sum()
    }

    /// Statements of a class.
    pub fn of(&self, class: &str) -> u64 {
        self.classes.get(class).copied().unwrap_or_default()
    }

    fn add(&mut self, other: Traffic) {
        for (class, count) in other.classes {
            *self.classes.entry(class).or_default() += count;
        }
        for (name, (count, rows, affected)) in other.digests {
            let line = self.digests.entry(name).or_default();
            *line = (line.0 + count, line.1 + rows, line.2 + affected);
        }
        self.reads += other.reads;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.quits += other.quits;
        self.answer_bytes += other.answer_bytes;
        self.row_bytes += other.row_bytes;
    }
}

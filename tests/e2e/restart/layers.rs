//! Memory, disk and what runs are the same after a process as before it.

use std::path::Path;
use std::time::Duration;

use narrows_testkit::{Conversation, FakeMysql, Narrows, NarrowsConfig, RawClient, kill};

use super::{BINARY, scene, upgrade, wait_for_another};

/// A table, a row that only it has, by number, and the name of its module.
struct Layered {
    module: &'static str,
    table: &'static str,
    insert: fn(u32) -> String,
    /// What a layer is compared by.
    shown: &'static str,
}

const ALL: [Layered; 6] = [
    Layered {
        module: "MYSQL USERS",
        table: "mysql_users",
        insert: |number| format!("INSERT INTO mysql_users (username, password) VALUES ('user{number}', 'x')"),
        shown: "username",
    },
    Layered {
        module: "MYSQL SERVERS",
        table: "mysql_servers",
        insert: |number| {
            format!(
                "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (7, '10.9.{}.{}')",
                number / 200,
                number % 200
            )
        },
        shown: "hostname",
    },
    Layered {
        module: "MYSQL QUERY RULES",
        table: "mysql_query_rules",
        insert: |number| {
            format!(
                "INSERT INTO mysql_query_rules (rule_id, active, match_digest) VALUES ({number}, 1, 'x{number}')"
            )
        },
        shown: "rule_id",
    },
    Layered {
        module: "MYSQL FIREWALL",
        table: "mysql_firewall_whitelist_users",
        insert: |number| {
            format!(
                "INSERT INTO mysql_firewall_whitelist_users VALUES (1, 'user{number}', '', 'DETECTING', '')"
            )
        },
        shown: "username",
    },
    Layered {
        module: "SCHEDULER",
        table: "scheduler",
        insert: |number| {
            format!(
                "INSERT INTO scheduler (id, active, interval_ms, filename) VALUES ({number}, 1, 100000000, '/bin/true')"
            )
        },
        shown: "id",
    },
    Layered {
        module: "MYSQL VARIABLES",
        table: "global_variables",
        insert: |number| {
            format!(
                "UPDATE global_variables SET variable_value = '{}' WHERE variable_name = 'mysql-max_connections'",
                1_000 + number
            )
        },
        shown: "variable_value",
    },
];

impl Layered {
    /// Each layer: memory, what runs, disk.
    fn layers(&self, admin: &mut RawClient) -> [Vec<String>; 3] {
        let condition = match self.table {
            "global_variables" => "WHERE variable_name = 'mysql-max_connections'",
            _ => "",
        };
        [format!("main.{}", self.table), format!("runtime_{}", self.table), format!("disk.{}", self.table)]
            .map(|layer| {
                let query = format!("SELECT DISTINCT {0} FROM {layer} {condition} ORDER BY {0}", self.shown);
                admin.query(query).text_rows().concat().into_iter().flatten().collect()
            })
    }
}

fn done(admin: &mut RawClient, statement: &str) {
    admin.query(statement).ok().unwrap_or_else(|| panic!("{statement}"));
}

/// Makes the layers of each table differ in the way that the number says: which of memory, runtime and disk have a row of
/// their own.
fn make_differ(admin: &mut RawClient, layered: &Layered, number: u32) {
    let module = layered.module;
    for (step, moves) in [
        (0, vec![format!("SAVE {module} TO DISK")]),
        (1, vec![format!("LOAD {module} TO RUNTIME")]),
        (2, vec![format!("LOAD {module} TO RUNTIME"), format!("SAVE {module} TO DISK")]),
        (3, vec![]),
    ] {
        if number >> step & 1 == 1 {
            done(admin, &(layered.insert)(number * 4 + step + 1));
            moves.iter().for_each(|statement| done(admin, statement));
        }
    }
    if number.is_multiple_of(3) {
        done(admin, &format!("SAVE {module} TO MEMORY"));
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Worker,
    WorkerTwice,
    Supervisor,
    Upgrade,
}

fn end(narrows: &mut Narrows, how: End) {
    let worker = narrows.worker();
    match how {
        End::Worker => {
            kill(worker);
            wait_for_another(narrows, worker);
        }
        End::WorkerTwice => {
            kill(worker);
            wait_for_another(narrows, worker);
            let next = narrows.worker();
            kill(next);
            wait_for_another(narrows, next);
        }
        End::Supervisor => {
            narrows.process().kill();
            narrows.start_again(BINARY);
            kill(worker);
            wait_for_another(narrows, worker);
        }
        End::Upgrade => {
            let (worked, said) = upgrade(Path::new(BINARY), narrows);
            assert!(worked, "{said}");
            wait_for_another(narrows, worker);
        }
    }
}

fn layers(narrows: &Narrows) -> Vec<(&'static str, [Vec<String>; 3])> {
    let mut admin = narrows.admin();
    ALL.iter().map(|layered| (layered.table, layered.layers(&mut admin))).collect()
}

#[test]
fn memory_disk_and_what_runs_outlive_each_process() {
    let (_server, mut narrows) = scene(|config| config);
    let ends = [End::Worker, End::Upgrade, End::Supervisor, End::WorkerTwice];
    for number in 0..64_u32 {
        let mut admin = narrows.admin();
        for (place, layered) in ALL.iter().enumerate() {
            // Each table differs in another way.
            make_differ(&mut admin, layered, (number + 5 * place as u32) % 16 + 16 * number);
        }
        drop(admin);
        // Many edits in a row are kept together, soon after.
        std::thread::sleep(Duration::from_millis(500));
        let before = layers(&narrows);
        let how = ends[number as usize / 4 % 4];
        let log = narrows.log().len();
        end(&mut narrows, how);
        for (before, after) in before.iter().zip(layers(&narrows)) {
            assert_eq!(after, *before, "{number}: {how:?}");
        }
        assert!(!narrows.log()[log..].contains("edits are lost"), "{number}: {how:?}");
    }
}

#[test]
fn memory_and_what_runs_outlive_a_process_on_a_full_disk() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(server.port()).supervised().small_disk(16 << 20);
    let narrows = Narrows::start(BINARY, &config);
    // The machine's own disk must not be filled.
    if !narrows.has_small_disk() {
        return;
    }
    narrows.fill_small_disk();
    for number in 0..8 {
        let mut admin = narrows.admin();
        for (place, layered) in ALL.iter().enumerate() {
            done(&mut admin, &(layered.insert)(number * 2 + 1));
            if (number as usize + place).is_multiple_of(2) {
                done(&mut admin, &format!("LOAD {} TO RUNTIME", layered.module));
                done(&mut admin, &(layered.insert)(number * 2 + 2));
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        let before = layers(&narrows);
        let worker = narrows.worker();
        let log = narrows.log().len();
        kill(worker);
        narrows.wait_for_log(log, |line| line.contains("administrators are served"));
        assert_eq!(layers(&narrows), before, "{number}");
    }
}

//! Ten thousand clients whose worker process is killed.

use std::time::Instant;

use narrows_testkit::{Conversation, FakeMysql, Narrows, kill};

use crate::alone;
use crate::limits::{clients_allowed, open_to_all};
use crate::swarm::Swarm;

#[test]
fn ten_thousand_idle_clients_outlive_their_process() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let config = open_to_all(server.port()).supervised();
    let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let mut swarm = Swarm::log_in(narrows.port(), clients_allowed(10_000));
    swarm.ask_all("DO 1");
    for death in 1..=2 {
        let worker = narrows.worker();
        let killed = Instant::now();
        kill(worker);
        swarm.ask_all("DO 2");
        println!(
            "death {death}: {} clients, all answered {} ms after it",
            swarm.len(),
            killed.elapsed().as_millis()
        );
    }
    let log = narrows.log();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("of the former process continue")).collect();
    assert_eq!(told.len(), 2, "{log}");
    told.iter().for_each(|line| assert!(line.contains("closed=0"), "{line}"));
    println!("{}", told.join("\n"));
}

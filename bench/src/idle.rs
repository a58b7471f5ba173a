//! What an idle client costs in memory: resident bytes of each proxy with and without clients that have logged in and run one
//! statement.

use std::fs;
use std::io;
use std::time::Duration;

use crate::compare::Party;
use crate::load::{Generator, Limit, Plan, Usage};
use crate::peers::Account;
use crate::process::Process;

/// KiB of memory per idle client; `None` for a peer that is no process.
pub fn measure(party: &Party, account: &Account) -> io::Result<Option<f64>> {
    let Ok(running) = &party.running else { return Ok(None) };
    let Some(process) = &running.process else { return Ok(None) };
    let connections = |count: usize| -> io::Result<Generator> {
        let mut generator = Generator::new(Plan {
            target: running.address.clone(),
            user: account.user.clone(),
            password: account.password.clone(),
            schema: String::new(),
            connections: count,
            statement: "SELECT c FROM sbtest1 WHERE id=5000".to_owned(),
            rows: 1,
            usage: Usage::Keep,
            deprecate_eof: true,
        })?;
        generator.measure(Limit::Queries(count as u64))?;
        generator.rest()?;
        Ok(generator)
    };
    // What the first clients make a proxy allocate is not the cost of one more.
    let few = connections(AT_ONCE)?;
    std::thread::sleep(REST);
    let before = resident_kib(process)?;
    // A crowd would measure the connections to servers that it needs at the same time.
    let many = (0..MANY / AT_ONCE).map(|_| connections(AT_ONCE)).collect::<io::Result<Vec<_>>>()?;
    std::thread::sleep(REST);
    let after = resident_kib(process)?;
    few.finish()?;
    many.into_iter().try_for_each(Generator::finish)?;
    Ok(Some(after.saturating_sub(before) as f64 / MANY as f64))
}

/// `VmRSS` of a process in KiB, see proc(5).
pub fn resident_kib(process: &Process) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.ok_or_else(|| io::Error::other("no VmRSS"))
}

/// Clients that run their statement at the same time.
const AT_ONCE: usize = 50;
const MANY: usize = 2_000;

/// Narrows releases the memory that a command needed after one to two seconds.
pub const REST: Duration = Duration::from_secs(3);

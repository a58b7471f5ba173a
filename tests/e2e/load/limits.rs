//! How many clients there may be: Narrows' configuration, and how many files a process may have open. Every client is
//! one file in Narrows and one in the test.

use narrows_testkit::NarrowsConfig;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files other than clients: log, listeners, libraries, the runtime's own, and the 256 that Narrows does not give to
/// clients.
const RESERVE: u64 = 200 + 256;

/// How many clients of `wanted` the machine's limit allows; raises this process's limit, which Narrows inherits, as
/// far as it may.
pub fn clients_allowed(wanted: u64) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    let needed = wanted + RESERVE;
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let mut more = limit;
        (more.current, more.maximum) = (Some(needed), Some(needed));
        // Only root may do this, and not everywhere; otherwise the current limit has to do.
        if setrlimit(Resource::Nofile, more).is_ok() {
            limit = more;
        }
    }
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = limit.maximum.map(|maximum| maximum.min(needed));
        setrlimit(Resource::Nofile, limit).expect("a process may raise its limit up to its maximum");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(needed).saturating_sub(RESERVE).min(wanted);
    println!("{allowed} clients of {wanted}, by the limit of open files");
    usize::try_from(allowed).expect("fewer than would fit into memory")
}

/// Twenty connections to the server at `port`, for as many clients as come.
pub fn open_to_all(port: u16) -> NarrowsConfig {
    NarrowsConfig::new()
        .server(0, port, "max_connections=20")
        .user("sbtest", "sbtest", "max_connections=100000")
        .variable("max_connections", "100000")
}

//! How many files a process may have open: every client is one in Narrows and one in the test.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that are neither clients nor backend connections: log, listeners, libraries, the runtime's own.
const RESERVE: u64 = 200;

/// How many clients of `wanted` the machine's limit allows; raises this process's limit, which Narrows inherits, as
/// far as it may.
pub fn clients_allowed(wanted: u64) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    let needed = wanted + RESERVE;
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let mut more = limit;
        (more.current, more.maximum) = (Some(needed), Some(needed));
        // Only root may, and not everywhere: what there is has to do then.
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
    usize::try_from(allowed).expect("fewer than fit into memory")
}

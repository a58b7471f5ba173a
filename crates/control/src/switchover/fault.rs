//! Faults for tests: the end of the process after a step of a switchover, as by `kill -9`. Only in debug builds, and only if
//! `NARROWS_INJECT_KILL_AFTER` is set when Narrows starts, to a part of what the step shows.

/// Ends the process if the step is the one that a test has chosen.
#[cfg(debug_assertions)]
pub fn after(step: &str) {
    let wanted = std::env::var("NARROWS_INJECT_KILL_AFTER").unwrap_or_default();
    if !wanted.is_empty() && step.contains(&wanted) {
        // What fails here is seen by the test.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn after(_: &str) {}

//! Whether a worker process still makes progress.
//!
//! It sends heartbeats as long as each of its threads that serve clients gets to run its timers. A process that has
//! sent no heartbeat for a long time hangs: in a statement from which its lexer does not return, or on a lock that is
//! never released. A process stopped by a debugger does not hang, and one that waits for a CPU is given plenty of time.

use std::time::Duration;

use rustix::process::Pid;

/// What is known about one process.
#[derive(Debug, Default)]
pub struct Pulse {
    /// Whether its version sends heartbeats, and it has begun to.
    is_told: bool,
    missed: u32,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Health {
    /// The process makes progress.
    Fine,
    /// The process hangs.
    Hangs,
    /// The process was told to end, and has not ended.
    StillHangs,
}

impl Pulse {
    /// Records a heartbeat.
    pub fn beats(&mut self) {
        *self = Pulse { is_told: true, missed: 0 };
    }

    /// Checks the process. Must be called every [`INTERVAL`].
    pub fn look(&mut self, most: u32, pid: Pid) -> Health {
        if !self.is_told || is_stopped(pid) {
            return Health::Fine;
        }
        self.missed += 1;
        // The first check after a heartbeat finds nothing missing.
        match self.missed.saturating_sub(1) {
            missed if missed == most => Health::Hangs,
            missed if missed > most => Health::StillHangs,
            _ => Health::Fine,
        }
    }
}

/// Whether a process is stopped or traced.
fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may contain spaces and parentheses (proc(5)).
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// How often heartbeats are checked.
pub const INTERVAL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_misses_its_heartbeats_hangs_and_one_that_never_had_any_does_not() {
        let own = rustix::process::getpid();
        let mut pulse = Pulse::default();
        assert!((0..10).all(|_| pulse.look(2, own) == Health::Fine));
        pulse.beats();
        let looks = |pulse: &mut Pulse| [(); 4].map(|()| pulse.look(2, own));
        assert_eq!(looks(&mut pulse), [Health::Fine, Health::Fine, Health::Hangs, Health::StillHangs]);
        pulse.beats();
        assert_eq!(pulse.look(2, own), Health::Fine);
    }

    #[test]
    fn a_process_that_was_stopped_misses_none() {
        use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut pulse = Pulse::default();
        pulse.beats();
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        assert!((0..10).all(|_| pulse.look(2, pid) == Health::Fine));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

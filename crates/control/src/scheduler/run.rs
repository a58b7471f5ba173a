//! One run of a job: a process in a group of its own, from its start to its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::job::ScheduledJob;
use super::output::Output;

/// How programs are started.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// What turns itself into the program, so that the kernel ends the program when this process is gone: see
    /// `narrows run-job`. `None`: programs are started directly.
    pub starter: Option<PathBuf>,
    /// The working folder of programs, from which relative names of programs start.
    pub datadir: PathBuf,
}

/// A process that runs.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub job: ScheduledJob,
    /// When it began.
    pub since: Instant,
    /// What it has written.
    pub output: Output,
    /// Whether it has reached the time limit.
    pub is_late: bool,
    child: Child,
    descriptor: OwnedFd,
    stage: Stage,
}

/// How far a run is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It runs.
    Runs,
    /// It was asked to end, and is killed at this time.
    Asked(Instant),
    /// It was killed.
    Killed,
}

impl Run {
    /// Starts the program.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn start(job: ScheduledJob, surroundings: &Surroundings) -> io::Result<Run> {
        let mut child = command(&job, surroundings).spawn()?;
        let descriptor = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(error) => {
                // Without a descriptor its end could not be waited for.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(error.into());
            }
        };
        let output = Output::new(child.stdout.take(), child.stderr.take());
        let since = Instant::now();
        Ok(Run { job, since, output, is_late: false, child, descriptor, stage: Stage::Runs })
    }

    /// Becomes ready when the process ends.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Asks the whole group to end; it is killed if it has not ended after [`TIME_TO_END`].
    pub fn ask(&mut self, now: Instant) {
        if self.stage == Stage::Runs {
            self.signal(Signal::TERM);
            self.stage = Stage::Asked(now + TIME_TO_END);
        }
    }

    /// Kills the whole group.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.stage = Stage::Killed;
    }

    /// Does what time demands, with `limit` as the longest time of a run, and returns when to look again.
    pub fn keep_time(&mut self, limit: Option<Duration>, now: Instant) -> Option<Instant> {
        let late = limit.map(|limit| self.since + limit);
        if self.stage == Stage::Runs && late.is_some_and(|late| late <= now) {
            self.is_late = true;
            self.ask(now);
        }
        match self.stage {
            Stage::Runs => late,
            Stage::Asked(deadline) if deadline <= now => {
                self.kill();
                None
            }
            Stage::Asked(deadline) => Some(deadline),
            Stage::Killed => None,
        }
    }

    /// The end of a process whose descriptor is ready, after the rest of its output has been read. Who is left of its
    /// group is ended too if the process was.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.output.read();
        // The group has its number until its first process is waited for.
        if self.stage != Stage::Runs {
            self.kill();
        }
        self.child.wait()
    }

    fn signal(&self, signal: Signal) {
        // There is no group if the process has ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

/// The end of a process in words.
pub fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "0".to_owned(),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "its exit status is unknown".to_owned(),
    }
}

fn command(job: &ScheduledJob, surroundings: &Surroundings) -> Command {
    let program = job.program(&surroundings.datadir);
    let mut command = match &surroundings.starter {
        Some(starter) => {
            let mut command = Command::new(starter);
            command.arg0("narrows").arg("run-job").arg(std::process::id().to_string()).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(&job.arguments).current_dir(&surroundings.datadir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    prepare_environment(&mut command);
    command
}

/// Gives a program the environment of this process, without what is meant for this process alone.
pub fn prepare_environment(command: &mut Command) {
    for name in NOT_FOR_JOBS {
        command.env_remove(name);
    }
    if std::env::var_os("PATH").is_none() {
        command.env("PATH", PATH);
    }
}

/// How long a group has between SIGTERM and SIGKILL.
pub const TIME_TO_END: Duration = Duration::from_secs(5);

/// What the service manager and Narrows itself tell this process, and nobody else.
const NOT_FOR_JOBS: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NARROWS_LEAVING",
];

/// Where a shell script finds programs if this process has no PATH.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

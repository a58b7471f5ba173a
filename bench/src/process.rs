//! Processes that a bench starts: pinned to a core, measured, and always stopped.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};

/// How long a process may take to begin serving.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long a process may take to end after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// A running process; dropping it stops it and its descendants.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `program`, on one core if `core` is given. What it prints goes to `log`.
    ///
    /// It receives SIGTERM when this process dies, even from a signal that runs no destructors.
    pub fn start(
        name: &str,
        core: Option<usize>,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> io::Result<Process> {
        let log = fs::File::options().create(true).append(true).open(log)?;
        let mut command = Self::command(core, program, arguments);
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Process { name: name.to_owned(), child: spawn(name, &mut command)? })
    }

    /// Starts a subcommand of this binary that prints `listening on ADDRESS`, and returns the address.
    pub fn start_own(core: Option<usize>, arguments: &[String]) -> io::Result<(Process, String)> {
        let name = arguments.first().map_or("bench", String::as_str).to_owned();
        let mut command = Self::command(core, &std::env::current_exe()?, arguments);
        command.stdout(Stdio::piped());
        let mut child = spawn(&name, &mut command)?;
        let stdout = child.stdout.take().expect("it was piped");
        let process = Process { name, child };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match line.trim_end().strip_prefix("listening on ") {
            Some(address) => Ok((process, address.to_owned())),
            None => {
                Err(io::Error::other(format!("{} did not print where it listens: {line:?}", process.name)))
            }
        }
    }

    fn command(core: Option<usize>, program: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]);
        if let Some(core) = core {
            command.args(["taskset", "-c", &core.to_string()]);
        }
        command.arg(program).args(arguments).stdin(Stdio::null());
        command
    }

    /// Waits until connections to `address` are accepted; fails if the process ends first.
    pub fn wait_for_port(&mut self, address: SocketAddr, log: &Path) -> io::Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() >= deadline {
                let how = ended.map_or("does not accept connections in time".to_owned(), |status| {
                    format!("ended: {status}")
                });
                let printed = fs::read_to_string(log).unwrap_or_default();
                return Err(io::Error::other(format!("{} {how}\n{}", self.name, last_lines(&printed, 15))));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time so far of all threads of the process and of its descendants.
    ///
    /// The time of a thread that has ended is lost, so this only works for windows in which no thread ends.
    pub fn cpu(&self) -> io::Result<Cpu> {
        let mut total = Cpu::default();
        for pid in self.family() {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                let task = Cpu::read(&task?.path().join("schedstat"))?;
                total.used += task.used;
                total.waited += task.waited;
            }
        }
        Ok(total)
    }

    /// The serving worker process of a Narrows with a supervisor, once another one is ready to take its place.
    pub fn worker_process(&self) -> io::Result<u32> {
        let deadline = Instant::now() + START_PATIENCE;
        while Instant::now() < deadline {
            let workers: Vec<u32> = self.family().into_iter().skip(1).collect();
            let serving = workers.iter().find(|pid| has_thread(**pid, "door"));
            let standby =
                workers.iter().find(|pid| !has_thread(**pid, "door") && has_thread(**pid, "worker-0"));
            if let (Some(serving), Some(_)) = (serving, standby) {
                return Ok(*serving);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::other(format!("{} does not have two worker processes", self.name)))
    }

    /// Waits until a worker process other than `former` serves.
    pub fn wait_for_another(&self, former: u32) -> io::Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        while Instant::now() < deadline {
            if self.family().into_iter().skip(1).any(|pid| pid != former && has_thread(pid, "door")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::other(format!("no process takes over from process {former}")))
    }

    /// The process and its descendants, parents first.
    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.child.id()];
        let mut at = 0;
        while at < family.len() {
            let tasks = fs::read_dir(format!("/proc/{}/task", family[at])).into_iter().flatten().flatten();
            for task in tasks {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                family.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            at += 1;
        }
        family
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let family = self.family();
        signal(self.child.id(), Signal::TERM);
        let deadline = Instant::now() + STOP_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            eprintln!("{} does not end after SIGTERM; killing it", self.name);
            signal(self.child.id(), Signal::KILL);
            let _ = self.child.wait();
        }
        // Descendants that outlived it would take CPU from the next peer measured.
        family.iter().skip(1).for_each(|&pid| signal(pid, Signal::KILL));
    }
}

fn spawn(name: &str, command: &mut Command) -> io::Result<Child> {
    command.spawn().map_err(|error| io::Error::new(error.kind(), format!("cannot start {name}: {error}")))
}

/// Whether a process has a thread of that name.
fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.any(|known| known.trim_end() == name)
}

/// Sends SIGKILL to a process that this one has started.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself, which is fine.
        let _ = kill_process(pid, signal);
    }
}

/// The scheduler's figures for threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Time on a CPU.
    pub used: Duration,
    /// Time spent ready to run while something else had the CPU.
    pub waited: Duration,
}

impl Cpu {
    /// Reads a schedstat file: nanoseconds on a CPU, nanoseconds waited, time slices.
    fn read(schedstat: &Path) -> io::Result<Cpu> {
        let text = fs::read_to_string(schedstat)?;
        let mut fields =
            text.split_whitespace().map_while(|field| field.parse().ok().map(Duration::from_nanos));
        match (fields.next(), fields.next()) {
            (Some(used), Some(waited)) => Ok(Cpu { used, waited }),
            _ => Err(io::Error::other(format!("{}: {text:?}", schedstat.display()))),
        }
    }

    /// What was added since `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { used: self.used.saturating_sub(before.used), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// CPU time so far of the calling thread.
pub fn own_cpu() -> io::Result<Duration> {
    Cpu::read(Path::new("/proc/thread-self/schedstat")).map(|cpu| cpu.used)
}

/// Pins the calling thread, and everything it starts that is not pinned elsewhere, to one core.
pub fn pin_to(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("cannot pin to core {core}: {error}")))
}

/// A different priority for the calling thread and everything it starts, for as long as this value lives.
#[derive(Debug)]
pub struct Priority {
    /// The nice value to restore for the session's group, if the kernel has such groups.
    group: Option<i32>,
}

/// If sessions are scheduled as groups, a nice value only counts within a session: the group has its own.
const AUTOGROUP: &str = "/proc/self/autogroup";

impl Priority {
    /// Sets the nice value of the thread and of its session's group; negative ones need root.
    pub fn set(nice: i32) -> io::Result<Priority> {
        setpriority_process(None, nice)
            .map_err(|error| io::Error::other(format!("cannot set the nice value {nice}: {error}")))?;
        let grouped = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
        if grouped.is_ok_and(|text| text.trim() == "1") {
            let group = fs::read_to_string(AUTOGROUP)?;
            let before = group.trim_end().rsplit(' ').next().and_then(|field| field.parse().ok());
            fs::write(AUTOGROUP, nice.to_string())?;
            return Ok(Priority { group: before });
        }
        Ok(Priority { group: None })
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.group {
            let _ = fs::write(AUTOGROUP, before.to_string());
        }
    }
}

/// A port of the loopback interface on which nobody listens now.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// The full path of a program, searched for in PATH and in the folders of system programs.
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_process_ends_its_descendants_too() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let program = find_program("sh").unwrap();
        // The shell ignores SIGTERM, and its children inherit that.
        let script = "trap '' TERM; sleep 600 & echo started; wait";
        let arguments = ["-c", script].map(str::to_owned);
        let process = Process::start("sh", None, &program, &arguments, &log).unwrap();
        while !fs::read_to_string(&log).unwrap().contains("started") {
            std::thread::yield_now();
        }
        let family = process.family();
        assert_eq!(family.len(), 2);
        assert!(process.cpu().unwrap().used > Duration::ZERO);
        drop(process);
        // The kernel may take a moment to deliver the last signal.
        let deadline = Instant::now() + START_PATIENCE;
        let alive = |pid: &u32| {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        while family.iter().any(alive) {
            assert!(Instant::now() < deadline, "{family:?} are alive");
            std::thread::yield_now();
        }
    }
}

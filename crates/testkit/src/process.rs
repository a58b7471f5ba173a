//! Child processes that cannot outlive the test process, and what `/proc` says about them.

use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use crate::wait_until;

/// A child process; killed when dropped, and by the kernel when the test process dies.
#[derive(Debug)]
pub struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub fn spawn(mut command: Command) -> io::Result<Process> {
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let (reply, answer) = mpsc::channel();
        spawner().send((command, reply)).expect("the spawner thread never ends");
        let child = answer.recv().expect("the spawner thread never ends")?;
        PIDS.lock().expect("no panic while held").push(child.id());
        Ok(Process { child, status: None })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("wait for a child of ours");
            if self.status.is_some() {
                let pid = self.pid();
                PIDS.lock().expect("no panic while held").retain(|other| *other != pid);
            }
        }
        self.status
    }

    /// Waits until it has ended, for at most `limit`.
    pub fn wait_for(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while self.try_wait().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.status
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, signal: i32) {
        if self.try_wait().is_none() {
            // SAFETY: the pid is that of a child not yet waited for, so it cannot be anybody else's.
            unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        }
    }

    /// Sends SIGSTOP and waits until all its threads have stopped: until then, some continue.
    pub fn freeze(&mut self) {
        self.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let is_stopped = |task: &std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses.
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z', 'X']))
        };
        wait_until("all threads have stopped", || {
            std::fs::read_dir(&tasks).map_or(true, |mut all| all.all(|it| it.is_ok_and(|it| is_stopped(&it))))
        });
    }

    /// Sends SIGKILL and waits until it has ended.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.wait_for(Duration::from_secs(20));
    }

    /// SIGTERM; SIGKILL after `limit`.
    pub fn stop(&mut self, limit: Duration) {
        self.signal(libc::SIGTERM);
        // A process stopped by SIGSTOP acts on SIGTERM only when it runs again.
        self.signal(libc::SIGCONT);
        if self.wait_for(limit).is_none() {
            self.kill();
        }
    }

    /// From now on none of its files can grow beyond this many bytes, as on a full disk; `None`: no limit.
    pub fn limit_file_size(&mut self, bytes: Option<u64>) {
        self.limit(libc::RLIMIT_FSIZE, bytes.unwrap_or(libc::RLIM_INFINITY));
    }

    /// From now on it cannot have more descriptors than this.
    pub fn limit_open_files(&mut self, count: u64) {
        self.limit(libc::RLIMIT_NOFILE, count);
    }

    fn limit(&mut self, resource: libc::__rlimit_resource_t, most: u64) {
        limit(self.child.id(), resource, most);
    }

    /// Resident set in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.status_kib("VmRSS:") * 1024
    }

    /// The largest resident set so far, in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        self.status_kib("VmHWM:") * 1024
    }

    /// CPU time used so far by all its threads.
    pub fn cpu(&self) -> Duration {
        let mut total = 0;
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.pid())) else {
            return Duration::ZERO;
        };
        for task in tasks.flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            total += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        Duration::from_nanos(total)
    }

    fn status_kib(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// From now on, this process of ours may write core files of any size.
pub fn allow_core_files(pid: u32) {
    limit(pid, libc::RLIMIT_CORE, libc::RLIM_INFINITY);
}

fn limit(pid: u32, resource: libc::__rlimit_resource_t, most: u64) {
    let pid = pid as libc::pid_t;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both structures outlive the calls; the process is one of ours.
    let set = unsafe {
        libc::prlimit(pid, resource, std::ptr::null(), &raw mut limit);
        limit.rlim_cur = most.min(limit.rlim_max);
        libc::prlimit(pid, resource, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(set, 0, "a limit is set: {}", io::Error::last_os_error());
}

/// A TCP port of 127.0.0.1 that is free now. Another process may take it before it is used, so callers retry.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// Kills what is still running when the process exits.
pub(crate) fn kill_all() {
    if let Ok(pids) = PIDS.lock() {
        for pid in pids.iter() {
            // SAFETY: children that have not been waited for keep their pid.
            unsafe { libc::kill(*pid as libc::pid_t, libc::SIGKILL) };
        }
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

static PIDS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The thread that starts every child. The kernel sends the parent-death signal when the *thread* that forked ends, and
/// the threads of tests end long before a server that they share.
fn spawner() -> mpsc::Sender<Order> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let sender = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in orders {
                // A caller that has panicked in the meantime needs no child.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    sender.lock().expect("no panic while held").clone()
}

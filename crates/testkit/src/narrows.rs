//! The program under test, started with its own configuration.

use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::marks;
use crate::real_server;
use crate::small_disk::SmallDisk;
use crate::{Endpoint, Login, Process, RawClient, TempFolder, free_port};

/// The configuration a test writes; rows are the inside of a `{ ... }` of `proxysql.cnf`.
#[derive(Debug, Clone, Default)]
pub struct NarrowsConfig {
    variables: Vec<(String, String)>,
    servers: Vec<String>,
    /// The ports of those on 127.0.0.1; `None`: another one.
    ports: Vec<Option<u16>>,
    /// Why the test does without verification.
    unverified: Option<&'static str>,
    users: Vec<String>,
    /// Those of the users and variables.
    passwords: Vec<String>,
    rules: Vec<String>,
    /// Rows of other tables, with the tables' names.
    tables: Vec<(String, String)>,
    monitor: bool,
    supervisor: bool,
    drain_timeout_s: u32,
    missing_heartbeats: Option<u32>,
    pidfile: Option<String>,
    disk_bytes: Option<u64>,
    environment: Vec<(String, String)>,
    /// Further lines of the file.
    lines: String,
}

impl NarrowsConfig {
    /// One worker, no servers, no users.
    pub fn new() -> NarrowsConfig {
        NarrowsConfig::default()
    }

    /// A server in hostgroup 0 with the account `sbtest`: what most tests need.
    pub fn in_front_of(port: u16) -> NarrowsConfig {
        NarrowsConfig::new().server(0, port, "").user("sbtest", "sbtest", "")
    }

    /// Sets one of the `mysql_variables`; if a name is set twice, the last setting counts. A value that is neither a
    /// number nor a boolean is quoted.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> NarrowsConfig {
        self.variables.retain(|(other, _)| other != name);
        if name.ends_with("_password") {
            self.passwords.push(value.to_owned());
        }
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a server on 127.0.0.1; `more` are further columns.
    #[must_use]
    pub fn server(mut self, hostgroup: i32, port: u16, more: &str) -> NarrowsConfig {
        self.servers.push(format!("hostgroup={hostgroup} address=\"127.0.0.1\" port={port} {more}"));
        self.ports.push(Some(port));
        self
    }

    /// Adds a server with any address; `more` are further columns.
    #[must_use]
    pub fn server_at(mut self, hostgroup: i32, address: &str, port: u16, more: &str) -> NarrowsConfig {
        self.servers.push(format!("hostgroup={hostgroup} address=\"{address}\" port={port} {more}"));
        self.ports.push(None);
        self
    }

    /// Does without `mysql-verify_sessions`, for this reason. Otherwise it is 1 where all servers are real ones of the test's own
    /// process: servers that a test scripts answer no questions that they do not expect.
    #[must_use]
    pub fn unverified(mut self, reason: &'static str) -> NarrowsConfig {
        self.unverified = Some(reason);
        self
    }

    /// Whether the sessions of server connections are verified each time that they get another client.
    fn is_verified(&self) -> bool {
        let is_real = |port: &Option<u16>| port.is_some_and(real_server::is_real);
        let is_set = self.variables.iter().any(|(name, _)| name == VERIFY);
        let may = std::env::var("NARROWS_SKIP_VERIFICATION").as_deref() != Ok("1");
        may && !is_set
            && self.unverified.is_none()
            && !self.ports.is_empty()
            && self.ports.iter().all(is_real)
    }

    /// Adds a user; `more` are further columns.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, more: &str) -> NarrowsConfig {
        self.passwords.push(password.to_owned());
        self.users.push(format!("username=\"{name}\" password=\"{password}\" {more}"));
        self
    }

    /// Adds a query rule.
    #[must_use]
    pub fn rule(mut self, columns: &str) -> NarrowsConfig {
        self.rules.push(columns.to_owned());
        self
    }

    /// Adds a row to another table.
    #[must_use]
    pub fn row(mut self, table: &str, columns: &str) -> NarrowsConfig {
        self.tables.push((table.to_owned(), columns.to_owned()));
        self
    }

    /// Also starts the monitor, which is off by default.
    #[must_use]
    pub fn monitor(mut self) -> NarrowsConfig {
        self.monitor = true;
        self
    }

    /// Starts a supervisor with a worker process, instead of a single process without a supervisor.
    #[must_use]
    pub fn supervised(mut self) -> NarrowsConfig {
        self.supervisor = true;
        self
    }

    /// Gives clients this long to disconnect at shutdown; the default is no time at all.
    #[must_use]
    pub fn drain_timeout(mut self, seconds: u32) -> NarrowsConfig {
        self.drain_timeout_s = seconds;
        self
    }

    /// A worker process that has missed this many heartbeats is killed.
    #[must_use]
    pub fn missing_heartbeats(mut self, most: u32) -> NarrowsConfig {
        self.missing_heartbeats = Some(most);
        self
    }

    /// It writes its process id to a file; a relative path is relative to the data folder.
    #[must_use]
    pub fn pidfile(mut self, path: &str) -> NarrowsConfig {
        self.pidfile = Some(path.to_owned());
        self
    }

    /// Puts its data folder on a disk of this many bytes, which can be filled, if this process may mount one. Other
    /// processes do not see that disk: see [`Narrows::data_file`].
    #[must_use]
    pub fn small_disk(mut self, bytes: u64) -> NarrowsConfig {
        self.disk_bytes = Some(bytes);
        self
    }

    /// Sets an environment variable for it.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> NarrowsConfig {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a line at the top of its file.
    #[must_use]
    pub fn line(mut self, line: &str) -> NarrowsConfig {
        self.lines.push_str(line);
        self.lines.push('\n');
        self
    }

    /// The passwords that are nothing else in it.
    fn distinctive_passwords(&self) -> Vec<String> {
        marks::distinctive(&self.passwords, &self.text("", ""))
    }

    /// The configuration file for these listeners.
    pub fn text(&self, interfaces: &str, admin: &str) -> String {
        let mut text = format!(
            "{}drain_timeout={}\nadmin_variables = {{ mysql_ifaces=\"{admin}\" }}\nmysql_variables =\n{{\n",
            self.lines, self.drain_timeout_s
        );
        if let Some(most) = self.missing_heartbeats {
            text.insert_str(0, &format!("restart_on_missing_heartbeats={most}\n"));
        }
        if let Some(path) = &self.pidfile {
            text.insert_str(0, &format!("pidfile=\"{path}\"\n"));
        }
        writeln!(text, "    interfaces=\"{interfaces}\"").expect("writing to a String cannot fail");
        if !self.variables.iter().any(|(name, _)| name == "threads") {
            text.push_str("    threads=2\n");
        }
        if self.is_verified() {
            writeln!(text, "    {VERIFY}=\"1\"").expect("writing to a String cannot fail");
        }
        for (name, value) in &self.variables {
            let bare = value.parse::<i64>().is_ok() || value == "true" || value == "false";
            let quote = if bare { "" } else { "\"" };
            writeln!(text, "    {name}={quote}{value}{quote}").expect("writing to a String cannot fail");
        }
        text.push_str("}\n");
        let mut sections = vec![
            ("mysql_servers", self.servers.clone()),
            ("mysql_users", self.users.clone()),
            ("mysql_query_rules", self.rules.clone()),
        ];
        for (table, row) in &self.tables {
            match sections.iter_mut().find(|(section, _)| section == table) {
                Some((_, rows)) => rows.push(row.clone()),
                None => sections.push((table, vec![row.clone()])),
            }
        }
        for (section, rows) in sections {
            let rows: Vec<String> = rows.iter().map(|row| format!("    {{ {row} }}")).collect();
            writeln!(text, "{section} =\n(\n{}\n)", rows.join(",\n"))
                .expect("writing to a String cannot fail");
        }
        text
    }
}

/// The variable.
const VERIFY: &str = "verify_sessions";

/// Whether the monitor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// They are.
    On,
    /// `--no-monitor`.
    Off,
}

/// Whether a worker process that dies is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supervision {
    /// It is.
    On,
    /// `--no-supervisor`: all figures are those of a single process.
    Off,
}

/// How it is started.
#[derive(Debug, Clone)]
struct Mode<'a> {
    binary: &'a str,
    environment: &'a [(String, String)],
    monitor: Monitor,
    supervision: Supervision,
    disk_bytes: Option<u64>,
    passwords: Vec<String>,
}

impl<'a> Mode<'a> {
    /// A single process, without the monitor.
    fn plain(binary: &'a str, environment: &'a [(String, String)]) -> Mode<'a> {
        let (monitor, supervision) = (Monitor::Off, Supervision::Off);
        Mode { binary, environment, monitor, supervision, disk_bytes: None, passwords: Vec::new() }
    }
}

/// A running Narrows; stopped when dropped.
#[derive(Debug)]
pub struct Narrows {
    process: Process,
    port: u16,
    admin_port: u16,
    /// The data folder.
    data: PathBuf,
    disk: Option<SmallDisk>,
    folder: TempFolder,
    /// Passwords of its configuration that nothing but the configuration may have.
    passwords: Vec<String>,
}

impl Narrows {
    /// Starts `binary` and waits until it listens. A test of the root package passes `env!("CARGO_BIN_EXE_narrows")`.
    ///
    /// # Panics
    /// If it does not start; the message has its log.
    pub fn start(binary: &str, config: &NarrowsConfig) -> Narrows {
        let mode = Mode {
            binary,
            environment: &config.environment,
            monitor: if config.monitor { Monitor::On } else { Monitor::Off },
            supervision: if config.supervisor { Supervision::On } else { Supervision::Off },
            disk_bytes: config.disk_bytes,
            passwords: config.distinctive_passwords(),
        };
        Narrows::start_in(&mode, |interfaces, admin| config.text(interfaces, admin))
    }

    /// The same in a folder into which `prepare` puts files.
    ///
    /// # Panics
    /// If it does not start; the message has its log.
    pub fn start_prepared(binary: &str, config: &NarrowsConfig, prepare: impl Fn(&Path)) -> Narrows {
        let environment = &config.environment;
        let passwords = config.distinctive_passwords();
        let mode = Mode { passwords, ..Mode::plain(binary, environment) };
        Narrows::start_in(&mode, |interfaces, admin| {
            let socket = interfaces.split(';').find(|part| part.starts_with('/'));
            prepare(socket.and_then(|socket| Path::new(socket).parent()).expect("a socket in its folder"));
            config.text(interfaces, admin)
        })
    }

    /// The same with a configuration file that `text` writes, given the listeners for clients and for administrators.
    ///
    /// # Panics
    /// If it does not start; the message has its log.
    pub fn start_with(binary: &str, monitor: Monitor, text: impl Fn(&str, &str) -> String) -> Narrows {
        Narrows::start_in(&Mode { monitor, ..Mode::plain(binary, &[]) }, text)
    }

    fn start_in(mode: &Mode<'_>, text: impl Fn(&str, &str) -> String) -> Narrows {
        let folder = TempFolder::new("narrows");
        let disk = mode.disk_bytes.and_then(|bytes| SmallDisk::new(folder.file("data"), bytes));
        let data = disk.as_ref().map_or(folder.path(), SmallDisk::place).to_owned();
        // Another process may take a port after it is chosen and before it is used.
        for _ in 0..5 {
            let (port, admin_port) = (free_port(), free_port());
            let interfaces = format!("127.0.0.1:{port};{}", folder.file("narrows.sock").display());
            let admin = format!("127.0.0.1:{admin_port}");
            let text = text(&interfaces, &admin);
            // Otherwise it would listen on the default ports, which may be in use.
            assert!(
                text.contains(&interfaces) && text.contains(&admin),
                "a file without its listeners:\n{text}"
            );
            // Stored settings take precedence over the file, and an earlier attempt may have stored another port.
            let _ = fs::remove_file(folder.file("narrows.db"));
            fs::write(folder.file("narrows.cnf"), text).expect("write the configuration");
            if let Some(process) = launch(mode, &folder, disk.as_ref()) {
                let passwords = mode.passwords.clone();
                return Narrows { process, port, admin_port, data, disk, folder, passwords };
            }
        }
        panic!("narrows does not start:\n{}", fs::read_to_string(folder.file("log")).unwrap_or_default());
    }

    /// Its TCP port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP endpoint for clients.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::local(self.port)
    }

    /// Its Unix socket for clients.
    pub fn socket(&self) -> PathBuf {
        self.folder.file("narrows.sock")
    }

    /// Its TCP endpoint for administrators.
    pub fn admin_endpoint(&self) -> Endpoint {
        Endpoint::local(self.admin_port)
    }

    /// Its data folder, as Narrows itself sees it.
    pub fn folder(&self) -> &Path {
        &self.data
    }

    /// The path at which others find a file of its data folder, or that folder (an empty name), even if it is on a
    /// separate disk.
    pub fn data_file(&self, name: &str) -> PathBuf {
        match &self.disk {
            Some(disk) => disk.seen_by_others(self.process.pid()).join(name),
            None => self.data.join(name),
        }
    }

    /// Fills its small disk; returns the file that does. It is only for a Narrows that [has one](Narrows::has_small_disk): the
    /// machine's own disk must not be filled.
    ///
    /// # Panics
    /// If it has none, or no file can be created there.
    pub fn fill_small_disk(&self) -> PathBuf {
        assert!(self.has_small_disk(), "the disk of the machine would be filled");
        let filler = self.data_file("filler");
        let mut file = fs::File::create(&filler).expect("a file in the data folder");
        for size in [1 << 20, 4096, 1] {
            let chunk = vec![b'x'; size];
            while std::io::Write::write(&mut file, &chunk).is_ok_and(|written| written > 0) {}
        }
        filler
    }

    /// Whether its data folder is on a separate disk.
    pub fn has_small_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Everything it has written so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.file("log")).unwrap_or_default()
    }

    /// Waits until a line of the log, after its first `skipped` bytes, matches; returns that line.
    ///
    /// # Panics
    /// If there is none after ten seconds.
    pub fn wait_for_log(&self, skipped: usize, fits: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let log = self.log();
            if let Some(line) = log.get(skipped..).unwrap_or_default().lines().find(|line| fits(line)) {
                return line.to_owned();
            }
            assert!(
                Instant::now() < deadline,
                "no such line in the log:\n{}",
                &log[skipped.min(log.len())..]
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its resident set in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.process.resident_bytes()
    }

    /// Its process: for signals and figures.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Starts another supervisor in the same folder, as after the first one has ended.
    ///
    /// # Panics
    /// If it does not serve; and with a separate disk, which only the first one sees.
    pub fn start_again(&mut self, binary: &str) {
        assert!(self.disk.is_none(), "another supervisor would have another disk");
        let mode = Mode { supervision: Supervision::On, ..Mode::plain(binary, &[]) };
        let before = self.log().len();
        self.process = spawn(&mode, &self.folder, None);
        let has_begun = |line: &str| line.contains(" serving interfaces=") || line.contains("was taken over");
        self.wait_for_log(before, has_begun);
    }

    /// Starts a single process in the same folder, after the first one has ended.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn start_alone_again(&mut self, binary: &str) {
        let before = self.log().len();
        self.process = spawn(&Mode::plain(binary, &[]), &self.folder, None);
        self.wait_for_log(before, |line| line.contains(" serving interfaces="));
    }

    /// The process that serves clients: the supervisor's worker process.
    ///
    /// # Panics
    /// If none serves after ten seconds.
    pub fn worker(&self) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(worker) = serving_worker(&self.data) {
                return worker;
            }
            assert!(Instant::now() < deadline, "no worker process serves:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A session of the administrator.
    pub fn admin(&self) -> RawClient {
        RawClient::open(&self.admin_endpoint(), &Login::new("admin", "admin"))
    }

    /// A session of the user of statistics.
    pub fn stats(&self) -> RawClient {
        RawClient::open(&self.admin_endpoint(), &Login::new("stats", "stats"))
    }

    /// A session of `sbtest`.
    pub fn client(&self) -> RawClient {
        RawClient::open(&self.endpoint(), &Login::new("sbtest", "sbtest"))
    }
}

impl Drop for Narrows {
    fn drop(&mut self) {
        self.process.stop(Duration::from_secs(5));
        // The processes that a killed supervisor left running.
        worker_processes(&self.data).iter().for_each(|worker| kill(worker.pid));
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let first = |what: &str| {
                let found: Vec<&str> =
                    lines.iter().copied().filter(|line| line.contains(what)).take(30).collect();
                found.join("\n")
            };
            eprintln!(
                "the log of narrows ends with:\n{}\nits first warnings are:\n{}\nand its first lost servers:\n{}",
                lines[lines.len().saturating_sub(30)..].join("\n"),
                first(" WARN "),
                first("Lost connection to MySQL server")
            );
            return;
        }
        if self.disk.is_none() {
            let leaks = marks::leaks(self.folder.path(), &self.passwords);
            assert!(leaks.is_empty(), "files have passwords that they must not have: {leaks:?}");
        }
    }
}

/// A worker process.
struct Worker {
    pid: u32,
    /// When it started, in ticks since the machine booted.
    begun: u64,
    /// Whether it serves or has served, rather than only waiting to take over.
    serves: bool,
}

/// The worker process that serves from `folder`, if there is one.
pub fn serving_worker(folder: &Path) -> Option<u32> {
    // A process that is about to end is older.
    let serving = worker_processes(folder).into_iter().filter(|worker| worker.serves);
    serving.max_by_key(|worker| worker.begun).map(|worker| worker.pid)
}

/// The worker processes of `folder` that serve, have served or wait to serve, and their keepers.
pub fn workers_and_keepers(folder: &Path) -> Vec<u32> {
    worker_processes(folder).iter().map(|worker| worker.pid).collect()
}

/// The worker processes of `folder` that serve or wait to serve, and their keepers, found by their command lines.
fn worker_processes(folder: &Path) -> Vec<Worker> {
    let mut wanted = b"narrows\0worker\0".to_vec();
    wanted.extend_from_slice(folder.as_os_str().as_bytes());
    wanted.push(0);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_folder = |pid: u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_ours = fs::read(process.join("cmdline")).ok()? == wanted;
        let has_door = || {
            let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
            let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
            names.any(|name| name == "door\n")
        };
        // The 22nd field, the 20th after the name (proc(5)).
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let begun = stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(19)?.parse().ok());
        is_ours.then(|| Worker { pid, begun: begun.unwrap_or(0), serves: has_door() })
    };
    pids.filter_map(of_folder).collect()
}

/// Sends SIGKILL to a process that is known to be ours.
pub fn kill(pid: u32) {
    // SAFETY: kill affects nothing in this process.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

fn spawn(mode: &Mode<'_>, folder: &TempFolder, disk: Option<&SmallDisk>) -> Process {
    let log =
        fs::OpenOptions::new().create(true).append(true).open(folder.file("log")).expect("open the log");
    let mut command = Command::new(mode.binary);
    command.arg("-f").arg("-c").arg(folder.file("narrows.cnf"));
    command.arg("-D").arg(disk.map_or(folder.path(), SmallDisk::place));
    if mode.monitor == Monitor::Off {
        command.arg("-n");
    }
    if mode.supervision == Supervision::Off {
        command.arg("--no-supervisor");
    }
    command.envs(mode.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file descriptor")).stderr(log);
    if let Some(disk) = disk {
        disk.mount_in(&mut command);
    }
    Process::spawn(command).unwrap_or_else(|error| panic!("start {}: {error}", mode.binary))
}

/// Starts it; `None` if it ended at once.
fn launch(mode: &Mode<'_>, folder: &TempFolder, disk: Option<&SmallDisk>) -> Option<Process> {
    let mut process = spawn(mode, folder, disk);
    let deadline = Instant::now() + Duration::from_secs(20);
    while process.try_wait().is_none() {
        // The last line logged at start; a test that counts lines only sees what is written after it.
        let log = fs::read_to_string(folder.file("log")).unwrap_or_default();
        if log.contains(" serving interfaces=") || log.contains("\"message\":\"serving\"") {
            return Some(process);
        }
        assert!(Instant::now() < deadline, "narrows does not serve:\n{log}");
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

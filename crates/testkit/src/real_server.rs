//! A throw-away MariaDB or MySQL server on loopback.
//!
//! The data folder is a copy of a template that is created once per machine and kept in `target/`; nothing is durable.
//! Accounts: `root` without a password and `sbtest`/`sbtest`, both from any host and with all privileges.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::{Endpoint, ErrorPacket, Login, Namespace, Process, RawClient, TempFolder, free_port};

/// Which server software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// `mariadbd` of PATH.
    MariaDb,
    /// MySQL 9 in the folder named by `NARROWS_MYSQL9`, by default `/opt/mysql9`.
    MySql9,
}

impl Flavour {
    /// The flavours for a test that runs on both: those that are tested.
    ///
    /// # Panics
    /// If there is none.
    pub fn both() -> Vec<Flavour> {
        let mut both = vec![Flavour::MariaDb, Flavour::MySql9];
        both.retain(|flavour| flavour.is_tested());
        assert!(!both.is_empty(), "MariaDB and MySQL 9 are both skipped");
        both
    }

    /// Whether this run tests it: `NARROWS_SKIP_MARIADB=1` and `NARROWS_SKIP_MYSQL9=1` leave it out.
    pub fn is_tested(self) -> bool {
        let (name, switch) = match self {
            Flavour::MariaDb => ("MariaDB", "NARROWS_SKIP_MARIADB"),
            Flavour::MySql9 => ("MySQL 9", "NARROWS_SKIP_MYSQL9"),
        };
        let is_tested = std::env::var(switch).as_deref() != Ok("1");
        if !is_tested {
            eprintln!("{name} is skipped: {switch}=1");
        }
        is_tested
    }

    /// Runs a test that there is of each flavour, if this one is tested.
    pub fn if_tested(self, test: impl FnOnce(Flavour)) {
        if self.is_tested() {
            test(self);
        }
    }
}

/// How a server is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Which software.
    pub flavour: Flavour,
    /// Command line options of the server, given last so that they take precedence.
    pub options: Vec<String>,
    /// Options of its first start only.
    first_options: Vec<String>,
    /// Statements run at every start, one per entry.
    pub statements: Vec<String>,
    /// The network namespace it runs in, by name.
    namespace: Option<String>,
    /// Whether it begins with an empty data folder, which a cluster fills.
    is_without_data: bool,
}

impl ServerOptions {
    /// The options of an ordinary server.
    pub fn new(flavour: Flavour) -> ServerOptions {
        ServerOptions {
            flavour,
            options: Vec::new(),
            first_options: Vec::new(),
            statements: Vec::new(),
            namespace: None,
            is_without_data: false,
        }
    }

    /// Adds a command line option.
    #[must_use]
    pub fn option(mut self, option: &str) -> ServerOptions {
        self.options.push(option.to_owned());
        self
    }

    /// Adds a command line option for its first start only.
    #[must_use]
    pub fn at_first(mut self, option: &str) -> ServerOptions {
        self.first_options.push(option.to_owned());
        self
    }

    /// Starts it without data, to receive those of a cluster.
    #[must_use]
    pub fn without_data(mut self) -> ServerOptions {
        self.is_without_data = true;
        self
    }

    /// Runs it in a network namespace.
    #[must_use]
    pub fn inside(mut self, namespace: &Namespace) -> ServerOptions {
        self.namespace = Some(namespace.name().to_owned());
        self
    }

    /// Adds an account with all privileges.
    #[must_use]
    pub fn account(mut self, user: &str, password: &str) -> ServerOptions {
        self.statements.extend(account_statements(user, password));
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// If it does not start within a minute; the message has the end of its log.
    pub fn start(self) -> RealServer {
        RealServer::start(self)
    }
}

/// The ports of this process's real servers, of those that have ended too.
static REAL_PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Whether a port is one of a real server of this process.
pub(crate) fn is_real(port: u16) -> bool {
    REAL_PORTS.lock().expect("no test panics with it").contains(&port)
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct RealServer {
    options: ServerOptions,
    process: Process,
    port: u16,
    // Dropped after the process, which is therefore declared first.
    folder: TempFolder,
}

impl RealServer {
    /// The server of this flavour that all tests of the binary share. Each uses its own schemas.
    pub fn shared(flavour: Flavour) -> &'static RealServer {
        static MARIADB: OnceLock<RealServer> = OnceLock::new();
        static MYSQL9: OnceLock<RealServer> = OnceLock::new();
        let cell = match flavour {
            Flavour::MariaDb => &MARIADB,
            Flavour::MySql9 => &MYSQL9,
        };
        cell.get_or_init(|| {
            ServerOptions::new(flavour)
                .option("--max-connections=1000")
                .option("--max-allowed-packet=256M")
                .option("--local-infile=1")
                .start()
        })
    }

    fn start(mut options: ServerOptions) -> RealServer {
        let folder = TempFolder::new("server");
        match options.is_without_data {
            true => make_folder_for_a_copy(&folder.file("data")),
            false => copy_folder(template(options.flavour), &folder.file("data")),
        }
        // Each server in a replication setup creates its own accounts, which are not replicated.
        let statements = std::iter::once("SET sql_log_bin = 0".to_owned())
            .chain(account_statements("root", ""))
            .chain(account_statements("sbtest", "sbtest"))
            .chain(options.statements.iter().cloned());
        let text: String = statements.map(|statement| statement + ";\n").collect();
        fs::write(folder.file("init.sql"), text).expect("write the init file");
        let first_options = std::mem::take(&mut options.first_options);
        let first = first_options.iter().fold(options.clone(), |first, option| first.option(option));
        // Another process may take the port after it is chosen and before it is used.
        for _ in 0..5 {
            let port = free_port();
            if let Some(process) = launch(&first, &folder, port) {
                REAL_PORTS.lock().expect("no test panics with it").insert(port);
                return RealServer { options, process, port, folder };
            }
        }
        panic!("{:?} does not start:\n{}", options.flavour, log_tail(&folder));
    }

    /// Its TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its TCP endpoint.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::local(self.port)
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.file("sock")
    }

    /// Which software it is.
    pub fn flavour(&self) -> Flavour {
        self.options.flavour
    }

    /// Its error log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.file("log")).unwrap_or_default()
    }

    /// Its process: for signals and figures.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it (SIGSTOP): it still accepts connections (the kernel does) but answers nothing.
    pub fn freeze(&mut self) {
        self.process.freeze();
    }

    /// SIGCONT.
    pub fn thaw(&mut self) {
        self.process.signal(libc::SIGCONT);
    }

    /// Starts it again on the same port and data, killing it first if it is still running.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// The same with further options, this time only.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart_with(&mut self, options: &[&str]) {
        let with = options.iter().fold(self.options.clone(), |with, option| with.option(option));
        self.process.kill();
        if self.options.options.iter().any(|option| option == "--wsrep-on=1") {
            // Another node's rsync may fill it.
            give_away(&self.folder.file("data"));
        }
        self.process = launch(&with, &self.folder, self.port)
            .unwrap_or_else(|| panic!("no restart on port {}:\n{}", self.port, log_tail(&self.folder)));
    }

    /// Starts it again without its data, which it receives from a cluster.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart_without_data(&mut self) {
        self.process.kill();
        let data = self.folder.file("data");
        fs::remove_dir_all(&data).expect("a folder of ours");
        make_folder_for_a_copy(&data);
        self.restart();
    }

    /// Starts it again with the data of a new server, as one that is to be filled again, and with further options, this time only.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart_as_new(&mut self, options: &[&str]) {
        self.process.kill();
        let data = self.folder.file("data");
        fs::remove_dir_all(&data).expect("a folder of ours");
        copy_folder(template(self.options.flavour), &data);
        self.restart_with(options);
    }

    /// A session of `root` through the Unix socket, for preparation and inspection.
    pub fn root(&self) -> RawClient {
        let mut client = RawClient::connect(&Endpoint::Unix(self.socket()));
        client.login(&Login::new("root", "")).expect("root has no password");
        client
    }

    /// Runs a statement as root; returns its error if it fails.
    pub fn try_execute(&self, statement: &str) -> Option<ErrorPacket> {
        self.root().query(statement).error()
    }

    /// Runs statements as `root`, one after another.
    ///
    /// # Panics
    /// If one fails.
    pub fn execute(&self, statements: &[&str]) {
        let mut root = self.root();
        for statement in statements {
            if let Some(error) = root.query(statement).error() {
                panic!("{statement}: {error:?}");
            }
        }
    }

    /// How many transactions are open now. `information_schema.innodb_trx` is only brought up to date if nobody has read
    /// it for a tenth of a second.
    ///
    /// # Panics
    /// If the server does not tell.
    pub fn open_transactions(&self) -> usize {
        let rows = self.rows("SHOW ENGINE INNODB STATUS");
        let text = rows[0][2].as_ref().expect("the status of InnoDB");
        text.lines().filter(|line| line.starts_with("---TRANSACTION ") && line.contains(", ACTIVE")).count()
    }

    /// Runs one query as `root`; the cells of its rows as text.
    pub fn rows(&self, query: &str) -> Vec<Vec<Option<String>>> {
        self.root().query(query).text_rows()
    }
}

fn account_statements(user: &str, password: &str) -> [String; 2] {
    [
        format!("CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY '{password}'"),
        format!("GRANT ALL PRIVILEGES ON *.* TO '{user}'@'%' WITH GRANT OPTION"),
    ]
}

/// Starts the server and waits until it answers. `None`: it ended before that, for example because its port was taken.
fn launch(options: &ServerOptions, folder: &TempFolder, port: u16) -> Option<Process> {
    let command = start_command(options, folder, port);
    let _ = fs::remove_file(folder.file("sock"));
    let mut process =
        Process::spawn(command).unwrap_or_else(|error| panic!("start {:?}: {error}", options.flavour));
    let deadline = Instant::now() + Duration::from_secs(60);
    // The socket appears after the init file has run; the port is bound before.
    while process.try_wait().is_none() {
        if std::os::unix::net::UnixStream::connect(folder.file("sock")).is_ok() {
            return Some(process);
        }
        assert!(Instant::now() < deadline, "{:?} is not up in time:\n{}", options.flavour, log_tail(folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn start_command(options: &ServerOptions, folder: &TempFolder, port: u16) -> Command {
    let mut command = server_command(options.flavour, options.namespace.as_deref());
    let path = |name: &str| folder.file(name).display().to_string();
    command
        .arg(format!("--datadir={}", path("data")))
        .arg(format!("--socket={}", path("sock")))
        .arg(format!("--pid-file={}", path("pid")))
        .arg(format!("--init-file={}", path("init.sql")))
        .arg(format!("--tmpdir={}", folder.path().display()))
        .arg(format!("--port={port}"))
        .args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--secure-file-priv=",
            "--max-connect-errors=1000000",
        ])
        .args([
            "--innodb-flush-method=nosync",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M",
        ]);
    match options.flavour {
        Flavour::MariaDb => command.args(["--innodb-log-file-size=64M", "--innodb-fast-shutdown=2"]),
        Flavour::MySql9 => command.args([
            "--mysqlx=OFF",
            "--skip-log-bin",
            "--innodb-redo-log-capacity=64M",
            "--innodb-doublewrite=OFF",
            // Otherwise every COUNT(*) starts threads, and busily waits up to 10 ms until they run.
            "--innodb-parallel-read-threads=1",
        ]),
    };
    let log =
        fs::OpenOptions::new().create(true).append(true).open(folder.file("log")).expect("open the log");
    command.args(&options.options).stdin(Stdio::null());
    if let Some(address) = options.options.iter().find_map(|it| it.strip_prefix("--wsrep-node-address=")) {
        // What the other nodes show, which have no other way to know the port.
        command.arg(format!("--wsrep-node-incoming-address={address}:{port}"));
    }
    command.stdout(log.try_clone().expect("a file descriptor")).stderr(log);
    command
}

/// The server program with its first options.
fn server_command(flavour: Flavour, namespace: Option<&str>) -> Command {
    let start = |program: &OsStr| match namespace {
        Some(name) => Namespace::command(name, program),
        None => Command::new(program),
    };
    let mut command = match flavour {
        Flavour::MariaDb => {
            let mut command = start("mariadbd".as_ref());
            command.arg("--no-defaults");
            command
        }
        Flavour::MySql9 => mysql9_command(start),
    };
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        command.arg("--user=root");
    }
    command
}

/// MySQL 9 is unpacked with its own libraries, so its own loader starts it.
fn mysql9_command(start: impl FnOnce(&OsStr) -> Command) -> Command {
    let root = std::env::var_os("NARROWS_MYSQL9").map_or_else(|| PathBuf::from("/opt/mysql9"), PathBuf::from);
    let program = root.join("usr/sbin/mysqld");
    assert!(
        program.exists(),
        "this test needs MySQL 9 and there is no {}: put its folder into NARROWS_MYSQL9, or set NARROWS_SKIP_MYSQL9=1",
        program.display()
    );
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let loader = libraries.join("ld-linux-x86-64.so.2");
    let mut command = if loader.exists() {
        let mut command = start(loader.as_ref());
        command.arg("--argv0").arg(&program).arg("--library-path").arg(&libraries).arg(&program);
        command
    } else {
        start(program.as_ref())
    };
    command
        .arg("--no-defaults")
        .arg(format!("--basedir={}", root.join("usr").display()))
        .arg(format!("--lc-messages-dir={}", root.join("usr/share/mysql").display()))
        .arg(format!("--character-sets-dir={}", root.join("usr/share/mysql/charsets").display()))
        .arg(format!("--plugin-dir={}", root.join("usr/lib/mysql/plugin").display()));
    command
}

/// The folder with the template's data, created if there is none yet.
fn template(flavour: Flavour) -> &'static Path {
    static MARIADB: OnceLock<PathBuf> = OnceLock::new();
    static MYSQL9: OnceLock<PathBuf> = OnceLock::new();
    match flavour {
        Flavour::MariaDb => MARIADB.get_or_init(|| make_template("mariadb", initialise_mariadb)),
        Flavour::MySql9 => MYSQL9.get_or_init(|| make_template("mysql9", initialise_mysql9)),
    }
}

fn make_template(name: &str, initialise: fn(&Path)) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testkit");
    let ready = target.join(name);
    if !ready.exists() {
        fs::create_dir_all(&target).expect("create the folder of templates");
        let new = target.join(format!("{name}-new-{}", std::process::id()));
        let _ = fs::remove_dir_all(&new);
        initialise(&new);
        // The rename fails if another process has finished a template in the meantime; that one is just as good.
        if fs::rename(&new, &ready).is_err() {
            let _ = fs::remove_dir_all(&new);
        }
    }
    assert!(ready.exists(), "no template in {}", ready.display());
    ready
}

fn initialise_mariadb(folder: &Path) {
    let mut command = Command::new("mariadb-install-db");
    command
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
        .args(["--innodb-log-file-size=64M", "--innodb-flush-method=nosync"])
        .arg(format!("--datadir={}", folder.display()));
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        command.arg("--user=root");
    }
    run(command);
}

fn initialise_mysql9(folder: &Path) {
    let mut command = server_command(Flavour::MySql9, None);
    command
        .args(["--initialize-insecure", "--innodb-flush-method=nosync", "--innodb-redo-log-capacity=64M"])
        .arg(format!("--datadir={}", folder.display()));
    run(command);
    // Each copy gets its own server id.
    let _ = fs::remove_file(folder.join("auto.cnf"));
}

fn run(mut command: Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A folder that another server's rsync may fill.
fn make_folder_for_a_copy(folder: &Path) {
    fs::create_dir(folder).expect("a folder of ours");
    give_away(folder);
}

/// Makes everything in a folder be one that another server's rsync may replace: if root runs its daemon, it works as nobody.
fn give_away(path: &Path) {
    const NOBODY: u32 = 65_534;
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).expect("root may do this");
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            give_away(&entry.path());
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create a data folder");
    for entry in fs::read_dir(from).expect("read the template").flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy_folder(&entry.path(), &target);
        } else {
            copy_file(&entry.path(), &target).unwrap_or_else(|error| panic!("copy {target:?}: {error}"));
        }
    }
}

/// Copies a file without its zeros, which are most of a data folder.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let (mut from, to) = (File::open(from)?, File::create(to)?);
    let mut buffer = vec![0; 16 * ZEROS.len()];
    let mut place = 0;
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return to.set_len(place);
        }
        let parts = buffer[..read].chunks(ZEROS.len()).zip((place..).step_by(ZEROS.len()));
        for (part, place) in parts.filter(|(part, _)| *part != &ZEROS[..part.len()]) {
            to.write_all_at(part, place)?;
        }
        place += read as u64;
    }
}

fn log_tail(folder: &TempFolder) -> String {
    let log = fs::read_to_string(folder.file("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

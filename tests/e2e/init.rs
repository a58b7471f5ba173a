//! `narrows init`: from one server and an account to a narrows.toml that works.

mod clusters;
mod ends;
mod transcript;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{
    Endpoint, Flavour, Login, Process, RawClient, RealServer, ServerOptions, TempFolder, free_port,
    wait_until,
};

use crate::sandbox::{Sandbox, app_client};

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

/// A folder in which `narrows init` runs, with ports for the configuration that it writes.
struct Place {
    folder: TempFolder,
    port: u16,
    admin_port: u16,
}

impl Place {
    fn new() -> Place {
        let folder = TempFolder::new("init");
        fs::create_dir(folder.file("tmp")).expect("a folder");
        Place { folder, port: free_port(), admin_port: free_port() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("init").args(arguments).current_dir(self.folder.path());
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--admin-listen", &format!("127.0.0.1:{}", self.admin_port)]);
        command.env_remove("NARROWS_LOG").env("TMPDIR", self.folder.file("tmp")).stdin(Stdio::null());
        command
    }

    /// Runs it for the server at `port`, as a script does.
    fn init(&self, port: u16, account: &str, more: &[&str]) -> Output {
        let server = format!("127.0.0.1:{port}");
        let arguments = ["--yes", "--server", &server, "--user", account, "--password", account];
        self.command(&[&arguments, more].concat()).output().expect("the program runs")
    }

    /// The same, which must succeed; returns what it printed.
    fn init_well(&self, port: u16, account: &str, more: &[&str]) -> String {
        let output = self.init(port, account, more);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// The same, which must fail with one line, and leave nothing.
    fn init_badly(&self, port: u16, account: &str, more: &[&str]) -> String {
        let output = self.init(port, account, more);
        assert!(!output.status.success(), "{}", text(&output.stdout));
        let error = text(&output.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(self.files(), ["tmp"], "{error}");
        error
    }

    /// Runs it on a terminal, and types each answer after its prompt. Returns whether it succeeded, and what was shown.
    fn type_answers(&self, steps: &[(&str, &str)], options: &[&str]) -> (bool, String) {
        let steps = serde_json::to_string(steps).expect("text");
        let mut command = Command::new("python3");
        command.args(["-c", TYPIST, &steps, BINARY, "init", "--admin-listen"]);
        command.arg(format!("127.0.0.1:{}", self.admin_port));
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]).args(options);
        command.current_dir(self.folder.path()).env_remove("NARROWS_LOG");
        let output = command.env("TMPDIR", self.folder.file("tmp")).output().expect("python3 is installed");
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// The files in the folder; nothing may be left in its temporary folder.
    fn files(&self) -> Vec<String> {
        let names = |name: &str| {
            let entries = fs::read_dir(self.folder.file(name)).expect("a folder").flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        assert!(names("tmp").is_empty(), "{:?}", names("tmp"));
        names("")
    }

    fn toml(&self) -> String {
        fs::read_to_string(self.folder.file("narrows.toml")).expect("the file")
    }

    /// Checks the written file, and starts Narrows with it as the printed line says.
    fn serve(&self) -> Process {
        let mode = fs::metadata(self.folder.file("narrows.toml")).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let narrows = |arguments: &[&str]| {
            let mut command = Command::new(BINARY);
            command.args(arguments).current_dir(self.folder.path()).env_remove("NARROWS_LOG");
            command
        };
        let checked = narrows(&["check", "narrows.toml"]).output().expect("the program runs");
        let expected = "narrows.toml: can be started: 0 errors, 0 warnings\n";
        assert_eq!(text(&checked.stdout), expected);
        let log = fs::File::create(self.folder.file("log")).expect("a file");
        // Without a supervisor nothing outlives the process when the test ends it.
        let mut command = narrows(&["-f", "--no-supervisor", "-c", "narrows.toml"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
        let process = Process::spawn(command).expect("the program starts");
        wait_until("it serves", || self.log().contains(" serving interfaces="));
        process
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.file("log")).unwrap_or_default()
    }

    fn client(&self, account: &str) -> RawClient {
        RawClient::open(&Endpoint::local(self.port), &Login::new(account, account))
    }

    fn admin(&self) -> RawClient {
        let toml = self.toml();
        let line = toml.lines().find_map(|line| line.strip_prefix("admin_credentials = \"admin:"));
        let password = line.and_then(|rest| rest.strip_suffix('"')).expect("the administrator's password");
        RawClient::open(&Endpoint::local(self.admin_port), &Login::new("admin", password))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(client: &mut RawClient, statement: &str) {
    let error = client.query(statement).error();
    assert!(error.is_none(), "{statement}: {error:?}");
}

/// The addresses in a hostgroup, as they are at runtime.
fn ports(admin: &mut RawClient, hostgroup: u16) -> Vec<u16> {
    let question = format!(
        "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = {hostgroup} AND status = 'ONLINE' ORDER BY port"
    );
    let rows = admin.query(&question).text_rows();
    rows.iter().filter_map(|row| row[0].as_ref()?.parse().ok()).collect()
}

/// A read and a write through Narrows; the read arrives at `reads`.
fn read_and_write(place: &Place, reads: u16) {
    let mut client = place.client("app");
    run(&mut client, "CREATE TABLE app.written (n INT)");
    run(&mut client, "INSERT INTO app.written VALUES (7)");
    wait_until("the row can be read", || {
        let answer = client.query("SELECT n FROM app.written");
        // Until a replica has the table, the answer is an error.
        answer.error().is_none() && answer.text_rows() == [[Some("7".to_owned())]]
    });
    run(&mut client, "DROP TABLE app.written");
    let question = "SELECT DISTINCT hostgroup FROM stats_mysql_query_digest WHERE digest_text = 'SELECT n FROM app.written'";
    let rows = place.admin().query(question).text_rows();
    assert_eq!(rows, [[Some(reads.to_string())]]);
}

/// A sandbox with servers of this flavour.
fn sandbox_with(flavour: Flavour, options: &[&str]) -> Sandbox {
    match flavour {
        Flavour::MariaDb => Sandbox::start(options),
        Flavour::MySql9 => Sandbox::start(&[options, &["--server", &folder_of_mysql9()]].concat()),
    }
}

/// Where MySQL 9 is.
pub fn folder_of_mysql9() -> String {
    std::env::var("NARROWS_MYSQL9").unwrap_or_else(|_| "/opt/mysql9".to_owned())
}

/// Runs a statement as `root`, who has an account on the servers' sockets only.
fn as_root(sandbox: &Sandbox, index: usize, statement: &str) {
    let mut root = RawClient::connect(&Endpoint::Unix(sandbox.socket(index)));
    root.login(&Login::new("root", "")).expect("root has no password");
    run(&mut root, statement);
}

#[test]
fn a_lone_server_gets_one_hostgroup() {
    for flavour in Flavour::both() {
        let sandbox = sandbox_with(flavour, &["--replicas", "0"]);
        let place = Place::new();
        let said = place.init_well(sandbox.servers()[0].port, "app", &[]);
        assert!(said.contains("monitor: 'monitor' exists and works"), "{said}");
        assert!(said.contains("'app' ran a statement in hostgroup 10 on 127.0.0.1:"), "{said}");
        assert!(said.contains("narrows -f -c narrows.toml\n"), "{said}");
        let toml = place.toml();
        assert!(
            !toml.contains("mysql_replication_hostgroups") && !toml.contains("auto_read_write_split"),
            "{toml}"
        );
        assert!(toml.contains("max_connections = 800 # of 1000: 200 are left to others"), "{toml}");
        let _narrows = place.serve();
        read_and_write(&place, 10);
    }
}

fn finds_all(flavour: Flavour) {
    let sandbox = sandbox_with(flavour, &["--replicas", "2"]);
    let all: Vec<u16> = sandbox.servers().iter().map(|server| server.port).collect();
    let [primary, replicas @ ..] = all.as_slice() else { panic!("a primary and two replicas") };
    let mut replicas = replicas.to_vec();
    replicas.sort_unstable();
    for entry in [*primary, all[2]] {
        let place = Place::new();
        let said = place.init_well(entry, "app", &["--app-user", "app", "--app-password", "app"]);
        assert!(
            said.contains(&format!("hostgroup 10 on 127.0.0.1:{primary} and in hostgroup 20 on")),
            "{said}"
        );
        assert!(!said.contains("Note: "), "{said}");
        let toml = place.toml();
        assert!(toml.contains("[[mysql_replication_hostgroups]]"), "{toml}");
        assert_eq!(toml.matches("[[mysql_servers]]").count(), 3, "{toml}");
        let _narrows = place.serve();
        read_and_write(&place, 20);
        let mut admin = place.admin();
        assert_eq!((ports(&mut admin, 10), ports(&mut admin, 20)), (vec![*primary], replicas.clone()));
    }
}

#[test]
fn a_primary_and_its_replicas_are_found_from_any_of_them() {
    Flavour::MariaDb.if_tested(finds_all);
}

#[test]
fn a_primary_and_its_replicas_are_found_from_any_of_them_on_mysql9() {
    Flavour::MySql9.if_tested(finds_all);
}

#[test]
fn a_failure_is_one_sentence_and_leaves_nothing() {
    let place = Place::new();
    let server = RealServer::shared(Flavour::MariaDb);
    let wrong =
        place.init_badly(server.port(), "sbtest", &["--app-user", "sbtest", "--app-password", "wrong"]);
    assert!(wrong.contains("refuses 'sbtest': check the name and the password"), "{wrong}");
    let nobody = place.init_badly(server.port(), "init_nobody", &[]);
    assert!(nobody.contains("refuses 'init_nobody': check the name and the password"), "{nobody}");
    let nothing = place.init_badly(free_port(), "sbtest", &[]);
    assert!(
        nothing.contains("nothing listens on 127.0.0.1:") && nothing.contains("check the port"),
        "{nothing}"
    );
    let unknown = place.init_badly(server.port(), "sbtest", &["--app-user", "init_unknown"]);
    assert!(unknown.contains("there is no account 'init_unknown' on 127.0.0.1:"), "{unknown}");
    let folder = place.init_badly(server.port(), "sbtest", &["--output", "nowhere/narrows.toml"]);
    assert!(folder.contains("there is no folder nowhere: create it"), "{folder}");
    let variable =
        place.init_badly(server.port(), "sbtest", &["--app-user", "a", "--app-password-env", "INIT_UNSET"]);
    assert!(variable.contains("the environment variable INIT_UNSET is not set"), "{variable}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("bound").port();
    let since = Instant::now();
    let error = Place::new().init_badly(port, "app", &[]);
    assert!(error.contains("does not answer within 5 s: check that a server listens there"), "{error}");
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[test]
fn a_file_is_not_overwritten_without_force() {
    let (place, server) = (Place::new(), RealServer::shared(Flavour::MariaDb));
    fs::write(place.folder.file("narrows.toml"), "# mine\n").expect("a file");
    let output = place.init(server.port(), "sbtest", &[]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("narrows.toml exists: give another name with --output, or --force"), "{error}");
    assert_eq!((place.toml().as_str(), place.files().len()), ("# mine\n", 2));
    place.init_well(server.port(), "sbtest", &["--output", "other.toml"]);
    assert_eq!(place.toml(), "# mine\n");
    place.init_well(server.port(), "sbtest", &["--force"]);
    assert!(place.toml().contains("[[mysql_servers]]"));
    // What Narrows has stored would take precedence over the new file.
    fs::create_dir(place.folder.file("narrows-data")).expect("a folder");
    fs::write(place.folder.file("narrows-data/narrows.db"), "").expect("a file");
    let said = place.init_well(server.port(), "sbtest", &["--force"]);
    assert!(said.contains("narrows -f -c narrows.toml --initial\n"), "{said}");
}

#[test]
fn an_account_without_privileges_gets_what_is_possible_and_the_statements_for_the_rest() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let [primary, replica] = sandbox.servers() else { panic!("a primary and a replica") };
    let mut on_primary = app_client(primary.port);
    for statement in ["CREATE USER poor@'%' IDENTIFIED BY 'poor'", "DROP USER monitor@'%'"] {
        run(&mut on_primary, statement);
    }
    wait_until("the replica has the account", || {
        let login = Login::new("poor", "poor");
        RawClient::connect(&Endpoint::local(replica.port)).login(&login).is_ok()
    });
    let place = Place::new();
    let error = place.init_badly(replica.port, "poor", &[]);
    assert!(
        error.contains("is read-only, and 'poor' may not see what it replicates from: GRANT REPLICA MONITOR"),
        "{error}"
    );
    let said = place.init_well(primary.port, "poor", &["--create-monitor"]);
    assert!(said.contains("'poor' may not see the replication of"), "{said}");
    assert!(said.contains("The account 'monitor' could not be created by 'poor' (error 1227"), "{said}");
    assert!(said.contains("  CREATE USER 'monitor'@'%' IDENTIFIED BY 'Nw7-"), "{said}");
}

#[test]
fn the_monitors_account_is_created_on_request_and_otherwise_its_statements_are_printed() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let port = sandbox.servers()[0].port;
    run(&mut app_client(port), "DROP USER monitor@'%'");
    let exists = "SELECT COUNT(*) FROM mysql.user WHERE User = 'monitor'";
    let place = Place::new();
    // It may create accounts, but not grant anything.
    let said = place.init_well(port, "app", &["--create-monitor"]);
    assert!(said.contains("The account 'monitor' could not be created by 'app'"), "{said}");
    assert_eq!(app_client(port).query(exists).cell().as_deref(), Some("0"));
    as_root(&sandbox, 0, "GRANT GRANT OPTION ON *.* TO app@'%'");
    let said = place.init_well(port, "app", &["--force"]);
    let statements =
        ["CREATE USER 'monitor'@'%' IDENTIFIED BY 'Nw7-", "GRANT REPLICA MONITOR ON *.* TO 'monitor'@'%';"];
    assert!(statements.iter().all(|statement| said.contains(statement)), "{said}");
    assert_eq!(app_client(port).query(exists).cell().as_deref(), Some("0"));
    let said = place.init_well(port, "app", &["--force", "--create-monitor"]);
    assert!(said.contains("monitor: 'monitor' was created on the primary"), "{said}");
    let _narrows = place.serve();
    let mut admin = place.admin();
    wait_until("both servers are checked", || {
        let question =
            "SELECT COUNT(DISTINCT port) FROM monitor.mysql_server_read_only_log WHERE error IS NULL";
        admin.query(question).cell().as_deref() == Some("2")
    });
}

#[test]
fn hashes_are_carried_over_and_passwords_come_from_variables_and_files() {
    let (place, server) = (Place::new(), RealServer::shared(Flavour::MariaDb));
    server.execute(&[
        "CREATE OR REPLACE USER init_hashed@'%' IDENTIFIED BY 'secret\"\\\\ 1'",
        "CREATE OR REPLACE USER init_filed@'%' IDENTIFIED BY 'of a file'",
    ]);
    fs::write(place.folder.file("tmp.password"), "of a file\n").expect("a file");
    let server_address = format!("127.0.0.1:{}", server.port());
    let mut command = place.command(&["--yes", "--server", &server_address, "--user", "sbtest"]);
    command.args([
        "--password-env",
        "INIT_PASSWORD",
        "--app-user",
        "init_filed",
        "--app-user",
        "init_hashed",
    ]);
    command.args(["--app-password-file", "tmp.password"]).env("INIT_PASSWORD", "sbtest");
    let output = command.output().expect("the program runs");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("account 'init_hashed': with the hash that the servers have"), "{said}");
    assert!(said.contains("'init_filed' ran a statement in hostgroup 10"), "{said}");
    let _narrows = place.serve();
    for (account, password) in [("init_filed", "of a file"), ("init_hashed", "secret\"\\ 1")] {
        let login = Login::new(account, password);
        let mut client = RawClient::open(&Endpoint::local(place.port), &login);
        assert_eq!(
            client.query("SELECT SESSION_USER()").cell().map(|user| user.starts_with(account)),
            Some(true)
        );
    }
}

#[test]
fn a_replica_that_accepts_writes_gets_none() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let [primary, replica] = sandbox.servers() else { panic!("a primary and a replica") };
    as_root(&sandbox, 1, "SET GLOBAL read_only = 0");
    let place = Place::new();
    let said = place.init_well(primary.port, "app", &[]);
    assert!(said.contains(&format!("127.0.0.1:{} replicate but accept writes", replica.port)), "{said}");
    let _narrows = place.serve();
    read_and_write(&place, 20);
    let mut admin = place.admin();
    assert_eq!((ports(&mut admin, 10), ports(&mut admin, 20)), (vec![primary.port], vec![replica.port]));
}

/// Types answers on a pseudo-terminal: each after its prompt has been seen. Prints what was shown.
pub const TYPIST: &str = r#"
import json, os, pty, select, sys, time
steps, command = json.loads(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown, read, deadline = b"", 0, time.time() + 60
def more():
    global shown
    if time.time() > deadline:
        print(shown.decode()); sys.exit("no end")
    if select.select([terminal], [], [], 1)[0]:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            return False
        shown += data
        return bool(data)
    return True
for prompt, answer in steps:
    while prompt.encode() not in shown[read:]:
        if not more():
            print(shown.decode()); sys.exit("ended before " + prompt)
    read = len(shown)
    os.write(terminal, answer.encode() + b"\n")
while more():
    pass
print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn on_a_terminal_each_answer_is_checked_and_asked_for_again() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let server = format!("127.0.0.1:{}", sandbox.servers()[0].port);
    run(&mut app_client(sandbox.servers()[0].port), "DROP USER monitor@'%'");
    as_root(&sandbox, 0, "GRANT GRANT OPTION ON *.* TO app@'%'");
    let nothing = format!("127.0.0.1:{}", free_port());
    let place = Place::new();
    fs::write(place.folder.file("narrows.toml"), "").expect("a file");
    let steps = [
        ("narrows.toml exists. Replace it? [y/N]: ", "y"),
        ("HOST:PORT [127.0.0.1:3306]: ", "db1:port"),
        ("HOST:PORT [127.0.0.1:3306]: ", &nothing),
        ("accounts [root]: ", "app"),
        ("Password of 'app': ", "app"),
        ("HOST:PORT [127.0.0.1:3306]: ", &server),
        ("numbers [1]: ", "9"),
        ("numbers [1]: ", "1 2"),
        ("Password of 'sbtest' (empty: use its hash): ", "wrong-one"),
        ("Password of 'sbtest' (empty: use its hash): ", ""),
        ("to the replicas? [Y/n]: ", ""),
        ("Run them on ", "y"),
    ];
    let (is_success, shown) = place.type_answers(&steps, &[]);
    assert!(is_success, "{shown}");
    for refusal in
        ["\"port\" is not a port", "nothing listens on", "expected numbers from 1 to 2", "refuses 'sbtest'"]
    {
        assert!(shown.contains(refusal), "{refusal}: {shown}");
    }
    assert!(!shown.contains("wrong-one"), "passwords are not shown: {shown}");
    assert!(shown.contains("monitor: 'monitor' was created"), "{shown}");
    let _narrows = place.serve();
    read_and_write(&place, 20);
}

#[test]
fn without_a_terminal_it_says_how_scripts_call_it() {
    let place = Place::new();
    let output = place.command(&[]).output().expect("the program runs");
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("there is no terminal for questions: give --yes"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn replicas_that_do_not_report_their_host_are_found_where_they_connect_from() {
    for flavour in Flavour::both() {
        let sandbox = sandbox_with(flavour, &["--replicas", "2", "--option=--report-host="]);
        let said = Place::new().init_well(sandbox.servers()[0].port, "app", &[]);
        for server in sandbox.servers() {
            assert!(said.contains(&format!("127.0.0.1:{} (up to 800 connections)", server.port)), "{said}");
        }
    }
}

#[test]
fn a_replica_that_does_not_apply_changes_gets_no_reads_and_is_no_obstacle() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    as_root(&sandbox, 1, "STOP SLAVE SQL_THREAD");
    let place = Place::new();
    let said = place.init_well(sandbox.servers()[0].port, "app", &[]);
    assert!(said.contains("does not replicate (it was stopped): START REPLICA there"), "{said}");
    assert!(said.contains("no server of hostgroup 20 can serve now, so it was not tried"), "{said}");
    let _narrows = place.serve();
    let mut client = place.client("app");
    run(&mut client, "CREATE TABLE app.written (n INT)");
    let mut admin = place.admin();
    wait_until("the monitor has checked the lag", || ports(&mut admin, 20).is_empty());
    run(&mut client, "SELECT n FROM app.written");
}

#[test]
fn a_replica_that_is_late_on_purpose_gets_no_reads() {
    let sandbox = Sandbox::start(&["--replicas", "2"]);
    let late = sandbox.servers()[1].port;
    for statement in ["STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY = 3600", "START SLAVE"] {
        as_root(&sandbox, 1, statement);
    }
    let place = Place::new();
    // From the replica: it is listed by the primary as soon as it is connected again.
    let entry = late;
    let said = place.init_well(entry, "app", &[]);
    assert!(said.contains(&format!("127.0.0.1:{late} (up to 800 connections, not in use)")), "{said}");
    let _narrows = place.serve();
    assert_eq!(ports(&mut place.admin(), 20), [sandbox.servers()[2].port]);
}

#[test]
fn a_server_that_requires_tls_gets_it() {
    Flavour::MySql9.if_tested(|flavour| {
        let server = ServerOptions::new(flavour).option("--require-secure-transport=ON").start();
        let place = Place::new();
        place.init_well(server.port(), "sbtest", &[]);
        assert!(place.toml().contains("use_ssl = true"), "{}", place.toml());
        let _narrows = place.serve();
        run(&mut place.client("sbtest"), "SELECT 1");
    });
}

#[test]
fn a_hash_of_caching_sha2_password_is_carried_over() {
    Flavour::MySql9.if_tested(|flavour| {
        // That of MySQL 8, and the default of MySQL 9.7.
        ["5000", "10000"].iter().for_each(|rounds| carry_over(flavour, rounds));
    });
}

fn carry_over(flavour: Flavour, rounds: &str) {
    let place = Place::new();
    let option = format!("--caching-sha2-password-digest-rounds={rounds}");
    let server = ServerOptions::new(flavour).option(&option).start();
    server.execute(&["CREATE USER init_sha2@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'"]);
    let said = place.init_well(server.port(), "sbtest", &["--app-user", "init_sha2"]);
    assert!(said.contains("the accounts in the file could not be tried"), "{said}");
    assert!(!place.toml().contains("sbtest"), "{}", place.toml());
    let _narrows = place.serve();
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--batch", "-h127.0.0.1", "-uinit_sha2", "-psecret", "-e", "SELECT 1+1"]);
    let output = client.arg(format!("-P{}", place.port)).output().expect("the mariadb client is installed");
    assert!(text(&output.stdout).contains('2'), "{rounds} rounds: {}", text(&output.stderr));
}

//! The stored configuration: through restarts, flags, crashes and damage, with the program itself.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Login, Process, RawClient, TempFolder, free_port};
use rustix::process::{Signal, kill_process};

/// A data folder in which the program is started repeatedly.
struct Site {
    folder: TempFolder,
    admin_port: u16,
}

impl Site {
    fn new() -> Site {
        Site { folder: TempFolder::new("stored"), admin_port: free_port() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Writes the configuration file.
    fn configure(&self, sections: &str) {
        let text = format!(
            "admin_variables = {{ mysql_ifaces = \"127.0.0.1:{}\" }}\n\
             mysql_variables = {{ threads = 1, interfaces = \"{}\" }}\n{sections}",
            self.admin_port,
            self.path("sock").display()
        );
        fs::write(self.path("narrows.cnf"), text).expect("write the configuration");
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
        command
            .args(["-f", "-n", "--no-supervisor", "-D"])
            .arg(self.folder.path())
            .arg("-c")
            .arg(self.path("narrows.cnf"))
            .args(flags);
        command.env_remove("NARROWS_LOG").stdin(Stdio::null());
        command
    }

    /// Starts the program and logs in as its administrator.
    fn start(&self, flags: &[&str]) -> (Process, RawClient) {
        let mut command = self.command(flags);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).expect("a log");
        command.stdout(log.try_clone().expect("a file descriptor")).stderr(log);
        let mut process = Process::spawn(command).expect("the program starts");
        let endpoint = Endpoint::local(self.admin_port);
        let deadline = Instant::now() + Duration::from_secs(20);
        while RawClient::try_connect(&endpoint).is_err() {
            let log = || fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(process.try_wait().is_none(), "it has ended:\n{}", log());
            assert!(Instant::now() < deadline, "it does not listen:\n{}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
        (process, RawClient::open(&endpoint, &Login::new("admin", "admin")))
    }

    /// Starts the program where it must fail.
    fn refused(&self, flags: &[&str], user: Option<u32>) -> Output {
        let mut command = self.command(flags);
        if let Some(user) = user {
            std::os::unix::process::CommandExt::uid(&mut command, user);
        }
        command.output().expect("the program starts")
    }
}

/// The first column of an answer.
fn column(admin: &mut RawClient, statement: &str) -> Vec<String> {
    let answer = admin.query(statement);
    assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
    answer.text_rows().into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

fn run(admin: &mut RawClient, statements: &[&str]) {
    for statement in statements {
        let answer = admin.query(statement);
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
    }
}

const SERVERS: &str = "SELECT hostname FROM runtime_mysql_servers ORDER BY 1";

#[test]
fn what_is_saved_is_there_after_a_restart_unless_flags_say_otherwise() {
    let site = Site::new();
    site.configure("mysql_servers = ( { address = \"of-the-file\", hostgroup = 0 } )");
    let (process, mut admin) = site.start(&[]);
    assert_eq!(column(&mut admin, SERVERS), ["of-the-file"]);
    run(
        &mut admin,
        &[
            "UPDATE mysql_servers SET hostname = 'saved'",
            "SAVE MYSQL SERVERS TO DISK",
            "SET mysql-max_connections = 123",
            "LOAD MYSQL VARIABLES TO RUNTIME",
            "SAVE MYSQL VARIABLES TO DISK",
            "INSERT INTO mysql_servers (hostname) VALUES ('not-saved')",
            "LOAD MYSQL SERVERS TO RUNTIME",
        ],
    );
    assert_eq!(column(&mut admin, SERVERS), ["not-saved", "saved"]);
    drop(process);

    let connections =
        "SELECT variable_value FROM runtime_global_variables WHERE variable_name = 'mysql-max_connections'";
    let (process, mut admin) = site.start(&[]);
    assert_eq!(column(&mut admin, SERVERS), ["saved"]);
    assert_eq!(column(&mut admin, connections), ["123"]);
    drop(process);

    let (process, mut admin) = site.start(&["--reload"]);
    assert_eq!(column(&mut admin, SERVERS), ["of-the-file", "saved"]);
    assert_eq!(column(&mut admin, connections), ["123"]);
    drop(process);

    let (process, mut admin) = site.start(&["--initial"]);
    assert_eq!(column(&mut admin, SERVERS), ["of-the-file"]);
    assert_eq!(column(&mut admin, connections), ["10000"]);
    drop(process);
    assert!(site.path("narrows.db.bak").exists());
}

#[test]
fn a_start_tells_which_sections_of_the_file_are_not_in_force() {
    let site = Site::new();
    site.configure(
        "mysql_servers = ( { address = \"a\", hostgroup = 0 } )\n\
         mysql_users = ( { username = \"app\", password = \"secret-of-app\" } )\n\
         scheduler = ( { id = 1, interval_ms = 1000, filename = \"/bin/true\" } )\n",
    );
    let log = || fs::read_to_string(site.path("log")).expect("a log");
    let (process, mut admin) = site.start(&[]);
    // The runtime table has accounts twice, once for each side.
    run(&mut admin, &["SAVE MYSQL USERS FROM RUNTIME", "SAVE MYSQL USERS TO DISK"]);
    drop(process);
    let (process, mut admin) = site.start(&[]);
    assert!(!log().contains("not in force"), "{}", log());
    run(
        &mut admin,
        &[
            "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (7, 'db-only')",
            "SAVE MYSQL SERVERS TO DISK",
            "UPDATE mysql_users SET default_hostgroup = 9",
            "SAVE MYSQL USERS TO DISK",
            "SET mysql-threads = 2",
            "SAVE MYSQL VARIABLES TO DISK",
        ],
    );
    drop(process);
    let (process, mut admin) = site.start(&[]);
    let said = log();
    for expected in [
        "the section mysql_servers differs from the database and is not in force: 1 row only in the database \
         (hostgroup_id=7 hostname='db-only' port=3306). LOAD MYSQL SERVERS FROM CONFIG takes it to memory",
        "the section mysql_users differs from the database and is not in force: 1 row only in the file (username='app'), \
         1 row only in the database (username='app')",
        "the section mysql_variables differs from the database and is not in force: threads.",
        "--reload puts the file over it, --initial starts from the file alone",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert_eq!(said.matches("not in force").count(), 3, "{said}");
    assert!(!said.contains("secret-of-app"), "{said}");
    // Reading it does not load it.
    let servers = column(&mut admin, "SELECT hostname FROM runtime_mysql_servers ORDER BY 1");
    assert_eq!(servers, ["a", "db-only"]);
    drop(process);
    let _started = site.start(&["--reload"]);
    assert_eq!(log().matches("not in force").count(), 3, "{}", log());
}

#[test]
fn a_program_that_is_killed_while_it_saves_starts_with_a_whole_configuration() {
    let site = Site::new();
    site.configure("");
    let mut least = 0;
    for round in 0..12_u64 {
        let (mut process, mut admin) = site.start(&[]);
        let found = column(&mut admin, "SELECT comment FROM disk.mysql_servers GROUP BY comment");
        assert!(found.len() <= 1, "round {round}: parts of several saves: {found:?}");
        let found: u64 = found.first().map_or(0, |number| number.parse().expect("a number"));
        assert!(found >= least, "round {round}: {found} is stored, {least} was saved");
        least = found;
        // The rounds end at different moments: a save takes a few milliseconds.
        let end = Instant::now() + Duration::from_micros(20_000 + round * 3_717);
        let pid = rustix::process::Pid::from_raw(process.pid().cast_signed()).expect("a process");
        let killer = std::thread::spawn(move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            kill_process(pid, Signal::KILL).expect("it is there");
        });
        for number in least + 1.. {
            let insert = format!(
                "REPLACE INTO mysql_servers (hostgroup_id, hostname, comment) WITH RECURSIVE c(x) AS \
                 (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 300) SELECT x, 'host', '{number}' FROM c"
            );
            let saved = [insert.as_str(), "SAVE MYSQL SERVERS TO DISK"].iter().all(|statement| {
                admin.send_command(0x03, statement.as_bytes()).is_ok() && admin.read().is_ok()
            });
            if !saved {
                break;
            }
            least = number;
        }
        killer.join().expect("it has killed");
        process.wait_for(Duration::from_secs(5)).expect("it has ended");
    }
    assert!(least > 0, "nothing was ever saved");
}

#[test]
fn a_database_that_cannot_be_used_is_a_reason_not_to_start() {
    let site = Site::new();
    site.configure("mysql_servers = ( { address = \"a\", hostgroup = 0 } )");
    drop(site.start(&[]));
    let path = site.path("narrows.db");
    let whole = fs::read(&path).expect("a database");
    let mut noise = whole.clone();
    noise[4096..3 * 4096].fill(0xA7);
    for (damage, bytes) in
        [("cut off", &whole[..whole.len() / 2]), ("noise", &noise), ("text", b"hostname=a\n")]
    {
        fs::write(&path, bytes).expect("write it");
        let output = site.refused(&[], None);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{damage}: it has started");
        assert!(said.contains(&format!("the database {} ", path.display())), "{damage}: {said}");
        assert_eq!(fs::read(&path).expect("still there"), bytes, "{damage}: it was written to");
    }
    fs::write(&path, &whole).expect("write it");
    // All other files may be written by anybody: what a killed process was writing is there too.
    for entry in fs::read_dir(site.folder.path()).expect("its folder").flatten() {
        let mode = if entry.path().is_dir() { 0o777 } else { 0o666 };
        set_mode(&entry.path(), mode);
    }
    set_mode(&path, 0o444);
    set_mode(site.folder.path(), 0o777);
    // Root may write to any file.
    let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
    let output = site.refused(&[], is_root.then_some(65_534));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("cannot be written"), "{said}");
    assert_eq!(fs::read(&path).expect("still there"), whole);
    set_mode(&path, 0o600);
    let (_process, mut admin) = site.start(&[]);
    assert_eq!(column(&mut admin, SERVERS), ["a"]);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

#[test]
fn a_server_that_cannot_be_reached_is_shunned_at_runtime_and_nowhere_else() {
    let site = Site::new();
    site.configure(&format!(
        "mysql_servers = ( {{ address = \"127.0.0.1\", port = {}, hostgroup = 0 }} )\n\
         mysql_users = ( {{ username = \"app\", password = \"app\" }} )",
        free_port()
    ));
    let (_process, mut admin) = site.start(&[]);
    let status = "SELECT status FROM runtime_mysql_servers";
    assert_eq!(column(&mut admin, status), ["ONLINE"]);
    run(&mut admin, &["SET mysql-connect_timeout_server_max = 100", "LOAD MYSQL VARIABLES TO RUNTIME"]);
    let mut client = RawClient::open(&Endpoint::Unix(site.path("sock")), &Login::new("app", "app"));
    assert!(client.query("SELECT 1").error().is_some());
    assert_eq!(column(&mut admin, status), ["SHUNNED"]);
    assert_eq!(column(&mut admin, "SELECT status FROM stats_mysql_connection_pool"), ["SHUNNED"]);
    run(&mut admin, &["SAVE MYSQL SERVERS FROM RUNTIME"]);
    assert_eq!(column(&mut admin, "SELECT status FROM mysql_servers"), ["ONLINE"]);
}

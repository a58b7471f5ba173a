//! `narrows sandbox`: starts, replicates, describes itself, and removes everything when it ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use narrows_testkit::{Endpoint, Login, Monitor, Narrows, RawClient, TempFolder, wait_until};
use serde_json::Value;

#[test]
fn replicas_follow_the_primary_and_refuse_writes() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let [primary, replica] = sandbox.servers() else { panic!("a primary and a replica") };
    let mut on_primary = app_client(primary.port);
    run(&mut on_primary, "CREATE TABLE app.written (n INT)");
    run(&mut on_primary, "INSERT INTO app.written VALUES (7)");
    let mut on_replica = app_client(replica.port);
    wait_until("the row is on the replica", || {
        let answer = on_replica.query("SELECT GROUP_CONCAT(n) FROM app.written");
        // Until the table exists, the answer is an error.
        answer.error().is_none() && answer.cell().as_deref() == Some("7")
    });
    let refused = on_replica.query("INSERT INTO app.written VALUES (8)");
    assert_eq!(refused.error().expect("read_only").code, 1290);
}

#[test]
fn sandbox_ends_with_the_program_that_started_it() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let pids: Vec<u32> = sandbox.servers().iter().map(|server| server.pid).collect();
    let dir = sandbox.dir.clone();
    assert!(pids.iter().all(|&pid| is_running(pid)));
    drop(sandbox);
    wait_until("the servers are gone", || !pids.iter().any(|&pid| is_running(pid)));
    wait_until("the folder is gone", || !dir.exists());
}

#[test]
fn servers_do_not_outlive_a_killed_sandbox() {
    let mut sandbox = Sandbox::start(&["--replicas", "0"]);
    let pid = sandbox.servers()[0].pid;
    sandbox.child.kill().expect("it is ours");
    wait_until("the server is gone", || !is_running(pid));
}

#[test]
fn detached_sandbox_is_stopped_by_its_folder_and_keeps_its_data() {
    let folder = TempFolder::new("sandbox");
    let dir = folder.path().to_str().expect("a plain path");
    let narrows = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_narrows")).arg("sandbox").args(arguments).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let first = servers_in(&narrows(&["start", "--replicas", "0", "--detach", "--json", "--dir", dir]));
    run(&mut app_client(first[0].port), "CREATE TABLE app.kept (n INT)");
    let config = narrows(&["config", "--dir", dir, "--listen", "127.0.0.1:1", "--admin", "127.0.0.1:2"]);
    assert!(config.contains(&format!("port = {}", first[0].port)), "{config}");
    assert!(config.contains("interfaces = \"127.0.0.1:1\""), "{config}");
    assert!(config.contains("mysql_ifaces = \"127.0.0.1:2\""), "{config}");
    assert_eq!(crate::check::schema::misfits(&config), Vec::<String>::new());
    narrows(&["stop", "--dir", dir]);
    assert!(!is_running(first[0].pid));
    let second = servers_in(&narrows(&["start", "--replicas", "0", "--detach", "--json", "--dir", dir]));
    let mut again = app_client(second[0].port);
    assert_eq!(again.query("SHOW TABLES FROM app").cell().as_deref(), Some("kept"));
    narrows(&["stop", "--dir", dir]);
}

#[test]
fn locks_are_routed_to_the_primary_in_all_their_forms() {
    let sandbox = Sandbox::start(&["--replicas", "1"]);
    let narrows = Narrows::start_with(env!("CARGO_BIN_EXE_narrows"), Monitor::Off, |interfaces, admin| {
        sandbox.config(interfaces, admin)
    });
    let mut admin = narrows.admin();
    let mut hostgroup = |statement: &str| {
        let answer = admin.query(format!("EXPLAIN ROUTE '{statement}' AS app"));
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
        let rows = answer.text_rows();
        let row = rows.iter().find(|row| row[1].as_deref() == Some("hostgroup"));
        row.and_then(|row| row[2].clone()).unwrap_or_else(|| panic!("{statement}: {rows:?}"))
    };
    let long = format!("SELECT {} FROM t FOR UPDATE", vec!["a_column"; 1_000].join(", "));
    let locks = [
        "SELECT a FROM t WHERE id = 1 FOR UPDATE",
        "select a from t for update",
        "SELECT a FROM t FOR UPDATE;",
        "SELECT a FROM t FOR UPDATE NOWAIT",
        "SELECT a FROM t FOR UPDATE SKIP LOCKED",
        "SELECT a FROM t FOR UPDATE WAIT 3",
        "SELECT a FROM t FOR UPDATE OF t",
        "SELECT a FROM t FOR UPDATE OF t SKIP LOCKED",
        "SELECT a FROM `t`FOR\n  UPDATE",
        "SELECT a FROM t FOR/* a comment */UPDATE",
        "SELECT a FROM t FOR SHARE",
        "SELECT a FROM t FOR SHARE OF t NOWAIT",
        "SELECT a FROM t FOR SHARE SKIP LOCKED",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT a FROM t LOCK IN SHARE MODE WAIT 3",
        "SELECT a FROM t LOCK IN\tSHARE\tMODE NOWAIT",
        "SELECT a FROM (SELECT a FROM t FOR UPDATE) AS locked",
        "(SELECT a FROM t FOR UPDATE) UNION (SELECT 1)",
        "SELECT a INTO @a FROM t FOR UPDATE",
        &long,
        "SELECT GET_LOCK(\"a\", 1)",
        "SELECT RELEASE_LOCK(\"a\")",
        "SELECT RELEASE_ALL_LOCKS()",
        "SELECT IS_FREE_LOCK(\"a\")",
        "SELECT is_used_lock(\"a\")",
        "SELECT NEXTVAL(s)",
        "SELECT NEXT VALUE FOR s",
        "SELECT SETVAL(s, 5)",
        "SELECT LASTVAL(s)",
        "SELECT PREVIOUS\nVALUE FOR s",
        "SELECT s.nextval",
        "SELECT a FROM t INTO OUTFILE \"/tmp/t\"",
        "SELECT a INTO/* a comment */DUMPFILE \"/tmp/t\" FROM t",
        "SELECT a INTO @a FROM t",
    ];
    let elsewhere: Vec<&&str> = locks.iter().filter(|lock| hostgroup(lock) != "0").collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
    for read in
        ["SELECT a FROM t", "SELECT a FROM t FORCE INDEX FOR JOIN (a)", "SELECT last_update, share FROM t"]
    {
        assert_eq!(hostgroup(read), "1", "{read}");
    }
}

#[test]
fn a_sandbox_in_a_folder_is_found_without_its_name() {
    let (folder, home) = (TempFolder::new("sandbox"), TempFolder::new("sandboxes"));
    let dir = folder.path().to_str().expect("a plain path");
    let narrows = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
        // Sandboxes of other tests are not found.
        command.arg("sandbox").args(arguments).env("TMPDIR", home.path());
        command.output().expect("the program runs")
    };
    let started = narrows(&["start", "--replicas", "0", "--detach", "--dir", dir]);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let config = String::from_utf8(narrows(&["config"]).stdout).expect("text");
    let of_folder = String::from_utf8(narrows(&["config", "--dir", dir]).stdout).expect("text");
    assert!(config.contains("[[mysql_servers]]") && config == of_folder, "{config}");
    assert!(narrows(&["stop"]).status.success());
    let none = narrows(&["config"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("no sandbox is running"));
}

#[test]
fn a_server_that_needs_its_launcher_is_started_by_it() {
    let tree = TempFolder::new("tree");
    let write = |path: &str, text: &str| {
        let path = tree.file(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    };
    write("usr/sbin/mysqld", "#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n");
    let start = |server: &str| {
        let server = tree.file(server);
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
        command.args(["sandbox", "start", "--replicas", "0", "--server"]).arg(server);
        String::from_utf8_lossy(&command.output().expect("the program runs").stderr).into_owned()
    };
    // Without a launcher, the error has the program's output.
    assert!(start("usr/sbin/mysqld").contains("error while loading shared libraries"));
    // The launcher is used instead: this one reports a version that is too old to be started.
    write("bin/mysqld", "#!/bin/sh\necho 'mysqld  Ver 5.7.44 for Linux'\n");
    for server in ["usr/sbin/mysqld", "usr/sbin", "usr"] {
        assert!(start(server).contains("MySQL 5.7.44 is older than"), "{server}: {}", start(server));
    }
}

/// A running sandbox; it ends when dropped.
pub struct Sandbox {
    child: Child,
    dir: PathBuf,
    servers: Vec<Server>,
    // Closing it makes the sandbox stop.
    input: Option<ChildStdin>,
}

/// One of its servers.
#[derive(Debug)]
pub struct Server {
    /// Its TCP port on 127.0.0.1.
    pub port: u16,
    pid: u32,
}

impl Sandbox {
    /// Starts one, with these options of `narrows sandbox start`.
    pub fn start(options: &[&str]) -> Sandbox {
        let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(["sandbox", "start", "--until-eof", "--json"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line of text");
        let record: Value = serde_json::from_str(&line).expect("one line of JSON");
        let dir = record["dir"].as_str().expect("a folder");
        Sandbox { dir: dir.into(), servers: servers_in(&line), input: child.stdin.take(), child }
    }

    /// Its servers, the primary first.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The contents of its sandbox.json.
    pub fn record(&self) -> Value {
        let record = std::fs::read_to_string(self.dir.join("sandbox.json")).expect("the record");
        serde_json::from_str(&record).expect("sandbox.json")
    }

    /// The Unix socket of one of them, over which `root` logs in.
    pub fn socket(&self, index: usize) -> PathBuf {
        self.record()["servers"][index]["socket"].as_str().expect("a path").into()
    }

    /// The `narrows.toml` of `narrows sandbox config`, for these listeners.
    pub fn config(&self, listen: &str, admin: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(["sandbox", "config", "--listen", listen, "--admin", admin, "--dir"])
            .arg(&self.dir)
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

fn servers_in(record: &str) -> Vec<Server> {
    let record: Value = serde_json::from_str(record).expect("sandbox.json");
    let number = |server: &Value, key: &str| server[key].as_u64().expect("a number");
    let servers = record["servers"].as_array().expect("a list").iter();
    servers
        .map(|server| Server { port: number(server, "port") as u16, pid: number(server, "pid") as u32 })
        .collect()
}

/// A session of `app` on one of the servers.
pub fn app_client(port: u16) -> RawClient {
    RawClient::open(&Endpoint::local(port), &Login::new("app", "app"))
}

fn run(client: &mut RawClient, statement: &str) {
    let error = client.query(statement).error();
    assert!(error.is_none(), "{statement}: {error:?}");
}

fn is_running(pid: u32) -> bool {
    std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).is_ok_and(|line| !line.is_empty())
}

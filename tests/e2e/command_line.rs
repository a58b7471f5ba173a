//! The output of the command line, and its exit status.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{NarrowsConfig, Process, TempFolder};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(arguments)
        .env_remove("NARROWS_LOG")
        .output()
        .expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A temporary file, removed when dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn with(name: &str, text: &str) -> TemporaryFile {
        let path = std::env::temp_dir().join(format!("narrows-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a writable temporary folder");
        TemporaryFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn tells_its_version() {
    let output = narrows(&["--version"]);
    assert!(output.status.success());
    let text = stdout(&output);
    let expected = concat!("Narrows version ", env!("CARGO_PKG_VERSION"), " (commit ");
    let (commit, rest) = text.strip_prefix(expected).and_then(|rest| rest.split_once(", ")).expect(&text);
    assert!(commit == "unknown" || commit.len() >= 7, "{text}");
    let (_profile, target) = rest.split_once(", ").expect(&text);
    assert!(target.ends_with("-linux-gnu)\n") || target.ends_with("-linux-musl)\n"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn shells_complete_what_is_not_hidden() {
    for (shell, check) in [("bash", Some("bash")), ("zsh", None), ("fish", None)] {
        let output = narrows(&["completions", shell]);
        assert!(output.status.success(), "{}", stderr(&output));
        let script = stdout(&output);
        for shown in ["connect-speed", "ping", "no-monitor", "timeout"] {
            assert!(script.contains(shown), "{shell}: {shown}");
        }
        for hidden in ["worker", "generate-docs", "generate-manual", "idle-threads"] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
        if let Some(check) = check {
            let file = TemporaryFile::with(&format!("completions.{shell}"), &script);
            let status = Command::new(check).args(["-n", file.path()]).status().expect("a shell");
            assert!(status.success());
        }
    }
    assert_eq!(narrows(&["completions", "powershell"]).status.code(), Some(2));
}

#[test]
fn manual_pages_describe_what_is_not_hidden() {
    let folder = TempFolder::new("manual");
    let write = || narrows(&["generate-manual", folder.path().to_str().expect("a path in UTF-8")]);
    assert!(write().status.success());
    let entries = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for page in ["narrows.1", "narrows-check.1", "narrows-init.1", "narrows-ping.1"] {
        assert!(names.iter().any(|name| name == page), "{page}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("worker") || name.contains("generate")), "{names:?}");
    let page = || std::fs::read_to_string(folder.file("narrows.1")).expect("a page");
    let first = page();
    assert!(first.contains("no\\-monitor") && !first.contains("idle"), "{first}");
    assert!(write().status.success() && page() == first, "the same program writes the same page");
    let missing = narrows(&["generate-manual", "/nonexistent/folder"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("/nonexistent/folder"), "{}", stderr(&missing));
}

#[test]
fn check_accepts_the_examples() {
    for name in ["narrows.toml", "proxysql.cnf", "minimal.toml", "minimal.cnf"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        let path = path.to_str().expect("a path in UTF-8");
        let output = narrows(&["check", path]);
        assert!(output.status.success());
        assert_eq!(stdout(&output), format!("{path}: can be started: 0 errors, 0 warnings\n"));
    }
}

#[test]
fn check_explains_everything_and_fails() {
    let text = "mysql_servers = (\n  { hostname=\"a\", hostgroup=0, wieght=1 },\n  { hostname=\"b\" }\n)\n\
                mysql_users = ( { username=\"app\" } )\n";
    let file = TemporaryFile::with("check.cnf", text);
    let output = narrows(&["check", file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let path = file.path();
    assert_eq!(
        stdout(&output),
        format!(
            "{path}:2:32: warning: ignored: there is no column `wieght` in mysql_servers; did you mean `weight`?\n\
             {path}:3:3: error: mysql_servers: the column `hostgroup_id` must be given\n\
             {path}: cannot be started: 1 error, 1 warning\n"
        )
    );
}

#[test]
fn does_not_start_with_a_wrong_configuration() {
    let file = TemporaryFile::with("start.cnf", "mysql_variables = { threads = 1000 }");
    let output = narrows(&["-f", "-c", file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "1:31: error: threads: expected an integer from 0 to 255, found 1000";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}

#[test]
fn does_not_start_with_a_configuration_that_is_not_there() {
    let output = narrows(&["-f", "-c", "/nonexistent/proxysql.cnf"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nonexistent/proxysql.cnf: error: cannot be read"));
}

#[test]
fn import_tells_what_it_takes_and_refuses_to_take_it_twice() {
    let folder = std::env::temp_dir().join(format!("narrows-{}-import", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable temporary folder");
    let folder_name = folder.to_str().expect("a path in UTF-8");
    let missing = narrows(&["import", "/nonexistent/proxysql.db", "-D", folder_name]);
    assert!(!missing.status.success());
    assert!(stderr(&missing).contains("/nonexistent/proxysql.db cannot be used"), "{}", stderr(&missing));
    let other = TemporaryFile::with("proxysql.db", "");
    let taken = narrows(&["import", other.path(), "-D", folder_name]);
    assert!(taken.status.success(), "{}", stderr(&taken));
    let twice = narrows(&["import", other.path(), "-D", folder_name]);
    assert!(!twice.status.success());
    assert!(stderr(&twice).contains("holds a configuration already"), "{}", stderr(&twice));
    let _ = std::fs::remove_dir_all(&folder);
}

/// A folder with a configuration for free ports, and a Narrows that `sh` started in it with `line`.
fn started_by(line: &str, name: &str) -> (TempFolder, Process) {
    let folder = TempFolder::new(name);
    let address = || format!("127.0.0.1:{}", narrows_testkit::free_port());
    let text = NarrowsConfig::new().text(&address(), &address());
    std::fs::write(folder.file("narrows.cnf"), text).expect("a file");
    let mut command = Command::new("sh");
    let log = std::fs::File::create(folder.file("log")).expect("a file");
    command.args(["-c", &line.replace("narrows -f", &format!("exec {} -f", env!("CARGO_BIN_EXE_narrows")))]);
    command.current_dir(folder.path()).env_remove("NARROWS_LOG");
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
    let mut process = Process::spawn(command).expect("sh");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !log_of(&folder).contains(" serving interfaces=") {
        assert!(process.try_wait().is_none() && Instant::now() < deadline, "{}", log_of(&folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    (folder, process)
}

fn log_of(folder: &TempFolder) -> String {
    std::fs::read_to_string(folder.file("log")).unwrap_or_default()
}

#[test]
fn starts_without_a_data_folder_and_makes_one_for_itself() {
    for supervision in ["", "--no-supervisor"] {
        let (folder, mut process) =
            started_by(&format!("narrows -f -c narrows.cnf {supervision}"), "no-datadir");
        process.stop(Duration::from_secs(20));
        let made = std::fs::metadata(folder.file("narrows-data")).expect("the data folder");
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
        assert!(folder.file("narrows-data/narrows.db").exists());
        let entries = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, ["log", "narrows-data", "narrows.cnf"], "no other files are written");
    }
}

#[test]
fn does_not_start_in_a_data_folder_that_is_not_there() {
    let output = narrows(&["-f", "-D", "/nonexistent/narrows"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "the data folder /nonexistent/narrows does not exist";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}

#[test]
fn says_that_the_limit_of_open_files_is_too_low() {
    let (folder, mut process) = started_by("ulimit -n 300; narrows -f -c narrows.cnf -n", "few-files");
    let log = log_of(&folder);
    let line = log.lines().find(|line| line.contains("the limit of open files")).expect("it is said");
    assert!(line.contains("open_files=300") && line.contains("max_connections=10000"), "{line}");
    process.stop(Duration::from_secs(20));
}

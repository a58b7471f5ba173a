//! What the command line answers, and with which exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

/// A file of this test's own, gone when dropped.
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
    assert_eq!(stdout(&output), concat!("Narrows version ", env!("CARGO_PKG_VERSION"), "\n"));
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
    let text = "mysql_servers = (\n  { hostname=\"a\", hostgroup=0, wieght=1 },\n  { hostname=\"b\" }\n)\n";
    let file = TemporaryFile::with("check.cnf", text);
    let output = narrows(&["check", file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let path = file.path();
    assert_eq!(
        stdout(&output),
        format!(
            "{path}:2:32: warning: passed over: there is no column `wieght` in mysql_servers; did you mean `weight`?\n\
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

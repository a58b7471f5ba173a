//! A folder and a network in which pages are followed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{Process, TempFolder};
use rustix::process::{Pid, Signal, kill_process_group};

use super::page::{Page, Step, plain};

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Follows pages: each command is run in a folder that was empty before.
pub struct Scene {
    staying: Vec<(String, Process)>,
    network: Network,
    folder: TempFolder,
    number: usize,
    /// What the last step has printed.
    printed: String,
}

impl Scene {
    pub fn new() -> Scene {
        let (folder, network) = (TempFolder::new("stranger"), Network::new());
        // What `cargo build --release` builds, and what a package installs.
        for place in ["here/target/release", "bin", "tmp"] {
            fs::create_dir_all(folder.file(place)).expect("a folder");
        }
        for place in ["here/target/release/narrows", "bin/narrows"] {
            std::os::unix::fs::symlink(BINARY, folder.file(place)).expect("a link");
        }
        std::os::unix::fs::symlink(format!("{ROOT}/examples"), folder.file("here/examples")).expect("a link");
        Scene { staying: Vec::new(), network, folder, number: 0, printed: String::new() }
    }

    pub fn run(&mut self, page: &Page) {
        for step in &page.steps {
            println!("{}: {step:?}", page.path.display());
            match step {
                Step::Runs(line) => self.follow(line),
                Step::LeftOut(..) => {}
                Step::Asks { account, statements, fails } => self.ask(account, statements, *fails),
                Step::Checks(text) => {
                    self.write("../checked.toml", text);
                    self.follow("narrows check --strict ../checked.toml");
                }
                Step::Writes { file, text } => self.write(file, text),
                Step::Shows(expected) => self.compare(expected),
            }
        }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.file(&format!("here/{file}")), text).expect("a file");
    }

    /// Runs statements as a client does.
    fn ask(&mut self, account: &str, statements: &str, fails: bool) {
        self.write("../statements.sql", statements);
        let port = if account == "admin" { 6032 } else { 6033 };
        let options = if fails { "--force" } else { "--show-warnings" };
        let client = format!(
            "mariadb --no-defaults -h127.0.0.1 -P{port} -u{account} -p{account} --table {options} < ../statements.sql"
        );
        self.follow(&if fails { client + " || true" } else { client });
        assert_eq!(self.printed.contains("ERROR "), fails, "{statements}\n{}", self.printed);
        // A statement that a page recommends takes effect.
        assert!(!self.printed.contains("Warning (Code"), "{statements}\n{}", self.printed);
    }

    pub fn follow(&mut self, line: &str) {
        self.number += 1;
        let said = self.folder.file(&format!("said.{}", self.number));
        let output = fs::File::create(&said).expect("a file");
        let mut command = self.network.command();
        // In the background of a script, signals of the keyboard are ignored, and those who are started inherit that.
        command
            .args(["env", "--default-signal=INT", "bash", "-c", line])
            .current_dir(self.folder.file("here"))
            .process_group(0);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}:/usr/sbin", self.folder.file("bin").display()));
        command.env("TMPDIR", self.folder.file("tmp")).env_remove("NARROWS_LOG");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a descriptor")).stderr(output);
        let mut process = Process::spawn(command).expect("bash");
        let said = || fs::read_to_string(&said).unwrap_or_default();
        let stays = line.split_once('#').is_some_and(|(_, comment)| comment.contains("Ctrl-C"));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = process.try_wait();
            match ended {
                Some(status) if stays || !status.success() => panic!("{line}: {status}\n{}", said()),
                Some(_) => {
                    self.printed = said();
                    return;
                }
                None if stays && IS_UP.iter().any(|words| said().contains(words)) => break,
                None => {}
            }
            assert!(Instant::now() < deadline, "{line}: no output:\n{}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.staying.push((line.to_owned(), process));
    }

    /// Compares what was printed with what a page shows.
    fn compare(&self, expected: &[String]) {
        let printed: Vec<String> = self.printed.lines().map(plain).filter(|line| !line.is_empty()).collect();
        let expected: Vec<&String> = expected.iter().filter(|line| !line.is_empty()).collect();
        let (mut at, mut any) = (0, false);
        for wanted in expected {
            if wanted == "..." {
                any = true;
                continue;
            }
            let rest = printed.get(at..).unwrap_or_default();
            let place = rest.iter().position(|line| is_like(line, wanted));
            let place = place.filter(|place| any || *place == 0);
            let Some(place) = place else {
                panic!("the page shows:\n{wanted}\nwhat was printed:\n{}", self.printed);
            };
            (at, any) = (at + place + 1, false);
        }
        assert!(any || at == printed.len(), "the page does not show all of:\n{}", self.printed);
    }

    /// How many commands are still running.
    pub fn running(&self) -> usize {
        self.staying.len()
    }

    /// Sends Ctrl-C to what was started last, until only this many are running.
    pub fn stop_all_but(&mut self, count: usize) {
        while self.staying.len() > count {
            let Some((line, mut process)) = self.staying.pop() else { return };
            let pid = Pid::from_raw(process.pid() as i32).expect("a process");
            kill_process_group(pid, Signal::INT).expect("it is ours");
            assert!(process.wait_for(PATIENCE).is_some(), "{line}: Ctrl-C does not end it");
        }
    }

    /// Sends Ctrl-C to everything still running, the last one first.
    pub fn end(mut self) {
        self.stop_all_but(0);
        // Everything that Narrows writes is in its own folder; the other files are those that the pages request.
        let mut left: Vec<String> = fs::read_dir(self.folder.file("here"))
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.retain(|name| !REQUESTED.contains(&name.as_str()));
        assert!(left.is_empty(), "unexpected files: {left:?}");
    }
}

impl Drop for Scene {
    /// A failed test leaves nothing running.
    fn drop(&mut self) {
        for (_, process) in &mut self.staying {
            let _ = Pid::from_raw(process.pid() as i32).map(|pid| kill_process_group(pid, Signal::INT));
            process.wait_for(Duration::from_secs(10));
        }
    }
}

/// Whether a line is the wanted one, in which `...` stands for anything.
fn is_like(line: &str, wanted: &str) -> bool {
    let Some((first, rest)) = wanted.split_once("...") else { return line == wanted };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split("...").collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = line.split_once(part) else { return false };
        line = after;
    }
    line.ends_with(last)
}

/// A separate network, in which the documents' ports are free and invisible to others.
pub struct Network {
    /// The process that keeps it alive; `None`: none can be created here, and this machine's ports are used.
    holder: Option<Process>,
    is_root: bool,
}

impl Network {
    fn new() -> Network {
        let is_root = rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        if !is_root {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 1000000"]);
        let (mut said, output) = std::io::pipe().expect("a pipe");
        command.stdin(Stdio::null()).stdout(output);
        let holder = Process::spawn(command).ok().filter(|_| {
            let mut line = String::new();
            BufReader::new(&mut said).read_line(&mut line).is_ok() && line == "up\n"
        });
        if holder.is_none() {
            eprintln!("no network can be created here: the ports 6032 and 6033 of this machine must be free");
        }
        Network { holder, is_root }
    }

    /// The beginning of a command that runs in it.
    fn command(&self) -> Command {
        let Some(holder) = &self.holder else { return Command::new("env") };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", holder.pid()));
        if !self.is_root {
            command.arg(format!("--user=/proc/{}/ns/user", holder.pid())).arg("--preserve-credentials");
        }
        command
    }
}

/// The files that pages write by their own commands, and the links of the scene.
const REQUESTED: &[&str] = &[
    "wanted.toml",
    "admin.cnf",
    "monitor.cnf",
    "users.cnf",
    "narrows.cnf",
    "rules.toml",
    "plan.json",
    "target",
    "examples",
    "narrows.toml",
    "narrows-data",
    "proxysql.cnf",
    "haproxy.cfg",
    "sandbox",
];

/// What programs that keep running print when they are up.
const IS_UP: [&str; 3] = ["Ctrl-C ends it.", " serving interfaces=", "Loading success."];

/// For a server that is initialised for the first time, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

#[test]
fn dots_stand_for_anything() {
    assert!(is_like("| 9 | 127.0.0.1 | a |", "| ... | 127.0.0.1 | ... |"));
    assert!(is_like("a", "a") && !is_like("ab", "a") && !is_like("a b", "b ... c"));
}

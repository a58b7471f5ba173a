//! The documents are correct: every line of every `sh` block in README.md and docs/*.md is run as printed, in a folder
//! that was empty before, in the order of the page.
//!
//! A command that runs until Ctrl-C says so in its comment; it keeps running until the end of the scene, and gets its
//! Ctrl-C then. A block that cannot be run here says so, with the reason, for all readers: `# Tests leave this out:
//! ...`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{Process, TempFolder};
use rustix::process::{Pid, Signal, kill_process_group};

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn every_shell_block_does_what_it_says() {
    let pages = pages();
    // The pages in docs/ assume the Narrows that README.md starts; these two start their own sandboxes.
    let is_alone = |page: &&Page| ALONE.iter().any(|name| page.path.ends_with(name));
    let mut by_hand = Scene::new();
    pages.iter().filter(|page| !is_alone(page)).for_each(|page| by_hand.run(page));
    by_hand.end();
    for page in pages.iter().filter(is_alone) {
        let mut alone = Scene::new();
        alone.run(page);
        alone.end();
    }
}

#[test]
fn no_block_is_left_out_without_a_reason() {
    let pages = pages();
    assert!(pages.iter().any(|page| page.lines.iter().any(|line| matches!(line, Line::Runs(_)))));
    for page in &pages {
        for line in &page.lines {
            if let Line::LeftOut(line, reason) = line {
                assert!(reason.len() > 10, "{}: {line}: why is it left out?", page.path.display());
            }
        }
    }
}

/// A document and its shell blocks.
struct Page {
    path: PathBuf,
    lines: Vec<Line>,
}

enum Line {
    Runs(String),
    LeftOut(String, String),
}

/// README.md, followed by the pages in docs/.
fn pages() -> Vec<Page> {
    let root = Path::new(ROOT);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.insert(0, root.join("README.md"));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.into_iter().map(page).collect()
}

/// Reads a page. Every block must name its language, so that none is skipped by mistake.
fn page(path: PathBuf) -> Page {
    let text = fs::read_to_string(&path).expect("a page");
    let mut lines = Vec::new();
    let mut block: Option<(String, Option<String>)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut block) {
            (Some(language), None) => {
                let known = ["sh", "sql", "text", "toml"];
                assert!(known.contains(&language), "{}: a block of {language:?}", path.display());
                block = Some((language.to_owned(), None));
            }
            (Some(_), Some(_)) => block = None,
            (None, None) => {
                assert!(!line.starts_with("    "), "{}: a block without ```: {line}", path.display());
            }
            (None, Some((language, reason))) if language == "sh" => {
                if let Some(why) = line.strip_prefix(LEFT_OUT) {
                    *reason = Some(why.trim().to_owned());
                } else if !line.trim_start().starts_with('#') && !line.trim().is_empty() {
                    lines.push(match reason {
                        Some(reason) => Line::LeftOut(line.to_owned(), reason.clone()),
                        None => Line::Runs(line.to_owned()),
                    });
                }
            }
            (None, Some(_)) => {}
        }
    }
    Page { path, lines }
}

/// A folder and a network in which a page is followed.
struct Scene {
    staying: Vec<(String, Process)>,
    network: Network,
    folder: TempFolder,
    number: usize,
}

impl Scene {
    fn new() -> Scene {
        let (folder, network) = (TempFolder::new("stranger"), Network::new());
        // What `cargo build --release` builds, and what a package installs.
        for place in ["here/target/release", "bin", "tmp"] {
            fs::create_dir_all(folder.file(place)).expect("a folder");
        }
        for place in ["here/target/release/narrows", "bin/narrows"] {
            std::os::unix::fs::symlink(BINARY, folder.file(place)).expect("a link");
        }
        Scene { staying: Vec::new(), network, folder, number: 0 }
    }

    fn run(&mut self, page: &Page) {
        for line in &page.lines {
            if let Line::Runs(line) = line {
                println!("{}: {line}", page.path.display());
                self.follow(line);
            }
        }
    }

    fn follow(&mut self, line: &str) {
        self.number += 1;
        let said = self.folder.file(&format!("said.{}", self.number));
        let output = fs::File::create(&said).expect("a file");
        let mut command = self.network.command();
        command.args(["bash", "-c", line]).current_dir(self.folder.file("here")).process_group(0);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.file("bin").display()));
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
                Some(_) => return,
                None if stays && IS_UP.iter().any(|words| said().contains(words)) => break,
                None => {}
            }
            assert!(Instant::now() < deadline, "{line}: no output:\n{}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.staying.push((line.to_owned(), process));
    }

    /// Sends Ctrl-C to everything still running, the last one first.
    fn end(mut self) {
        while let Some((line, mut process)) = self.staying.pop() {
            let pid = Pid::from_raw(process.pid() as i32).expect("a process");
            kill_process_group(pid, Signal::INT).expect("it is ours");
            assert!(process.wait_for(PATIENCE).is_some(), "{line}: Ctrl-C does not end it");
        }
        // Everything that Narrows writes is in its own folder; the other files are those that the pages request.
        let mut left: Vec<String> = fs::read_dir(self.folder.file("here"))
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.retain(|name| !["target", "narrows.toml", "narrows-data"].contains(&name.as_str()));
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

/// A separate network, in which the documents' ports are free and invisible to others.
struct Network {
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

/// The pages that are followed on their own.
const ALONE: [&str; 2] = ["getting-started.md", "sandbox.md"];

/// The marker of a block that cannot be run here; the reason follows.
const LEFT_OUT: &str = "# Tests leave this out:";

/// What programs that keep running print when they are up.
const IS_UP: [&str; 2] = ["Ctrl-C ends it.", " serving interfaces="];

/// For a server that is initialised for the first time, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

//! What clients notice when a process ends, for whatever reason; and the tool that measures it.

mod connect_speed;
mod crash;
mod faults;
mod keep;
mod layers;
mod signals;
mod stop;
mod stopped;
mod upgrade;

pub(crate) use keep::keepers;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig, Process, TempFolder};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

/// A server, and a supervised Narrows in front of it.
fn scene(config: impl Fn(NarrowsConfig) -> NarrowsConfig) -> (FakeMysql, Narrows) {
    let server = FakeMysql::start(Conversation::new().on("DO 1", &[Move::ok()]));
    let config = config(NarrowsConfig::in_front_of(server.port())).supervised();
    let narrows = Narrows::start(BINARY, &config);
    (server, narrows)
}

/// A running `narrows connect-speed`.
struct Connects(Child);

impl Connects {
    fn begin(narrows: &Narrows, arguments: &[&str]) -> Connects {
        let child = Command::new(BINARY)
            .args(["connect-speed", "-u", "sbtest", "-p", "sbtest", "--json", "-P"])
            .arg(narrows.port().to_string())
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Connects(child)
    }

    fn is_at_work(&mut self) -> bool {
        self.0.try_wait().expect("a child of ours").is_none()
    }

    fn report(self) -> Value {
        let output = self.0.wait_with_output().expect("it ends");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

/// Runs `narrows upgrade`; returns whether it worked, and its output.
pub fn upgrade(program: &Path, narrows: &Narrows) -> (bool, String) {
    let output = Command::new(program)
        .args(["upgrade", "-D"])
        .arg(narrows.folder())
        .output()
        .expect("the program starts");
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Starts Narrows with its supervisor and with `narrows.log` in its data folder.
fn start_with_log_file(folder: &TempFolder, port: u16, admin: u16) -> Process {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let text = NarrowsConfig::new().text(&address(port), &address(admin));
    fs::write(folder.file("narrows.cnf"), format!("errorlog=\"narrows.log\"\n{text}")).expect("a file");
    let mut program = Command::new(BINARY);
    program.arg("-c").arg(folder.file("narrows.cnf")).arg("-D").arg(folder.path()).arg("-n");
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Process::spawn(program).expect("it starts")
}

/// Waits until a worker process other than `former` serves.
pub fn wait_for_another(narrows: &Narrows, former: u32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while narrows.worker() == former {
        assert!(Instant::now() < deadline, "nobody follows:\n{}", narrows.log());
        std::thread::sleep(Duration::from_millis(1));
    }
}

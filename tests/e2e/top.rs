//! `narrows top` in terminals of two sizes.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Flavour, Narrows, NarrowsConfig, RealServer, TempFolder, wait_until};

use crate::support::start;

/// A terminal, which tmux draws, and `narrows top` in it.
struct Terminal {
    folder: TempFolder,
}

impl Terminal {
    fn start(narrows: &Narrows, size: (u16, u16), user: &str) -> Terminal {
        let terminal = Terminal { folder: TempFolder::new("top") };
        let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("a TCP address") };
        let command = format!("'{}' top '{address}' --user {user}; sleep 60", env!("CARGO_BIN_EXE_narrows"));
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let output = terminal.tmux(&["new-session", "-d", "-x", &width, "-y", &height, &command]);
        assert!(output.status.success(), "{output:?}");
        terminal
    }

    fn socket(&self) -> PathBuf {
        self.folder.file("tmux")
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.socket()).args(["-f", "/dev/null"]).args(arguments);
        command.output().expect("tmux: scripts/setup.sh installs it")
    }

    fn press(&self, keys: &str) {
        assert!(self.tmux(&["send-keys", "-l", keys]).status.success());
    }

    fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).expect("UTF-8")
    }

    fn wait_for(&self, text: &str) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < end, "no {text:?}:\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn every_view_fits_and_acts() {
    let server = RealServer::shared(Flavour::MariaDb);
    let rule = "rule_id=7, active=1, match_digest=\"never\", destination_hostgroup=0, apply=1, comment=\"the seventh\"";
    let narrows = start(&NarrowsConfig::in_front_of(server.port()).rule(rule));
    let mut client = narrows.client();
    client.query("DO GET_LOCK('top', 1)");
    client.query("SELECT 'it''s a text'");
    client.query("SELECT nothing FROM nowhere");
    for (width, height) in [(80, 24), (200, 50)] {
        let terminal = Terminal::start(&narrows, (width, height), "admin");
        let address = format!("127.0.0.1:{}", server.port());
        for (key, text) in [
            ("1", "1 of 1"),
            ("2", address.as_str()),
            ("3", "GET_LOCK(?,?)"),
            ("4", "sbtest"),
            ("5", "user_lock"),
            ("6", "never"),
            ("7", "1046"),
        ] {
            terminal.press(key);
            let screen = terminal.wait_for(text);
            assert!(screen.contains("  ready") && screen.contains(" stmt/s"), "{screen}");
            assert_eq!(screen.lines().count(), usize::from(height), "{screen}");
            assert!(screen.lines().last().is_some_and(|line| line.contains("q quit")), "{screen}");
        }
        assert_eq!(width >= 120, terminal.screen().contains("last (UTC)"));
        terminal.press("3/it's");
        terminal.wait_for("/it's_");
        terminal.press("\u{7f}\u{7f}\u{7f}\u{7f}get_lock\r");
        terminal.wait_for("1 rows  only rows with \"get_lock\"");
        terminal.press("e");
        terminal.wait_for("hostgroup");
        terminal.press("xq");
        wait_until("it has ended", || !terminal.screen().contains("stmt/s"));
    }
    let terminal = Terminal::start(&narrows, (80, 24), "admin");
    terminal.press("5");
    terminal.wait_for("user_lock");
    terminal.press("k");
    terminal.wait_for("y ends it");
    terminal.press("y");
    assert!(client.is_closed_within(Duration::from_secs(20)));
}

#[test]
fn a_statistics_user_sees_and_a_restart_is_survived() {
    let server = RealServer::shared(Flavour::MariaDb);
    let mut narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut client = narrows.client();
    client.query("DO GET_LOCK('seen', 1)");
    let terminal = Terminal::start(&narrows, (80, 24), "stats");
    terminal.press("5");
    terminal.wait_for("user_lock");
    terminal.press("ky");
    terminal.wait_for("only administrators");
    assert_eq!(client.query("DO 1").error(), None);
    terminal.press("x6");
    terminal.wait_for("only administrators");
    terminal.press("1");
    terminal.wait_for("1 of 1");
    narrows.process().stop(Duration::from_secs(20));
    terminal.wait_for("nothing listens");
    narrows.start_again(env!("CARGO_BIN_EXE_narrows"));
    terminal.wait_for("q quit");
}

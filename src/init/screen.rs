//! Standard output, for people: everything that is quoted in a line is escaped.

use std::io::{IsTerminal, Write};

use crate::one_line::printable;

/// Writes to standard output, in colours if that is a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    is_coloured: bool,
}

impl Screen {
    /// Standard output.
    pub fn new() -> Screen {
        let is_coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Screen { is_coloured }
    }

    /// A line.
    pub fn line(self, text: &str) {
        self.print(&format!("{}\n", printable(text)));
    }

    /// A line that is the beginning of something.
    pub fn heading(self, text: &str) {
        self.print(&format!("\n{}\n", self.coloured(BOLD, &printable(text))));
    }

    /// Something to pay attention to.
    pub fn remark(self, text: &str) {
        self.print(&format!("{} {}\n", self.coloured(YELLOW, "Note:"), printable(text)));
    }

    /// A refused answer.
    pub fn refusal(self, text: &str) {
        self.print(&format!("{}\n", self.coloured(RED, &printable(text))));
    }

    /// Text without a new line, shown at once.
    pub fn print(self, text: &str) {
        let mut out = std::io::stdout().lock();
        // A reader that has closed the pipe wants no more.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn coloured(self, colour: &str, text: &str) -> String {
        if self.is_coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A word for a shell, in quotes if it needs them.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%:,=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

const BOLD: &str = "1";
const RED: &str = "31";
const YELLOW: &str = "33";

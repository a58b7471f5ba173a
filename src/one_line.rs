//! Each line, of the log or on a terminal, says one thing: text from clients, servers and files that is quoted in a line must
//! not look like another line, or change what a terminal shows.

use std::borrow::Cow;
use std::io::{self, Write};

/// Writes each event, which arrives in one piece, as one line.
#[derive(Debug)]
pub struct OneLine<W> {
    to: W,
    /// Whether escape characters are Narrows' own colours, because the log is shown on a terminal.
    is_coloured: bool,
}

impl<W: Write> OneLine<W> {
    /// Writes to `to`.
    pub fn new(to: W, is_coloured: bool) -> OneLine<W> {
        OneLine { to, is_coloured }
    }
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let is_odd = |byte: &u8| byte.is_ascii_control() && !(self.is_coloured && *byte == ESCAPE);
        if !text.iter().any(is_odd) {
            // In one piece, because several threads and processes write to one file.
            self.to.write_all(event)?;
            return Ok(event.len());
        }
        let mut line = Vec::with_capacity(event.len() + 16);
        for byte in text {
            match is_odd(byte) {
                true => line.extend(byte.escape_ascii()),
                false => line.push(*byte),
            }
        }
        line.extend_from_slice(event.get(text.len()..).unwrap_or_default());
        self.to.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

const ESCAPE: u8 = 0x1B;

/// `text` with its control characters escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(event: &[u8], is_coloured: bool) -> Vec<u8> {
        let mut out = Vec::new();
        OneLine::new(&mut out, is_coloured).write_all(event).expect("writing to a Vec cannot fail");
        out
    }

    #[test]
    fn an_event_is_one_line_whatever_is_quoted_in_it() {
        assert_eq!(written(b"WARN usual\n", false), b"WARN usual\n");
        assert_eq!(written(b"WARN a\nWARN b\r\x1b[31m\n", false), b"WARN a\\nWARN b\\r\\x1b[31m\n");
        assert_eq!(written("gr\u{f6}\u{df}e\n".as_bytes(), false), "gr\u{f6}\u{df}e\n".as_bytes());
        assert_eq!(written(b"\x1b[31mWARN\x1b[0m a\nb\n", true), b"\x1b[31mWARN\x1b[0m a\\nb\n");
    }

    #[test]
    fn nothing_that_is_quoted_reaches_the_terminal_as_a_command() {
        assert_eq!(printable("gr\u{f6}\u{df}e"), "gr\u{f6}\u{df}e");
        assert_eq!(printable("a\nb\u{1b}[2J\u{9b}"), r"a\nb\u{1b}[2J\u{9b}");
    }
}

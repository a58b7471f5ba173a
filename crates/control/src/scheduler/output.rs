//! What a run writes: its beginning is kept, the rest is read and counted, so that no program waits for a reader.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStderr, ChildStdout};

use rustix::io::ioctl_fionbio;

/// The two pipes of a run, and what has come out of them.
#[derive(Debug)]
pub struct Output {
    standard: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// The beginning of both, as it came.
    kept: Vec<u8>,
    /// The beginning of standard error alone.
    complaint: Vec<u8>,
    /// The bytes that were not kept.
    dropped: u64,
}

impl Output {
    /// Reads from these pipes.
    pub fn new(standard: Option<ChildStdout>, errors: Option<ChildStderr>) -> Output {
        // A pipe that cannot be made not to block is not read.
        let standard = standard.filter(|pipe| ioctl_fionbio(pipe, true).is_ok());
        let errors = errors.filter(|pipe| ioctl_fionbio(pipe, true).is_ok());
        Output { standard, errors, kept: Vec::new(), complaint: Vec::new(), dropped: 0 }
    }

    /// The pipes that more may come out of.
    pub fn pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.standard.iter().map(AsFd::as_fd).chain(self.errors.iter().map(AsFd::as_fd))
    }

    /// Reads what is there, up to a limit, so that one run does not keep the others waiting.
    pub fn read(&mut self) {
        if let Some(mut pipe) = self.standard.take() {
            let is_open = drain(&mut pipe, |bytes| keep(&mut self.kept, bytes, &mut self.dropped));
            self.standard = is_open.then_some(pipe);
        }
        if let Some(mut pipe) = self.errors.take() {
            let is_open = drain(&mut pipe, |bytes| {
                let room = MOST_OF_COMPLAINT.saturating_sub(self.complaint.len());
                self.complaint.extend(bytes.iter().take(room));
                keep(&mut self.kept, bytes, &mut self.dropped);
            });
            self.errors = is_open.then_some(pipe);
        }
    }

    /// Whether anything came on standard error.
    pub fn has_complaint(&self) -> bool {
        !self.complaint.is_empty()
    }

    /// What a log line says of it: the beginning of standard error, or else of standard output, as one line.
    pub fn in_one_line(&self) -> String {
        let source = if self.has_complaint() { &self.complaint } else { &self.kept };
        let beginning = source.get(..source.len().min(MOST_OF_COMPLAINT)).unwrap_or_default();
        let text = String::from_utf8_lossy(beginning);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join("; ");
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    /// The beginning of both, as text, and how many bytes are missing in it.
    pub fn into_text(self) -> (String, u64) {
        (String::from_utf8_lossy(&self.kept).into_owned(), self.dropped)
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8], dropped: &mut u64) {
    let (kept_now, rest) = bytes.split_at(bytes.len().min(MOST_KEPT - kept.len()));
    kept.extend_from_slice(kept_now);
    *dropped += rest.len() as u64;
}

/// Passes on what is in a pipe; false if no more will come.
fn drain(pipe: &mut impl Read, mut take: impl FnMut(&[u8])) -> bool {
    let mut buffer = [0; 16_384];
    for _ in 0..READS {
        match pipe.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => take(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
    true
}

/// The bytes of a run that are kept: what a person reads to find out what went wrong.
const MOST_KEPT: usize = 65_536;

/// The bytes of a run that a log line shows.
const MOST_OF_COMPLAINT: usize = 500;

/// How many times a pipe is read in a row: together four times what a pipe holds.
const READS: usize = 16;

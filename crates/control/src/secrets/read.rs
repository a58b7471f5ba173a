//! Looks up what a reference leads to.

use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use zeroize::Zeroizing;

use super::reference::{Reference, literal};
use crate::files::read_small;
use crate::scheduler::{in_words, prepare_environment, why_not_run};

/// The longest password in bytes: several times what the tokens of cloud services have, which are the longest in use.
pub const MOST_BYTES: usize = 8_192;

/// How long a program may take: an administrator waits for it, and a client's login is not far away.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);

/// How long all programs of one configuration may take together.
const TIME_FOR_ALL: Duration = Duration::from_secs(10);

/// How many programs run at a time.
const MOST_AT_ONCE: usize = 8;

/// What a text leads to if it is a reference, and otherwise what it is itself.
///
/// # Errors
/// A sentence with the reason, without the value.
pub fn read(reference: &str) -> Result<Zeroizing<String>, String> {
    read_within(reference, TIME_LIMIT)
}

/// Why a text that is a reference leads to nothing; a program is looked at, and not run: a configuration may be
/// checked that is not trusted yet.
pub(super) fn obstacle(reference: &str) -> Option<String> {
    match Reference::parse(reference)? {
        Ok(Reference::Program(line)) => {
            let program = line.split_whitespace().next().unwrap_or_default();
            why_not_run(Path::new(program)).map(|why| format!("the program {program} cannot be run: {why}"))
        }
        _ => read(reference).err(),
    }
}

/// What several references lead to, in their order. Programs run side by side.
pub(super) fn all(references: &[&str]) -> Vec<Result<Zeroizing<String>, String>> {
    let is_program = |index: &usize| {
        let parsed = references.get(*index).and_then(|text| Reference::parse(text));
        matches!(parsed, Some(Ok(Reference::Program(_))))
    };
    let (programs, others): (Vec<usize>, Vec<usize>) = (0..references.len()).partition(is_program);
    let mut found: Vec<_> = references.iter().map(|_| Err("it was not looked up".to_owned())).collect();
    let deadline = Instant::now() + TIME_FOR_ALL;
    let one = |index: usize| {
        let left = deadline.saturating_duration_since(Instant::now()).min(TIME_LIMIT);
        references.get(index).map_or_else(|| Err(String::new()), |text| read_within(text, left))
    };
    for index in others {
        found[index] = one(index);
    }
    let (next, (results, received)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..programs.len().min(MOST_AT_ONCE) {
            let results = results.clone();
            let (next, programs) = (&next, &programs);
            scope.spawn(move || {
                while let Some(index) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver outlives the scope.
                    let _ = results.send((*index, one(*index)));
                }
            });
        }
    });
    drop(results);
    received.into_iter().for_each(|(index, result)| found[index] = result);
    found
}

fn read_within(reference: &str, limit: Duration) -> Result<Zeroizing<String>, String> {
    match Reference::parse(reference) {
        None => Ok(Zeroizing::new(literal(reference).unwrap_or_default().to_owned())),
        Some(Err(fault)) => Err(fault.to_owned()),
        Some(Ok(Reference::Environment(name))) => {
            let wrong = |what: &str| format!("the environment variable {name} {what}");
            let value = std::env::var_os(name).ok_or_else(|| wrong("is not set"))?;
            of_bytes(value.into_encoded_bytes()).map_err(wrong)
        }
        Some(Ok(Reference::File(path))) => {
            let wrong = |what: &str| format!("the file {} {what}", path.display());
            let content = read_small(path, MOST_BYTES).map_err(|what| wrong(&what))?;
            of_bytes(content).map_err(wrong)
        }
        Some(Ok(Reference::Tokens(_))) => Err(NO_PASSWORD.to_owned()),
        Some(Ok(Reference::Program(line))) => {
            let program = line.split_whitespace().next().unwrap_or_default();
            let wrong = |what: &str| format!("the program {program} {what}");
            let written = output(line, limit).map_err(|what| wrong(&what))?;
            match written.is_empty() {
                true => Err(wrong("has written nothing")),
                false => {
                    of_bytes(written).map_err(|what| wrong(&format!("has not written a password: it {what}")))
                }
            }
        }
    }
}

/// Where no token can take the place of a password.
const NO_PASSWORD: &str = "aws-iam: is for mysql-monitor_password and mysql-auth_query_password; an account has aws_iam in its \
                           attributes, and its password is what its clients need";

/// A password, from the bytes of its place: without the end of the line, if there is one.
fn of_bytes(bytes: Vec<u8>) -> Result<Zeroizing<String>, &'static str> {
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => Zeroizing::new(text),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            return Err("has something else than UTF-8");
        }
    };
    for end in ['\n', '\r'] {
        if text.ends_with(end) {
            text.pop();
        }
    }
    match text.is_empty() {
        true => Err("is empty"),
        false => Ok(text),
    }
}

/// What a program writes to its standard output. It is run without a shell; its standard error goes nowhere, as a
/// password may be in it.
fn output(line: &str, limit: Duration) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + limit;
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    prepare_environment(&mut command);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => "is not there".to_owned(),
        _ => format!("cannot be run: {error}"),
    })?;
    let outcome = written(&mut child, deadline);
    // The group has its number until its first process is waited for. Nobody of it is needed any more.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let status = child.wait();
    let bytes = outcome.map_err(|fault| match fault {
        Fault::Late => format!("has not ended within {} s", TIME_LIMIT.as_secs()),
        Fault::TooLong => format!("has written more than {MOST_BYTES} bytes"),
        Fault::System(error) => format!("cannot be waited for: {error}"),
    })?;
    match status {
        Ok(status) if status.success() => Ok(bytes),
        Ok(status) => Err(format!("has failed: {}", in_words(status))),
        Err(error) => Err(format!("cannot be waited for: {error}")),
    }
}

/// Why the output of a program is not used.
enum Fault {
    Late,
    TooLong,
    System(std::io::Error),
}

/// Reads the standard output of a program to its end, and waits for the end of the program.
fn written(child: &mut Child, deadline: Instant) -> Result<Vec<u8>, Fault> {
    let system = |error: rustix::io::Errno| Fault::System(error.into());
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(system)?;
    let mut bytes = Vec::with_capacity(MOST_BYTES + 1);
    if let Some(mut pipe) = child.stdout.take() {
        loop {
            wait(&pipe, deadline)?;
            let mut part = [0; 1024];
            let read = pipe.read(&mut part).map_err(Fault::System)?;
            if read == 0 {
                break;
            }
            bytes.extend_from_slice(part.get(..read).unwrap_or_default());
            if bytes.len() > MOST_BYTES {
                return Err(Fault::TooLong);
            }
        }
    }
    wait(&end, deadline)?;
    Ok(bytes)
}

/// Waits until there is something to read.
fn wait(descriptor: &impl std::os::fd::AsFd, deadline: Instant) -> Result<(), Fault> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| Fault::Late)?;
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(Fault::Late),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Fault::System(error.into())),
        }
    }
}

//! `narrows run-job`: turns itself into a program of the scheduler.
//!
//! What must be set for the program alone is set here, between the start of this process and that of the program in it.
//! A process as large as one that serves could only do so after a `fork`, which stops it for as long as its memory is
//! copied.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use rustix::process::{Resource, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit};

use crate::signals;

/// Becomes the program, whose end is that of the process `scheduler`. It only returns if there is no such program: with
/// the exit status that a shell would have.
///
/// # Errors
/// If the scheduler has ended already.
pub fn run(scheduler: u32, line: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, arguments) = line.split_first().context("a command line without a program")?;
    // Nobody else ends a program if the process that would is killed, and the next one starts its own.
    set_parent_process_death_signal(Some(Signal::KILL)).context("binding a program to the scheduler")?;
    if getppid().is_none_or(|parent| u32::try_from(parent.as_raw_nonzero().get()) != Ok(scheduler)) {
        bail!("the scheduler has already ended");
    }
    close_inherited();
    lower_open_files_limit();
    signals::unblock_all();
    let error = Command::new(program).args(arguments).exec();
    eprintln!("narrows: {}: {error}", program.display());
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }))
}

/// Closes whatever the program should not have. Narrows opens nothing that stays open in programs, but may have been given
/// such descriptors itself.
fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: nothing in this process owns a descriptor above that of standard error.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
}

/// Sets the limit of open files that programs expect, which a process that serves has raised: many close all descriptors
/// up to the limit, or use `select`.
fn lower_open_files_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current > USUAL_OPEN_FILES) {
        limit.current = Some(USUAL_OPEN_FILES);
        // The limit stays as it is if it cannot be set; that is no reason not to run the program.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// What Linux gives to processes, and systemd too.
const USUAL_OPEN_FILES: u64 = 1_024;

/// The exit statuses of shells.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

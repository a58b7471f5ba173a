//! Client programs of MariaDB, told where a server is.

use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::peers::Account;
use crate::process::find_program;
use crate::socket::Address;

/// A client program that logs in there, without TLS: it would use it wherever it is offered, and the peers differ in that.
/// Setting it up costs these programs some 20 ms of their own for each connection.
pub fn command(program: &Path, address: &Address, account: &Account) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--no-defaults", "--skip-ssl"])
        .arg(format!("-u{}", account.user))
        .arg(format!("-p{}", account.password));
    match address {
        Address::Tcp(address) => command
            .arg("--protocol=tcp")
            .arg(format!("--host={}", address.ip()))
            .arg(format!("--port={}", address.port())),
        Address::Unix(path) => command.arg(format!("--socket={}", path.display())),
    };
    command.stdin(Stdio::null());
    command
}

/// Carries out statements.
pub fn execute(address: &Address, account: &Account, statements: &str) -> io::Result<()> {
    let program = find_program("mariadb").ok_or_else(|| io::Error::other("mariadb is missing"))?;
    checked(command(&program, address, account).arg("-e").arg(statements).output()?).map(drop)
}

/// What a program printed that has ended well.
pub fn checked(output: Output) -> io::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

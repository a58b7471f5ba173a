//! MariaDB's client programs, given a server's address.

use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::peers::Account;
use crate::process::find_program;
use crate::socket::Address;

/// A client program that logs in to that server without TLS. By default it would use TLS wherever it is offered, and
/// not all peers offer it; a TLS handshake costs these programs some 20 ms of their own per connection.
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

/// Runs statements.
pub fn execute(address: &Address, account: &Account, statements: &str) -> io::Result<()> {
    let program = find_program("mariadb").ok_or_else(|| io::Error::other("mariadb is missing"))?;
    checked(command(&program, address, account).arg("-e").arg(statements).output()?).map(drop)
}

/// The output of a program that succeeded.
pub fn checked(output: Output) -> io::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

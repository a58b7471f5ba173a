//! A real server with a table, and peers in front of it.

use std::io;
use std::path::Path;

use crate::client;
use crate::peers::{self, Account, Running, Setup};
use crate::server::Server;

/// Fields are in the order in which they are dropped.
pub struct Stand {
    /// Peers by name.
    pub parties: Vec<(&'static str, Running)>,
    /// The account on all of the servers.
    pub account: Account,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Stand {
    /// Starts a server with an account, its password and a schema of the given name, runs `fill` on it, and starts the
    /// given peers.
    pub fn start(name: &str, fill: &str, peers: &[String], narrows: &Path) -> io::Result<Stand> {
        let peers = peers::choose(peers)?;
        let folder = tempfile::tempdir()?;
        let account = Account { user: name.to_owned(), password: name.to_owned() };
        let server = Server::start(folder.path(), &account, name)?;
        let setup = Setup {
            primary: server.address(),
            replicas: Vec::new(),
            account: account.clone(),
            folder: folder.path(),
            core: None,
            narrows,
            rules: peers::Rules::default(),
            max_stmts: None,
            baseline: None,
            other: None,
            counted: None,
            variables: &[],
        };
        let direct = setup.primary.parse().map_err(io::Error::other)?;
        client::execute(&direct, &account, fill)?;
        let parties = peers
            .into_iter()
            .map(|peer| Ok((peer.name, (peer.start)(&setup)?)))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Stand { parties, account, _server: server, _folder: folder })
    }
}

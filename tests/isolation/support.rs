//! A server with one connection for all clients.

use std::time::Duration;

use narrows_testkit::{
    Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability,
};

/// A server, and Narrows with one worker and one connection to it.
pub struct Stand {
    pub flavour: Flavour,
    pub server: RealServer,
    pub narrows: Narrows,
}

impl Stand {
    /// A new server in which these statements have run.
    pub fn new(flavour: Flavour, statements: &[&str]) -> Stand {
        Stand::with(ServerOptions::new(flavour), statements, |config| config)
    }

    /// The same with options of the server, and with other settings of Narrows.
    pub fn with(
        options: ServerOptions,
        statements: &[&str],
        configure: impl FnOnce(NarrowsConfig) -> NarrowsConfig,
    ) -> Stand {
        let server = options.option("--log-bin-trust-function-creators=1").start();
        server.execute(statements);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .variable("threads", "1")
            .variable("connect_timeout_server_max", "30000")
            .user("sbtest", "sbtest", "");
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &configure(config));
        Stand { flavour: server.flavour(), server, narrows }
    }

    /// A client of Narrows, which shares the connection with all others.
    pub fn client(&self) -> RawClient {
        client_of(&self.narrows.endpoint())
    }

    /// A client of Narrows as another account, whose password is its name.
    pub fn client_as(&self, name: &str) -> RawClient {
        let mut client = RawClient::connect(&self.narrows.endpoint());
        client.set_patience(Duration::from_secs(60));
        client.login(&Login::new(name, name).with(capability::MULTI_STATEMENTS)).expect("a login");
        client
    }

    /// A client with a connection of its own to the server, as the same account.
    pub fn direct(&self) -> RawClient {
        // Over TCP, MySQL would ask for a secure transport.
        client_of(&Endpoint::Unix(self.server.socket()))
    }
}

fn client_of(endpoint: &Endpoint) -> RawClient {
    let mut client = RawClient::connect(endpoint);
    client.set_patience(Duration::from_secs(60));
    client.login(&Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS)).expect("a login");
    client
}

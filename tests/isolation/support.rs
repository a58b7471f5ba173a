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
        logged_in(&self.narrows.endpoint(), &Login::new(name, name).with(capability::MULTI_STATEMENTS))
    }

    /// A client with a connection of its own to the server, as the same account.
    pub fn direct(&self) -> RawClient {
        // Over TCP, MySQL would ask for a secure transport.
        client_of(&Endpoint::Unix(self.server.socket()))
    }
}

fn client_of(endpoint: &Endpoint) -> RawClient {
    logged_in(endpoint, &Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS))
}

/// A client that has logged in, and waits for answers as long as a busy machine needs.
pub fn logged_in(endpoint: &Endpoint, login: &Login) -> RawClient {
    let mut client = RawClient::connect(endpoint);
    client.set_patience(Duration::from_secs(60));
    client.login(login).expect("a login");
    client
}

/// A client of Narrows, and one with a connection of its own that does the same.
pub struct Pair {
    pub shared: RawClient,
    pub own: RawClient,
}

impl Pair {
    pub fn new(stand: &Stand) -> Pair {
        Pair { shared: stand.client(), own: stand.direct() }
    }

    /// With a schema from the login on: a connection that has one is logged in again for a client without.
    pub fn in_schema(stand: &Stand, schema: &str) -> Pair {
        let login = || Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS).schema(schema);
        Pair {
            shared: logged_in(&stand.narrows.endpoint(), &login()),
            own: logged_in(&Endpoint::Unix(stand.server.socket()), &login()),
        }
    }

    /// Whether nobody else can use the connection to the server now. A ping is answered when the statement before it is
    /// settled.
    pub fn keeps_connection(&mut self, stand: &Stand) -> bool {
        self.shared.command(narrows_testkit::command::PING, &[]);
        !stand.narrows.admin().query("SHOW PINS").text_rows().is_empty()
    }

    /// Runs a statement as both, which must see the same; returns the rows.
    #[track_caller]
    pub fn both(&mut self, statement: &str) -> Vec<Vec<Option<String>>> {
        let (own, shared) = (self.own.query(statement), self.shared.query(statement));
        let code = |answer: &narrows_testkit::Answer| answer.error().map(|error| error.code);
        assert_eq!(code(&shared), code(&own), "{statement}");
        assert_eq!(shared.text_rows(), own.text_rows(), "{statement}");
        own.text_rows()
    }
}

//! Clients that log in with tokens.

mod clients;
mod keys;
mod logins;
mod reviews;
mod settings;

use std::sync::Arc;

use narrows_testkit::{
    Endpoint, ErrorPacket, Flavour, HttpsFake, Login, Narrows, NarrowsConfig, RawClient, RealServer,
    TempFolder, TlsClient, TokenKey, WebReply, jwk_set, seconds_from_now, tls_client,
};

use crate::support::start;

/// An issuer with one key, a server, and a Narrows whose account `USER` takes its tokens only.
struct Stand {
    key: TokenKey,
    issuer: HttpsFake,
    narrows: Narrows,
    folder: TempFolder,
}

const ISS: &str = "https://idp.test";

/// Claims of a good token of `user`; `more` are further ones, which count instead of those before.
fn claims(user: &str, more: &str) -> String {
    let (begin, end) = (seconds_from_now(-10), seconds_from_now(600));
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"iss":"{ISS}","aud":"narrows","sub":"{user}","iat":{begin},"exp":{end}{more}}}"#)
}

/// An attribute of an account, as a column of a configuration file.
fn attributes(json: &str) -> String {
    format!("attributes=\"{}\"", json.replace('"', "\\\""))
}

/// An account without a password on the shared MariaDB.
fn account(user: &str, password: &str) -> &'static RealServer {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        &format!("CREATE USER IF NOT EXISTS {user}@'%'"),
        &format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'"),
        &format!("GRANT ALL ON *.* TO {user}@'%'"),
    ]);
    server
}

/// A Narrows with an issuer, whose row has these `settings` in its attributes.
fn configured(
    (user, password): (&str, &str),
    more: &str,
    settings: &str,
    change: impl Fn(NarrowsConfig) -> NarrowsConfig,
) -> Stand {
    let (key, folder) = (TokenKey::p256("one"), TempFolder::new("tokens"));
    let keys = jwk_set(&[&key]);
    let issuer = HttpsFake::start(move |_| WebReply::Answer(200, keys.clone()));
    std::fs::write(folder.file("ca.pem"), issuer.authority()).expect("written");
    let server = account(user, password);
    let config = NarrowsConfig::new()
        .server(0, server.port(), "")
        .user(user, password, &attributes(&format!(r#"{{"token":{{"issuer":"idp"}}{more}}}"#)))
        .row("narrows_token_issuers", &row(&folder, &format!("{}/jwks", issuer.address()), settings));
    Stand { narrows: start(&change(config)), key, issuer, folder }
}

/// The row of the issuer.
fn row(folder: &TempFolder, jwks: &str, settings: &str) -> String {
    let ca = folder.file("ca.pem").display().to_string();
    let json = format!(r#"{{"ca":"{ca}"{settings}}}"#);
    format!("name=\"idp\" issuer=\"{ISS}\" jwks=\"{jwks}\" audience=\"narrows\" {}", attributes(&json))
}

impl Stand {
    fn of(user: &str) -> Stand {
        configured((user, ""), "", "", |config| config)
    }

    fn tls(&self) -> Arc<TlsClient> {
        let ca = std::fs::read_to_string(self.narrows.folder().join("proxysql-ca.pem"));
        tls_client(&ca.expect("made at the start"), None)
    }

    fn socket(&self) -> Endpoint {
        Endpoint::Unix(self.narrows.socket())
    }

    /// Logs in over the Unix socket.
    fn log_in(&self, user: &str, shown: &str) -> Result<RawClient, ErrorPacket> {
        let mut client = RawClient::connect(&self.socket());
        client.login(&Login::new(user, shown)).map(|_| client)
    }

    fn refused(&self, user: &str, shown: &str) -> ErrorPacket {
        match self.log_in(user, shown) {
            Ok(_) => panic!("{user} has logged in"),
            Err(error) => error,
        }
    }

    fn good(&self, user: &str) -> String {
        self.key.token(&claims(user, ""))
    }

    /// A column of the row of the issuer in `stats_narrows_token_issuers`.
    fn figure(&self, column: &str) -> String {
        let sql = format!("SELECT {column} FROM stats_narrows_token_issuers");
        self.narrows.admin().query(sql).cell().expect("a row")
    }
}

fn user_at(client: &mut RawClient) -> String {
    client.query("SELECT CURRENT_USER()").cell().expect("an answer")
}

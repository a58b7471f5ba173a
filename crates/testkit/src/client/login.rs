//! Logging in: the handshake response, a plugin switch, the full authentication of `caching_sha2_password` over a Unix
//! socket.

use crate::protocol::{ErrorPacket, Packet, capability, scramble, writer};
use crate::{Endpoint, RawClient};

/// What a client sends when it logs in.
#[derive(Debug, Clone)]
pub struct Login {
    /// Account.
    pub user: String,
    /// Password.
    pub password: String,
    /// Schema; `Some` adds CONNECT_WITH_DB.
    pub schema: Option<String>,
    /// Capability flags, sent unchanged.
    pub capabilities: u32,
    /// MariaDB's extended flags; if there are any, LONG_PASSWORD is left out.
    pub extended: u32,
    /// Collation id; a login only has room for its lower byte.
    pub collation: u16,
    /// Plugin used to answer the greeting; by default the one the greeting names.
    pub plugin: Option<String>,
    /// Connection attributes; if there are any, CONNECT_ATTRS is added.
    pub attributes: Vec<(String, String)>,
}

impl Login {
    /// An ordinary login: utf8mb3, the usual capabilities.
    pub fn new(user: &str, password: &str) -> Login {
        Login {
            user: user.to_owned(),
            password: password.to_owned(),
            schema: None,
            capabilities: capability::USUAL,
            extended: 0,
            collation: 33,
            plugin: None,
            attributes: Vec::new(),
        }
    }

    /// With a schema.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Login {
        self.schema = Some(schema.to_owned());
        self
    }

    /// With more capabilities.
    #[must_use]
    pub fn with(mut self, capabilities: u32) -> Login {
        self.capabilities |= capabilities;
        self
    }

    /// With fewer capabilities.
    #[must_use]
    pub fn without(mut self, capabilities: u32) -> Login {
        self.capabilities &= !capabilities;
        self
    }

    /// With more of MariaDB's extended flags.
    #[must_use]
    pub fn extended(mut self, flags: u32) -> Login {
        self.extended |= flags;
        self
    }

    /// With a given authentication plugin.
    #[must_use]
    pub fn plugin(mut self, plugin: &str) -> Login {
        self.plugin = Some(plugin.to_owned());
        self
    }

    /// With a connection attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Login {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The flags as they are sent.
    pub fn flags(&self) -> u32 {
        let mut flags = self.capabilities;
        if self.schema.is_some() {
            flags |= capability::CONNECT_WITH_DB;
        }
        if !self.attributes.is_empty() {
            flags |= capability::CONNECT_ATTRS;
        }
        if self.extended != 0 {
            flags &= !capability::LONG_PASSWORD;
        }
        flags
    }

    /// The payload of the handshake response to a challenge.
    pub fn response(&self, seed: &[u8], plugin: &str) -> Vec<u8> {
        self.response_with(&scrambled(plugin, &self.password, seed), plugin)
    }

    /// The payload of the handshake response, with the caller's own answer to the challenge.
    pub fn response_with(&self, answer: &[u8], plugin: &str) -> Vec<u8> {
        let flags = self.flags();
        let mut payload = flags.to_le_bytes().to_vec();
        payload.extend(0x0100_0000_u32.to_le_bytes());
        payload.push(self.collation as u8);
        payload.extend([0; 19]);
        payload.extend(self.extended.to_le_bytes());
        payload.extend(self.user.bytes());
        payload.push(0);
        payload.extend(writer::lenenc_bytes(answer));
        if let Some(schema) = &self.schema {
            payload.extend(schema.bytes());
            payload.push(0);
        }
        if flags & capability::PLUGIN_AUTH != 0 {
            payload.extend(plugin.bytes());
            payload.push(0);
        }
        payload.extend(self.attribute_bytes(flags));
        if flags & capability::ZSTD_COMPRESSION != 0 {
            payload.push(3);
        }
        payload
    }

    /// The body of COM_CHANGE_USER.
    pub fn change_user(&self, seed: &[u8], plugin: &str) -> Vec<u8> {
        self.change_user_body(&scrambled(plugin, &self.password, seed), plugin)
    }

    fn change_user_body(&self, answer: &[u8], plugin: &str) -> Vec<u8> {
        let mut body = self.user.clone().into_bytes();
        body.push(0);
        body.push(answer.len() as u8);
        body.extend(answer);
        body.extend(self.schema.clone().unwrap_or_default().into_bytes());
        body.push(0);
        body.extend(self.collation.to_le_bytes());
        body.extend(plugin.bytes());
        body.push(0);
        body.extend(self.attribute_bytes(self.flags()));
        body
    }

    fn attribute_bytes(&self, flags: u32) -> Vec<u8> {
        if flags & capability::CONNECT_ATTRS == 0 {
            return Vec::new();
        }
        let pair = |(name, value): &(String, String)| {
            [writer::lenenc_bytes(name.as_bytes()), writer::lenenc_bytes(value.as_bytes())].concat()
        };
        writer::lenenc_bytes(&self.attributes.iter().flat_map(pair).collect::<Vec<u8>>())
    }
}

pub(super) fn log_in(
    client: &mut RawClient,
    login: &Login,
    answer: Option<&[u8]>,
) -> Result<Vec<u8>, ErrorPacket> {
    let greeting = client.greeting()?.clone();
    let plugin = login.plugin.clone().unwrap_or(greeting.plugin);
    client.capabilities = login.flags() & greeting.capabilities;
    // Servers without this capability expect an eight-bit answer length.
    let mut login = login.clone();
    login.capabilities &= greeting.capabilities | capability::PLUGIN_AUTH | capability::CONNECT_WITH_DB;
    let response = match answer {
        Some(answer) => login.response_with(answer, &plugin),
        None => login.response(&greeting.seed, &plugin),
    };
    client.send(&response).map_err(|error| super::lost(&error))?;
    let ok = finish(client, &login.password, plugin)?;
    client.begin_compression();
    Ok(ok)
}

/// COM_CHANGE_USER with its whole exchange of packets.
impl RawClient {
    /// Changes the user of the session.
    ///
    /// # Errors
    /// The server's refusal, or error 2013 if the connection is closed.
    pub fn change_user(&mut self, login: &Login) -> Result<Vec<u8>, ErrorPacket> {
        let greeting = self.greeting()?.clone();
        let plugin = login.plugin.clone().unwrap_or(greeting.plugin);
        let mut login = login.clone();
        login.capabilities = self.capabilities;
        let body = login.change_user(&greeting.seed, &plugin);
        self.send_command(crate::command::CHANGE_USER, &body).map_err(|error| super::lost(&error))?;
        finish(self, &login.password, plugin)
    }
}

impl RawClient {
    /// COM_CHANGE_USER with this answer in place of the right one to the greeting; returns whether the server has asked for
    /// another.
    ///
    /// # Errors
    /// As for [`RawClient::change_user`].
    pub fn change_user_with(&mut self, login: &Login, answer: Option<&[u8]>) -> Result<bool, ErrorPacket> {
        let seed = self.greeting()?.seed.clone();
        let plugin = login.plugin.clone().unwrap_or_else(|| "mysql_native_password".to_owned());
        let right = scrambled(&plugin, &login.password, &seed);
        let body = login.change_user_body(answer.unwrap_or(&right), &plugin);
        self.send_command(crate::command::CHANGE_USER, &body).map_err(|error| super::lost(&error))?;
        let mut asked = false;
        finish_asked(self, &login.password, plugin, &mut asked).map(|_| asked)
    }
}

/// Answers the server's requests until it sends OK or ERR.
fn finish(client: &mut RawClient, password: &str, plugin: String) -> Result<Vec<u8>, ErrorPacket> {
    finish_asked(client, password, plugin, &mut false)
}

fn finish_asked(
    client: &mut RawClient,
    password: &str,
    mut plugin: String,
    asked: &mut bool,
) -> Result<Vec<u8>, ErrorPacket> {
    loop {
        let packet: Packet = client.read().map_err(|error| super::lost(&error))?;
        match packet.first() {
            0 => {
                client.logged_in = true;
                return Ok(packet.payload);
            }
            0xFF => return Err(ErrorPacket::decode(&packet.payload).expect("an ERR packet has its code")),
            0xFE => {
                *asked = true;
                let mut bytes = crate::reader::Bytes::new(&packet.payload[1..]);
                let name = bytes.until_zero().expect("a plugin name ends with zero");
                plugin = String::from_utf8_lossy(name).into_owned();
                let seed: Vec<u8> = bytes.rest().iter().copied().take(20).collect();
                client.send(&scrambled(&plugin, password, &seed)).map_err(|error| super::lost(&error))?;
            }
            // caching_sha2_password: 3: the fast path succeeded; 4: the server wants the password itself.
            1 if packet.payload == [1, 3] => {}
            1 if packet.payload == [1, 4] => {
                if !client.is_secure && !matches!(client.endpoint, Endpoint::Unix(_)) {
                    return Err(ErrorPacket {
                        code: 0,
                        state: String::new(),
                        message: "full authentication requested, which needs a secure transport".to_owned(),
                    });
                }
                client.send(&[password.as_bytes(), &[0]].concat()).map_err(|error| super::lost(&error))?;
            }
            _ => panic!("unexpected while {plugin} authenticates: {packet:?}"),
        }
    }
}

fn scrambled(plugin: &str, password: &str, seed: &[u8]) -> Vec<u8> {
    match plugin {
        "mysql_native_password" => scramble::native(password, seed),
        "caching_sha2_password" => scramble::sha2(password, seed),
        "mysql_clear_password" => [password.as_bytes(), &[0]].concat(),
        // For a plugin it does not support, this client sends an empty answer, as libraries do; the server then
        // switches or refuses.
        _ => Vec::new(),
    }
}

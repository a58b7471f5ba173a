//! `PROXYSQL INTERNAL SESSION`: what is known about the session that asks, as JSON with ProxySQL's keys.
//!
//! Keys for which Narrows has no counterpart have the value that means "none" in ProxySQL: -1, 0 or an empty text.

use narrows_sql::{InternalCommand, internal_command, is_token_query};
use narrows_wire::codec::{put_lenenc_bytes, put_lenenc_int};
use narrows_wire::{Capabilities, Errno, Status};
use serde_json::{Map, Value, json};

use super::request::Request;
use super::{End, PinReason, Pinned, Session};
use crate::reply;
use crate::rows::JsonColumn;
use crate::rt::Instant;
use crate::snapshot::HostgroupId;
use crate::state::{SCHEMA_COLLATION, SessionState};

impl Session {
    /// Answers the command.
    pub(super) async fn internal(&mut self, request: &mut Request, attributes: usize) -> Result<(), End> {
        self.note_tie();
        if is_token_query(request.argument_after(attributes)) {
            let (name, token) = ("@@narrows_causal_token", self.data.written.token());
            let answer = one_text(name, token.as_bytes(), self.client.capabilities, self.data.status);
            return self.client.send(&answer).await;
        }
        if internal_command(request.argument_after(attributes)) != Some(InternalCommand::Session) {
            self.discard(request).await?;
            let text = "Unknown PROXYSQL INTERNAL command";
            return self.reply_error_at(request.answer(), Errno::PARSE_ERROR, text).await;
        }
        let text = pretty(&self.describe());
        let answer = one_text("session_info", text.as_bytes(), self.client.capabilities, self.data.status);
        self.client.send(&answer).await
    }

    fn describe(&self) -> Value {
        let process = self.handle.process(0, Instant::now());
        let row = &self.want.account.row;
        let own = row.default_hostgroup.0;
        let current = process.hostgroup.map_or(own, |hostgroup| hostgroup.0);
        let active = u8::from(self.handle.is_in_transaction());
        let open_for = self.client.transaction_since.map_or(0, |since| since.elapsed().as_millis());
        let warning_in = if self.data.information.conditions.warnings > 0 { current } else { -1 };
        let affected_in = if self.data.information.row_count > 0 { current } else { -1 };
        let mut session = json!({
            "address": format!("{:#x}", self.handle.id),
            "thread": format!("{:#x}", self.worker.index),
            "age_ms": process.age_ms,
            // ProxySQL's WAITING_CLIENT_DATA.
            "status": 4,
            "autocommit": self.data.status.contains(Status::AUTOCOMMIT),
            "thread_session_id": self.handle.id,
            "current_hostgroup": current,
            "default_hostgroup": own,
            "locked_on_hostgroup": -1,
            "autocommit_on_hostgroup": -1,
            "last_insert_id": self.data.information.insert_id.named(),
            "last_HG_affected_rows": affected_in,
            "active_transactions": active,
            "transaction_time_ms": open_for,
            "warning_in_hg": warning_in,
            "gtid": {"hid": -1, "last": ""},
            "qpo": NOTHING_RULED.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Value>(),
            "default_schema": row.default_schema,
            "user_attributes": without_passwords(&row.attributes),
            "transaction_persistent": row.transaction_persistent,
            "client": self.describe_client(process.commands),
            "conn": self.describe_settings(),
        });
        if let Some(tls) = self.client.stream.tls() {
            session["ssl_cipher"] = json!(tls.cipher);
        }
        if let Some(backend) = self.describe_backend(process.hostgroup) {
            session["backends"] = json!([backend]);
        }
        session
    }

    /// The pinned connection, or where the client's statements last ran.
    fn describe_backend(&self, last: Option<HostgroupId>) -> Option<Value> {
        match &self.binding.pinned {
            Some(pinned) => Some(json!({
                "hostgroup_id": pinned.hostgroup.0,
                "gtid": "",
                "stream": stream_of_backend(&format!("{:#x}", pinned.backend.login.thread_id)),
                "conn": self.describe_pinned(pinned),
            })),
            None => last.map(|hostgroup| {
                json!({"hostgroup_id": hostgroup.0, "gtid": "", "stream": stream_of_backend("0x0")})
            }),
        }
    }

    fn describe_client(&self, commands: u64) -> Value {
        let schema =
            String::from_utf8_lossy(self.data.state.schema.as_deref().unwrap_or_default()).into_owned();
        json!({
            "userinfo": {"username": self.want.account.row.username, "schemaname": schema},
            "stream": {"pkts_recv": commands, "pkts_sent": 0, "bytes_recv": 0, "bytes_sent": 0},
            "client_addr": {"address": self.handle.peer.0, "port": self.handle.peer.1},
            "proxy_addr": {"address": self.client.local.0, "port": self.client.local.1},
            "encrypted": self.client.stream.tls().is_some(),
            // ProxySQL's STATE_SLEEP.
            "DSS": 6,
            "switching_auth_sent": 0,
            "switching_auth_type": 0,
            "prot": {"sent_auth_plugin_id": 0, "auth_plugin_id": 0, "auth_plugin": "mysql_native_password"},
        })
    }

    /// The client's own settings.
    fn describe_settings(&self) -> Value {
        let mut settings = variables(&self.data.state);
        let open: Vec<[u32; 2]> = self.data.statements.numbers().map(|id| [id, id]).collect();
        settings.extend([
            ("session_track_gtids".to_owned(), json!("OFF")),
            ("autocommit".to_owned(), json!(on_off(self.data.status.contains(Status::AUTOCOMMIT)))),
            ("client_flag".to_owned(), client_flag(self.client.capabilities)),
            (
                "no_backslash_escapes".to_owned(),
                json!(self.data.status.contains(Status::NO_BACKSLASH_ESCAPES)),
            ),
            (
                "status".to_owned(),
                json!({"compression": self.client.capabilities.contains(Capabilities::COMPRESS)}),
            ),
            ("ps".to_owned(), json!({"client_stmt_to_global_ids": open})),
        ]);
        settings.into()
    }

    /// The pinned connection.
    fn describe_pinned(&self, pinned: &Pinned) -> Value {
        let login = &pinned.backend.login;
        let mut connection = variables(&login.state);
        let more = json!({
            "address": format!("{:#x}", login.thread_id),
            "auto_increment_delay_token": 0,
            "bytes_recv": 0,
            "bytes_sent": 0,
            "questions": 0,
            "myconnpoll_get": login.leases(),
            "myconnpoll_put": login.leases().saturating_sub(1),
            "session_track_gtids": "OFF",
            "init_connect": "",
            "init_connect_sent": true,
            "autocommit": on_off(self.data.status.contains(Status::AUTOCOMMIT)),
            "last_set_autocommit": -1,
            "no_backslash_escapes": self.data.status.contains(Status::NO_BACKSLASH_ESCAPES),
            "warning_count": self.data.information.conditions.warnings,
            "status": self.describe_pins(pinned),
            "MultiplexDisabled": !pinned.pins.are_only(PinReason::TRANSACTION),
            "MultiplexDisabled_ext": true,
            "ps": {"backend_stmt_to_global_ids": [], "global_stmt_to_backend_ids": []},
            "client_flag": client_flag(login.capabilities),
            "mysql": self.describe_login(pinned),
        });
        if let Value::Object(more) = more {
            connection.extend(more);
        }
        connection.into()
    }

    /// Why a connection is pinned, in ProxySQL's terms.
    fn describe_pins(&self, pinned: &Pinned) -> Value {
        let reasons = pinned.pins.reasons();
        let has = |reason: PinReason| reasons.intersects(reason);
        let opaque = [
            PinReason::HANDLER,
            PinReason::XA,
            PinReason::NEXT_TRANSACTION,
            PinReason::ROLE,
            PinReason::UNKNOWN_SET,
            PinReason::ROUTINE,
            PinReason::UNREAD,
            PinReason::BEYOND_RESET,
            PinReason::MULTIPLEXING_OFF,
        ];
        let conditions = &self.data.information.conditions;
        json!({
            "get_lock": has(PinReason::USER_LOCK),
            "lock_tables": has(PinReason::LOCK_TABLES),
            "has_savepoint": false,
            "temporary_table": has(PinReason::TEMPORARY_TABLE),
            "user_variable": has(PinReason::USER_VARIABLE),
            "found_rows": self.data.information.known_here().found_rows,
            "no_multiplex": opaque.into_iter().any(has),
            "no_multiplex_HG": false,
            "compression": pinned.backend.stream.is_compressed(),
            "prepared_statement": has(PinReason::HELD_STATEMENT) || has(PinReason::TEXT_STATEMENT),
            "has_warnings": conditions.are_here() && conditions.warnings > 0,
        })
    }

    /// What ProxySQL's client library knows about a connection.
    fn describe_login(&self, pinned: &Pinned) -> Value {
        let login = &pinned.backend.login;
        let row = &login.server.row;
        let (host, socket) =
            if row.port == 0 { ("localhost", row.hostname.as_str()) } else { (row.hostname.as_str(), "") };
        let charset = charset_of(&login.state, "character_set_client");
        json!({
            "address": format!("{:#x}", login.thread_id),
            "host": host,
            "host_info": format!("{host} via {}", if row.port == 0 { "UNIX socket" } else { "TCP/IP" }),
            "port": row.port,
            "server_version": "",
            "user": login.account.row.username,
            "unix_socket": socket,
            "db": String::from_utf8_lossy(login.state.schema.as_deref().unwrap_or_default()),
            "affected_rows": u64::try_from(self.data.information.row_count).unwrap_or(u64::MAX),
            "insert_id": self.data.information.insert_id.named(),
            "thread_id": login.thread_id,
            "server_status": self.data.status.0,
            "charset": 0,
            "charset_name": charset,
            "options": {"charset_name": charset, "use_ssl": u8::from(row.use_ssl)},
            "net": {"last_errno": 0, "fd": -1, "max_packet_size": 0, "sqlstate": "00000"},
        })
    }
}

/// The session's variables by name, with those first that ProxySQL always lists.
fn variables(state: &SessionState) -> Map<String, Value> {
    let always = ["character_set_results", "character_set_connection", "character_set_client"];
    let mut all: Map<String, Value> =
        always.iter().map(|name| ((*name).to_owned(), json!(charset_of(state, name)))).collect();
    all.insert("character_set_database".to_owned(), json!(unquoted(state, SCHEMA_COLLATION)));
    all.insert("collation_connection".to_owned(), json!(unquoted(state, "collation_connection")));
    for (name, literal) in state.variables() {
        if !all.contains_key(name) {
            all.insert(name.to_owned(), json!(literal.trim_matches('\'')));
        }
    }
    all
}

fn charset_of(state: &SessionState, name: &str) -> String {
    let value = unquoted(state, name);
    // A collation begins with the name of its character set.
    value.split('_').next().unwrap_or_default().to_owned()
}

fn unquoted(state: &SessionState, name: &str) -> String {
    state.literal(name).unwrap_or_default().trim_matches('\'').to_owned()
}

fn stream_of_backend(address: &str) -> Value {
    json!({
        "address": address,
        "questions": 0,
        "myconnpoll_get": 0,
        "myconnpoll_put": 0,
        "bytes_recv": 0,
        "bytes_sent": 0,
        "DSS": 0,
    })
}

fn client_flag(capabilities: Capabilities) -> Value {
    let bit = |bit| u8::from(capabilities.contains(bit));
    json!({
        "value": capabilities.0 & u64::from(u32::MAX),
        "client_found_rows": bit(Capabilities::FOUND_ROWS),
        "client_multi_statements": bit(Capabilities::MULTI_STATEMENTS),
        "client_multi_results": bit(Capabilities::MULTI_RESULTS),
        "client_deprecate_eof": bit(Capabilities::DEPRECATE_EOF),
    })
}

fn on_off(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

/// An account's attributes, without passwords.
fn without_passwords(attributes: &JsonColumn) -> String {
    let Some(mut attributes) = attributes.keys().cloned() else { return String::new() };
    attributes.retain(|name, _| !name.contains("password"));
    if attributes.is_empty() { String::new() } else { Value::Object(attributes).to_string() }
}

/// Formatted as ProxySQL does it: sorted keys, four spaces for each level.
fn pretty(value: &Value) -> String {
    let mut out = String::new();
    // serde_json uses two spaces for each level; texts have no line feeds of their own.
    for line in format!("{value:#}").lines() {
        let blanks = line.len() - line.trim_start().len();
        out.extend(std::iter::repeat_n(' ', blanks));
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// A result set of one text, in a column as ProxySQL defines it.
fn one_text(name: &str, value: &[u8], capabilities: Capabilities, status: Status) -> Vec<u8> {
    let mut column = Vec::with_capacity(64);
    for text in [b"def".as_slice(), b"", b"", b"", name.as_bytes(), b""] {
        put_lenenc_bytes(&mut column, text);
    }
    if capabilities.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
        column.push(0);
    }
    // Fixed part (manual: "Column Definition"): charset utf8, length, VAR_STRING, NOT_NULL, decimals.
    put_lenenc_int(&mut column, 0x0C);
    column.extend(33_u16.to_le_bytes());
    column.extend(15_u32.to_le_bytes());
    column.push(0xFD);
    column.extend(1_u16.to_le_bytes());
    column.extend([31, 0, 0]);
    let mut row = Vec::with_capacity(value.len() + 9);
    put_lenenc_bytes(&mut row, value);
    reply::result_set(&[&column], &[&row], capabilities, status)
}

/// The output of the rules, which do not apply to this statement.
const NOTHING_RULED: [(&str, i32); 12] = [
    ("cache_timeout", -1),
    ("cache_ttl", -1),
    ("create_new_connection", 0),
    ("delay", -1),
    ("destination_hostgroup", -1),
    ("firewall_whitelist_mode", 0),
    ("max_lag_ms", -1),
    ("multiplex", -1),
    ("reconnect", -1),
    ("retries", -1),
    ("sticky_conn", -1),
    ("timeout", -1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_no_passwords() {
        let attributes = r#"{"additional_password":"secret","reader_hostgroup":2}"#;
        assert_eq!(without_passwords(&attributes.into()), r#"{"reader_hostgroup":2}"#);
        assert_eq!(without_passwords(&"".into()), "");
    }
}

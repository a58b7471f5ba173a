//! Does what a record did, and records the answers in the same format.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Answer, Column, ErrorPacket, Login, OkPacket, Packet, RawClient, capability, command, reader,
};
use serde_json::{Map, Value, json};

use super::engine::{CAPABILITIES, cells};
use super::world::World;

/// Long enough for an answer that comes at all.
const PATIENCE: Duration = Duration::from_secs(6);

/// Does what the record did; the result has the record's fields with their current values.
pub fn replay(world: &mut World, record: &Value) -> Value {
    let id = record["id"].as_u64().expect("every record has a number");
    match record["group"].as_str().unwrap_or_default() {
        "handshake" => greeting(world, id),
        "login_malformed" => malformed_login(world, id, record),
        "kill" => kill(world, id, record),
        "backend_lost" => lost_backend(world, id, record),
        "timeouts" => idle_login(world, id),
        _ if matches!(id, 490..=494) => raw_segments(world, id),
        // Records that only set something up.
        _ if record.get("connect").is_none() => Value::Null,
        _ => conversation(world, id, record),
    }
}

fn greeting(world: &mut World, id: u64) -> Value {
    let mut client = RawClient::connect(&world.narrows_for(id).endpoint());
    let greeting = client.greeting().expect("a greeting");
    json!({"handshake": {
        "protocol": greeting.protocol,
        "server_version": greeting.version,
        "charset": greeting.collation,
        "status": greeting.status,
        "auth_data_len": greeting.seed_length,
        "capabilities": greeting.capabilities,
        "auth_plugin": greeting.plugin,
    }})
}

fn malformed_login(world: &mut World, id: u64, record: &Value) -> Value {
    let mut client = RawClient::connect(&world.narrows_for(id).endpoint());
    let seed = client.greeting().expect("a greeting").seed.clone();
    client.set_patience(Duration::from_secs(2));
    let payload = match id {
        // An answer to this connection's challenge, not to the recorded one.
        74 => recorded_login("sbtest", "sbtest").response(&seed, "mysql_native_password"),
        // The record holds the beginning of a name of 300 bytes.
        76 => recorded_login(&"u".repeat(300), "p").response(&seed, "mysql_native_password"),
        _ => bytes(record["payload_hex"].as_str().unwrap_or_default()),
    };
    let header =
        [payload.len() as u8, (payload.len() >> 8) as u8, 0, record["seq"].as_u64().unwrap_or(1) as u8];
    client.send_bytes(&[&header, &payload[..]].concat()).expect("send a packet");
    json!({"reply": one_packet(&mut client)})
}

/// A conversation: a login, steps, a ping.
fn conversation(world: &mut World, id: u64, record: &Value) -> Value {
    let connect = &record["connect"];
    let narrows = world.narrows_for(id);
    let endpoint = if connect["port"] == "admin" { narrows.admin_endpoint() } else { narrows.endpoint() };
    let mut login = recorded_login(text(&connect["user"]), text(&connect["password"]));
    login.schema = connect["db"].as_str().map(str::to_owned);
    login.plugin = connect["plugin"].as_str().map(str::to_owned);
    login.collation = connect["charset"].as_u64().unwrap_or(33) as u16;
    if let Some(capabilities) = connect["caps"].as_u64() {
        login.capabilities = capabilities as u32;
    }
    login.capabilities |= connect["extra"].as_u64().unwrap_or(0) as u32;
    for (name, value) in connect["attrs"].as_object().into_iter().flatten() {
        login.attributes.push((name.clone(), text(value).to_owned()));
    }
    let mut client = RawClient::connect(&endpoint);
    client.set_patience(PATIENCE);
    let logged_in = match connect["auth"].as_str() {
        Some(answer) => client.login_with(&login, &bytes(answer)),
        None => client.login(&login),
    };
    let mut found = json!({"login": login_reply(&logged_in)});
    if logged_in.is_err() {
        return found;
    }
    // The records hold what follows the flags of an execution.
    let cursor = u8::from(text(&record["name"]).contains("cursor flag 1"));
    let mut session = Session { client, statements: HashMap::new(), cursor };
    let steps: Vec<Value> =
        record["steps"].as_array().into_iter().flatten().map(|step| session.step(step)).collect();
    found["steps"] = steps.into_iter().map(|reply| json!({"reply": reply})).collect();
    found["ping"] = ping(&mut session.client);
    if connect["port"] == "admin" && found["ping"].is_u64() {
        // The recording has no status from the admin port here.
        found["ping"] = json!("OK");
    }
    found
}

fn recorded_login(user: &str, password: &str) -> Login {
    Login { capabilities: CAPABILITIES, ..Login::new(user, password) }
}

fn login_reply(result: &Result<Vec<u8>, ErrorPacket>) -> Value {
    match result {
        Ok(payload) => packet_reply(payload, 0),
        Err(error) if error.code == 2013 => json!("closed"),
        Err(error) if error.code == 0 => json!("full authentication requested"),
        Err(error) => error_reply(error),
    }
}

fn ping(client: &mut RawClient) -> Value {
    match client.command(command::PING, b"").ok() {
        Some(ok) => json!(ok.status),
        None => json!("closed"),
    }
}

struct Session {
    client: RawClient,
    /// The ids of the statements in the order in which they were prepared, by which the records refer to them.
    statements: HashMap<u64, [u8; 4]>,
    /// The flag that executions carry.
    cursor: u8,
}

impl Session {
    fn step(&mut self, step: &Value) -> Value {
        if let Some(query) = step["query"].as_str() {
            let answer = self.client.query(statement(query));
            return answer_reply(&answer, self.client.capabilities());
        }
        if let Some(query) = step["prepare"].as_str() {
            let answer = self.client.command(command::STMT_PREPARE, &statement(query));
            return self.prepared(&answer);
        }
        if let Some(execute) = step["execute"].as_array() {
            let values = bytes(text(&execute[1]));
            let body = [&self.id(&execute[0])[..], &[self.cursor, 1, 0, 0, 0], &values].concat();
            let answer = self.client.command(command::STMT_EXECUTE, &body);
            return answer_reply(&answer, self.client.capabilities());
        }
        if let Some(sent) = step["command"].as_array() {
            return self.command(sent[0].as_u64().unwrap_or(0) as u8, &bytes(text(&sent[1])));
        }
        if step["change_user"].is_object() {
            let user = &step["change_user"];
            let mut login = recorded_login(text(&user["user"]), text(&user["password"]));
            login.schema = user["db"].as_str().map(str::to_owned);
            return login_reply(&self.client.change_user(&login));
        }
        if let Some(raw) = step["raw"].as_str() {
            let payload = bytes(raw);
            let header = [payload.len() as u8, 0, 0, step["sequence"].as_u64().unwrap_or(0) as u8];
            // An already closed connection is noticed when reading.
            let _ = self.client.send_bytes(&[&header, &payload[..]].concat());
            let answer = self.client.answer(command::QUERY);
            return answer_reply(&answer, self.client.capabilities());
        }
        if let Some(seconds) = step["sleep_s"].as_f64() {
            std::thread::sleep(Duration::from_secs_f64(seconds));
            return Value::Null;
        }
        self.statement_command(step)
    }

    /// The commands about a prepared statement that have their own field.
    fn statement_command(&mut self, step: &Value) -> Value {
        for (name, code, tail) in [
            ("COM_STMT_RESET", command::STMT_RESET, vec![]),
            ("COM_STMT_CLOSE", command::STMT_CLOSE, vec![]),
            ("COM_STMT_FETCH", command::STMT_FETCH, vec![1, 0, 0, 0]),
            ("COM_STMT_SEND_LONG_DATA", command::STMT_SEND_LONG_DATA, [vec![0, 0], vec![b'x'; 50]].concat()),
        ] {
            if !step[name].is_null() {
                let body = [&self.id(&step[name])[..], &tail].concat();
                return self.command(code, &body);
            }
        }
        Value::Null
    }

    fn id(&self, recorded: &Value) -> [u8; 4] {
        let recorded = recorded.as_u64().unwrap_or(0);
        self.statements.get(&recorded).copied().unwrap_or((recorded as u32).to_le_bytes())
    }

    fn prepared(&mut self, answer: &Answer) -> Value {
        let Some(payload) = answer.packets.first().map(|packet| &packet.payload) else {
            return json!("closed");
        };
        if let Some(error) = ErrorPacket::decode(payload) {
            return error_reply(&error);
        }
        let number = self.statements.len() as u64 + 1;
        self.statements.insert(number, payload[1..5].try_into().expect("four bytes"));
        let mut rest = reader::Bytes::new(&payload[5..]);
        let mut next = || rest.u16().unwrap_or(0);
        let (columns, parameters) = (next(), next());
        json!({"prepared": [columns, parameters, u16::from_le_bytes([payload[10], payload[11]])]})
    }

    fn command(&mut self, code: u8, body: &[u8]) -> Value {
        if matches!(code, command::QUIT | command::STMT_CLOSE | command::STMT_SEND_LONG_DATA) {
            // An already closed connection is noticed at the next step.
            let _ = self.client.send_command(code, body);
            return Value::Null;
        }
        if code == command::STMT_FETCH {
            return fetched(&self.client.command(code, body));
        }
        if matches!(code, command::QUERY | command::FIELD_LIST) {
            let answer = self.client.command(code, body);
            return answer_reply(&answer, self.client.capabilities());
        }
        if code == command::PROCESS_INFO {
            // Its answer is that of a query.
            let _ = self.client.send_command(code, body);
            return answer_reply(&self.client.answer(command::QUERY), self.client.capabilities());
        }
        if self.client.send_command(code, body).is_err() {
            return json!("closed");
        }
        one_packet(&mut self.client)
    }
}

/// KILL of a sleeping session from another one; and of the own session.
fn kill(world: &mut World, id: u64, record: &Value) -> Value {
    let endpoint = world.narrows_for(id).endpoint();
    let open = |user: &str, password: &str| {
        let mut client = RawClient::open(&endpoint, &recorded_login(user, password));
        client.set_patience(PATIENCE);
        let id = client.query("SELECT CONNECTION_ID()").cell().expect("an id");
        (client, id)
    };
    let (mut victim, victim_id) = open("sbtest", "sbtest");
    if id == 471 {
        let reply = answer_reply(&victim.query(format!("KILL {victim_id}")), CAPABILITIES);
        return json!({"reply": reply, "ping": ping(&mut victim)});
    }
    let other = text(&record["name"]).contains("other user");
    let (mut killer, _) = if other { open("u_hg1", "p_hg1") } else { open("sbtest", "sbtest") };
    let marked = format!("SELECT SLEEP(5) /* {id} */");
    victim.send_command(command::QUERY, marked.as_bytes()).expect("send");
    wait_for_statement(world, &marked);
    let template = text(&record["name"]).split(" (").next().unwrap_or_default();
    let killer_reply = answer_reply(&killer.query(template.replace("%d", &victim_id)), CAPABILITIES);
    let victim_reply = answer_reply(&victim.answer(command::QUERY), CAPABILITIES);
    json!({
        "killer_reply": killer_reply,
        "victim_reply": victim_reply,
        "victim_ping_after": if ping(&mut victim) == "closed" { "CLOSED" } else { "OK" },
        "killer_ping_after": if ping(&mut killer) == "closed" { "CLOSED" } else { "OK" },
    })
}

/// The backend connection is killed on the server, while idle or while it works.
fn lost_backend(world: &mut World, id: u64, record: &Value) -> Value {
    let mut client = RawClient::open(&world.narrows_for(id).endpoint(), &recorded_login("sbtest", "sbtest"));
    client.set_patience(PATIENCE);
    for statement in record["before"].as_array().into_iter().flatten() {
        client.query(text(statement));
    }
    if id == 481 {
        client.query("BEGIN");
    }
    let reply = if let Some(query) = record["query"].as_str() {
        let marked = format!("{query} /* {id} */");
        client.send_command(command::QUERY, marked.as_bytes()).expect("send");
        wait_for_statement(world, &marked);
        world.server().execute(&["KILL USER sbtest"]);
        client.answer(command::QUERY)
    } else {
        world.server().execute(&["KILL USER sbtest"]);
        client.query(text(&record["reply_to"]))
    };
    let next = answer_reply(&client.query("SELECT 2"), CAPABILITIES);
    let next =
        if record["next"]["sql"].is_string() { json!({"sql": "SELECT 2", "reply": next}) } else { next };
    json!({"reply": answer_reply(&reply, CAPABILITIES), "next": next})
}

/// A client that sends nothing after the greeting.
fn idle_login(world: &mut World, id: u64) -> Value {
    let mut client = RawClient::connect(&world.narrows_for(id).endpoint());
    client.greeting().expect("a greeting");
    let closed = client.is_closed_within(PATIENCE);
    json!({"client_sees": if closed { "closed" } else { "silence" }})
}

/// Several commands in one segment; the raw answer to COM_FIELD_LIST.
fn raw_segments(world: &mut World, id: u64) -> Value {
    let login = recorded_login("sbtest", "sbtest").schema("db1");
    let mut client = RawClient::open(&world.narrows_for(id).endpoint(), &login);
    client.set_patience(PATIENCE);
    if id == 490 {
        let answer = client.command(command::FIELD_LIST, b"t\0");
        let digits = |packet: &Packet| hex(&packet.payload).replace("hex:", "");
        return json!({"packets_hex": answer.packets.iter().map(digits).collect::<Vec<_>>()});
    }
    let (first, second): (&[u8], &[u8]) = match id {
        493 => (b"\x01\0\0\0\x0e", b"\x01\0\0\0\x0e"),
        494 => (b"\x10\0\0\0\x03SELECT SLEEP(2)", b"\x01\0\0\0\x0e"),
        _ => (b"\x09\0\0\0\x03SELECT 1", b"\x09\0\0\0\x03SELECT 2"),
    };
    client.send_bytes(&[first, second].concat()).expect("send");
    let codes = if id == 493 {
        [command::PING; 2]
    } else if id == 494 {
        [command::QUERY, command::PING]
    } else {
        [command::QUERY; 2]
    };
    let replies: Vec<Value> =
        codes.iter().map(|code| answer_reply(&client.answer(*code), CAPABILITIES)).collect();
    json!({"reply": replies})
}

fn wait_for_statement(world: &World, statement: &str) {
    let deadline = Instant::now() + PATIENCE;
    let find = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = '{statement}'");
    while world.server().rows(&find)[0][0].as_deref() == Some("0") {
        assert!(Instant::now() < deadline, "{statement} does not reach the server");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The next packet as a reply.
fn one_packet(client: &mut RawClient) -> Value {
    match client.read() {
        Ok(packet) => packet_reply(&packet.payload, client.capabilities()),
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
        {
            json!("silence")
        }
        Err(_) => json!("closed"),
    }
}

fn packet_reply(payload: &[u8], capabilities: u32) -> Value {
    if let Some(error) = ErrorPacket::decode(payload) {
        return error_reply(&error);
    }
    match payload.first() {
        Some(0) => OkPacket::decode(payload).map_or(Value::Null, |ok| ok_reply(&ok, capabilities)),
        Some(0xFE) if payload.len() == 5 => json!({"eof": end(payload)}),
        _ => json!({"text": String::from_utf8_lossy(payload)}),
    }
}

fn error_reply(error: &ErrorPacket) -> Value {
    json!({"err": [error.code, error.state, error.message]})
}

fn ok_reply(ok: &OkPacket, capabilities: u32) -> Value {
    // With session tracking, a length precedes the text and the changes follow it.
    let info = if capabilities & capability::SESSION_TRACK != 0 {
        reader::Bytes::new(&ok.rest).lenenc_bytes().unwrap_or_default().to_vec()
    } else {
        // MariaDB and MySQL put the length there without session tracking too.
        let mut rest = reader::Bytes::new(&ok.rest);
        rest.lenenc_bytes().map_or_else(|| ok.rest.clone(), <[u8]>::to_vec)
    };
    json!({"ok": [ok.affected_rows, ok.last_insert_id, ok.status, ok.warnings, String::from_utf8_lossy(&info)]})
}

/// Warnings and status of the end of definitions or rows.
fn end(payload: &[u8]) -> Value {
    if payload.len() == 5 {
        return json!([
            u16::from_le_bytes([payload[1], payload[2]]),
            u16::from_le_bytes([payload[3], payload[4]])
        ]);
    }
    OkPacket::decode(payload).map_or(Value::Null, |ok| json!([ok.warnings, ok.status]))
}

/// The whole answer: one reply, or several if there are several results.
fn answer_reply(answer: &Answer, capabilities: u32) -> Value {
    let mut replies = Vec::new();
    let mut packets = answer.packets.iter();
    while let Some(head) = packets.next() {
        replies.push(match head.first() {
            0 | 0xFF | 0xFE => packet_reply(&head.payload, capabilities),
            0xFB => json!({"file": String::from_utf8_lossy(&head.payload[1..])}),
            _ => result_set(head, &mut packets, capabilities),
        });
    }
    if let Some(kind) = answer.lost {
        let silent = matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
        replies.push(json!(if silent { "silence" } else { "closed" }));
    }
    if replies.len() == 1 { replies.remove(0) } else { Value::Array(replies) }
}

/// The rows of a cursor, in the format of executed statements, or what was received instead.
fn fetched(answer: &Answer) -> Value {
    match answer.packets.split_last() {
        Some((last, rows)) if answer.lost.is_none() && last.first() == 0xFE => {
            let rows: Vec<Value> = rows.iter().map(|row| json!([hex(&row.payload)])).collect();
            json!({"rows": rows, "end": end(&last.payload)})
        }
        _ => answer_reply(answer, CAPABILITIES),
    }
}

/// As `hex:` and digits.
fn hex(payload: &[u8]) -> String {
    payload.iter().fold("hex:".to_owned(), |digits, byte| format!("{digits}{byte:02x}"))
}

fn result_set<'a>(head: &Packet, packets: &mut impl Iterator<Item = &'a Packet>, capabilities: u32) -> Value {
    let count = reader::Bytes::new(&head.payload).lenenc().unwrap_or(0) as usize;
    let mut set = Map::new();
    let columns: Vec<Value> = packets.take(count).map(|packet| column(&packet.payload)).collect();
    set.insert("columns".to_owned(), Value::Array(columns));
    if capabilities & capability::DEPRECATE_EOF == 0 {
        set.insert("head".to_owned(), packets.next().map_or(Value::Null, |packet| end(&packet.payload)));
    }
    let mut rows = Vec::new();
    for packet in packets {
        match packet.first() {
            0xFE if packet.payload.len() < Packet::MAX => {
                set.insert("end".to_owned(), end(&packet.payload));
                break;
            }
            0xFF => {
                let error = ErrorPacket::decode(&packet.payload).expect("an ERR packet has its code");
                set.insert("error".to_owned(), error_reply(&error)["err"].clone());
                break;
            }
            _ => rows.push(row(&packet.payload, count)),
        }
    }
    set.insert("rows".to_owned(), Value::Array(rows));
    Value::Object(set)
}

fn column(payload: &[u8]) -> Value {
    let mut names = reader::Bytes::new(payload);
    let mut name = || String::from_utf8_lossy(names.lenenc_bytes().unwrap_or_default()).into_owned();
    let (_catalog, schema, table, original_table, shown, original) =
        (name(), name(), name(), name(), name(), name());
    match Column::decode(payload) {
        Some(column) => json!([
            shown,
            column.kind,
            column.collation,
            column.length,
            column.flags,
            column.decimals,
            schema,
            table,
            original_table,
            original
        ]),
        None => Value::Null,
    }
}

/// A row as text cells, or as hexadecimal digits if it is binary.
fn row(payload: &[u8], columns: usize) -> Value {
    let mut bytes = reader::Bytes::new(payload);
    let cells = cells(&mut bytes, columns);
    let binary = payload.first() == Some(&0)
        && payload.len() > 1
        && (cells.len() != columns || !bytes.rest().is_empty());
    if binary {
        return json!([hex(payload)]);
    }
    cells.into_iter().map(|cell| cell.map(String::from_utf8_lossy)).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A statement of a record: `hex:` and digits, or text in which `{x*100}` is a hundred `x`.
fn statement(recorded: &str) -> Vec<u8> {
    match recorded.strip_prefix("hex:") {
        Some(digits) => bytes(digits),
        None => crate::differential::expand(recorded).into_bytes(),
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

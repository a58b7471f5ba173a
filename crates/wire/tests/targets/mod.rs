//! What must hold for any input: one function per decoder. `tests/mutations.rs` calls them with mutated packets,
//! cargo-fuzz (`fuzz/`) with libFuzzer's inputs. A violation is a panic.

use std::sync::Arc;

use narrows_wire::auth::client_side::{self, Account, Challenge, Credential, Form, Stored};
use narrows_wire::auth::{Channel, Password, Plugin, Secret, backend_side, rsa};
use narrows_wire::compression::{Algorithm, Compression, End};
use narrows_wire::frame::{HEADER_LENGTH, Header, put_packet};
use narrows_wire::handshake::{AuthMoreData, AuthSwitchRequest, ChangeUser, Greeting, Hello};
use narrows_wire::packet::{Eof, Err as ErrPacket, Ok as OkPacket};
use narrows_wire::proxy_protocol::ProxyHeader;
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Reader, Tracker};

/// A target: its name, its function, and payloads to start from.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

/// Every target.
pub const TARGETS: &[Target] = &[
    ("greeting", greeting, &[MARIADB_GREETING, MYSQL_GREETING]),
    ("hello", hello, &[LOGIN, SSL_REQUEST]),
    ("auth_switch", auth_switch, &[SWITCH, b"\xFE", b"\x01\x04"]),
    ("change_user", change_user, &[CHANGE_USER]),
    ("packets", packets, &[OK_WITH_CHANGES, b"\xFF\x15\x04#28000Access denied", b"\xFE\0\0\x02\0"]),
    ("tracker", tracker, &[RESULT_SET, RESULT_SET_WITHOUT_EOF, PREPARED, FIELDS, NO_COLUMNS]),
    ("frame", frame, &[b"\x01\0\0\0\x0E", b"\x05\0\0\x01\xFE\0\0\x02\0"]),
    (
        "client_login",
        client_login,
        &[b"\x01\x14mysql_native_password\0aaaaaaaaaaaaaaaaaaaa", b"\x0A\0caching_sha2_password\0"],
    ),
    ("backend_login", backend_login, &[b"\x02\x01\x03\x07\0\0\0\x02\0\0\0", SWITCH_AND_OK]),
    ("public_key", public_key, &[PUBLIC_KEY]),
    ("proxy_header", proxy_header, &[PROXY_LINE, PROXY_BINARY, b"PROXY UNKNOWN\r\n"]),
    ("compressed_frame", compressed_frame, &[COMPRESSED, b"\x00\x05\0\0\x03\0\0\0\x01\0\0\0\x0E"]),
    (
        "query_attributes",
        query_attributes,
        &[ATTRIBUTES, b"\0\x01SELECT 1", b"\x01\x01\x01\x01\x06\0\x01nSELECT 1"],
    ),
    ("stored_password", stored_password, &[b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7", STORED_SHA2]),
];

/// A greeting is refused, or is the same after being written and read again.
pub fn greeting(data: &[u8]) {
    let Ok(greeting) = Greeting::decode(data) else { return };
    let mut out = Vec::new();
    greeting.encode(&mut out);
    let named = greeting.capabilities.contains(Capabilities::PLUGIN_AUTH) && !greeting.plugin.contains(&0);
    let again = Greeting::decode(&out);
    if named {
        assert_eq!(again, Ok(greeting));
    } else {
        assert!(again.is_ok());
    }
}

/// A login is refused, or is the same after being written and read again.
pub fn hello(data: &[u8]) {
    let mut out = Vec::new();
    match Hello::decode(data) {
        Ok(Hello::SslRequest(request)) => {
            request.encode(&mut out);
            assert_eq!(Hello::decode(&out), Ok(Hello::SslRequest(request)));
        }
        Ok(Hello::Response(mut response)) => {
            response.attributes.iter().for_each(drop);
            response.encode(&mut out);
            if response.capabilities.contains(Capabilities::ZSTD_COMPRESSION) {
                response.zstd_level.get_or_insert(3);
            }
            assert_eq!(Hello::decode(&out), Ok(Hello::Response(response)));
        }
        Err(_) => {}
    }
}

/// A switch is refused, or is written as exactly the same bytes; so are the other authentication packets.
pub fn auth_switch(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok(request) = AuthSwitchRequest::decode(data) {
        let _ = request.nonce();
        request.encode(&mut out);
        assert!(data == [0xFE] || out == data);
    } else if let Ok(more) = AuthMoreData::decode(data) {
        more.encode(&mut out);
        assert_eq!(out, data);
    }
}

/// A `COM_CHANGE_USER` is refused, or is the same after being written and read again, with any capabilities.
pub fn change_user(data: &[u8]) {
    let flags = [Capabilities::SECURE_CONNECTION, Capabilities::PLUGIN_AUTH, Capabilities::CONNECT_ATTRS];
    for choice in 0..8 {
        let chosen = flags.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
        let capabilities = chosen.fold(Capabilities::NONE, |all, (_, flag)| all | *flag);
        let Ok(change) = ChangeUser::decode(data, capabilities) else { continue };
        change.attributes.iter().for_each(drop);
        let mut out = Vec::new();
        change.encode(capabilities, &mut out);
        assert_eq!(ChangeUser::decode(&out, capabilities), Ok(change));
    }
}

/// OK, ERR and EOF are refused, or are the same after being written and read again.
pub fn packets(data: &[u8]) {
    let mut out = Vec::new();
    for capabilities in [Capabilities::NONE, Capabilities::SESSION_TRACK] {
        out.clear();
        if let Ok(ok) = OkPacket::decode(data, capabilities) {
            assert!(ok.changes().count() <= data.len());
            ok.encode(&mut out, capabilities);
            let again = OkPacket::decode(&out, capabilities).expect("written by ourselves");
            assert_eq!((again.affected_rows, again.info), (ok.affected_rows, ok.info));
            assert_eq!(again.session_state, ok.session_state);
        }
    }
    out.clear();
    if let Ok(error) = ErrPacket::decode(data) {
        error.encode(&mut out);
        assert_eq!(out, data);
    }
    out.clear();
    if let Ok(eof) = Eof::decode(data) {
        eof.encode(&mut out);
        assert_eq!(Eof::decode(&out), Ok(eof));
    }
}

/// A response is read the same whole and in pieces, and the tracker always says how much it needs to continue. The
/// first byte chooses the form of the response, the second the size of the pieces.
pub fn tracker(data: &[u8]) {
    let [choice, piece, bytes @ ..] = data else { return };
    let forms = [Expect::Result, Expect::Fields, Expect::Text, Expect::Prepare, Expect::Rows];
    let expect = forms[usize::from(choice >> 1) % forms.len()];
    let deprecate_eof = choice & 1 == 1;
    let whole = walk(Tracker::new(expect, deprecate_eof), bytes, bytes.len().max(1));
    let pieces = walk(Tracker::new(expect, deprecate_eof), bytes, usize::from(*piece).max(1));
    assert_eq!(whole, pieces);
}

/// What a tracker shows of `bytes` fed in pieces, and whether it reached the end of the response.
fn walk(mut tracker: Tracker, bytes: &[u8], piece: usize) -> (Vec<Next>, bool) {
    let mut shown = Vec::new();
    let mut buffer = Vec::new();
    for chunk in bytes.chunks(piece) {
        buffer.extend_from_slice(chunk);
        loop {
            if tracker.is_done() {
                return (shown, true);
            }
            let Ok(walk) = tracker.walk(&mut buffer) else { return (shown, false) };
            buffer.drain(..walk.passed);
            let length = match walk.next {
                Next::More { need } => {
                    assert!(need > buffer.len(), "asks for {need} bytes and has {}", buffer.len());
                    break;
                }
                Next::ColumnsEnd { length }
                | Next::Ok { length }
                | Next::Eof { length }
                | Next::Err { length }
                | Next::LocalInfile { length }
                | Next::PrepareOk { length }
                | Next::Text { length } => length,
            };
            buffer.drain(..length);
            shown.push(walk.next);
        }
    }
    (shown, tracker.is_done())
}

/// A header is the same after being written; a payload can be read back from its packets; reading any basic type ends.
pub fn frame(data: &[u8]) {
    if let Some(header) = Header::decode(data) {
        assert_eq!(header.encode().as_slice(), &data[..HEADER_LENGTH]);
    }
    let (mut out, mut sequence) = (Vec::new(), 255);
    put_packet(&mut out, &mut sequence, data);
    assert_eq!((sequence, &out[HEADER_LENGTH..]), (0, data));
    let mut reader = Reader::new(data);
    while reader.lenenc_bytes().is_ok() {}
    while reader.lenenc_int().is_ok() {}
    assert!(reader.remaining() <= data.len());
}

/// No answer without the password is accepted. The first byte chooses account and circumstances, the second is the
/// length of the plugin's name; what follows the name is both the first and the second answer.
pub fn client_login(data: &[u8]) {
    let [choice, length, rest @ ..] = data else { return };
    let (plugin, answer) = rest.split_at(rest.len().min(usize::from(*length)));
    let account = match choice % 4 {
        0 => known(Stored::Clear(Password::new(b"a password nobody guesses"))),
        1 => known(Stored::Native([7; 20])),
        2 => Account::decoy(
            plugin,
            &[Form::Clear, Form::Native, Form::AtServers, Form::Token, Form::PasswordOrToken],
            &[7; 32],
        ),
        _ => Account::decoy(plugin, &[Form::CachingSha2 { rounds: 5000 }], &[7; 32]),
    };
    let challenge = Challenge {
        nonce: b"aBcDeFgHiJkLmNoPqRsT",
        announced: if choice & 4 == 0 { Plugin::NativePassword } else { Plugin::CachingSha2Password },
        channel: if choice & 8 == 0 { Channel::Open } else { Channel::Tls },
        can_switch: choice & 16 == 0,
        restarts: choice & 128 != 0,
        public_key: (choice & 64 == 0).then(|| PUBLIC_KEY.into()),
    };
    let plugin = plugin.strip_suffix(&[0]).unwrap_or(plugin);
    let plugin = (choice & 32 == 0).then_some(plugin);
    let (mut exchange, mut step) = client_side::ClientExchange::start(&challenge, account, plugin, answer);
    // One switch, one key, one password and one comparison at most.
    for _ in 0..6 {
        match step {
            client_side::ClientStep::Send(_) => step = exchange.feed(answer),
            client_side::ClientStep::Decrypt(cipher) => step = exchange.decrypted(Some(cipher.into())),
            client_side::ClientStep::Verify(verification) => step = exchange.verified(verification.run()),
            client_side::ClientStep::AskServer(_) => step = exchange.asked(None),
            client_side::ClientStep::Accept { .. } => panic!("logged in"),
            client_side::ClientStep::CheckToken(_) => step = exchange.token_checked(false),
            client_side::ClientStep::Reject(_) => return,
        }
    }
    panic!("the exchange does not end");
}

fn known(stored: Stored) -> Account {
    Account::known(Arc::new([Credential::new(stored)]))
}

/// Nothing a server sends makes us send the password in clear text over an open channel, or continue forever. The data
/// is a length byte and a payload, repeated.
pub fn backend_login(data: &[u8]) {
    for (announced, channel) in [
        ("mysql_native_password", Channel::Open),
        ("caching_sha2_password", Channel::Open),
        ("caching_sha2_password", Channel::Tls),
        ("mysql_native_password", Channel::UnverifiedTls),
    ] {
        let secret = Secret::clear(b"secret");
        let nonce = b"aBcDeFgHiJkLmNoPqRsT";
        let (mut exchange, _) =
            backend_side::BackendExchange::new(nonce, announced.as_bytes(), secret, channel, true, [9; 20]);
        let mut reader = Reader::new(data);
        let mut answers = 0;
        while let Ok(payload) = reader.u8().and_then(|length| reader.bytes(length.into())) {
            if let backend_side::BackendStep::Send(answer) = exchange.feed(payload) {
                answers += 1;
                let clear = answer.windows(6).any(|window| window == b"secret");
                // A switch to mysql_clear_password requires more than TLS; caching_sha2_password does not.
                let is_switch = payload.first() == Some(&0xFE);
                let may = channel == Channel::Tls || channel == Channel::UnverifiedTls && !is_switch;
                assert!(may || !clear, "the password was sent in clear text");
            }
        }
        assert!(answers <= 11, "{answers} answers");
    }
}

/// A key is refused, or encrypts to its own length.
pub fn public_key(data: &[u8]) {
    if let Ok(key) = rsa::PublicKey::from_pem(data) {
        let cipher = key.encrypt_oaep(b"secret\0", &[9; 20]).expect("fits every accepted key");
        assert!(cipher.len() >= 128);
    }
}

/// A header ends within the bytes, or needs more than there are; what comes after it changes nothing.
pub fn proxy_header(data: &[u8]) {
    let header = ProxyHeader::decode(data);
    match header {
        Ok(ProxyHeader::Known { length, .. } | ProxyHeader::Unknown { length }) => {
            assert!((1..=data.len()).contains(&length));
            assert_eq!(ProxyHeader::decode(&[data, b"more"].concat()), header);
            assert!(matches!(ProxyHeader::decode(&data[..length - 1]), Ok(ProxyHeader::Incomplete(_))));
        }
        Ok(ProxyHeader::Incomplete(need)) => assert!(need > data.len()),
        Ok(ProxyHeader::Absent) | Err(_) => {}
    }
}

/// Frames are decoded or refused, never beyond what their headers say; and what is put into frames, in whatever pieces,
/// can be read back. The first byte chooses the algorithm, the second the size of the pieces.
pub fn compressed_frame(data: &[u8]) {
    let [choice, piece, bytes @ ..] = data else { return };
    let algorithm = if choice & 1 == 0 { Algorithm::Zlib } else { Algorithm::Zstd(1) };
    let (mut out, mut at) = (Vec::new(), 0);
    let mut reader = Compression::new(algorithm, End::Server);
    // A header may claim 16 MiB: one frame of that size is enough.
    while let Ok(taken @ 1..) = reader.decode(&bytes[at..], &mut out) {
        at += taken;
        assert!(at <= bytes.len());
        if out.len() > 1 << 20 {
            return;
        }
    }
    for end in [End::Client, End::Server] {
        let mut writer = Compression::new(algorithm, end);
        let mut frames = Vec::new();
        bytes.chunks(usize::from(*piece).max(1)).for_each(|piece| writer.encode(piece, &mut frames));
        let (mut back, mut at) = (Vec::new(), 0);
        while at < frames.len() {
            at += reader.decode(&frames[at..], &mut back).expect("written by ourselves");
        }
        assert_eq!(back, bytes);
    }
}

/// Attributes are refused, or end where a reader that only does what MySQL does ends them: it reads unknown types as
/// strings.
pub fn query_attributes(data: &[u8]) {
    let Ok(length) = narrows_wire::query::attributes_length(data) else { return };
    assert_eq!(server_attributes(data), Some(length), "{data:02X?}");
}

fn server_attributes(data: &[u8]) -> Option<usize> {
    let (count, mut at) = server_length(data, 0)?;
    at = server_length(data, at)?.1;
    if count == 0 {
        return Some(at);
    }
    let nulls = at;
    at += count.div_ceil(8);
    assert_ne!(*data.get(at)?, 0, "types follow");
    at += 1;
    let mut kinds = Vec::new();
    for _ in 0..count {
        kinds.push(u16::from_le_bytes([*data.get(at)?, *data.get(at + 1)?]) & 0x7FFF);
        let (name, behind) = server_length(data, at + 2)?;
        at = behind + name;
    }
    for (index, kind) in kinds.into_iter().enumerate() {
        if data[nulls + index / 8] >> (index % 8) & 1 == 1 {
            continue;
        }
        at = match kind {
            1 => at + 1,
            2 => at + 2,
            3 | 4 => at + 4,
            5 | 8 => at + 8,
            _ => server_length(data, at).map(|(length, behind)| behind + length)?,
        };
    }
    (at <= data.len()).then_some(at)
}

/// A length as MySQL reads the lengths of values (of eight bytes it uses four), and what follows it.
fn server_length(data: &[u8], at: usize) -> Option<(usize, usize)> {
    let bytes = |count: usize| {
        let bytes = data.get(at + 1..at + 1 + count)?;
        let number = bytes.iter().take(4).rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
        Some((number, at + 1 + count))
    };
    match *data.get(at)? {
        small @ 0..=250 => Some((small.into(), at + 1)),
        252 => bytes(2),
        253 => bytes(3),
        _ => bytes(8),
    }
}

/// Any bytes are a password in one form or another.
pub fn stored_password(data: &[u8]) {
    if let Stored::Clear(password) = Stored::parse(data) {
        assert_eq!(password.bytes(), data);
    }
}

/// A BIGINT that is NULL, a date and a string, with names.
const ATTRIBUTES: &[u8] =
    b"\x03\x01\x01\x01\x08\0\x01a\x0A\0\x01b\xFE\0\x02cd\x04\xE9\x07\x01\x02\x05valueSELECT 1";

const MARIADB_GREETING: &[u8] =
    b"\x0A5.5.5-10.11.19-MariaDB\0\x05\0\0\0qlMx8IIq\0\xFE\xF7\x08\x02\0\xFF\x81\x15\
    \0\0\0\0\0\0\x1D\0\0\0}Aioo`sD6\"Dr\0mysql_native_password\0";

const MYSQL_GREETING: &[u8] = b"\x0A9.7.4-2\0\x0B\0\0\0qP'hXN\x1E\x0C\0\xFF\xFF\xFF\x02\0\xFF\xDF\x15\
    \0\0\0\0\0\0\0\0\0\0\x18uO\x16r\n`\x07:(pD\0caching_sha2_password\0";

const LOGIN: &[u8] = b"\x8C\xA2\xBF\x05\0\0\0\x10\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x1D\0\0\0nat\0\
    \x14aaaaaaaaaaaaaaaaaaaaapp\0mysql_native_password\0\x0A\x03_os\x05Linux\x05";

const SSL_REQUEST: &[u8] = b"\x8D\xAA\xBF\x19\0\0\0\x01\xFF\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const SWITCH: &[u8] = b"\xFEcaching_sha2_password\0mN?uOXS7\x08{Y\x06Ly\x02lsa=\x1A\0";

const SWITCH_AND_OK: &[u8] =
    b"\x2C\xFEcaching_sha2_password\0mN?uOXS7\x08{Y\x06Ly\x02lsa=\x1A\0\x02\x01\x04\x07\0\0\0\x02\0\0\0";

const CHANGE_USER: &[u8] =
    b"\x11nat\0\x14aaaaaaaaaaaaaaaaaaaaapp\0\x2D\0mysql_native_password\0\x0A\x03_os\x05Linux";

const PROXY_LINE: &[u8] = b"PROXY TCP4 10.0.0.5 127.0.0.1 40218 6033\r\n";

const PROXY_BINARY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\x0A\0\0\x05\x7F\0\0\x01\x9D\x1A\x17\x91\x20\0\0\x01";

/// `SELECT` with a long string, in a frame of zlib.
const COMPRESSED: &[u8] =
    b"\x00\x07\x22\0\0\0\x32\0\0x\x9c\xd3\x63\x60\x60\x60\x2e\x4e\xcd\x49\x4d\x2e\x51\x50\x32\
    \x30\x34\x32\x36\x31\x35\x33\xb7\xb0\xc4\xcd\x52\x02\0\x0c\xd1\x0a\x6c";

const OK_WITH_CHANGES: &[u8] = b"\0\0\0\x02\x40\0\0\0\x15\0\x0E\x0Aautocommit\x02ON\x01\x03\x02db";

/// Two columns, two rows, EOF packets; then one more result.
const RESULT_SET: &[u8] =
    b"\x00\x03\x01\0\0\x01\x02\x04\0\0\x02\x03def\x04\0\0\x03\x03def\x05\0\0\x04\xFE\0\0\x02\0\
    \x04\0\0\x05\x01a\x01b\x02\0\0\x06\xFB\xFB\x05\0\0\x07\xFE\0\0\x0A\0\x07\0\0\x08\0\0\0\x02\0\0\0";

const RESULT_SET_WITHOUT_EOF: &[u8] =
    b"\x01\x05\x01\0\0\x01\x01\x04\0\0\x02\x03def\x02\0\0\x03\x01a\x07\0\0\x04\xFE\0\0\x02\0\0\0";

const PREPARED: &[u8] = b"\x06\x02\x0C\0\0\x01\0\x01\0\0\0\x01\0\x01\0\0\0\0\
    \x04\0\0\x02\x03def\x05\0\0\x03\xFE\0\0\x02\0\x04\0\0\x04\x03def\x05\0\0\x05\xFE\0\0\x02\0";

/// A column count of zero in its longer form.
const NO_COLUMNS: &[u8] = b"\x00\x01\x03\0\0\x01\xFC\0\0\x04\0\0\x02\x03def";

const FIELDS: &[u8] = b"\x02\x07\x04\0\0\x01\x03def\x05\0\0\x02\xFE\0\0\x02\0";

const STORED_SHA2: &[u8] =
    b"$A$00A$;\x1F\x1B95HNf,/M\x06^D%\x05ux;\x03nRjViQH1eG.X9pBLX3DzBe.X97yrhM457uIsGqK08n5";

const PUBLIC_KEY: &[u8] = b"-----BEGIN PUBLIC KEY-----\n\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAzt2onttifv7KxVJkjcT/\n\
    9g93GJKJNO79nxnIZjt5fXCXI6ue05xAlwNnw2lWMIQ2ANTTotUns/jZQVLPZcve\n\
    PyoScOXXg412q+Mwo2KoISpdLdBQPEcgqSfQ5hpckeAWqFO9WzYE9PFwz1STH7ih\n\
    dQvRdnwQOnz3X49xCiLC9KJ8AsUkQnBlHZohHC0LRhD3TGJ8gXaEljkWEVTqliyO\n\
    3BKpffyUNwAYjSjr4L+VP8wpOrVK6uCCj3Lu7oSGonmqBZCcaUdQA0kL2HEMp7IG\n\
    RGGFl8s08W/dxnexP8wWGSo7AaoCX5aNBkeDCRX5c0Ong0rVOBmiK5n44o9h0bXa\n\
    lQIDAQAB\n-----END PUBLIC KEY-----\n";

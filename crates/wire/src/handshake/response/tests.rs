//! Logins of real clients, and what is accepted of logins that are not quite right.

use super::*;

/// The `mariadb` client of 10.11 (some attributes left out).
fn libmariadb() -> Vec<u8> {
    [
        &b"\x8C\xA2\xBF\0"[..], // capabilities without LONG_PASSWORD
        b"\0\0\0\x10\x21",      // 256 MiB, utf8mb3
        &[0; 19],
        b"\x1D\0\0\0", // MariaDB's capabilities
        b"nat\0",
        b"\x14\x7B\xCD\x62\xA7\x13\xB8\xAA\xDD\x57\x33\x7F\xF5\x2E\x0D\x88\xC3\x5E\x41\xBD\xED",
        b"app\0",
        b"mysql_native_password\0",
        b"\x1B\x03_os\x05Linux\x0Cprogram_name\x03sql",
    ]
    .concat()
}

/// The `mysql` client of 9.7, for an account without a password (some attributes left out).
fn libmysql() -> Vec<u8> {
    [
        &b"\x85\xA2\xBF\x19"[..],
        b"\0\0\0\x01\xFF", // 16 MiB, utf8mb4_0900_ai_ci
        &[0; 23],
        b"nopw\0",
        b"\x01\0", // one byte: the terminator of the empty password
        b"caching_sha2_password\0",
        b"\x1E\x08os_user_\x04root\x03_os\x05Linux\x04_pid\x00",
    ]
    .concat()
}

fn response(payload: &[u8]) -> HandshakeResponse {
    match Hello::decode(payload) {
        Ok(Hello::Response(response)) => response,
        other => panic!("not a login: {other:?}"),
    }
}

/// A login with the capabilities `flags`, its fields after the fixed part written out.
fn login(flags: Capabilities, fields: &[&[u8]]) -> Vec<u8> {
    let capabilities =
        flags | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::LONG_PASSWORD;
    let mut out = Vec::new();
    SslRequest { capabilities, max_packet_size: 1 << 24, charset: 45 }.encode(&mut out);
    out.extend(fields.concat());
    out
}

#[test]
fn reads_what_libmariadb_sends() {
    let response = response(&libmariadb());
    assert_eq!(response.capabilities, Capabilities(0x1D_00BF_A28C));
    assert_eq!((response.max_packet_size, response.charset), (1 << 28, 33));
    assert_eq!(response.user, b"nat");
    assert_eq!(response.auth_response.len(), 20);
    assert_eq!(response.schema.as_deref(), Some(&b"app"[..]));
    assert_eq!(response.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
    let attributes: Vec<_> = response.attributes.iter().collect();
    assert_eq!(attributes, [(&b"_os"[..], &b"Linux"[..]), (b"program_name", b"sql")]);
}

#[test]
fn reads_what_libmysql_sends_for_an_empty_password() {
    let response = response(&libmysql());
    assert_eq!(response.auth_response, [0]);
    assert_eq!(response.schema, None);
    assert_eq!(response.plugin.as_deref(), Some(&b"caching_sha2_password"[..]));
    assert_eq!(response.attributes.iter().count(), 3);
}

#[test]
fn writes_the_bytes_it_read() {
    for payload in [libmariadb(), libmysql()] {
        let mut out = Vec::new();
        response(&payload).encode(&mut out);
        assert_eq!(out, payload);
    }
}

#[test]
fn tells_a_request_for_tls_from_a_login() {
    // The `mysql` client of 9.7 with --ssl-mode=REQUIRED.
    let payload = [&b"\x8D\xAA\xBF\x19\0\0\0\x01\xFF"[..], &[0; 23]].concat();
    let Ok(Hello::SslRequest(request)) = Hello::decode(&payload) else { panic!("not an SSLRequest") };
    assert!(request.capabilities.contains(Capabilities::SSL));
    let mut out = Vec::new();
    request.encode(&mut out);
    assert_eq!(out, payload);
    // Inside TLS the flag stays set.
    assert_eq!(response(&login(Capabilities::SSL, &[b"root\0\0"])).user, b"root");
}

#[test]
fn names_a_client_of_before_4_1() {
    // HandshakeResponse320: two bytes of capabilities, three of packet size, user.
    assert_eq!(Hello::decode(b"\x85\x24\0\0\0root\0"), Err(HelloError::OldProtocol));
}

#[test]
fn reads_the_three_forms_of_the_answer() {
    let answer = [b'x'; 20];
    let short = login(Capabilities::NONE, &[b"u\0\x14", &answer]);
    assert_eq!(response(&short).auth_response, answer);
    let mut terminated = login(Capabilities::NONE, &[b"u\0", &answer, b"\0"]);
    terminated[1] &= 0x7F; // without SECURE_CONNECTION
    assert_eq!(response(&terminated).auth_response, answer);
    let long = login(Capabilities::PLUGIN_AUTH_LENENC_DATA, &[b"u\0\xFC\x2C\x01", &[b'x'; 300]]);
    assert_eq!(response(&long).auth_response, [b'x'; 300]);
    for payload in [short, terminated, long] {
        let mut out = Vec::new();
        response(&payload).encode(&mut out);
        assert_eq!(out, payload);
    }
}

#[test]
fn takes_logins_that_end_early() {
    let flags = Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_WITH_DB | Capabilities::CONNECT_ATTRS;
    let whole: [&[u8]; 3] = [b"u\0\0", b"app\0", b"dialog\0"];
    let no_attributes = response(&login(flags, &whole));
    assert!(no_attributes.attributes.is_empty());
    assert_eq!(no_attributes.plugin.as_deref(), Some(&b"dialog"[..]));
    assert_eq!(response(&login(flags, &[b"u\0\0", b"app\0", b"dialog"])), no_attributes);
    let no_plugin = response(&login(flags, &[b"u\0\0", b"app\0"]));
    assert_eq!((no_plugin.schema.as_deref(), no_plugin.plugin.as_deref()), (Some(&b"app"[..]), None));
    assert_eq!(response(&login(flags, &[b"u\0\0", b"app"])), no_plugin);
    let nothing = response(&login(flags, &[b"u\0\0"]));
    assert_eq!((nothing.schema, nothing.plugin), (None, None));
    assert_eq!(response(&login(flags, &[b"u\0\0", b"\0"])).schema, None);
    let zstd = response(&login(Capabilities::ZSTD_COMPRESSION, &[b"u\0\0"]));
    assert_eq!(zstd.zstd_level, None);
}

#[test]
fn passes_over_bytes_after_the_last_field() {
    assert_eq!(response(&login(Capabilities::NONE, &[b"u\0\0", b"garbage"])).user, b"u");
}

#[test]
fn refuses_lengths_that_lie() {
    let flags = Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_ATTRS;
    let lies: [&[u8]; 6] =
        [b"", b"u", b"u\0", b"u\0\x40abc", b"u\0\0dialog\0\x50\x01a", b"u\0\0dialog\0\xFE\xFF\xFF\xFF"];
    for fields in lies {
        assert!(
            matches!(Hello::decode(&login(flags, &[fields])), Err(HelloError::Malformed(_))),
            "{fields:?}"
        );
    }
    for length in 0..FIXED_LENGTH {
        assert!(Hello::decode(&libmysql()[..length]).is_err(), "{length}");
    }
}

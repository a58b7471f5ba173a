//! How an event is written: as an object of JSON, with ProxySQL's names.

use std::time::SystemTime;

use narrows_proxy::audit::AuditEvent;
use narrows_proxy::clock::since_1970;
use serde_json::{Map, Value as Json, json};

use crate::calendar::date_and_fraction;

/// A line without its end.
pub fn line(event: &AuditEvent) -> String {
    let peer = &event.peer;
    let mut line = Map::new();
    let mut put = |name: &str, value: Json| line.insert(name.to_owned(), value);
    put("event", event.event.into());
    put("time", date(event.time).into());
    put("timestamp", millis(event.time).into());
    put("thread_id", peer.thread_id.into());
    put("username", peer.username.as_str().into());
    put("schemaname", peer.schemaname.as_str().into());
    put("client_addr", address(&peer.client).into());
    put("proxy_addr", address(&peer.local).into());
    put("ssl", peer.tls.into());
    for (name, value) in &event.more {
        put(name, json!(value));
    }
    Json::Object(line).to_string()
}

/// `address:port`; a Unix socket has no port.
fn address((host, port): &(String, u16)) -> String {
    match port {
        0 => host.clone(),
        port if host.contains(':') => format!("[{host}]:{port}"),
        port => format!("{host}:{port}"),
    }
}

/// Milliseconds since 1970.
fn millis(time: SystemTime) -> u64 {
    u64::try_from(since_1970(time).as_millis()).unwrap_or(u64::MAX)
}

/// `YYYY-MM-DD hh:mm:ss.mmm` in UTC.
fn date(time: SystemTime) -> String {
    date_and_fraction(time, 3)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use narrows_proxy::audit::AuditPeer;

    use super::*;

    #[test]
    fn an_event_is_one_line_of_json_whatever_its_names_are() {
        let peer = AuditPeer {
            thread_id: 7,
            username: "a\n\"b\"".to_owned(),
            client: ("::1".to_owned(), 5),
            local: ("/tmp/narrows.sock".to_owned(), 0),
            ..AuditPeer::default()
        };
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_251_200_123);
        let event = AuditEvent { event: "MySQL_Client_Connect_ERR", time, peer, more: Vec::new() };
        let line = line(&event.with("error", 1045));
        assert!(!line.contains('\n'), "{line}");
        let read: Json = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            read,
            json!({
                "event": "MySQL_Client_Connect_ERR", "time": "2024-03-01 00:00:00.123",
                "timestamp": 1_709_251_200_123_u64, "thread_id": 7, "username": "a\n\"b\"", "schemaname": "",
                "client_addr": "[::1]:5", "proxy_addr": "/tmp/narrows.sock", "ssl": false, "error": 1045,
            })
        );
    }
}

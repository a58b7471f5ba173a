//! The PROXY protocol, versions 1 and 2 (HAProxy's `doc/proxy-protocol.txt`): what a load balancer writes in front of a
//! connection's first bytes, to say which client the connection comes from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::codec::Malformed;

/// What is at the front of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    /// No header.
    Absent,
    /// An incomplete header; at least this many bytes are needed to continue.
    Incomplete(usize),
    /// A header of this many bytes that does not name the client (`UNKNOWN`, `LOCAL`, another family).
    Unknown {
        /// Bytes of it.
        length: usize,
    },
    /// A header that names the client.
    Known {
        /// Bytes of it.
        length: usize,
        /// The client.
        source: SocketAddr,
        /// The address the client connected to.
        destination: SocketAddr,
    },
}

const V1: &[u8] = b"PROXY ";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest header of version 1, including its line end.
const V1_LONGEST: usize = 107;

/// The bytes before the addresses in version 2.
const V2_FIXED: usize = 16;

/// The most bytes accepted after that: addresses and extensions. The length field would allow 65,535, which nobody
/// needs.
const V2_LONGEST: usize = 4096;

impl ProxyHeader {
    /// Reads the header at the front of `bytes`. No packet of a client begins like one.
    ///
    /// # Errors
    /// If the bytes begin as a header but are not one.
    pub fn decode(bytes: &[u8]) -> Result<ProxyHeader, Malformed> {
        for (signature, decode) in [(V1, v1 as fn(&[u8]) -> _), (V2, v2)] {
            if bytes.starts_with(signature) {
                return decode(bytes);
            }
            if signature.starts_with(bytes) {
                return Ok(ProxyHeader::Incomplete(bytes.len() + 1));
            }
        }
        Ok(ProxyHeader::Absent)
    }
}

fn v1(bytes: &[u8]) -> Result<ProxyHeader, Malformed> {
    let line = bytes.get(..V1_LONGEST).unwrap_or(bytes);
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return match line.len() {
            V1_LONGEST => Err(Malformed("PROXY header without an end")),
            length => Ok(ProxyHeader::Incomplete(length + 1)),
        };
    };
    let length = end + 2;
    let wrong = Malformed("PROXY header of version 1 that makes no sense");
    let text = line.get(V1.len()..end).and_then(|text| std::str::from_utf8(text).ok()).ok_or(wrong)?;
    let mut words = text.split(' ');
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        return Ok(ProxyHeader::Unknown { length });
    }
    let [source, destination, source_port, destination_port] =
        std::array::from_fn(|_| words.next().unwrap_or_default());
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse().ok().map(IpAddr::V4),
            "TCP6" => text.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    // `parse` would accept a sign too.
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let end = |address: Option<IpAddr>, port: Option<u16>| Some(SocketAddr::new(address?, port?));
    let source = end(address(source), port(source_port));
    let destination = end(address(destination), port(destination_port));
    match (source, destination, words.next()) {
        (Some(source), Some(destination), None) => Ok(ProxyHeader::Known { length, source, destination }),
        _ => Err(wrong),
    }
}

fn v2(bytes: &[u8]) -> Result<ProxyHeader, Malformed> {
    let Some(&[command, family, high, low]) = bytes.get(V2.len()..).and_then(|rest| rest.first_chunk())
    else {
        return Ok(ProxyHeader::Incomplete(V2_FIXED));
    };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    let length = V2_FIXED + rest;
    if rest > V2_LONGEST {
        return Err(Malformed("PROXY header of version 2 that is too long"));
    }
    let Some(body) = bytes.get(V2_FIXED..length) else { return Ok(ProxyHeader::Incomplete(length)) };
    let wrong = Malformed("PROXY header of version 2 that makes no sense");
    match (command, family) {
        (0x20, _) => Ok(ProxyHeader::Unknown { length }),
        (0x21, 0x11) => {
            let (addresses, ports) = body.split_first_chunk::<8>().ok_or(wrong)?;
            let [a, b, c, d, e, f, g, h] = *addresses;
            let source = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            let destination = IpAddr::V4(Ipv4Addr::new(e, f, g, h));
            known(length, source, destination, ports).ok_or(wrong)
        }
        (0x21, 0x21) => {
            let (source, more) = body.split_first_chunk::<16>().ok_or(wrong)?;
            let (destination, ports) = more.split_first_chunk::<16>().ok_or(wrong)?;
            let address = |octets: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*octets));
            known(length, address(source), address(destination), ports).ok_or(wrong)
        }
        // Datagrams and Unix sockets give no client address.
        (0x21, 0x00 | 0x12 | 0x22 | 0x31 | 0x32) => Ok(ProxyHeader::Unknown { length }),
        _ => Err(wrong),
    }
}

fn known(length: usize, source: IpAddr, destination: IpAddr, ports: &[u8]) -> Option<ProxyHeader> {
    let [a, b, c, d] = *ports.first_chunk::<4>()?;
    Some(ProxyHeader::Known {
        length,
        source: SocketAddr::new(source.to_canonical(), u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination.to_canonical(), u16::from_be_bytes([c, d])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(length: usize, source: &str, destination: &str) -> Result<ProxyHeader, Malformed> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Ok(ProxyHeader::Known { length, source, destination })
    }

    #[test]
    fn reads_what_haproxy_writes() {
        // `send-proxy` and `send-proxy-v2` of HAProxy 2.6; after the second, a packet from the client.
        let one = b"PROXY TCP4 127.0.0.1 127.0.0.1 40218 6033\r\n";
        assert_eq!(ProxyHeader::decode(one), known(43, "127.0.0.1:40218", "127.0.0.1:6033"));
        let two = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\x0A\0\0\x05\x7F\0\0\x01\x9D\x1A\x17\x91\x20\0\0\x01";
        assert_eq!(ProxyHeader::decode(two), known(28, "10.0.0.5:40218", "127.0.0.1:6033"));
        let six = b"PROXY TCP6 2001:db8::7 ::1 1 65535\r\n";
        assert_eq!(ProxyHeader::decode(six), known(36, "[2001:db8::7]:1", "[::1]:65535"));
        let mut binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24".to_vec();
        binary.extend([0; 15]);
        binary.push(1);
        binary.extend([0; 15]);
        binary.extend([2, 0, 80, 0, 81]);
        assert_eq!(ProxyHeader::decode(&binary), known(52, "[::1]:80", "[::2]:81"));
    }

    #[test]
    fn a_balancer_may_not_know_or_speak_for_itself() {
        for header in [&b"PROXY UNKNOWN\r\n"[..], b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n"] {
            assert_eq!(ProxyHeader::decode(header), Ok(ProxyHeader::Unknown { length: header.len() }));
        }
        for (command, family) in [(0x20, 0x00), (0x20, 0x11), (0x21, 0x00), (0x21, 0x12), (0x21, 0x31)] {
            let header = [V2, &[command, family, 0, 2, 9, 9]].concat();
            assert_eq!(ProxyHeader::decode(&header), Ok(ProxyHeader::Unknown { length: 18 }));
        }
    }

    #[test]
    fn a_login_is_no_header() {
        for packet in [&b"\x85\0\0\x01\x8D"[..], b"PROXX", b"\r\n\r\r"] {
            assert_eq!(ProxyHeader::decode(packet), Ok(ProxyHeader::Absent));
        }
    }

    #[test]
    fn what_is_cut_anywhere_waits_for_more() {
        let one = &b"PROXY TCP4 10.0.0.5 127.0.0.1 40218 6033\r\n"[..];
        let two = &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\x0A\0\0\x05\x7F\0\0\x01\x9D\x1A\x17\x91"[..];
        for header in [one, two] {
            for length in 0..header.len() {
                match ProxyHeader::decode(&header[..length]) {
                    Ok(ProxyHeader::Incomplete(need)) => assert!(need > length && need <= header.len()),
                    other => panic!("{length}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "TCP4 10.0.0.5 127.0.0.1 40218",
            "TCP4 10.0.0.5 127.0.0.1 40218 6033 1",
            "TCP4 10.0.0.5 127.0.0.1 40218 65536",
            "TCP4 10.0.0.5 127.0.0.1 +1 6033",
            "TCP4 ::1 ::1 1 2",
            "TCP6 10.0.0.5 127.0.0.1 1 2",
            "TCP4 10.0.0.256 127.0.0.1 1 2",
            "TCP4  10.0.0.5 127.0.0.1 1 2",
            "UDP4 10.0.0.5 127.0.0.1 1 2",
            "",
        ] {
            assert!(ProxyHeader::decode(format!("PROXY {line}\r\n").as_bytes()).is_err(), "{line}");
        }
        assert!(ProxyHeader::decode(&[V1, &[b'x'; 110]].concat()).is_err());
        for (command, family, high, low) in [
            (0x31, 0x11, 0, 12),
            (0x22, 0x11, 0, 12),
            (0x21, 0x13, 0, 12),
            (0x21, 0x11, 0, 11),
            (0x21, 0x11, 0xFF, 0),
        ] {
            let header = [V2, &[command, family, high, low], &[0; 12]].concat();
            assert!(ProxyHeader::decode(&header).is_err(), "{command} {family}");
        }
    }
}

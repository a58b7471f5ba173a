//! Where the other members reach the port for administrators of this one: a pure choice.

use std::net::{IpAddr, SocketAddr};

/// The address that a member reports, as `host:port`; empty: there is none. `listening` is where its port is, `toward_etcd` the
/// address of this machine on its way to etcd, and `host` its name.
pub fn reported(listening: &[String], toward_etcd: Option<IpAddr>, host: &str) -> String {
    let listening: Vec<SocketAddr> = listening.iter().filter_map(|address| address.parse().ok()).collect();
    let is_one = |address: &&SocketAddr| !address.ip().is_unspecified() && !address.ip().is_loopback();
    if let Some(one) = listening.iter().find(is_one) {
        return one.to_string();
    }
    if let Some(all) = listening.iter().find(|address| address.ip().is_unspecified()) {
        return match toward_etcd.filter(|ip| !ip.is_loopback()) {
            Some(ip) => SocketAddr::new(ip, all.port()).to_string(),
            // An etcd on each machine.
            None => format!("{host}:{}", all.port()),
        };
    }
    listening.first().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_an_address_that_leads_here() {
        let toward = |text: &str| text.parse().ok();
        for (listening, toward_etcd, expected) in [
            (&["127.0.0.1:6032", "10.0.0.1:6032"][..], toward("10.0.0.9"), "10.0.0.1:6032"),
            (&["0.0.0.0:6032"], toward("10.0.0.9"), "10.0.0.9:6032"),
            (&["[::]:6032"], toward("fd00::9"), "[fd00::9]:6032"),
            (&["0.0.0.0:6032"], toward("127.0.0.1"), "here:6032"),
            (&["/run/admin.sock", "0.0.0.0:6032"], None, "here:6032"),
            (&["127.0.0.1:6032"], toward("10.0.0.9"), "127.0.0.1:6032"),
            (&["/run/admin.sock"], toward("10.0.0.9"), ""),
        ] {
            let listening: Vec<String> = listening.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(reported(&listening, toward_etcd, "here"), expected, "{listening:?}");
        }
    }
}

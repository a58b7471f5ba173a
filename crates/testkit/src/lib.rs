//! Test servers and clients: the foundation of the end-to-end tests.
//!
//! * [`RealServer`]: a throw-away MariaDB or MySQL on loopback.
//! * [`Narrows`]: the built binary with a configuration of its own.
//! * [`RawClient`]: a blocking client that shows every packet and can send any bytes.
//! * [`EtcdCluster`]: an etcd of three nodes.
//! * [`HttpsFake`]: an HTTPS server whose answers a test decides; [`TokenKey`]: a key that signs tokens.
//! * [`FakeMysql`]: a scripted server in the test's own process.
//! * [`FakeRds`]: a server that verifies tokens of AWS IAM; [`serve_web`]: an HTTP server as a function.
//! * [`Namespace`]: a network that can be disconnected; [`Network`]: several of them at one switch.
//!
//! The client and the fake server have their own code for the protocol and do not use `narrows-wire`: with shared code
//! a mistake would go unnoticed.

mod certificates;
mod client;
mod cluster;
mod etcd;
mod fake;
mod folder;
mod issuer;
mod marks;
mod namespace;
mod narrows;
mod network;
mod process;
mod protocol;
mod rds;
mod real_server;
mod small_disk;
mod wait;
mod web;

pub use certificates::{Authority, Certificate, Validity};
pub use client::{Answer, Login, RawClient, TlsClient, tls_client};
pub use cluster::{Cluster, MEMBERS};
pub use etcd::EtcdCluster;
pub use fake::{Conversation, FakeMysql, Move, Received};
pub use folder::TempFolder;
pub use issuer::{HttpsFake, TokenKey, jwk_set, seconds_from_now};
pub use marks::{KEPT_MARK, TYPED_MARK, files_below, has_text, keeps_configurations};
pub use namespace::Namespace;
pub use narrows::{Monitor, Narrows, NarrowsConfig, kill, serving_worker, workers_and_keepers};
pub use network::Network;
pub use process::{Process, allow_core_files, free_port};
pub use protocol::{
    Column, ErrorPacket, Greeting, OkPacket, Packet, capability, command, reader, scramble, writer,
};
pub use rds::{AwsKey, FakeRds, TokenAttempt};
pub use real_server::{Flavour, RealServer, ServerOptions};
pub use wait::wait_until;
pub use web::{WebReply, WebRequest, serve_web, serve_web_tls};

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// A TCP port of 127.0.0.1.
    pub fn local(port: u16) -> Endpoint {
        Endpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

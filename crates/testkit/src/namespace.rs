//! A network namespace connected to this one by a cable that can be cut: for servers that run but cannot be reached.
//!
//! Made with `ip` of iproute2, which needs root.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A separate namespace; removed when dropped, after whatever runs in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    near: Ipv4Addr,
    far: Ipv4Addr,
}

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    /// Why none can be created here.
    pub fn new() -> Result<Namespace, String> {
        let (name, number) = unique();
        let address = |host| Ipv4Addr::from_bits(BENCH_NETWORK + number % PAIRS * 4 + host);
        let namespace = Namespace::wired(name, address(1), address(2), 30)?;
        ip(&["address", "add", &format!("{}/30", namespace.near), "dev", &namespace.name])?;
        Ok(namespace)
    }

    /// Makes one whose cable has no address on this side.
    pub(crate) fn wired(
        name: String,
        near: Ipv4Addr,
        far: Ipv4Addr,
        prefix: u8,
    ) -> Result<Namespace, String> {
        ip(&["netns", "add", &name])?;
        // From here on it is removed again, whatever fails.
        let namespace = Namespace { name, near, far };
        let name = &namespace.name;
        ip(&["link", "add", name, "type", "veth", "peer", "name", FAR_END, "netns", name])?;
        ip(&["link", "set", name, "up"])?;
        ip(&["-n", name, "address", "add", &format!("{far}/{prefix}"), "dev", FAR_END])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        namespace.set_cable("up")?;
        Ok(namespace)
    }

    /// Loses what is sent to `address`, or no longer does (`add` or `del`).
    pub(crate) fn lose(&self, change: &str, address: Ipv4Addr) -> Result<(), String> {
        ip(&["-n", &self.name, "rule", change, "to", &address.to_string(), "blackhole"])
    }

    /// The address of this side.
    pub fn near(&self) -> Ipv4Addr {
        self.near
    }

    /// The address of what runs in the namespace.
    pub fn far(&self) -> Ipv4Addr {
        self.far
    }

    /// Cuts the cable: what is sent is lost without notice.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn cut(&self) {
        self.set_cable("down").expect("it could be set up");
    }

    /// Mends it.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn mend(&self) {
        self.set_cable("up").expect("it could be set up before");
    }

    /// The command that runs `program` inside.
    pub(crate) fn command(name: &str, program: &OsStr) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(program);
        command
    }

    /// Its name for `ip`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn set_cable(&self, state: &str) -> Result<(), String> {
        ip(&["-n", &self.name, "link", "set", FAR_END, state])
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The cable is removed with it.
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("cannot remove a namespace: {error}");
        }
    }
}

/// A name for `ip`, and a number from which addresses follow.
pub(crate) fn unique() -> (String, u32) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    (format!("nrw{process}-{number}"), process.wrapping_mul(31).wrapping_add(number))
}

pub(crate) fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", arguments.join(" "), text.trim()))
}

/// The name of the interface inside.
const FAR_END: &str = "far";

/// 198.18.0.0/16: one half of what is reserved for benchmarks of network devices (RFC 2544), which is not routed.
const BENCH_NETWORK: u32 = 198 << 24 | 18 << 16;

/// How many networks of four addresses it has.
const PAIRS: u32 = 1 << 14;

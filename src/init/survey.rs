//! Asking several servers, at addresses that other servers have named.

use narrows_control::monitor::plan::Address;
use narrows_proxy::rt;

use super::address;
use super::facts::Facts;
use super::visit::{Credentials, VisitError};

/// An address that another server has for a third one. Its loopback is not ours. `None`: it is not a host with a port. No
/// server names a Unix socket, and another user of this machine could listen on one and learn the password.
pub fn as_seen_from_here(witness: &Facts, other: &Address) -> Option<Address> {
    if other.port == 0 || !address::is_host(&other.hostname) {
        return None;
    }
    Some(match address::is_local(other) && !address::is_local(&witness.address) {
        true => Address { hostname: witness.address.hostname.clone(), port: other.port },
        false => other.clone(),
    })
}

/// Asks several servers at the same time.
pub async fn ask_all(
    addresses: Vec<Address>,
    account: &Credentials,
) -> Vec<(Address, Result<Facts, VisitError>)> {
    let ask = |address: Address| {
        let account = account.clone();
        rt::spawn_local(async move {
            let answer = Facts::ask(&address, &account).await;
            (address, answer)
        })
    };
    let running: Vec<_> = addresses.into_iter().map(ask).collect();
    let mut answers = Vec::new();
    for one in running {
        // A panic has already been reported.
        answers.extend(one.await);
    }
    answers
}

/// Far more than a primary has replicas: a limit for lists that are wrong.
pub const MOST_SERVERS: usize = 64;

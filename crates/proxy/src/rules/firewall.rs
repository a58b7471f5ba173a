//! The firewall: which statements an account may send, by `mysql_firewall_whitelist_users` and
//! `mysql_firewall_whitelist_rules`.

use std::collections::HashMap;

use narrows_sql::Doubt;

use super::rule::{RuleError, parse_digest};
use crate::rows::{FirewallMode, FirewallRuleRow, FirewallUserRow};

/// The two tables, compiled.
#[derive(Debug, Default)]
pub struct Firewall {
    /// The addresses of each user with their modes; the empty address is any.
    users: HashMap<Box<str>, Vec<(Box<str>, FirewallMode)>>,
    /// The rules of each digest.
    rules: HashMap<u64, Vec<FirewallRuleRow>>,
}

/// The firewall's decision on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passage {
    /// The statement may run.
    #[default]
    Free,
    /// The statement may run, although it is not in the whitelist.
    Noted,
    /// The statement must not run.
    Refused,
}

/// A statement and its sender.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The user who sent the statement.
    pub username: &'a str,
    /// The client's address.
    pub client_addr: &'a str,
    /// The current schema.
    pub schemaname: &'a [u8],
    /// The flag at the end of the rules.
    pub flag: u32,
    /// The hash of the digest text; `None` if digests are off.
    pub digest: Option<u64>,
}

impl Firewall {
    /// Compiles the active rows.
    ///
    /// # Errors
    /// An invalid digest; the first value is the user's name.
    pub fn compile(
        users: &[FirewallUserRow],
        rules: &[FirewallRuleRow],
    ) -> Result<Firewall, (String, RuleError)> {
        let mut firewall = Firewall::default();
        for row in users.iter().filter(|row| row.active) {
            let modes = firewall.users.entry(row.username.as_str().into()).or_default();
            modes.push((row.client_address.as_str().into(), row.mode));
        }
        for row in rules.iter().filter(|row| row.active) {
            let digest = parse_digest(&row.digest).map_err(|error| (row.username.clone(), error))?;
            firewall.rules.entry(digest).or_default().push(row.clone());
        }
        Ok(firewall)
    }

    /// Whether a statement may run. An account without a row must not run any. A listed digest only counts if the text
    /// certainly is the listed one, which `doubt` determines.
    pub fn ask(&self, sender: Sender<'_>, doubt: impl FnOnce() -> Option<Doubt>) -> Passage {
        let mode = self.mode(sender.username, sender.client_addr);
        match mode {
            Some(FirewallMode::Off) => Passage::Free,
            Some(_) if self.is_listed(sender) && doubt().is_none() => Passage::Free,
            Some(FirewallMode::Detecting) => Passage::Noted,
            Some(FirewallMode::Protecting) | None => Passage::Refused,
        }
    }

    /// The mode for an account: the row with its address takes precedence over the row for any address.
    fn mode(&self, username: &str, client_addr: &str) -> Option<FirewallMode> {
        let modes = self.users.get(username)?;
        let of = |wanted: &str| modes.iter().find(|(address, _)| **address == *wanted).map(|(_, mode)| *mode);
        of(client_addr).or_else(|| of(""))
    }

    fn is_listed(&self, sender: Sender<'_>) -> bool {
        let rows = sender.digest.and_then(|digest| self.rules.get(&digest));
        rows.into_iter().flatten().any(|row| {
            row.username == sender.username
                && (row.client_address.is_empty() || row.client_address == sender.client_addr)
                && row.schemaname.as_bytes() == sender.schemaname
                && row.flag_in == sender.flag
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(username: &str, client_address: &str, mode: FirewallMode) -> FirewallUserRow {
        FirewallUserRow {
            active: true,
            username: username.to_owned(),
            client_address: client_address.to_owned(),
            mode,
            comment: String::new(),
        }
    }

    fn listed(username: &str, client_address: &str, digest: &str) -> FirewallRuleRow {
        FirewallRuleRow {
            active: true,
            username: username.to_owned(),
            client_address: client_address.to_owned(),
            schemaname: "shop".to_owned(),
            flag_in: 0,
            digest: digest.to_owned(),
            comment: String::new(),
        }
    }

    #[test]
    fn what_is_not_listed_is_refused_noted_or_passed() {
        let users = [
            user("app", "", FirewallMode::Protecting),
            user("app", "10.0.0.9", FirewallMode::Off),
            user("web", "", FirewallMode::Detecting),
        ];
        let rules = [listed("app", "", "0xAB"), listed("app", "10.0.0.1", "0xCD")];
        let firewall = Firewall::compile(&users, &rules).unwrap();
        let ask = |username, client_addr, digest| {
            firewall.ask(
                Sender { username, client_addr, schemaname: b"shop", flag: 0, digest: Some(digest) },
                || None,
            )
        };
        assert_eq!(ask("app", "10.0.0.1", 0xAB), Passage::Free);
        assert_eq!(ask("app", "10.0.0.1", 0xCD), Passage::Free);
        assert_eq!(ask("app", "10.0.0.2", 0xCD), Passage::Refused);
        assert_eq!(ask("app", "10.0.0.9", 0xEE), Passage::Free);
        assert_eq!(ask("web", "10.0.0.1", 0xAB), Passage::Noted);
        assert_eq!(ask("nobody", "10.0.0.1", 0xAB), Passage::Refused);
        let elsewhere =
            Sender { username: "app", client_addr: "", schemaname: b"", flag: 0, digest: Some(0xAB) };
        assert_eq!(firewall.ask(elsewhere, || None), Passage::Refused);
    }

    #[test]
    fn a_digest_that_is_none_is_an_error() {
        assert!(Firewall::compile(&[], &[listed("app", "", "0xZZ")]).is_err());
    }
}

//! Which machines may have the password: those that the user has named, and those that they agree to.
//!
//! Addresses of other servers come from the servers themselves, and anyone who may register a replica can add one of their own
//! machines to them. A login there gives them the password (caching_sha2_password), or something to guess it from.

use std::cell::RefCell;

use anyhow::Context;
use narrows_control::monitor::plan::Address;

use super::address;
use super::args::InitArgs;
use super::dialogue::Dialogue;
use super::screen::shell_word;

/// The decision, and who makes it.
#[derive(Debug)]
pub struct Trust {
    /// The servers that the command line names.
    named: Vec<Address>,
    /// The hosts that have been named or agreed to.
    hosts: RefCell<Vec<String>>,
    /// The hosts that have been declined.
    declined: RefCell<Vec<String>>,
    trusts_discovered: bool,
    dialogue: Option<Dialogue>,
    username: String,
}

/// Addresses that may be logged in to, and the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Those that may.
    pub trusted: Vec<Address>,
    /// Those that may not.
    pub others: Vec<Address>,
}

impl Trust {
    /// What the command line says; for the rest the user is asked, if there is a terminal.
    pub fn new(args: &InitArgs, entry: &Address, dialogue: Option<Dialogue>, username: &str) -> Trust {
        let given = args.server.iter().chain([entry]);
        Trust {
            named: args.server.clone(),
            hosts: RefCell::new(given.map(host).collect()),
            declined: RefCell::default(),
            trusts_discovered: args.trust_discovered,
            dialogue,
            username: username.to_owned(),
        }
    }

    /// The servers that the command line names.
    pub fn named(&self) -> impl Iterator<Item = &Address> {
        self.named.iter()
    }

    /// Sorts addresses that servers have named, and asks once about each new host.
    ///
    /// # Errors
    /// The end of the input.
    pub fn sort(&self, addresses: Vec<Address>) -> anyhow::Result<Sorted> {
        self.ask(&addresses)?;
        let (trusted, others) = addresses.into_iter().partition(|address| self.has(address));
        Ok(Sorted { trusted, others })
    }

    fn has(&self, address: &Address) -> bool {
        self.trusts_discovered || self.hosts.borrow().contains(&host(address))
    }

    fn ask(&self, addresses: &[Address]) -> anyhow::Result<()> {
        let Some(dialogue) = self.dialogue else { return Ok(()) };
        let is_new =
            |address: &&Address| !self.has(address) && !self.declined.borrow().contains(&host(address));
        let new: Vec<&Address> = addresses.iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        dialogue.screen.line("Your servers name these others, which you have not named:");
        new.iter().for_each(|address| dialogue.screen.line(&format!("  {address}")));
        let question = format!("Log in to them as '{}', with the same password? (y or n)", self.username);
        let answer = dialogue.ask(&question, "", |answer| match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("answer y or n: a machine that is not yours would learn the password"),
        });
        let list = if answer.context("asking about other servers")? { &self.hosts } else { &self.declined };
        list.borrow_mut().extend(new.into_iter().map(host));
        Ok(())
    }

    /// Why an address is left out, and what to do about it.
    pub fn advice(others: &[Address]) -> String {
        let names: Vec<String> = others.iter().map(ToString::to_string).collect();
        let options: Vec<String> =
            others.iter().map(|address| format!("--server {}", shell_word(&address.to_string()))).collect();
        format!(
            "{} named by your servers and not by you, and did not get the password. If they are yours, give {}, or \
             --trust-discovered for all",
            if names.len() == 1 { format!("{} is", names[0]) } else { format!("{} are", names.join(", ")) },
            options.join(" ")
        )
    }
}

/// The machine of an address: this one has several names.
fn host(address: &Address) -> String {
    match address::is_local(address) {
        true => "localhost".to_owned(),
        false => address.hostname.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Address {
        address::parse(text).expect("an address")
    }

    fn trust(trusts_discovered: bool) -> Trust {
        let hosts = vec![host(&at("db1:3306"))];
        let declined = RefCell::default();
        Trust {
            named: Vec::new(),
            hosts: RefCell::new(hosts),
            declined,
            trusts_discovered,
            dialogue: None,
            username: "root".into(),
        }
    }

    #[test]
    fn only_machines_that_were_named_get_the_password() {
        let addresses = || vec![at("DB1:3307"), at("db2:3306"), at("127.0.0.1:3306")];
        let sorted = trust(false).sort(addresses()).expect("nobody is asked");
        assert_eq!(sorted.trusted, [at("DB1:3307")]);
        assert_eq!(sorted.others, [at("db2:3306"), at("127.0.0.1:3306")]);
        assert!(trust(true).sort(addresses()).expect("nobody is asked").others.is_empty());
    }

    #[test]
    fn this_machine_is_one_whatever_it_is_called() {
        assert_eq!(host(&at("localhost:1")), host(&at("127.0.0.2:2")));
        assert_eq!(host(&at("/run/mysqld.sock")), host(&at("[::1]:3")));
    }

    #[test]
    fn the_advice_can_be_typed() {
        let advice = Trust::advice(&[at("db2:3306"), at("db3:3307")]);
        assert!(advice.contains("--server db2:3306 --server db3:3307, or --trust-discovered"), "{advice}");
        let advice = Trust::advice(&[at("[2001:db8::2]:3306")]);
        assert!(advice.contains("--server '[2001:db8::2]:3306'"), "{advice}");
    }
}

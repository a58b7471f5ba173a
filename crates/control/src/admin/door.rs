//! What all sessions share: the settings in force, who is there, whose turn it is, and the way to who answers.

use std::cell::RefCell;
use std::rc::Rc;

use narrows_proxy::log_limit::Limiter;
use narrows_proxy::threads::Threads;

use super::budget::Budget;
use super::request::Request;
use super::settings::Settings;
use super::turns::Turns;
use super::visitors::Visitors;
use crate::store::Role;

/// The way in for all sessions.
pub struct Door {
    /// Hands a statement to who answers it; false: there is nobody any more.
    pub statements: Box<dyn Fn(Request) -> bool>,
    /// Makes logins of unknown users look like those of known ones.
    pub decoy_key: [u8; 32],
    /// Where what takes long at a login is done.
    pub threads: Threads,
    settings: RefCell<Rc<Settings>>,
    /// Who is there.
    pub visitors: Rc<Visitors>,
    /// Whose statement is next of full users, and of those of statistics: neither wait for the others.
    turns: Rc<Turns>,
    turns_of_statistics: Rc<Turns>,
    /// Memory for answers.
    pub budget: Rc<Budget>,
    /// Keeps failed logins from filling the log.
    pub failed_logins: Rc<Limiter>,
}

impl Door {
    /// One that nobody has come by.
    pub fn new(settings: Settings, statements: Box<dyn Fn(Request) -> bool>) -> Door {
        Door {
            statements,
            decoy_key: rand::random(),
            threads: Threads::for_logins(1),
            settings: RefCell::new(Rc::new(settings)),
            visitors: Rc::default(),
            turns: Rc::default(),
            turns_of_statistics: Rc::default(),
            budget: Rc::default(),
            failed_logins: Limiter::new(|left_out| {
                tracing::info!(left_out, "more admin logins have failed");
            }),
        }
    }

    /// What is in force.
    pub fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    /// The turns of accounts of that role.
    pub fn turns(&self, role: Role) -> &Rc<Turns> {
        match role {
            Role::Admin => &self.turns,
            Role::Stats => &self.turns_of_statistics,
        }
    }

    /// What is in force for what begins from now on.
    pub fn set(&self, settings: Settings) {
        self.settings.replace(Rc::new(settings));
    }
}

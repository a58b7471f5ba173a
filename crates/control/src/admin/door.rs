//! What all sessions share: the settings in force, who is connected, whose turn it is, and the channel to the control
//! thread.

use std::cell::RefCell;
use std::rc::Rc;

use narrows_proxy::audit::AuditLog;
use narrows_proxy::log_limit::Limiter;
use narrows_proxy::threads::Threads;

use super::budget::Budget;
use super::request::Request;
use super::settings::AdminSettings;
use super::turns::Turns;
use super::visitors::Visitors;
use crate::store::Role;

/// The state shared by all sessions.
pub struct Door {
    /// Passes a statement to the control thread; returns false if that thread has ended.
    pub statements: Box<dyn Fn(Request) -> bool>,
    /// Makes logins of unknown users look like those of known ones.
    pub decoy_key: [u8; 32],
    /// The threads for the slow work of logins.
    pub threads: Threads,
    settings: RefCell<Rc<AdminSettings>>,
    /// Who is connected.
    pub visitors: Rc<Visitors>,
    /// Whose statement is next among full users, and among statistics users: neither group waits for the other.
    turns: Rc<Turns>,
    turns_of_statistics: Rc<Turns>,
    /// Memory for answers.
    pub budget: Rc<Budget>,
    /// Prevents failed logins from filling the log.
    pub failed_logins: Rc<Limiter>,
    /// Has all logins.
    pub audit_log: AuditLog,
}

impl Door {
    /// The state before any session.
    pub fn new(
        settings: AdminSettings,
        audit_log: AuditLog,
        statements: Box<dyn Fn(Request) -> bool>,
    ) -> Door {
        Door {
            statements,
            decoy_key: rand::random(),
            threads: Threads::for_logins(1),
            settings: RefCell::new(Rc::new(settings)),
            visitors: Rc::default(),
            turns: Rc::default(),
            turns_of_statistics: Rc::default(),
            budget: Rc::default(),
            failed_logins: Limiter::new(|suppressed| {
                tracing::info!(suppressed, "more admin logins have failed");
            }),
            audit_log,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Rc<AdminSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// The turns of the accounts with the given role.
    pub fn turns(&self, role: Role) -> &Rc<Turns> {
        match role {
            Role::Admin => &self.turns,
            Role::Stats => &self.turns_of_statistics,
        }
    }

    /// Sets the settings for sessions that begin from now on.
    pub fn set(&self, settings: AdminSettings) {
        self.settings.replace(Rc::new(settings));
    }
}

//! The session's events for the audit log.

use narrows_wire::Command;

use super::job::Job;
use super::outcome::Outcome;
use super::{End, Session};
use crate::audit::{AuditEvent, AuditPeer};
use crate::clock;
use crate::stream::Transport;

impl Session {
    /// The session is over.
    pub(super) fn audit_end(&self, end: &End) {
        let event = if matches!(end, End::Quit) { "MySQL_Client_Quit" } else { "MySQL_Client_Close" };
        self.worker.peers.audit(|| {
            let connected = self.handle.logged_in().elapsed();
            let began = clock::now().saturating_sub(connected);
            let event = AuditEvent::now(event, self.audit_peer())
                .with("creation_timestamp", u64::try_from(began.as_millis()).unwrap_or(u64::MAX))
                .with(
                    "duration",
                    format!("{}.{:03}ms", connected.as_millis(), connected.subsec_micros() % 1_000),
                );
            match end {
                End::Quit => event,
                end => event.with("extra_info", end.to_string()),
            }
        });
    }

    /// The client has become another user, or has failed to.
    pub(super) fn audit_change(&self, username: &[u8], failure: Option<&str>) {
        let event = match failure {
            None => "MySQL_Client_Change_User_OK",
            Some(_) => "MySQL_Client_Change_User_ERR",
        };
        self.worker.peers.audit(|| {
            let former = self.handle.username.borrow().clone();
            let username = String::from_utf8_lossy(username).into_owned();
            let event = AuditEvent::now(event, AuditPeer { username, ..self.audit_peer() });
            let event = event.with("former_username", former);
            match failure {
                None => event,
                Some(failure) => event.with("extra_info", failure),
            }
        });
    }

    /// A command has run that may have chosen another schema.
    pub(super) fn audit_schema(&self, job: &Job, outcome: &Outcome) {
        let chooses = job.command == Command::InitDb || job.statement.kind == narrows_sql::Kind::Use;
        if chooses && outcome.error.is_none() {
            self.worker.peers.audit(|| AuditEvent::now("MySQL_Client_Init_DB", self.audit_peer()));
        }
    }

    fn audit_peer(&self) -> AuditPeer {
        let schema = self.data.state.schema.as_deref().unwrap_or_default();
        AuditPeer {
            thread_id: self.handle.id,
            username: self.handle.username.borrow().clone(),
            schemaname: String::from_utf8_lossy(schema).into_owned(),
            client: self.handle.peer.clone(),
            local: self.client.local.clone(),
            tls: self.client.stream.transport() == Transport::Tls,
        }
    }
}

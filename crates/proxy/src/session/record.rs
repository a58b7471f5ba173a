//! A statement's record in the query log: created when the statement arrives, filled in while it runs, and queued when it
//! has ended.

use std::time::SystemTime;

use narrows_sql::digest_text;
use narrows_wire::{Command, Errno};

use super::Session;
use super::job::Job;
use super::job::NOWHERE;
use super::outcome::Outcome;
use super::request::Request;
use crate::backend::Backend;
use crate::query_log::Record;
use crate::route::digest_options;
use crate::rules::digest_of;

impl Session {
    /// Creates the record of a statement, if that must be logged.
    pub(super) fn begin_record(&mut self, job: &Job, request: &Request) {
        if !job.options.logged {
            return;
        }
        let query = match &job.prepared {
            Some(statement) => statement.prepared.text.to_vec(),
            None => request.argument_after(job.attributes).to_vec(),
        };
        self.run.record = Some(self.new_record(job.command, query));
    }

    /// Queues the record of a statement that Narrows answers itself, with OK or with this error.
    pub(super) fn record_answered(&mut self, command: Command, text: &[u8], error: Option<Errno>) {
        let mut record = self.new_record(command, text.to_vec());
        record.error = error.map(|errno| errno.number);
        self.run.record = Some(record);
        self.end_record();
    }

    fn new_record(&self, command: Command, query: Vec<u8>) -> Box<Record> {
        let snapshot = self.snapshot();
        let digest = snapshot.variables.query_digests.then(|| {
            let options = digest_options(&snapshot.variables);
            digest_of(digest_text(&query, &options, &mut self.worker.scratch.borrow_mut())).1
        });
        Box::new(Record {
            event: command.name(),
            thread_id: self.handle.id,
            username: self.want.account.row.username.clone(),
            schemaname: self.data.state.schema.as_deref().unwrap_or_default().to_vec(),
            client: format!("{}:{}", self.handle.peer.0, self.handle.peer.1),
            digest,
            query,
            hostgroup: NOWHERE,
            server: None,
            began: SystemTime::now(),
            duration: std::time::Duration::ZERO,
            rows_affected: None,
            last_insert_id: 0,
            rows_sent: None,
            bytes_sent: 0,
            error: None,
        })
    }

    /// The statement is about to be sent to a server, which may be another one than its rules say: a client keeps its connection.
    pub(super) fn record_server(&mut self, backend: &Backend) {
        if let Some(record) = &mut self.run.record {
            record.hostgroup = backend.login.server.row.hostgroup;
            record.server = Some(backend.login.server.address());
        }
    }

    /// Fills in what an answer reports.
    pub(super) fn fill_record(&mut self, outcome: &Outcome) {
        if let Some(record) = &mut self.run.record {
            record.rows_affected = outcome.affected_rows;
            record.last_insert_id = outcome.last_insert_id;
            record.rows_sent = outcome.rows;
            record.bytes_sent = outcome.bytes;
            record.error = outcome.error;
        }
    }

    /// Queues the record of a statement whose answer came from the cache.
    pub(super) fn end_record_from_cache(&mut self, outcome: &Outcome) {
        if let Some(record) = &mut self.run.record {
            record.rows_sent = outcome.rows;
            record.bytes_sent = outcome.bytes;
        }
        self.end_record();
    }

    /// Fills in an error of Narrows' own.
    pub(super) fn fail_record(&mut self, errno: u16) {
        if let Some(record) = &mut self.run.record {
            record.error = Some(errno);
        }
    }

    /// Queues the record.
    pub(super) fn end_record(&mut self) {
        let Some(mut record) = self.run.record.take() else { return };
        record.duration = record.began.elapsed().unwrap_or_default();
        if let Some(log) = &*self.worker.query_log.borrow() {
            log.offer(record);
        }
    }
}

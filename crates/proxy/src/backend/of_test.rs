//! A backend connection that leads to the test itself.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narrows_wire::charset::Family;

use super::connect::NEXT_SERIAL;
use super::{Backend, InsertIdBefore, Login, Statements, Want};
use crate::hostgroup::{ConnectionSlot, Server};
use crate::rt::{Instant, Socket};
use crate::state::SharedState;
use crate::stream::Stream;

impl Backend {
    /// A connection as after a login for `want`, in this state, and its other end.
    pub(crate) fn of_test(
        server: &Arc<Server>,
        slot: ConnectionSlot,
        family: Family,
        want: &Want,
        state: &SharedState,
    ) -> (Backend, UnixStream) {
        let (socket, peer) = Socket::pair();
        let now = Instant::now();
        let login = Login {
            statements: Statements::new(Arc::clone(&server.figures)),
            server: Arc::clone(server),
            slot: Some(slot),
            account: Arc::clone(&want.account),
            capabilities: want.class,
            family,
            thread_id: 1,
            greeting: Default::default(),
            state: Arc::clone(state),
            reports: super::Reports::ItsOwn,
            wants_reports: super::WantedReports::Narrows,
            own_reports: None,
            may_report_late: false,
            has_news: std::cell::Cell::new(false),
            left_by_program: std::cell::Cell::new(false),
            late_is_ours: false,
            is_own: false,
            wants_gtids: false,
            reports_gtids: false,
            defaults: server.figures.defaults.read(),
            spoiled_by_reset: false,
            version: (0, 0),
            first: None,
            base: None,
            trace: None,
            uncollected: None,
            insert_id_before: InsertIdBefore::Zero,
            has_insert_id: false,
            has_conditions: false,
            has_own_warnings: std::cell::Cell::default(),
            sequences_are_own: true,
            programs: super::Programs::None,
            is_in_xa: false,
            verifies: false,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            leases: 0,
            created: now,
            connect_time: Duration::ZERO,
            last_used: now,
            address: None,
        };
        (Backend::new(Stream::Plain(socket), Box::new(login)), peer)
    }
}

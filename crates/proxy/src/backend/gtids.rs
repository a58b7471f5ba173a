//! Which transactions a server has applied: the reports it is asked for, and questions.

use std::time::Duration;

use narrows_wire::Capabilities;
use narrows_wire::charset::Family;
use narrows_wire::gtid::GtidSet;

use super::{Backend, BackendError, Login, Reports};
use crate::state::{Difference, SessionState};

/// What a server has said after it was asked to wait.
#[derive(Debug, Default)]
pub struct Waited {
    /// Whether it has applied what was waited for.
    pub is_there: bool,
    /// Everything that it has applied, as a replica on MariaDB; `None` if it has not said that.
    pub applied: Option<GtidSet>,
}

/// What a server has applied, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedGtids {
    /// Its `server_uuid`; MariaDB: its `server_id`.
    pub server: String,
    /// What it has applied.
    pub gtids: GtidSet,
}

impl Login {
    /// Whether the server reports the GTIDs of what this connection writes.
    pub fn tells_gtids(&self) -> bool {
        match self.family {
            Family::MySql => self.reports_gtids,
            // As one of the variables that are reported.
            Family::MariaDb => self.reports != Reports::ItsOwn,
        }
    }

    /// A client may have switched the reports off.
    pub fn doubt_reports(&mut self) {
        self.reports_gtids = false;
    }
}

impl Backend {
    /// Adds the assignment that makes a MySQL server report GTIDs, if they are wanted. A client may have it report them itself.
    pub(super) fn ask_for_gtids(&mut self, state: &SessionState, difference: &mut Difference) {
        let login = &mut self.login;
        if login.family != Family::MySql || !login.capabilities.contains(Capabilities::SESSION_TRACK) {
            return;
        }
        if state.literal(TRACK_GTIDS).is_some_and(is_report) {
            login.reports_gtids = true;
            return;
        }
        if difference.reset || difference.set.as_deref().is_some_and(|set| set.contains(TRACK_GTIDS)) {
            login.reports_gtids = false;
        }
        if login.wants_gtids && !login.reports_gtids {
            difference.assign(&format!("{TRACK_GTIDS}=OWN_GTID"));
            login.reports_gtids = true;
        }
    }

    /// Waits until the server has applied `wanted`, for at most `wait`.
    ///
    /// # Errors
    /// The server's; [`BackendError::Timeout`] if it does not answer within another `limit`.
    pub async fn wait_for_gtids(
        &self,
        wanted: &GtidSet,
        (wait, limit): (Duration, Duration),
    ) -> Result<Waited, BackendError> {
        let seconds = wait.as_secs_f64();
        let question = match self.login.family {
            Family::MySql => {
                format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{wanted}', {seconds}), @@GLOBAL.gtid_executed")
            }
            // What the binary log has need not be visible yet.
            Family::MariaDb => {
                format!("SELECT MASTER_GTID_WAIT('{wanted}', {seconds}), @@GLOBAL.gtid_slave_pos")
            }
        };
        let answer = self.ask_briefly(&question, wait + limit).await?;
        let cell = |column: usize| answer.rows.first()?.get(column)?.as_deref();
        let applied = cell(1).and_then(|text: &str| GtidSet::parse(text).ok());
        Ok(Waited { is_there: cell(0) == Some("0"), applied })
    }

    /// What the server has applied and shows; `None` if it does not say it as expected.
    ///
    /// # Errors
    /// The server's, or [`BackendError::Timeout`].
    pub async fn applied_gtids(&self, limit: Duration) -> Result<Option<AppliedGtids>, BackendError> {
        let question = match self.login.family {
            Family::MySql => "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_executed",
            // What the binary log has need not be visible yet.
            Family::MariaDb => "SELECT @@GLOBAL.server_id, @@GLOBAL.gtid_slave_pos",
        };
        let answer = self.ask_briefly(question, limit).await?;
        let said = answer.rows.into_iter().next().and_then(|row| <[Option<String>; 2]>::try_from(row).ok());
        let Some([Some(server), Some(gtids)]) = said else { return Ok(None) };
        Ok(GtidSet::parse(&gtids).ok().map(|gtids| AppliedGtids { server, gtids }))
    }

    /// What the server has written or applied; `None` if it gives its transactions no GTIDs.
    ///
    /// # Errors
    /// The server's, or [`BackendError::Timeout`].
    pub async fn executed_gtids(&self, limit: Duration) -> Result<Option<GtidSet>, BackendError> {
        let question = match self.login.family {
            Family::MySql => {
                "SELECT IF(@@GLOBAL.gtid_mode = 'ON' AND @@GLOBAL.log_bin, @@GLOBAL.gtid_executed, NULL)"
            }
            Family::MariaDb => {
                "SELECT IF(@@GLOBAL.log_bin, CONCAT_WS(',', @@GLOBAL.gtid_binlog_pos, @@GLOBAL.gtid_slave_pos), NULL)"
            }
        };
        let answer = self.ask_briefly(question, limit).await?;
        let text = answer.rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        Ok(text.and_then(|text| GtidSet::parse(&text).ok()))
    }
}

/// Whether a client's own value makes the server report GTIDs.
pub fn is_report(literal: &str) -> bool {
    let value = literal.trim_matches(['\'', '"']);
    ["OWN_GTID", "ALL_GTIDS", "1", "2"].iter().any(|on| on.eq_ignore_ascii_case(value))
}

/// The variable that makes a MySQL server report GTIDs.
pub const TRACK_GTIDS: &str = "session_track_gtids";

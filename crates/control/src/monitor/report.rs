//! What the monitor reports to the control thread.

use narrows_proxy::hostgroup::NameTable;
use narrows_proxy::rt::oneshot;

use super::finding::Finding;
use super::log::Record;

/// What checks have found since the last report.
#[derive(Debug)]
pub struct Report {
    /// The results, for the tables of `monitor`.
    pub records: Vec<Record>,
    /// What has changed.
    pub findings: Vec<Finding>,
    /// The current host names, if they have changed.
    pub names: Option<NameTable>,
    /// Signalled, or dropped, when the report has been processed.
    pub taken: oneshot::Sender<()>,
}

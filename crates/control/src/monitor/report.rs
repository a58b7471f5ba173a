//! What the monitor tells the control thread.

use narrows_proxy::hostgroup::NameTable;
use narrows_proxy::rt::oneshot;

use super::log::Record;
use super::placement::Finding;

/// What checks have found since the last report.
#[derive(Debug)]
pub struct Report {
    /// The results, for the tables of `monitor`.
    pub records: Vec<Record>,
    /// What has changed.
    pub findings: Vec<Finding>,
    /// The host names as they are now, where that is news.
    pub names: Option<NameTable>,
    /// Is told, or dropped, when the report was taken.
    pub taken: oneshot::Sender<()>,
}

//! What a worker counts, and what the control plane receives: plain numbers and rows. [`crate::stats`] collects them.

mod commands;
mod digests;
mod errors;
mod global;
mod lines;
mod tables;

pub use commands::{CommandClass, Commands};
pub use digests::{DigestKey, DigestTable, Execution, Row, RowFigures};
pub use errors::{ErrorFigures, ErrorKey, ErrorTable};
pub use global::{Counters, NOT_COUNTED};
pub use lines::{
    CommandLine, DigestLine, Doing, ErrorLine, ExplainedRoute, FreeConnection, MemoryFigures, PinLine,
    PreparedLine, ProcessBackend, ProcessLine, RouteError, RouteHint, RouteOutcome, RouteQuestion, RouteRule,
    RouteServer, RuleLine, SHOWN_TEXT, ServerFailure, ServerLine, Take, Tally, UserLine,
};
pub use tables::Figures;

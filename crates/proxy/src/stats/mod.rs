//! How the control plane asks for what each worker counts ([`crate::figures`]).
//!
//! A worker's figures are plain numbers that it alone touches. [`Observer`] asks by message: the worker's answer copies
//! what it owns, a bounded part at a time, and the asker merges. Nothing that a statement passes is locked or shared.

mod gauges;
mod heap;
mod memory;
mod merge;
mod observer;
mod route;

pub use crate::figures::{
    CommandClass, CommandLine, Commands, Counters, DigestKey, DigestLine, DigestTable, Doing, ErrorFigures,
    ErrorKey, ErrorLine, ErrorTable, Execution, ExplainedRoute, Figures, FreeConnection, MemoryFigures,
    NOT_COUNTED, PinLine, PreparedLine, ProcessBackend, ProcessLine, RouteError, RouteHint, RouteOutcome,
    RouteQuestion, RouteRule, RouteServer, Row, RowFigures, RuleLine, SHOWN_TEXT, ServerFailure, ServerLine,
    Take, Tally, UserLine,
};
pub use heap::{Trimmer, bound_what_is_kept};
pub use narrows_sql::KillKind;
pub use observer::{Observer, wait};

#[cfg(test)]
mod tests;

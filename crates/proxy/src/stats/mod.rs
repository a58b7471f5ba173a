//! Figures: what each worker counts, and how the control plane asks for it.
//!
//! A worker's figures are plain numbers that it alone touches. [`Observer`] asks by message: the worker's answer copies
//! what it owns, a bounded part at a time, and the asker merges. Nothing that a statement passes is locked or shared.

mod commands;
mod digests;
mod errors;
mod figures;
mod global;
mod heap;
mod lines;
mod memory;
mod merge;
mod observer;
mod route;

pub use commands::{CommandClass, Commands};
pub use digests::{DigestKey, DigestTable, Row, RowFigures, Run};
pub use errors::{ErrorFigures, ErrorKey, ErrorTable};
pub use figures::{Figures, RecentDigests};
pub use global::{Counters, NOT_COUNTED};
pub use heap::{Trimmer, bound_what_is_kept};
pub use lines::{
    CommandLine, DigestLine, Doing, ErrorLine, FreeConnection, MemoryFigures, PinLine, PreparedLine,
    ProcessBackend, ProcessLine, Route, RouteError, RouteHint, RouteOutcome, RouteQuestion, RouteRule,
    RouteServer, RuleLine, SHOWN_TEXT, ServerFailure, ServerLine, Take, UserLine,
};
pub(crate) use memory::SESSION_BYTES;
pub use narrows_sql::KillKind;
pub use observer::{Observer, Question, wait};

#[cfg(test)]
mod tests;

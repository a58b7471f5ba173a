//! How the control plane reads what each worker counts ([`crate::figures`]).
//!
//! A worker's figures are plain numbers that only the worker accesses. [`Observer`] requests them by message: the
//! worker copies its figures, a limited part at a time, and the requesting thread merges them. Nothing on the path of a
//! statement is locked or shared.

mod dry_run;
mod forecast;
mod gauges;
mod heap;
mod holds;
mod memory;
mod merge;
mod observer;
mod route;

pub use crate::figures::{
    ClientLine, CommandClass, CommandLine, Commands, Counters, DigestKey, DigestLine, DigestTable, Doing,
    DryRunChange, DryRunLine, DryRunTable, Durations, ErrorFigures, ErrorKey, ErrorLine, ErrorTable,
    Execution, ExplainedRoute, Figures, FreeConnection, HostgroupLine, MemoryFigures, NOT_COUNTED,
    PasswordLine, PinLine, PreparedLine, ProcessBackend, ProcessLine, RouteDryRun, RouteError, RouteHint,
    RouteOutcome, RouteQuestion, RouteRule, RouteServer, Row, RowFigures, RuleLine, RuleSets, Running,
    SHOWN_TEXT, ServerFailure, ServerGtids, ServerLine, ServerTiming, Take, Tally, UserLine, WaitingLine,
};
pub use forecast::{Fate, Forecast, forecast};
pub use heap::{Trimmer, bound_what_is_kept};
pub use narrows_sql::KillKind;
pub use observer::{Observer, wait};

#[cfg(test)]
mod tests;

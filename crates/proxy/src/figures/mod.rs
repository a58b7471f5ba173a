//! What a worker counts, and what the control plane receives: plain numbers and rows. [`crate::stats`] collects them.

mod commands;
mod digests;
mod dry_run;
mod durations;
mod errors;
mod global;
mod lines;
mod passwords;
mod tables;
mod waiting;

pub use commands::{CommandClass, Commands};
pub use digests::{DigestKey, DigestTable, Execution, Row, RowFigures};
pub use dry_run::{DryRunChange, DryRunKey, DryRunLine, DryRunTable, RuleSets};
pub use durations::{Histogram, HostgroupTable};
pub use errors::{ErrorFigures, ErrorKey, ErrorTable};
pub use global::{Counters, NOT_COUNTED};
pub use lines::{
    ClientLine, CommandLine, DigestLine, Doing, Durations, ErrorLine, ExplainedRoute, FreeConnection,
    HostgroupLine, MemoryFigures, PinLine, PreparedLine, ProcessBackend, ProcessLine, RouteDryRun,
    RouteError, RouteHint, RouteOutcome, RouteQuestion, RouteRule, RouteServer, RuleLine, SHOWN_TEXT,
    ServerFailure, ServerGtids, ServerLine, ServerTiming, Take, Tally, UserLine,
};
pub use passwords::PasswordLine;
pub use tables::Figures;
pub use waiting::{Running, WaitingLine};

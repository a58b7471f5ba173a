//! Figures: what each worker counts, and how the control plane asks for it.
//!
//! A worker's figures are plain numbers that it alone touches. [`Observer`] asks by message: the worker's answer copies
//! what it owns, a bounded part at a time, and the asker merges. Nothing that a statement passes is locked or shared.

mod global;
mod lines;
mod observer;

pub use global::{Counters, NOT_COUNTED};
pub use lines::{
    ClientHostLine, CommandLine, DigestLine, Doing, ErrorLine, FreeConnection, MemoryFigures, PinLine,
    PreparedLine, ProcessBackend, ProcessLine, Route, RouteError, RouteOutcome, RouteQuestion, RouteRule,
    RouteServer, RuleLine, SHOWN_TEXT, ServerFailure, ServerLine, Take, UserLine,
};
pub use observer::{Observer, Question, wait};

//! The time without a writer: who waits, in which order and within which bounds, holds of hostgroups, and planned switchovers.

mod holds;
mod switchover;

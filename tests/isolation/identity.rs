//! Connection ids, locks, and statements that must not run twice.

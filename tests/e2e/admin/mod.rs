//! The admin interface from the outside.

mod compare;
mod differences;
mod recorded;
mod replay;
mod traffic;

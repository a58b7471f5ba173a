//! The program from the outside, a module per theme.
//! The end-to-end tests: the built program in front of real servers and of scripted ones. A module per theme.

mod command_line;
mod dependencies;
mod drivers;
mod dump;
mod sandbox;
mod bad_input;
mod differential;
mod recorded;
mod streaming;

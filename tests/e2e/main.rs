//! The program from the outside, a module per theme.

mod command_line;

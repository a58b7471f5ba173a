//! The variables: what each one holds, and the values they have.
//!
//! A value is text outside (admin interface, file) and typed inside. Each variable is declared by one row: in `table.rs`, or
//! in the proxy if the data plane reads it.

mod adopt;
mod data_plane;
mod table;
mod values;
mod variable;

pub use table::{VARIABLES, VERSION, is_secret_variable, secret_variables};
pub use values::Values;
pub use variable::{Class, Kind, Reader, Special, Value, Variable};

#[cfg(test)]
mod tests;

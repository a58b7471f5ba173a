//! The variables: what each one holds, and the values they have.
//!
//! A value is text outside (admin interface, file) and typed inside. Each variable is declared by its row in
//! [`VARIABLES`].

mod adopt;
mod table;
mod values;
mod variable;

pub use table::{VARIABLES, VERSION};
pub use values::Values;
pub use variable::{Class, Kind, Reader, Value, Variable};

#[cfg(test)]
mod tests;

//! How settings are written: the two syntaxes of a file, its sections and columns, and the forms of values.
//!
//! Text becomes a [`tree::Document`] in which everything has its position; [`tables`] has the columns of its sections.
//! [`crate::config_file`] reads a whole file.

pub mod bootstrap;
pub mod charset;
pub mod diagnostic;
pub mod form;
mod libconfig;
pub mod managed;
pub mod nearest;
pub mod parse;
pub mod schema;
pub mod tables;
mod toml_syntax;
pub mod tree;

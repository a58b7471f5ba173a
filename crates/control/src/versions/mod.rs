//! Versions of the configuration: what one holds, and how two differ. Nothing here reads or writes a database.
//!
//! A version is what operators wrote, also what does not run: inactive accounts and rules, and rows that were left out.
//! [`crate::store`] records versions, and makes one of them the configuration.

mod changes;
mod document;
mod origin;
mod passwords;

pub use changes::{ChangeKind, RowChange, changes, key, key_of, row_change, summary};
pub use document::{ConfigDocument, ConfigDocumentError, checksum};
pub use origin::{FleetHome, FleetMark, FleetPlace, VersionId, VersionOrigin, VersionSource};
pub use passwords::{passwords_of_document, passwords_of_row, passwords_of_variable};

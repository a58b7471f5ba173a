//! One lexer over SQL text: digests, statement kinds, `SET` and comment annotations. Pure functions over bytes.
//!
//! None of them panics on any input, and [`classify`] and [`digest_text`] allocate nothing once warm.

mod asked_route;
mod certain;
mod certainty;
mod comment;
mod conditions;
mod defaults;
mod diagnostics;
mod digest;
mod facts;
mod flags;
mod found_rows;
mod functions;
#[doc(hidden)]
pub mod fuzz;
mod hints;
mod internal;
mod kill;
mod kind;
mod leftovers;
mod parameter;
mod read;
pub mod set;
mod spooky;
mod statement;
mod substitute;
mod template;
mod token;
mod trace_parent;
mod transaction;
mod words;

pub use asked_route::{AskedRoute, asked_route};
pub use certain::{Doubt, Writing, charset_matters, reads_surely};
pub use comment::{Annotations, annotations};
pub use conditions::{
    Earlier, ShownConditions, earlier_conditions_on_mariadb, earlier_conditions_on_mysql, shown_conditions,
};
pub use defaults::{ChangedDefaults, changed_defaults, names_several};
pub use diagnostics::{Diagnostics, DiagnosticsItem, diagnostics};
pub use digest::{DigestOptions, Scratch, digest_text};
pub use flags::Flags;
pub use found_rows::{FoundRowsAfter, counted, counts_its_answer, has_offset, literal_offset};
pub use internal::{InternalCommand, internal_command, is_token_query};
pub use kill::{
    KillId, KillKind, KillTarget, Killing, defines_program, kill_target, killing, literal_kills,
    prepared_variable,
};
pub use kind::Kind;
pub use leftovers::{
    LockCall, TableName, created_temporary_table, dropped_tables, lock_calls, may_call, may_parse_later,
    may_rename, word_at,
};
pub use parameter::with_parameter;
pub use read::{is_of_server, is_read};
pub use spooky::{digest_hash, seeded_hash};
pub use statement::{Statement, classify, classify_with, parts, statements, use_schema};
pub use substitute::{Dialect, Shape, Substitute, substitute};
pub use template::template;
pub use token::Escapes;
pub use trace_parent::TraceParent;
pub use transaction::{Effect, effect_on_transaction, reads_apart};
pub use words::{bare_words, has_backslash, names_any, names_kill};

//! The variables that the data plane reads. Their rows are in the proxy's `rows/variable_rows.rs`, so that a field of the data
//! plane cannot be without a variable, nor have another type or default.

use narrows_proxy::data_plane_variables;
use narrows_proxy::rows::{CausalReads, convert};
use narrows_proxy::snapshot::Variables;

use self::{integer as mebibytes, integer as ms, integer as seconds, text as list, text as names};
use super::variable::Class::{self, Essential, Obscure, Useful};
use super::variable::{Kind, Reader, Variable};
use crate::config::form::Form;

macro_rules! declare {
    ($(
        $field:ident: $type:ty = $kind:ident($($argument:expr),*),
        $name:literal, $class:ident $([$special:ident])?, $doc:literal;
    )*) => {
        pub(super) static ROWS: &[Variable] = &[$(
            $kind(($name, $class, $doc), |v, value| v.$field = convert::$kind(value), $($argument),*)
                $(.$special())?,
        )*];
    };
}

data_plane_variables!(declare);

/// Name, importance and documentation.
type Described = (&'static str, Class, &'static str);

const fn integer(row: Described, set: fn(&mut Variables, i64), default: i64, min: i64, max: i64) -> Variable {
    Variable::row(row.0, row.1, Kind::Integer { default, min, max }, row.2).read_by(Reader::Integer(set))
}

const fn flag(row: Described, set: fn(&mut Variables, bool), default: bool) -> Variable {
    Variable::row(row.0, row.1, Kind::Flag { default }, row.2).read_by(Reader::Flag(set))
}

const fn text(row: Described, set: fn(&mut Variables, &str), default: &'static str, form: Form) -> Variable {
    Variable::row(row.0, row.1, Kind::Text { default, form }, row.2).read_by(Reader::Text(set))
}

/// The authentication plugins that a greeting may offer.
const PLUGINS: &[&str] = &["mysql_native_password", "caching_sha2_password"];

/// Where the query log and the audit log may go.
const OUTPUTS: &[&str] = narrows_proxy::log_target::LogOutput::NAMES;

/// What its lines may be.
const LINE_FORMATS: &[&str] = narrows_proxy::query_log::LINE_FORMATS;

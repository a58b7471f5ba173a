//! Converts the value of a variable for the data plane: a function for each kind of `variable_rows.rs`.

use std::time::Duration;

use super::{CausalReads, HostgroupId, Networks, Share, UnshunAlgorithm};

/// A number.
pub fn integer<T: OfInteger>(value: i64) -> T {
    T::of_integer(value)
}

/// Milliseconds.
pub fn ms(value: i64) -> Duration {
    Duration::from_millis(value.unsigned_abs())
}

/// Seconds.
pub fn seconds(value: i64) -> Duration {
    Duration::from_secs(value.unsigned_abs())
}

/// Mebibytes, as bytes.
pub fn mebibytes(value: i64) -> usize {
    usize::of_integer(value) << 20
}

/// true or false.
pub fn flag(value: bool) -> bool {
    value
}

/// A text.
pub fn text<T: OfText>(value: &str) -> T {
    T::of_text(value)
}

/// Texts separated by `;`.
pub fn list(value: &str) -> Vec<String> {
    items(value, ';').map(str::to_owned).collect()
}

/// Names separated by commas, in lower case.
pub fn names(value: &str) -> Vec<String> {
    items(value, ',').map(str::to_lowercase).collect()
}

/// The parts of a list; empty parts are left out.
pub fn items(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|item| !item.is_empty())
}

/// A type that holds a numeric variable. The control plane has checked the variable's range.
pub trait OfInteger {
    /// Converts the value.
    fn of_integer(value: i64) -> Self;
}

impl OfInteger for u32 {
    fn of_integer(value: i64) -> u32 {
        value.try_into().expect(RANGE_CHECKED)
    }
}

impl OfInteger for u64 {
    fn of_integer(value: i64) -> u64 {
        value.try_into().expect(RANGE_CHECKED)
    }
}

impl OfInteger for usize {
    fn of_integer(value: i64) -> usize {
        value.try_into().expect(RANGE_CHECKED)
    }
}

impl OfInteger for bool {
    fn of_integer(value: i64) -> bool {
        value == 1
    }
}

impl OfInteger for HostgroupId {
    fn of_integer(value: i64) -> HostgroupId {
        HostgroupId(value.try_into().expect(RANGE_CHECKED))
    }
}

impl OfInteger for UnshunAlgorithm {
    fn of_integer(value: i64) -> UnshunAlgorithm {
        if value == 1 { UnshunAlgorithm::AllAtOnce } else { UnshunAlgorithm::OneByOne }
    }
}

const RANGE_CHECKED: &str = "the variable's range has been checked and fits the type";

/// A type that holds a text variable. The control plane has checked the variable's form.
pub trait OfText {
    /// Converts the value.
    fn of_text(value: &str) -> Self;
}

impl OfText for String {
    fn of_text(value: &str) -> String {
        value.to_owned()
    }
}

impl OfText for CausalReads {
    fn of_text(value: &str) -> CausalReads {
        CausalReads::named(value).unwrap_or_default()
    }
}

impl OfText for Share {
    fn of_text(value: &str) -> Share {
        Share::parse(value).unwrap_or_default()
    }
}

impl OfText for Networks {
    fn of_text(value: &str) -> Networks {
        Networks::parse(value)
    }
}

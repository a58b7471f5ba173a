//! The types that MySQL derives for the parameters of a statement, which depend on their earlier values.
//!
//! If the text does not determine the type of a parameter (`SELECT ?`), MySQL derives it from the first value: after a
//! number, a string is converted to a number, and the column of the result stays numeric. The values of one client must not
//! affect the results of another, so on MySQL a statement is shared only among clients for which the server has derived the
//! same types. Observed on MySQL 9.7; on MariaDB each execution stands alone.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The derived type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Class {
    /// It has had no value yet.
    #[default]
    Unset,
    /// A character string, or NULL, until the first number or time.
    Text,
    /// A binary string, until the first number or time.
    Blob,
    Signed,
    Unsigned,
    Decimal,
    Float,
    Date,
    Time,
    DateTime,
}

impl Class {
    /// Of a type as a client binds it (manual: "COM_STMT_EXECUTE"): its number, and the flag for unsigned.
    fn of([kind, flags]: [u8; 2]) -> Class {
        match kind {
            1 | 2 | 3 | 8 | 9 | 13 if flags & 0x80 != 0 => Class::Unsigned,
            1 | 2 | 3 | 8 | 9 | 13 => Class::Signed,
            0 | 246 => Class::Decimal,
            4 | 5 => Class::Float,
            10 => Class::Date,
            11 => Class::Time,
            7 | 12 => Class::DateTime,
            249..=252 => Class::Blob,
            _ => Class::Text,
        }
    }

    /// The derived type after a value of class `value`.
    fn given(self, value: Class) -> Class {
        use Class::*;
        match (self, value) {
            (Unset, _) => value,
            (_, Unset | Text | Blob) | (DateTime, _) => self,
            (Text | Blob | Signed | Unsigned, _) => value,
            (Decimal, Float) => Float,
            (Decimal | Float, Date | Time | DateTime) => value,
            (Date, Time | DateTime) | (Time, Date) => value,
            (Decimal | Float | Date | Time, _) => self,
        }
    }
}

/// The derived types of a statement's parameters.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Derived {
    /// Empty before the first execution.
    classes: Vec<Class>,
    key: u64,
}

impl Derived {
    /// A hash of the derived types, for the statement's identity. 0: none were derived.
    pub(in super::super) fn key(&self) -> u64 {
        self.key
    }

    /// The derived types after an execution with values of these types (`None`: NULL); `None`: unchanged.
    pub(in super::super) fn after(
        &self,
        types: impl Iterator<Item = Option<[u8; 2]>> + Clone,
    ) -> Option<Derived> {
        let class = |at: usize| self.classes.get(at).copied().unwrap_or_default();
        let given =
            |(at, kind): (usize, Option<[u8; 2]>)| class(at).given(kind.map_or(Class::Text, Class::of));
        if types.clone().enumerate().all(|one| given(one) == class(one.0)) {
            return None;
        }
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let classes: Vec<Class> = types.enumerate().map(given).collect();
        let key = KEYS.hash_one(&classes);
        Some(Derived { classes, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(types: &[[u8; 2]]) -> Derived {
        let step = |derived: Derived, kind: &[u8; 2]| {
            let after = derived.after([Some(*kind)].into_iter());
            after.unwrap_or(derived)
        };
        types.iter().fold(Derived::default(), step)
    }

    const STRING: [u8; 2] = [253, 0];
    const BLOB: [u8; 2] = [252, 0];
    const NUMBER: [u8; 2] = [8, 0];
    const UNSIGNED: [u8; 2] = [8, 0x80];
    const FLOAT: [u8; 2] = [5, 0];
    const DATE: [u8; 2] = [10, 0];

    #[test]
    fn a_number_stays_one_and_a_string_does_not() {
        assert_ne!(after(&[STRING]).key(), 0);
        assert_eq!(after(&[STRING, BLOB]).key(), after(&[STRING]).key());
        assert_ne!(after(&[BLOB, STRING]).key(), after(&[STRING]).key());
        assert_eq!(after(&[STRING, NUMBER]).key(), after(&[NUMBER]).key());
        assert_eq!(after(&[NUMBER, STRING, STRING]).key(), after(&[NUMBER]).key());
        assert_ne!(after(&[NUMBER]).key(), after(&[UNSIGNED]).key());
        assert_eq!(after(&[NUMBER, UNSIGNED]).key(), after(&[UNSIGNED]).key());
        assert_eq!(after(&[FLOAT, NUMBER]).key(), after(&[FLOAT]).key());
        assert_eq!(after(&[DATE, FLOAT, NUMBER]).key(), after(&[DATE]).key());
    }

    #[test]
    fn null_makes_no_number_a_string() {
        let both = Derived::default().after([None, Some(NUMBER)].into_iter()).expect("a number");
        assert_eq!(both.classes, [Class::Text, Class::Signed]);
        assert!(both.after([Some(STRING), None].into_iter()).is_none());
    }

    #[test]
    fn giving_the_same_again_changes_nothing() {
        let all: Vec<[u8; 2]> = (0..=255).flat_map(|kind| [[kind, 0], [kind, 0x80]]).collect();
        for before in &all {
            for kind in &all {
                let once = Class::of(*before).given(Class::of(*kind));
                assert_eq!(once.given(Class::of(*kind)), once, "{before:?} {kind:?}");
            }
        }
    }
}

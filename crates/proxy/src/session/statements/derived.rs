//! What MySQL takes the parameters of a statement to be, which goes by what they were given before.
//!
//! Where the text leaves the type of a parameter open (`SELECT ?`), MySQL goes by the first value: after a number, a string
//! is made a number, and the column of the answer stays one. What the values of one client have made of a statement must
//! not show in the answers of another, so statements on MySQL are shared only among clients for whose parameters the server
//! has derived the same. Seen on MySQL 9.7; MariaDB goes by each execution alone.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// What a parameter is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Class {
    /// It was never given anything.
    #[default]
    Unset,
    /// A string of characters, or NULL: the first number or time decides.
    Text,
    /// A string of bytes: the same.
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
    /// Of a type as a client binds it (manual: "COM_STMT_EXECUTE"): the number, and the flag that it is unsigned.
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

    /// What it is taken for once it was given a value of class `value`.
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

/// What the parameters of a statement are taken for.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Derived {
    /// Empty: it was not executed yet.
    classes: Vec<Class>,
    key: u64,
}

impl Derived {
    /// Tells statements apart by what was derived. 0: nothing was.
    pub(in super::super) fn key(&self) -> u64 {
        self.key
    }

    /// What they are taken for after an execution with values of these types (`None`: NULL); `None`: the same as before.
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

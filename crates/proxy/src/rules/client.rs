//! How rules compare a property of clients. Its values fall into classes, and the class of a value determines whose
//! conditions hold. The properties are declared in `columns.rs`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

use super::address::ClientAddress;

/// Values of a property for which the same conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Class(u32);

impl Class {
    pub(super) fn new(number: u32) -> Class {
        Class(number)
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// The conditions that all rules have on one property.
pub(super) trait Comparison: Default {
    /// The type of the property.
    type Value: ?Sized + 'static;
    /// The cell of a rule's column.
    type Cell;
    /// What a worker remembers about values.
    type Seen: Debug + Default;
    /// Values that tests try.
    #[cfg(test)]
    const VALUES: &'static [&'static Self::Value];
    /// Conditions that tests try.
    #[cfg(test)]
    const CELLS: &'static [&'static str];

    /// Compiles the conditions of all rules, in order.
    fn new<'r>(cells: impl Iterator<Item = &'r Self::Cell>) -> Self
    where
        Self::Cell: 'r;

    /// Whether any rule has a condition.
    fn is_asked(&self) -> bool;

    /// The class of a value.
    fn class(&self, value: &Self::Value, seen: &mut Self::Seen) -> Class;

    /// Whether the condition of that rule holds for the values of a class.
    fn holds(&self, rule: usize, class: Class, seen: &Self::Seen) -> bool;

    /// Reads a condition.
    #[cfg(test)]
    fn cell(text: &str) -> Self::Cell;

    /// Whether a condition holds for a value, without classes.
    #[cfg(test)]
    fn is_met(cell: &Self::Cell, value: &Self::Value) -> bool;
}

/// A property that a condition compares for equality.
pub(super) trait Property: ToOwned<Owned: Eq + Hash + Debug> + Eq + Hash + 'static {
    /// The cell of a rule's column.
    type Cell;
    /// Values that tests try; rules name the first two.
    #[cfg(test)]
    const VALUES: &'static [&'static Self];
    /// The first two values, as text.
    #[cfg(test)]
    const CELLS: &'static [&'static str];

    /// The value that a rule names; `None` if it names none.
    fn named(cell: &Self::Cell) -> Option<Self::Owned>;

    /// Reads a value.
    fn read(text: &str) -> Option<Self::Owned>;

    /// Reads a condition.
    #[cfg(test)]
    fn cell(text: &str) -> Self::Cell;
}

/// The condition that a property equals the value that a rule names.
pub(super) struct Exactly<T: Property + ?Sized> {
    /// The class that each rule requires.
    wanted: Vec<Class>,
    names: Names<T::Owned>,
}

/// The values that rules name.
#[derive(Debug)]
enum Names<O> {
    Nothing,
    Few(Vec<(O, Class)>),
    Many(HashMap<O, Class>),
}

/// A rule that names nothing, and a value that no rule names.
const NONE: Class = Class(0);

/// The number of names up to which comparing them all is faster than hashing.
const FEW: usize = 4;

impl<T: Property + ?Sized> Comparison for Exactly<T> {
    type Value = T;
    type Cell = T::Cell;
    type Seen = ();
    #[cfg(test)]
    const VALUES: &'static [&'static T] = T::VALUES;
    #[cfg(test)]
    const CELLS: &'static [&'static str] = T::CELLS;

    fn new<'r>(cells: impl Iterator<Item = &'r T::Cell>) -> Exactly<T>
    where
        T::Cell: 'r,
    {
        let mut names = HashMap::new();
        let mut class = |name: T::Owned| {
            let next = Class(names.len() as u32 + 1);
            *names.entry(name).or_insert(next)
        };
        let wanted = cells.map(|cell| T::named(cell).map_or(NONE, &mut class)).collect();
        let names = match names.len() {
            0 => Names::Nothing,
            1..=FEW => Names::Few(names.into_iter().collect()),
            _ => Names::Many(names),
        };
        Exactly { wanted, names }
    }

    fn is_asked(&self) -> bool {
        !matches!(self.names, Names::Nothing)
    }

    fn class(&self, value: &T, (): &mut ()) -> Class {
        match &self.names {
            Names::Nothing => NONE,
            Names::Few(names) => {
                let named = names.iter().find(|(name, _)| *Borrow::<T>::borrow(name) == *value);
                named.map_or(NONE, |(_, class)| *class)
            }
            Names::Many(names) => names.get(value).copied().unwrap_or(NONE),
        }
    }

    fn holds(&self, rule: usize, class: Class, (): &()) -> bool {
        self.wanted.get(rule).is_none_or(|wanted| *wanted == NONE || *wanted == class)
    }

    #[cfg(test)]
    fn cell(text: &str) -> T::Cell {
        T::cell(text)
    }

    #[cfg(test)]
    fn is_met(cell: &T::Cell, value: &T) -> bool {
        T::named(cell).is_none_or(|name| *Borrow::<T>::borrow(&name) == *value)
    }
}

impl<T: Property + ?Sized> Default for Exactly<T> {
    fn default() -> Exactly<T> {
        Exactly { wanted: Vec::new(), names: Names::Nothing }
    }
}

impl<T: Property + ?Sized> Debug for Exactly<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.names.fmt(f)
    }
}

impl Property for str {
    type Cell = Option<String>;
    #[cfg(test)]
    const VALUES: &'static [&'static str] = &["app", "web", "nobody", "127.0.0.1"];
    #[cfg(test)]
    const CELLS: &'static [&'static str] = &["app", "web", ""];

    fn named(cell: &Option<String>) -> Option<String> {
        cell.clone().filter(|name| !name.is_empty())
    }

    fn read(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[cfg(test)]
    fn cell(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

impl Property for [u8] {
    type Cell = Option<String>;
    #[cfg(test)]
    const VALUES: &'static [&'static [u8]] = &[b"shop", b"blog", b""];
    #[cfg(test)]
    const CELLS: &'static [&'static str] = &["shop", "blog", ""];

    fn named(cell: &Option<String>) -> Option<Vec<u8>> {
        str::named(cell).map(String::into_bytes)
    }

    fn read(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[cfg(test)]
    fn cell(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

impl Property for u16 {
    type Cell = Option<u16>;
    #[cfg(test)]
    const VALUES: &'static [&'static u16] = &[&6033, &6034, &1];
    #[cfg(test)]
    const CELLS: &'static [&'static str] = &["6033", "6034"];

    fn named(cell: &Option<u16>) -> Option<u16> {
        *cell
    }

    fn read(text: &str) -> Option<u16> {
        text.parse().ok()
    }

    #[cfg(test)]
    fn cell(text: &str) -> Option<u16> {
        text.parse().ok()
    }
}

/// The condition that an address matches a rule's [`ClientAddress`].
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// For each rule the index of its condition; `None` if it has none.
    wanted: Vec<Option<u32>>,
    conditions: Vec<ClientAddress>,
}

/// The addresses that a worker has seen, by the conditions that hold for them.
#[derive(Debug, Default)]
pub(super) struct SeenAddresses {
    classes: HashMap<Box<str>, Class>,
    /// The class of each set of conditions, as a bit mask.
    numbers: HashMap<Rc<[u64]>, Class>,
    /// The set of conditions of each class.
    met: Vec<Rc<[u64]>>,
}

impl Comparison for Addresses {
    type Value = str;
    type Cell = Option<String>;
    type Seen = SeenAddresses;
    #[cfg(test)]
    const VALUES: &'static [&'static str] = &["10.0.0.1", "10.0.7.7", "192.168.0.1"];
    #[cfg(test)]
    const CELLS: &'static [&'static str] = &["10.0.0.1", "10.0.%", "%", "10.0.0.0/24", ""];

    fn new<'r>(cells: impl Iterator<Item = &'r Option<String>>) -> Addresses {
        let mut addresses = Addresses::default();
        let mut places = HashMap::new();
        for cell in cells {
            let condition = ClientAddress::of_cell(cell);
            let place = condition.map(|condition| {
                *places.entry(condition).or_insert_with_key(|condition| {
                    addresses.conditions.push(condition.clone());
                    addresses.conditions.len() as u32 - 1
                })
            });
            addresses.wanted.push(place);
        }
        addresses
    }

    fn is_asked(&self) -> bool {
        !self.conditions.is_empty()
    }

    fn class(&self, value: &str, seen: &mut SeenAddresses) -> Class {
        if self.conditions.is_empty() { NONE } else { self.class_of(value, seen) }
    }

    fn holds(&self, rule: usize, class: Class, seen: &SeenAddresses) -> bool {
        let Some(Some(place)) = self.wanted.get(rule) else { return true };
        let word = seen.met.get(class.0 as usize).and_then(|met| met.get(*place as usize / 64));
        word.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    #[cfg(test)]
    fn cell(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[cfg(test)]
    fn is_met(cell: &Option<String>, value: &str) -> bool {
        ClientAddress::of_cell(cell).is_none_or(|condition| condition.holds(value))
    }
}

impl Addresses {
    /// The class of an address, if any rule has a condition.
    fn class_of(&self, value: &str, seen: &mut SeenAddresses) -> Class {
        if let Some(class) = seen.classes.get(value) {
            return *class;
        }
        if seen.classes.len() >= MOST_ADDRESSES {
            seen.classes.clear();
        }
        let mut met = vec![0u64; self.conditions.len().div_ceil(64)];
        for (place, condition) in self.conditions.iter().enumerate() {
            if let Some(word) = met.get_mut(place / 64) {
                *word |= u64::from(condition.holds(value)) << (place % 64);
            }
        }
        let met: Rc<[u64]> = met.into();
        let next = Class(seen.met.len() as u32);
        let class = *seen.numbers.entry(Rc::clone(&met)).or_insert_with(|| {
            seen.met.push(met);
            next
        });
        seen.classes.insert(value.into(), class);
        class
    }
}

/// The maximum number of addresses that are remembered.
const MOST_ADDRESSES: usize = 8_192;

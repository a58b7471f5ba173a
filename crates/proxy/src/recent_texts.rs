//! The lexed forms of recent statements, because applications repeat them.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;
use narrows_sql::Statement;

/// The lexed form of one text.
#[derive(Debug)]
pub struct ReadText {
    text: Box<[u8]>,
    /// The statement, if backslashes escape.
    pub statement: Statement,
    /// The digest, if digests are computed.
    pub digest: Option<TextDigest>,
}

/// A digest as rules, the firewall and the figures need it.
#[derive(Debug)]
pub struct TextDigest {
    /// The digest text.
    pub text: Box<[u8]>,
    /// The hash of the digest text.
    pub hash: u64,
    /// Whether the digest does not represent the whole statement.
    pub is_cut: bool,
}

impl ReadText {
    /// The lexed form of `text`.
    pub fn new(text: &[u8], statement: Statement, digest: Option<TextDigest>) -> ReadText {
        ReadText { text: text.into(), statement, digest }
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.digest.as_ref().map_or(0, |digest| digest.text.len())
    }
}

/// Recent texts of one worker, each at the place that its hash determines. A text is kept when it arrives a second
/// time, and replaces another one only if it has arrived twice since that one. The hash has a random key per process,
/// and texts are compared byte by byte.
#[derive(Debug)]
pub struct RecentTexts {
    hasher: DefaultHashBuilder,
    places: RefCell<Box<[Place]>>,
    /// The size of all texts and digests that are kept, in bytes.
    bytes: Cell<usize>,
}

#[derive(Debug, Default)]
struct Place {
    kept: Option<(u64, Rc<ReadText>)>,
    /// The hash of the last text with this place that was not kept; 0 if none.
    other: u64,
}

impl Default for RecentTexts {
    fn default() -> RecentTexts {
        RecentTexts {
            hasher: DefaultHashBuilder::default(),
            places: RefCell::new(std::iter::repeat_with(Place::default).take(PLACES).collect()),
            bytes: Cell::default(),
        }
    }
}

impl RecentTexts {
    /// The kept form of `text`, or the result of `read` if it arrives a second time.
    pub fn get(&self, text: &[u8], read: impl FnOnce() -> ReadText) -> Option<Rc<ReadText>> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let hash = self.hasher.hash_one(text) | 1;
        let mut places = self.places.borrow_mut();
        let place = places.get_mut(hash as usize / 2 % PLACES)?;
        if let Some((known, kept)) = &place.kept
            && *known == hash
            && *kept.text == *text
        {
            place.other = 0;
            return Some(Rc::clone(kept));
        }
        if std::mem::replace(&mut place.other, hash) != hash {
            return None;
        }
        let fresh = Rc::new(read());
        let before = place.kept.as_ref().map_or(0, |(_, kept)| kept.bytes());
        let bytes = self.bytes.get() - before + fresh.bytes();
        if bytes <= MOST_BYTES {
            self.bytes.set(bytes);
            *place = Place { kept: Some((hash, Rc::clone(&fresh))), other: 0 };
        }
        Some(fresh)
    }

    /// Forgets everything, because digests are computed differently from now on.
    pub fn forget(&self) {
        self.places.borrow_mut().iter_mut().for_each(|place| *place = Place::default());
        self.bytes.set(0);
    }
}

/// The number of places.
const PLACES: usize = 1_024;

/// The maximum length of a text that is kept, in bytes.
const LONGEST_TEXT: usize = 4_096;

/// The maximum size of all texts and digests that one worker keeps, in bytes.
const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> ReadText {
        let digest = TextDigest { text: text.into(), hash: 7, is_cut: false };
        ReadText::new(text, narrows_sql::classify(text), Some(digest))
    }

    #[test]
    fn a_text_is_kept_when_it_comes_again() {
        let recent = RecentTexts::default();
        let text = b"SELECT 1";
        assert!(recent.get(text, || unreachable!("it comes for the first time")).is_none());
        assert!(recent.get(text, || read(text)).is_some());
        let kept = recent.get(text, || unreachable!("it is kept")).unwrap();
        assert_eq!(kept.statement, narrows_sql::classify(text));
        recent.forget();
        assert!(recent.get(text, || unreachable!("it was forgotten")).is_none());
    }

    #[test]
    fn texts_that_come_once_take_no_place() {
        let recent = RecentTexts::default();
        let text = b"SELECT 1";
        (0..2).for_each(|_| drop(recent.get(text, || read(text))));
        for id in 0..10_000 {
            let other = format!("SELECT {id} FROM t");
            assert!(recent.get(other.as_bytes(), || unreachable!("none comes twice")).is_none());
        }
        assert!(recent.get(text, || unreachable!("it is kept")).is_some());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let recent = RecentTexts::default();
        for id in 0..PLACES * 4 {
            let text = format!("SELECT {id} FROM t WHERE c = '{}'", "x".repeat(4_000));
            (0..3).for_each(|_| drop(recent.get(text.as_bytes(), || read(text.as_bytes()))));
            assert!(recent.bytes.get() <= MOST_BYTES);
        }
        let long = vec![b' '; LONGEST_TEXT + 1];
        (0..3).for_each(|_| assert!(recent.get(&long, || unreachable!("it is too long")).is_none()));
        recent.forget();
        assert_eq!(recent.bytes.get(), 0);
    }
}

//! What was read of recent statements: applications repeat them.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;
use narrows_sql::Statement;

/// What was read of one text.
#[derive(Debug)]
pub struct ReadText {
    text: Box<[u8]>,
    /// What it is, where backslashes escape.
    pub statement: Statement,
    /// Its digest, where digests are computed.
    pub digest: Option<TextDigest>,
}

/// A digest as rules, the firewall and the figures need it.
#[derive(Debug)]
pub struct TextDigest {
    /// Its text.
    pub text: Box<[u8]>,
    /// The hash of that.
    pub hash: u64,
    /// Whether it does not represent the whole statement.
    pub is_cut: bool,
}

impl ReadText {
    /// What was read of `text`.
    pub fn new(text: &[u8], statement: Statement, digest: Option<TextDigest>) -> ReadText {
        ReadText { text: text.into(), statement, digest }
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.digest.as_ref().map_or(0, |digest| digest.text.len())
    }
}

/// Recent texts of one worker, each at the place that its hash gives. A text is kept when it comes a second time, and takes the
/// place of another one only if it came twice since that one. The hash has a random key per process, and texts are compared byte
/// by byte.
#[derive(Debug)]
pub struct RecentTexts {
    hasher: DefaultHashBuilder,
    places: RefCell<Box<[Place]>>,
    /// Bytes of all texts and digests that are kept.
    bytes: Cell<usize>,
}

#[derive(Debug, Default)]
struct Place {
    kept: Option<(u64, Rc<ReadText>)>,
    /// The hash of the last text that belongs here and is not kept; 0: none.
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
    /// What is kept of `text`, or what `read` reads if it comes a second time.
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

/// Places for texts.
const PLACES: usize = 1_024;

/// Bytes of the longest text that is kept.
const LONGEST_TEXT: usize = 4_096;

/// Bytes of all texts and digests that are kept on one worker.
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

//! The lexed forms of recent statements, because applications repeat them, often with other values.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;
use narrows_sql::{Statement, template};

/// The lexed form of one text, or of all texts with one template.
#[derive(Debug)]
pub struct ReadText {
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
    fn bytes(&self) -> usize {
        self.digest.as_ref().map_or(0, |digest| digest.text.len())
    }
}

/// Recent texts of one worker, each at the place that its hash determines. A text is kept when it arrives a second
/// time, and replaces another one only if it has arrived twice since that one. The hash has a random key per process,
/// and texts are compared byte by byte. Texts with the same [`template`] are one.
#[derive(Debug)]
pub struct RecentTexts {
    hasher: DefaultHashBuilder,
    /// The template of the current text.
    template: RefCell<Vec<u8>>,
    places: RefCell<Box<[Place]>>,
    /// The size of all texts and digests that are kept, in bytes.
    bytes: Cell<usize>,
}

#[derive(Debug, Default)]
struct Place {
    kept: Option<Kept>,
    /// The hash of the last text with this place that was not kept; 0 if none.
    other: u64,
}

#[derive(Debug)]
struct Kept {
    hash: u64,
    /// The text, or the template of several.
    key: Box<[u8]>,
    is_template: bool,
    form: Rc<ReadText>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.key.len() + self.form.bytes()
    }
}

impl Default for RecentTexts {
    fn default() -> RecentTexts {
        RecentTexts {
            hasher: DefaultHashBuilder::default(),
            template: RefCell::default(),
            places: RefCell::new(std::iter::repeat_with(Place::default).take(PLACES).collect()),
            bytes: Cell::default(),
        }
    }
}

impl RecentTexts {
    /// The kept form of `text`, or the result of `read` if it arrives a second time. Digests are computed from no more than
    /// `max_query_length` bytes.
    pub fn get(
        &self,
        text: &[u8],
        max_query_length: usize,
        read: impl FnOnce() -> ReadText,
    ) -> Option<Rc<ReadText>> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let mut common = self.template.borrow_mut();
        let is_template = text.len() <= max_query_length && template(text, &mut common);
        let key = if is_template { &**common } else { text };
        let hash = self.hasher.hash_one(key) | 1;
        let mut places = self.places.borrow_mut();
        let place = places.get_mut(hash as usize / 2 % PLACES)?;
        if let Some(kept) = &place.kept
            && (kept.hash, kept.is_template) == (hash, is_template)
            && *kept.key == *key
        {
            place.other = 0;
            return Some(Rc::clone(&kept.form));
        }
        if std::mem::replace(&mut place.other, hash) != hash {
            return None;
        }
        let form = Rc::new(read());
        let fresh = Kept { hash, key: key.into(), is_template, form: Rc::clone(&form) };
        let before = place.kept.as_ref().map_or(0, Kept::bytes);
        let bytes = self.bytes.get() - before + fresh.bytes();
        if bytes <= MOST_BYTES {
            self.bytes.set(bytes);
            *place = Place { kept: Some(fresh), other: 0 };
        }
        Some(form)
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

    const LONGEST_QUERY: usize = 65_000;

    fn read(text: &[u8]) -> ReadText {
        let digest = TextDigest { text: text.into(), hash: 7, is_cut: false };
        ReadText { statement: narrows_sql::classify(text), digest: Some(digest) }
    }

    fn get(recent: &RecentTexts, text: &[u8]) -> Option<Rc<ReadText>> {
        recent.get(text, LONGEST_QUERY, || read(text))
    }

    fn known(recent: &RecentTexts, text: &[u8]) -> Option<Rc<ReadText>> {
        recent.get(text, LONGEST_QUERY, || unreachable!("it is not read"))
    }

    #[test]
    fn a_text_is_kept_when_it_comes_again() {
        let recent = RecentTexts::default();
        for text in [&b"SELECT 1"[..], b"SHOW TABLES"] {
            assert!(known(&recent, text).is_none(), "it comes for the first time");
            assert!(get(&recent, text).is_some());
            let kept = known(&recent, text).unwrap();
            assert_eq!(kept.statement, narrows_sql::classify(text));
            recent.forget();
            assert!(known(&recent, text).is_none(), "it was forgotten");
        }
    }

    #[test]
    fn texts_that_differ_in_their_values_are_one() {
        let recent = RecentTexts::default();
        (0..2).for_each(|_| drop(get(&recent, b"SELECT c FROM t WHERE id=1 AND n='x'")));
        assert!(known(&recent, b"SELECT c FROM t WHERE id=2222 AND n=''").is_some());
        assert!(known(&recent, b"SELECT c FROM t WHERE id=2222 AND n=1").is_none());
        // A text that is read in part only has a digest of its own.
        assert!(recent.get(b"SELECT c FROM t WHERE id=3 AND n='x'", 20, || unreachable!()).is_none());
    }

    #[test]
    fn a_text_is_not_taken_for_the_template_of_another() {
        let recent = RecentTexts::default();
        let mut template = Vec::new();
        assert!(narrows_sql::template(b"SELECT 5", &mut template));
        (0..2).for_each(|_| drop(get(&recent, b"SELECT 5")));
        assert!(known(&recent, &template).is_none());
    }

    #[test]
    fn texts_that_come_once_take_no_place() {
        let recent = RecentTexts::default();
        let text = b"SELECT 1";
        (0..2).for_each(|_| drop(get(&recent, text)));
        for id in 0..10_000 {
            let other = format!("SELECT c{id} FROM t");
            assert!(known(&recent, other.as_bytes()).is_none(), "none comes twice");
        }
        assert!(known(&recent, text).is_some());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let recent = RecentTexts::default();
        for id in 0..PLACES * 4 {
            let text = format!("SELECT a{id} FROM t WHERE {}", "x".repeat(4_000));
            (0..3).for_each(|_| drop(get(&recent, text.as_bytes())));
            assert!(recent.bytes.get() <= MOST_BYTES);
        }
        let long = vec![b' '; LONGEST_TEXT + 1];
        (0..3).for_each(|_| assert!(known(&recent, &long).is_none(), "it is too long"));
        recent.forget();
        assert_eq!(recent.bytes.get(), 0);
    }
}

//! Which of many expressions may match a text: the literals of all of them are searched for in one pass.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};

/// The literals of many rules' expressions.
#[derive(Debug, Default)]
pub(super) struct Screen {
    automaton: Option<AhoCorasick>,
    /// The rules that each literal belongs to.
    owners: Vec<Box<[u32]>>,
}

impl Screen {
    /// The screen of the literals of all rules, in order.
    pub(super) fn new(literals: Vec<Vec<Vec<u8>>>) -> Screen {
        let mut owners_of = std::collections::BTreeMap::<Vec<u8>, Vec<u32>>::new();
        for (rule, texts) in (0u32..).zip(literals) {
            for text in texts {
                owners_of.entry(text).or_default().push(rule);
            }
        }
        if owners_of.is_empty() {
            return Screen::default();
        }
        let (texts, owners): (Vec<_>, Vec<_>) = owners_of.into_iter().unzip();
        let mut builder = AhoCorasickBuilder::new();
        let automaton = builder.match_kind(MatchKind::Standard).ascii_case_insensitive(true).build(texts);
        Screen {
            automaton: Some(automaton.expect("literals are far fewer than an automaton has states for")),
            owners: owners.into_iter().map(Into::into).collect(),
        }
    }

    /// Puts the rules whose expressions may match `text` into `found`, in order, each once.
    pub(super) fn search(&self, text: &[u8], found: &mut Vec<u32>) {
        found.clear();
        let Some(automaton) = &self.automaton else { return };
        for hit in automaton.find_overlapping_iter(text) {
            found.extend_from_slice(&self.owners[hit.pattern().as_usize()]);
            // A literal that occurs everywhere in a long text must not fill the memory.
            if found.len() > MANY {
                found.sort_unstable();
                found.dedup();
            }
        }
        found.sort_unstable();
        found.dedup();
    }

    /// The size of the screen in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        let owners: usize = self.owners.iter().map(|rules| size_of_val(&**rules) + 16).sum();
        self.automaton.as_ref().map_or(0, AhoCorasick::memory_usage) + owners
    }
}

const MANY: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_any_of_their_literals_in_any_case() {
        let literal = |text: &str| text.as_bytes().to_vec();
        let rules = [
            vec![literal("users"), literal("orders")],
            vec![literal("user")],
            vec![],
            vec![literal("nobody")],
            vec![literal("users")],
        ];
        let screen = Screen::new(rules.into());
        let mut found = Vec::new();
        screen.search(b"SELECT * FROM USERS, users", &mut found);
        assert_eq!(found, [0, 1, 4]);
        screen.search(b"SELECT 1", &mut found);
        assert!(found.is_empty());
        Screen::default().search(b"x", &mut found);
        assert!(found.is_empty());
    }
}

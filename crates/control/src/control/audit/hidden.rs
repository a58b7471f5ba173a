//! Passwords where nobody expects them: copies in other columns, in arguments of programs, in mistyped commands. Both logs have `***`
//! in their place.

use crate::secrets::Secrets;
use crate::store::Store;
use crate::versions::RowChange;

/// The passwords that some texts have in them.
#[derive(Default)]
pub struct HiddenPasswords(Vec<String>);

impl HiddenPasswords {
    /// Those among `texts` that the configuration has, that its references lead to, or that are among `former` ones.
    pub fn among(texts: &[&str], store: &Store, secrets: &Secrets, former: Vec<String>) -> HiddenPasswords {
        let text = texts.join("\n");
        if text.trim().is_empty() {
            return HiddenPasswords::default();
        }
        let mut passwords = [store.passwords_in(&text), secrets.values_in(&text), former].concat();
        passwords.retain(|password| !password.is_empty() && text.contains(password.as_str()));
        // One may begin with another one.
        passwords.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        passwords.dedup();
        HiddenPasswords(passwords)
    }

    /// The text without them. A short one is only hidden where it is the whole text: it is part of other words by chance.
    pub fn hide(&self, text: &str) -> String {
        let is_number = || text.len() < SHORTEST_INSIDE && text.parse::<i64>().is_ok();
        if self.0.iter().any(|password| password == text) && !is_number() {
            return HIDDEN.to_owned();
        }
        let long = self.0.iter().filter(|password| password.len() >= SHORTEST_INSIDE);
        long.fold(text.to_owned(), |text, password| text.replace(password.as_str(), HIDDEN))
    }

    /// Hides them in the values of a change. Its key names the row.
    pub fn hide_in(&self, change: &mut RowChange) {
        if self.0.is_empty() {
            return;
        }
        for (_, before, after) in &mut change.columns {
            for value in [before, after].into_iter().flatten() {
                *value = self.hide(value);
            }
        }
    }
}

/// The values of changes.
pub fn values_of<'a>(changes: impl Iterator<Item = &'a RowChange>) -> Vec<&'a str> {
    let columns = changes.flat_map(|change| &change.columns);
    columns.flat_map(|(_, before, after)| [before.as_deref(), after.as_deref()]).flatten().collect()
}

const HIDDEN: &str = "***";

/// The bytes of the shortest password that is looked for inside of other texts: what `validate_password.length` of MySQL demands.
const SHORTEST_INSIDE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_password_is_hidden_in_other_texts_and_a_short_one_as_a_whole() {
        let hidden =
            HiddenPasswords(vec!["long-password-2".into(), "long-password".into(), "app".into(), "7".into()]);
        for (text, expected) in [
            ("long-password", "***"),
            ("--password=long-password-2 -u x", "--password=*** -u x"),
            ("app", "***"),
            ("application", "application"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(hidden.hide(text), expected);
        }
    }
}

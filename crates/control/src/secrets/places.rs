//! Where a configuration has passwords.

use narrows_proxy::server_tokens::TokenLogin;
use narrows_proxy::snapshot::UserRow;

use super::ADDITIONAL_PASSWORD;
use super::reference::{Reference, is_reference};
use crate::aws_iam;
use crate::config::form::Form;
use crate::variables::{Kind, Value, Values};

/// A password in a configuration, or a reference to one.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretPlace {
    /// The row and the column, or the variable.
    pub name: String,
    /// What stands there.
    pub text: String,
}

impl SecretPlace {
    /// How servers get tokens in the place of this password; `None`: it is one, or may be none of that kind.
    pub fn tokens(&self) -> Option<TokenLogin> {
        let may_have = ["mysql-monitor_password", "mysql-auth_query_password"].contains(&self.name.as_str());
        tokens(&self.text).filter(|_| may_have)
    }

    /// Whether a program has to be run to look it up.
    pub fn is_program(&self) -> bool {
        matches!(Reference::parse(&self.text), Some(Ok(Reference::Program(_))))
    }
}

impl std::fmt::Debug for SecretPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretPlace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How servers get tokens, if a text asks for tokens.
pub fn tokens(text: &str) -> Option<TokenLogin> {
    match Reference::parse(text) {
        Some(Ok(Reference::Tokens(region))) => {
            Some(TokenLogin { maker: aws_iam::of_process(), region: region.map(str::to_owned) })
        }
        _ => None,
    }
}

/// The references among them, each once.
pub fn references(places: &[SecretPlace]) -> Vec<&str> {
    let mut references: Vec<&str> = places.iter().map(|place| place.text.as_str()).collect();
    references.retain(|text| is_reference(text));
    references.sort_unstable();
    references.dedup();
    references
}

/// All of a configuration.
pub fn in_force(users: &[UserRow], values: &Values) -> Vec<SecretPlace> {
    [in_users(users), in_variables(values, "")].concat()
}

/// Those of active accounts.
pub fn in_users(users: &[UserRow]) -> Vec<SecretPlace> {
    let of_user = |user: &UserRow| {
        let name = |column: &str| format!("mysql_users username='{}': {column}", user.username);
        let second =
            user.attributes.get(ADDITIONAL_PASSWORD).and_then(|value| value.as_str()).map(str::to_owned);
        let first = SecretPlace { name: name("password"), text: user.password.clone() };
        let second = second.map(|text| SecretPlace { name: name("additional_password"), text });
        std::iter::once(first).chain(second).collect::<Vec<_>>()
    };
    users.iter().filter(|user| user.active).flat_map(of_user).collect()
}

/// Those of the variables whose names begin with `prefix`.
pub fn in_variables(values: &Values, prefix: &str) -> Vec<SecretPlace> {
    let mut places = Vec::new();
    for (variable, value) in values.iter().filter(|(variable, _)| variable.name.starts_with(prefix)) {
        let (Kind::Text { form, .. }, Value::Text(text)) = (variable.kind, value) else { continue };
        match form {
            Form::Secret => places.push(SecretPlace { name: variable.name.to_owned(), text: text.clone() }),
            Form::Credentials => {
                let accounts = text.split(';').filter_map(|entry| entry.split_once(':'));
                places.extend(accounts.map(|(user, password)| SecretPlace {
                    name: format!("{} of '{user}'", variable.name),
                    text: password.to_owned(),
                }));
            }
            _ => {}
        }
    }
    places
}

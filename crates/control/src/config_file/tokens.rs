//! Accounts that take tokens: whether anybody issues them, and whether servers can be logged in to afterwards.

use std::collections::HashSet;

use narrows_proxy::snapshot::{LoginAttributes, TokenIssuerRow, UserRow, is_template};
use narrows_wire::auth::client_side::{Form, Stored};

use super::finding::{Of, Search, USERS};
use crate::config::diagnostic::Problem;

/// What is probably a mistake in the tokens that accounts take.
pub(super) fn examine(users: &[&UserRow], issuers: &[&TokenIssuerRow], search: &mut Search) {
    if !search.is_for(USERS) {
        return;
    }
    let active = issuers.iter().filter(|row| row.active);
    let names: HashSet<&str> = active.map(|row| row.name.as_str()).collect();
    for (index, row) in users.iter().enumerate().filter(|(_, row)| row.active) {
        for flaw in flaws(row, &names) {
            search.add(USERS, (Of::Users, index, "attributes"), || Problem::NotAsWritten {
                row: format!("user {:?}", row.username),
                name: "attributes `token`".to_owned(),
                flaw,
            });
        }
    }
}

fn flaws(row: &UserRow, names: &HashSet<&str>) -> Vec<String> {
    let Some(tokens) = LoginAttributes::of(&row.attributes).tokens else { return Vec::new() };
    let unknown = tokens.any.iter().map(|demand| demand.issuer.as_str()).filter(|name| !names.contains(name));
    let mut flaws: Vec<String> = unknown
        .map(|name| format!("names the issuer {name:?}, and narrows_token_issuers has no active row of that name; none of its tokens is accepted"))
        .collect();
    if tokens.only && tokens.any.is_empty() {
        flaws.push(
            "accepts no token, and `token_only` leaves clients nothing else: nobody can log in".to_owned(),
        );
    }
    if is_template(row) {
        flaws.push(
            "has no effect for accounts that a server lets in: a token is no password for servers".to_owned(),
        );
    }
    if is_hash(&row.password) {
        flaws.push("lets clients in that no server does: only the hash of the password is known, and servers want the password".to_owned());
    }
    flaws
}

fn is_hash(password: &str) -> bool {
    !matches!(Stored::parse(password.as_bytes()).form(), Form::Clear)
}

//! The admin interface from the outside.

mod compare;
mod crowd;
mod differences;
mod drop_in;
mod full_disk;
mod history;
mod operate;
mod recorded;
mod replay;
mod robustness;
mod route;
mod third_party;
mod traffic;
mod under_load;

use narrows_testkit::{Answer, Conversation, FakeMysql, Narrows, NarrowsConfig, RawClient};

use crate::support::start;

/// A Narrows in front of a server that answers everything with OK.
fn narrows() -> (FakeMysql, Narrows) {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    (server, narrows)
}

/// Runs statements that must not fail.
fn all_done(client: &mut RawClient, statements: &[&str]) {
    for statement in statements {
        let answer = client.query(statement);
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
    }
}

/// The rows of an answer, NULL as an empty text.
fn rows(client: &mut RawClient, query: &str) -> Vec<Vec<String>> {
    let answer = client.query(query);
    assert!(answer.error().is_none(), "{query}: {:?}", answer.error());
    answer
        .text_rows()
        .into_iter()
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
        .collect()
}

/// The number and text of the error that a statement must return.
fn refusal(answer: &Answer) -> (u16, String) {
    let error = answer.error().expect("an error");
    (error.code, error.message)
}

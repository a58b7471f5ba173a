//! What operators are notified of: changes, failing checks of the monitor, settings without effect.

mod audit;
mod checks;
mod effect;
mod log;

use narrows_testkit::RawClient;

use crate::support::start;

/// Runs statements that must succeed.
fn run(admin: &mut RawClient, statements: &[&str]) {
    for statement in statements {
        let answer = admin.query(statement);
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
    }
}

/// The messages in SHOW WARNINGS after `statement`, whose count of warnings must match.
fn warnings(admin: &mut RawClient, statement: &str) -> Vec<String> {
    let counted = admin.query(statement).ok().unwrap_or_else(|| panic!("{statement} is not OK")).warnings;
    let rows = admin.query("SHOW WARNINGS").text_rows();
    let messages: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().nth(2).flatten()).collect();
    assert_eq!(usize::from(counted), messages.len(), "{statement}: {messages:?}");
    messages
}

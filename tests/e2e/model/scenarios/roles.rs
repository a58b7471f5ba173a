//! Roles, and which one a session has after a reset or a change of user.

use super::super::script::{Burst, Script};
use super::Step;
use super::sessions;

/// One account has a default role.
pub(super) fn shared_preparation() -> Vec<String> {
    if !super::is_on("roles") {
        return Vec::new();
    }
    let mut statements = vec!["CREATE ROLE reader".to_owned(), "CREATE ROLE writer".to_owned()];
    for user in super::super::script::USERS {
        statements.push(format!("GRANT reader TO '{user}'@'%'"));
        statements.push(format!("GRANT writer TO '{user}'@'%'"));
    }
    statements
}

pub(super) fn roles(script: &mut Script, burst: &mut Burst) {
    burst.query("SELECT CURRENT_ROLE()");
    burst.query(*script.random.pick(&[
        "SET ROLE reader",
        "SET ROLE writer",
        "SET ROLE NONE",
        "set role 'reader'",
        "SET ROLE nosuch",
    ]));
    burst.query("SELECT CURRENT_ROLE()");
    burst.query("SELECT COUNT(*) FROM common.t");
    match script.random.below(4) {
        0 => burst.steps.push(Step::ResetConnection),
        1 => sessions::change_user(script, burst),
        2 => burst.query("SET ROLE NONE"),
        _ => sessions::reconnect(script, burst),
    }
    burst.query("SELECT CURRENT_ROLE()");
    burst.ties = true;
}

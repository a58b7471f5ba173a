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

pub(super) const NAME: &str = "roles";

pub(super) fn roles(script: &mut Script, burst: &mut Burst) {
    if script.random.percent(50) {
        sessions::reconnect(script, burst);
        burst.query("SELECT CURRENT_ROLE()");
    }
    burst.query(*script.random.pick(&[
        "SET ROLE reader",
        "SET ROLE writer",
        "SET ROLE NONE",
        "set role 'reader'",
        "SET ROLE nosuch",
    ]));
    if script.random.percent(50) {
        // Otherwise a role may still be active that a reset has left.
        burst.query("SET ROLE writer");
        burst.query("SELECT CURRENT_ROLE()");
    }
    burst.query("SELECT COUNT(*) FROM common.t");
    match script.random.below(4) {
        0 => burst.steps.push(Step::ResetConnection),
        1 => sessions::change_user(script, burst),
        2 => {}
        _ => {
            sessions::reconnect(script, burst);
            burst.query("SELECT CURRENT_ROLE()");
        }
    }
    // Servers leave the role that was active over COM_RESET_CONNECTION, MariaDB over COM_CHANGE_USER, too.
    burst.query("SET ROLE NONE");
    burst.query("SELECT CURRENT_ROLE()");
    burst.ties = true;
}

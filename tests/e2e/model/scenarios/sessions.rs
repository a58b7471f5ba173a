//! How sessions end and start again, and kills.

use super::super::script::{Burst, Script, USERS};
use super::super::side::{Leave, Step, Victim};

pub(super) fn reset(script: &mut Script, burst: &mut Burst) {
    burst.steps.push(Step::ResetConnection);
    script.untie();
}

pub(super) fn change_user(script: &mut Script, burst: &mut Burst) {
    let capabilities = script.capabilities;
    let mut login = script.log_in();
    script.capabilities = capabilities;
    if script.random.percent(15) {
        burst.steps.push(Step::ChangeUser { login, password: "wrong" });
        return reconnect(script, burst);
    }
    let password = *script.random.pick(USERS);
    login.user = password;
    burst.steps.push(Step::ChangeUser { login, password });
}

pub(super) fn reconnect(script: &mut Script, burst: &mut Burst) {
    let leave = match script.random.below(12) {
        0..=5 => Leave::Quit,
        6..=10 => Leave::Vanish,
        _ => Leave::VanishInStatement,
    };
    let login = script.log_in();
    burst.steps.push(Step::Reconnect { leave, login });
}

pub(super) fn kill(script: &mut Script, burst: &mut Burst) {
    // A client that holds one connection and requests another may wait for a client that does the same.
    reset(script, burst);
    burst.query("SELECT 'about to kill'");
    let victim = *script.random.pick(&[Victim::IdleInTransaction, Victim::Statement, Victim::Running]);
    let table = format!("{}.k", script.own);
    let number = script.number();
    burst.steps.push(Step::Kill { victim, table, number });
}

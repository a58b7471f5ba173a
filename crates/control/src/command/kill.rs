//! KILL: sessions and statements of any client.

use narrows_proxy::stats::{KillKind, wait};
use narrows_proxy::worker::KillAnswer;

use super::verb::{Verb, Who};
use crate::admin::reply::Reply;
use crate::runtime::Runtime;

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "KILL CONNECTION <session>",
        who: Who::Admin,
        run: |parts, call| Some(kill(parts.runtime, call.word(0), KillKind::Connection)),
        doc: "Ends a client's session; its number is in `stats_mysql_processlist`.",
    },
    Verb {
        pattern: "KILL <session>",
        who: Who::Admin,
        run: |parts, call| {
            let is_number = call.word(0).parse::<u32>().is_ok();
            is_number.then(|| kill(parts.runtime, call.word(0), KillKind::Connection))
        },
        doc: "The same.",
    },
    Verb {
        pattern: "KILL QUERY <session>",
        who: Who::Admin,
        run: |parts, call| Some(kill(parts.runtime, call.word(0), KillKind::Query)),
        doc: "Ends the statement that a session runs.",
    },
];

fn kill(runtime: &Runtime, session: &str, kind: KillKind) -> Reply {
    // Numbers are parsed as everywhere in this interface: what is not a number is 0.
    let id = session.parse::<u32>().unwrap_or(0);
    let answer = runtime.observer().map(|observer| wait(observer.kill(id, kind)));
    match answer {
        Some(KillAnswer::Done) => Reply::ok(),
        _ => Reply::error(format!("Unknown thread id: {id}")),
    }
}

//! PROXYSQL, or NARROWS: the process as a whole.

use narrows_proxy::stats::{Take, wait};

use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::unquoted;
use crate::runtime::{End, Process, Runtime};
use crate::schema::Module;

macro_rules! process {
    ($pattern:literal, $run:expr, $doc:literal) => {
        Verb { pattern: concat!("PROXYSQL|NARROWS ", $pattern), who: Who::Admin, run: $run, doc: $doc }
    };
}

pub const VERBS: &[Verb] = &[
    process!("READONLY", |parts, _| read_only(parts, true), "The admin interface refuses changes."),
    process!("READWRITE", |parts, _| read_only(parts, false), "The admin interface accepts changes again."),
    process!("START", |parts, _| Some(parts.runtime.start()), "Serves clients again after `STOP`."),
    process!("STOP", |parts, _| Some(parts.runtime.stop()), "Ends all client sessions and serves none."),
    process!("PAUSE", |parts, _| Some(parts.runtime.pause()), "Refuses new clients; existing ones continue."),
    process!("RESUME", |parts, _| Some(parts.runtime.resume()), "Accepts new clients again."),
    process!("SHUTDOWN", |parts, _| Some(parts.process.end(End::Now)), "Ends the process at once."),
    process!(
        "SHUTDOWN SLOW",
        |parts, _| Some(parts.process.end(End::Orderly)),
        "Ends the process as SIGTERM does: clients have `drain_timeout` to leave."
    ),
    process!("KILL", |parts, _| Some(parts.process.end(End::Now)), "Ends the process at once."),
    process!(
        "RESTART",
        |parts, _| Some(parts.process.end(End::Again)),
        "Ends the process and starts it again."
    ),
    process!(
        "FLUSH LOGS",
        |parts, _| Some(flush_logs(parts.runtime, parts.process)),
        "Reopens the log files."
    ),
    process!("FLUSH QUERY CACHE", flush_query_cache, "Empties the query cache."),
    process!(
        "FLUSH MYSQL CLIENT HOSTS",
        forget_hosts,
        "Forgets which client addresses have failed to log in."
    ),
    process!(
        "FLUSH PASSTHROUGH_AUTH_CACHE",
        forget_passthrough,
        "Forgets what servers have said about the passwords of all accounts."
    ),
    process!(
        "FLUSH PASSTHROUGH_AUTH_CACHE FOR USER <name>",
        forget_passthrough,
        "Forgets what servers have said about the passwords of one account."
    ),
    process!("FLUSH CONFIGDB", |_, _| Some(Reply::ok()), "Nothing: what is saved is written at once."),
    process!(
        "RELOAD TLS",
        |parts, _| Some(parts.runtime.reload_tls(parts.store)),
        "Reads keys and certificates again."
    ),
    process!("MEMPROFILE START|STOP", |_, _| Some(Reply::ok()), "Nothing: there is no profiler of memory."),
    process!("COREDUMP", no_core, "Refused: core files would hold passwords and keys."),
    process!("COREDUMP <name>", no_core, "Refused: core files would hold passwords and keys."),
    process!("COMPRESSEDCOREDUMP", no_core, "Refused: core files would hold passwords and keys."),
    process!("COMPRESSEDCOREDUMP <name>", no_core, "Refused: core files would hold passwords and keys."),
    process!("CLUSTER_NODE_UUID <uuid> <interface>", node, "Another node of a cluster announces itself."),
];

fn read_only(parts: &mut Parts<'_>, on: bool) -> Option<Reply> {
    let owner = parts.store.ownership();
    if owner.owns(Module::AdminVariables) {
        return Some(Reply::error(owner.refusal("admin-read_only", Module::AdminVariables)));
    }
    parts.store.set_read_only(on);
    Some(Reply::ok())
}

/// Reopens the log files: the query log, the audit log, and the program's.
pub fn flush_logs(runtime: &Runtime, process: &Process) -> Reply {
    runtime.logs().rotate();
    process.reopen_log()
}

fn forget_hosts(parts: &mut Parts<'_>, _: &Call<'_>) -> Option<Reply> {
    if let Some(observer) = parts.runtime.observer() {
        observer.client_hosts(Take::Reset);
    }
    Some(Reply::ok())
}

fn forget_passthrough(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let name = unquoted(call.word(0));
    if let Some(observer) = parts.runtime.observer() {
        observer.forget_passthrough(Some(&*name).filter(|name| !name.is_empty()));
    }
    Some(Reply::ok())
}

fn flush_query_cache(parts: &mut Parts<'_>, _: &Call<'_>) -> Option<Reply> {
    if let Some(observer) = parts.runtime.observer() {
        wait(observer.flush_query_cache());
    }
    Some(Reply::ok())
}

fn no_core(_: &mut Parts<'_>, _: &Call<'_>) -> Option<Reply> {
    Some(Reply::error("no core file is written: passwords and keys would be in it"))
}

fn node(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let (uuid, interface) = (call.word(0), call.word(1));
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_uuid {
        return Some(Reply::error(format!("not a UUID: {uuid}")));
    }
    Some(parts.nodes.note(uuid, call.caller, interface))
}

//! PROXYSQL, or NARROWS: the process as a whole.

use narrows_proxy::stats::wait;

use super::{Call, Reply, Verb, Who};
use crate::control::{Control, End};

macro_rules! process {
    ($pattern:literal, $run:expr, $doc:literal) => {
        Verb { pattern: concat!("PROXYSQL|NARROWS ", $pattern), who: Who::Admin, run: $run, doc: $doc }
    };
}

pub const VERBS: &[Verb] = &[
    process!("READONLY", |control, _| read_only(control, true), "The admin interface refuses changes."),
    process!("READWRITE", |control, _| read_only(control, false), "It accepts them again."),
    process!("START", |control, _| Some(control.start()), "Serves clients again after `STOP`."),
    process!("STOP", |control, _| Some(control.stop()), "Ends all client sessions and serves none."),
    process!("PAUSE", |control, _| Some(control.pause()), "Refuses new clients; those that are there go on."),
    process!("RESUME", |control, _| Some(control.resume()), "Accepts new clients again."),
    process!("SHUTDOWN", |control, _| Some(control.end(End::Now)), "Ends the process at once."),
    process!(
        "SHUTDOWN SLOW",
        |control, _| Some(control.end(End::Orderly)),
        "Ends the process as SIGTERM does: clients have `drain_timeout` to leave."
    ),
    process!("KILL", |control, _| Some(control.end(End::Now)), "Ends the process at once."),
    process!("RESTART", |control, _| Some(control.end(End::Again)), "Ends the process and starts it again."),
    process!("FLUSH LOGS", |control, _| Some(control.flush_logs()), "Opens the log files anew."),
    process!("FLUSH QUERY CACHE", flush_query_cache, "Empties the query cache."),
    process!(
        "FLUSH MYSQL CLIENT HOSTS",
        forget_hosts,
        "Forgets which client addresses have failed to log in."
    ),
    process!("FLUSH CONFIGDB", |_, _| Some(Reply::ok()), "Nothing: what is saved is written at once."),
    process!("RELOAD TLS", |control, _| Some(control.reload_tls()), "Reads keys and certificates again."),
    process!("MEMPROFILE START|STOP", |_, _| Some(Reply::ok()), "Nothing: there is no profiler of memory."),
    process!("COREDUMP", no_core, "Refused: core files would hold passwords and keys."),
    process!("COREDUMP <name>", no_core, "Refused: core files would hold passwords and keys."),
    process!("COMPRESSEDCOREDUMP", no_core, "Refused: core files would hold passwords and keys."),
    process!("COMPRESSEDCOREDUMP <name>", no_core, "Refused: core files would hold passwords and keys."),
    process!("CLUSTER_NODE_UUID <uuid> <interface>", node, "Another node of a cluster names itself."),
];

fn read_only(control: &mut Control, on: bool) -> Option<Reply> {
    control.set_read_only(on);
    Some(Reply::ok())
}

fn forget_hosts(control: &mut Control, _: &Call<'_>) -> Option<Reply> {
    control.forget_client_hosts();
    Some(Reply::ok())
}

fn flush_query_cache(control: &mut Control, _: &Call<'_>) -> Option<Reply> {
    if let Some(observer) = control.observer() {
        wait(observer.flush_query_cache());
    }
    Some(Reply::ok())
}

fn no_core(_: &mut Control, _: &Call<'_>) -> Option<Reply> {
    Some(Reply::error("no core file is written: passwords and keys would be in it"))
}

fn node(control: &mut Control, call: &Call<'_>) -> Option<Reply> {
    let (uuid, interface) = (call.word(0), call.word(1));
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_uuid {
        return Some(Reply::error(format!("not a UUID: {uuid}")));
    }
    Some(control.note_node(uuid, call.caller, interface))
}

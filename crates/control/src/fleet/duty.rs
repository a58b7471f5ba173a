//! What a member has to prove about a version on trial: it reaches a server of each hostgroup that clients are led to.
//!
//! It opens a connection itself, as soon as it runs the version: the next check of the monitor may be a minute away.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use narrows_proxy::backend::BackendError;
use narrows_proxy::rt::{self, Notify, Semaphore, sleep, spawn_local, timeout};
use narrows_proxy::snapshot::HostgroupId;

use super::etcd::OwnedTasks;
use crate::monitor::connections::MonitorConnections;
use crate::monitor::plan::{MonitorLogin, Target};

/// What a member has to prove about a version that it tries.
#[derive(Debug, Clone, Default)]
pub struct TrialDuty {
    /// The version of the own history that it is here.
    pub local_version: i64,
    /// What the version does not have, and the one before had.
    pub lacks: Option<String>,
    /// Whether it, or the version before, has servers.
    pub needs_servers: bool,
    /// The hostgroups that rules and accounts lead to.
    pub hostgroups: Vec<NeededHostgroup>,
    /// How to log in to servers.
    pub access: MonitorLogin,
}

/// A hostgroup of which one server must be reached.
#[derive(Debug, Clone)]
pub struct NeededHostgroup {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The servers that are in it, or that the monitor may move there.
    pub servers: Vec<Target>,
}

/// The hostgroup of which no server was reached yet, and why; `None`: there is none.
pub type Unreached = Rc<RefCell<Option<String>>>;

/// Tries until a server of each hostgroup was reached, and wakes somebody whenever something is known.
pub async fn reach_all(duty: TrialDuty, unreached: Unreached, woken: Rc<Notify>) {
    let (access, places) = (Rc::new(duty.access), Rc::new(Semaphore::new(AT_ONCE)));
    let mut left = duty.hostgroups;
    loop {
        let begin = |needed: NeededHostgroup| {
            let (access, places) = (Rc::clone(&access), Rc::clone(&places));
            spawn_local(
                async move { reach(&needed, access, places).await.map_err(|reason| (needed, reason)) },
            )
        };
        let tasks: Vec<_> = std::mem::take(&mut left).into_iter().map(begin).collect();
        let mut first = None;
        for task in tasks {
            if let Ok(Err((needed, reason))) = task.await {
                first.get_or_insert(reason);
                left.push(needed);
            }
        }
        let is_over = first.is_none();
        unreached.replace(first);
        woken.notify_one();
        if is_over {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Reaches one server of a hostgroup, or says why none can be.
async fn reach(
    needed: &NeededHostgroup,
    access: Rc<MonitorLogin>,
    places: Rc<Semaphore>,
) -> Result<(), String> {
    let (to, mut found) = rt::mailbox();
    let begin = |target: &Target| {
        let (to, target, access, places) =
            (to.clone(), target.clone(), Rc::clone(&access), Rc::clone(&places));
        spawn_local(async move {
            // It is never closed.
            let _place = places.acquire().await;
            let reached = reach_server(&target, &access).await;
            // Once one was reached, the others are not needed.
            let _ = to.send(reached.map_err(|reason| format!("{}: {reason}", target.address)));
        })
    };
    let _tasks = OwnedTasks(needed.servers.iter().map(begin).collect());
    drop(to);
    let mut reasons = Vec::new();
    while let Some(reached) = found.recv().await {
        match reached {
            Ok(()) => return Ok(()),
            Err(reason) if reasons.len() < MOST_NAMED => reasons.push(reason),
            Err(_) => {}
        }
    }
    let hostgroup = needed.hostgroup;
    Err(format!("cannot reach any server of hostgroup {hostgroup}: {}", reasons.join("; ")))
}

/// A server that does not know the monitor's account was reached all the same.
async fn reach_server(target: &Target, access: &MonitorLogin) -> Result<(), String> {
    let connections = MonitorConnections::new(target, access, None);
    match timeout(REACH_TIME, connections.open(REACH_TIME)).await {
        Ok(Ok(backend)) => {
            backend.quit().await;
            Ok(())
        }
        Ok(Err(BackendError::Login(_))) => Ok(()),
        Ok(Err(BackendError::Server(error))) if REFUSED_LOGIN.contains(&error.code) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {} ms", REACH_TIME.as_millis())),
    }
}

/// What servers say of an account (manual: `ER_ACCESS_DENIED_ERROR`, `ER_ACCESS_DENIED_NO_PASSWORD_ERROR`,
/// `ER_MUST_CHANGE_PASSWORD_LOGIN`, `ER_ACCOUNT_HAS_BEEN_LOCKED`).
const REFUSED_LOGIN: [u16; 4] = [1045, 1698, 1862, 3118];

/// How long a connection may take: Linux repeats its first packet after a second.
const REACH_TIME: Duration = Duration::from_secs(3);

/// The pause before all that were not reached are tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// How many connections are opened at the same time: each takes a descriptor, of which a process has 1024 at least.
const AT_ONCE: usize = 64;

/// How many servers that were not reached are named.
const MOST_NAMED: usize = 3;

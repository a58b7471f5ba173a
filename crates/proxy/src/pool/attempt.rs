//! What can be had right now: a server is chosen, and a connection to it taken, or the right to open one.

use std::sync::Arc;

use super::idle::{NEW_LOGIN, fitness};
use super::{Ask, Attempt, Group, Pool, Scope};
use crate::hostgroup::{Hostgroup, Server};
use crate::rt::Instant;

/// The server to turn to.
enum Choice<'h> {
    Server(&'h Arc<Server>),
    /// Each is in use up to its limit.
    Busy,
    /// None is eligible.
    Nobody,
}

impl Pool {
    /// Looks at what can be had right now; takes it.
    pub(super) fn attempt(&self, group: &Group, hostgroup: &Hostgroup, ask: &Ask<'_>) -> Attempt {
        if let Some(backend) = ask.untouched.and_then(|last| group.take_untouched(last)) {
            self.publish_idle(group);
            let fitness = fitness(&backend, ask);
            return Attempt::Idle(backend, fitness);
        }
        loop {
            let server = match self.choose(group, hostgroup, ask) {
                Choice::Server(server) => server,
                Choice::Busy => return Attempt::Busy,
                Choice::Nobody => return Attempt::NoServer,
            };
            let fitting = group.take_idle(server, ask);
            self.publish_idle(group);
            match fitting {
                Some((backend, _)) if !backend.is_alive() => {
                    server.figures.distrust();
                    continue;
                }
                Some((backend, fitness)) if fitness < NEW_LOGIN => return Attempt::Idle(backend, fitness),
                Some((backend, fitness)) => {
                    let may_open = self.may_open(group, hostgroup, server, ask.now);
                    match may_open.then(|| self.slot(hostgroup, server, ask.now)).flatten() {
                        // Room for a connection of its own: the other account keeps the one it has.
                        Some(slot) => {
                            self.put_idle(group, backend);
                            return Attempt::Open(Arc::clone(server), slot);
                        }
                        None => return Attempt::Idle(backend, fitness),
                    }
                }
                None => match self.slot(hostgroup, server, ask.now) {
                    Some(slot) => return Attempt::Open(Arc::clone(server), slot),
                    None => continue,
                },
            }
        }
    }

    /// The server whose turn it is.
    fn choose<'h>(&self, group: &Group, hostgroup: &'h Hostgroup, ask: &Ask<'_>) -> Choice<'h> {
        let now = ask.now.saturating_duration_since(self.epoch);
        let pause = |server: &Server| group.pause(server, ask.now);
        let is_there = |server: &Server| {
            hostgroup.may_use(server) && pause(server).is_none_or(|scope| scope == Scope::Opening)
        };
        let is_at_hand =
            |server: &Server| self.may_open(group, hostgroup, server, ask.now) || group.has_idle(server);
        // It is used whether it rests or is slow or not.
        if let [only] = hostgroup.servers.as_slice()
            && is_there(only)
        {
            return if is_at_hand(only) { Choice::Server(only) } else { Choice::Busy };
        }
        let rests = |server: &Server| server.figures.shun.rests(now);
        let left = |server: &Server| ask.instead_of.is_some_and(|it| std::ptr::eq(it, &*server.figures));
        let has = |wanted: &dyn Fn(&Server) -> bool| {
            hostgroup.servers.iter().any(|server| is_there(server) && wanted(server))
        };
        // One that rests is better than none, and so is one that was left for another.
        let all_rest = !has(&|server| !rests(server));
        let none_else = ask.instead_of.is_none() || !has(&|server| !rests(server) && !left(server));
        let awake = hostgroup.servers.iter().filter(|server| {
            is_there(server) && (all_rest || !rests(server)) && (none_else || !left(server))
        });
        let most_us = hostgroup.latency_limit(awake.clone()).unwrap_or(u64::MAX);
        let eligible = awake.filter(|server| server.figures.latency_us() <= most_us);
        let load = |server: &Server| group.load(server, ask.now);
        let ready =
            |server: &Server| group.readiness(server, ask.now).min(server.figures.shun.readiness(now));
        let (balance, mut round) = (hostgroup.settings.balance, group.round.borrow_mut());
        let mut server = round.next(balance, eligible.clone(), is_at_hand, ready, load);
        if server.is_none() {
            if eligible.clone().next().is_some() {
                return Choice::Busy;
            }
            // One that cannot be connected to may serve those who are, and there is nobody else.
            let unreachable = |server: &&Arc<Server>| {
                hostgroup.may_use(server)
                    && pause(server) == Some(Scope::Everything)
                    && group.has_idle(server)
            };
            server = round.next(balance, hostgroup.servers.iter().filter(unreachable), |_| true, ready, load);
        }
        server.map_or(Choice::Nobody, Choice::Server)
    }

    /// Whether another connection to a server may be opened now.
    fn may_open(&self, group: &Group, hostgroup: &Hostgroup, server: &Server, now: Instant) -> bool {
        server.has_room()
            && group.pause(server, now).is_none()
            && self.opening_pause(hostgroup, now).is_none()
    }
}

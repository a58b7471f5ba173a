//! What can be had right now: a server is chosen, and a connection to it taken, or the right to open one.

use std::sync::Arc;

use super::idle::{NEW_LOGIN, fitness};
use super::{Ask, Attempt, Group, Pool, Scope};
use crate::hostgroup::{Hostgroup, Server};
use crate::rt::Instant;

/// The server to turn to.
pub(super) enum Choice<'h> {
    Server(&'h Arc<Server>),
    /// Each is in use up to its limit.
    Busy,
    /// None is eligible.
    Nobody,
}

impl Pool {
    /// Looks at what can be had right now; takes it.
    pub(super) fn attempt(&self, group: &Group, hostgroup: &Hostgroup, ask: &Ask<'_>) -> Attempt {
        let limited = ask.lag.map(|limit| Ask { lag: Some(limit.in_hostgroup(hostgroup)), ..*ask });
        let ask = limited.as_ref().unwrap_or(ask);
        if let Some(backend) =
            ask.untouched.and_then(|last| group.take_untouched_if(last, |it| ask.admits(it)))
        {
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
        match &hostgroup.preference {
            None => self.choose_among(&hostgroup.servers, (group, hostgroup), ask),
            Some(preference) => self.choose_preferred(preference, (group, hostgroup), ask),
        }
    }

    /// The one of `servers`, which are equal to each other, whose turn it is.
    pub(super) fn choose_among<'h>(
        &self,
        servers: &'h [Arc<Server>],
        (group, hostgroup): (&Group, &Hostgroup),
        ask: &Ask<'_>,
    ) -> Choice<'h> {
        let now = ask.now.saturating_duration_since(self.epoch);
        let is_there = |server: &Server| ask.admits(server) && group.is_there(hostgroup, server, ask.now);
        // It is used whether it rests or is slow or not.
        if let [only] = servers
            && is_there(only)
        {
            let is_at_hand = self.is_at_hand((group, hostgroup), only, ask.now);
            return if is_at_hand { Choice::Server(only) } else { Choice::Busy };
        }
        let rests = |server: &Server| server.figures.shun.rests(now);
        let left = |server: &Server| ask.instead_of.is_some_and(|it| std::ptr::eq(it, &*server.figures));
        let has = |wanted: &dyn Fn(&Server) -> bool| {
            servers.iter().any(|server| is_there(server) && wanted(server))
        };
        // One that rests is better than none, and so is one that was left for another.
        let all_rest = !has(&|server| !rests(server));
        let none_else = ask.instead_of.is_none() || !has(&|server| !rests(server) && !left(server));
        let awake = servers.iter().filter(|server| {
            is_there(server) && (all_rest || !rests(server)) && (none_else || !left(server))
        });
        let ready = |server: &Server| self.readiness((group, hostgroup), server, ask.now);
        match self.next_of(awake, (group, hostgroup), ready, ask) {
            Choice::Nobody => {}
            found => return found,
        }
        self.choose_unreachable(servers, (group, hostgroup), ask)
    }

    /// The one of `servers` whose turn it is that cannot be connected to: it may serve those who are, and there is nobody else.
    fn choose_unreachable<'h>(
        &self,
        servers: &'h [Arc<Server>],
        (group, hostgroup): (&Group, &Hostgroup),
        ask: &Ask<'_>,
    ) -> Choice<'h> {
        let ready = |server: &Server| self.readiness((group, hostgroup), server, ask.now);
        let unreachable = |server: &&Arc<Server>| {
            hostgroup.may_use(server)
                && ask.admits(server)
                && group.pause(server, ask.now) == Some(Scope::Everything)
                && group.has_idle(server)
        };
        let load = |server: &Server| group.load(server, ask.now);
        let unreachable = servers.iter().filter(unreachable);
        let mut round = group.round.borrow_mut();
        let server = round.next(hostgroup.settings.balance, unreachable, |_| true, ready, load);
        server.map_or(Choice::Nobody, Choice::Server)
    }

    /// The one of `awake`, which may all be used, whose turn it is. `ready` returns how much of its weight each has.
    pub(super) fn next_of<'h>(
        &self,
        awake: impl Iterator<Item = &'h Arc<Server>> + Clone,
        (group, hostgroup): (&Group, &Hostgroup),
        ready: impl Fn(&Server) -> u32,
        ask: &Ask<'_>,
    ) -> Choice<'h> {
        let some_have = ask.some_have(awake.clone());
        let awake = awake.filter(|server| !some_have || ask.likes(server));
        let most_us = hostgroup.latency_limit(awake.clone()).unwrap_or(u64::MAX);
        let eligible = awake.filter(|server| server.figures.latency_us() <= most_us);
        let is_at_hand = |server: &Server| self.is_at_hand((group, hostgroup), server, ask.now);
        let load = |server: &Server| group.load(server, ask.now);
        let (balance, mut round) = (hostgroup.settings.balance, group.round.borrow_mut());
        match round.next(balance, eligible.clone(), is_at_hand, ready, load) {
            Some(server) => Choice::Server(server),
            None if eligible.clone().next().is_some() => Choice::Busy,
            None => Choice::Nobody,
        }
    }

    /// How much of its weight a server has, if it has just come back.
    pub(super) fn readiness(
        &self,
        (group, hostgroup): (&Group, &Hostgroup),
        server: &Server,
        now: Instant,
    ) -> u32 {
        let (since_start, slow_start) =
            (now.saturating_duration_since(self.epoch), hostgroup.settings.slow_start);
        group.readiness(server, now, slow_start).min(server.figures.shun.readiness(since_start, slow_start))
    }

    /// Whether a server has an idle connection here, or another one may be opened.
    #[inline]
    pub(super) fn is_at_hand(
        &self,
        (group, hostgroup): (&Group, &Hostgroup),
        server: &Server,
        now: Instant,
    ) -> bool {
        self.may_open(group, hostgroup, server, now) || group.has_idle(server)
    }

    /// Whether another connection to a server may be opened now.
    fn may_open(&self, group: &Group, hostgroup: &Hostgroup, server: &Server, now: Instant) -> bool {
        server.has_room()
            && group.pause(server, now).is_none()
            && self.opening_pause(hostgroup, now).is_none()
    }
}

impl Ask<'_> {
    /// Whether a server is known to have applied what the statement must see.
    pub(super) fn likes(&self, server: &Server) -> bool {
        self.prefers.is_none_or(|wanted| server.figures.position.has(wanted))
    }

    /// Whether any of these is, if it matters.
    pub(super) fn some_have<'s>(&self, mut servers: impl Iterator<Item = &'s Arc<Server>>) -> bool {
        self.prefers.is_some() && servers.any(|server| self.likes(server))
    }

    /// Whether a server is near enough to its source.
    pub(super) fn admits(&self, server: &Server) -> bool {
        self.lag.is_none_or(|limit| limit.admits(server))
    }
}

impl Group {
    /// Whether a server may be used now, if only the connections that are open.
    pub(super) fn is_there(&self, hostgroup: &Hostgroup, server: &Server, now: Instant) -> bool {
        hostgroup.may_use(server) && self.pause(server, now).is_none_or(|scope| scope == Scope::Opening)
    }
}

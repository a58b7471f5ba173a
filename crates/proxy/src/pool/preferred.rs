//! The choice in a hostgroup whose servers are not all equal: the first set of its servers that can take a statement, in
//! the order of its [`Preference`].

use std::cell::Cell;
use std::cmp::Reverse;
use std::sync::Arc;

use super::attempt::Choice;
use super::{Ask, Group, Pool, count};
use crate::backend::Backend;
use crate::figures::Counters;
use crate::hostgroup::{
    Hostgroup, LagFilter, Preference, READY, Server, ServerFigures, ServerSet, ServerSets, readiness,
};
use crate::rows::BackupAvailability;
use crate::rt::Instant;
use crate::snapshot::ServerStatus;

/// The time, and a server that was left for another.
type At<'a> = (Instant, Option<&'a ServerFigures>);

/// What a worker counts about the choices in such a hostgroup.
#[derive(Debug, Default)]
pub(super) struct Choices {
    own_zone: Cell<u64>,
    other_zone: Cell<u64>,
    backup: Cell<u64>,
    /// Since when backups are used.
    backups_since: Cell<Option<Instant>>,
}

impl Pool {
    /// The server whose turn it is. Sets that cannot take a statement are passed over, and so are servers that rest, or
    /// that were left for another; only if no set has others, one of those is better than none.
    pub(super) fn choose_preferred<'h>(
        &self,
        preference: &'h Preference,
        place: (&Group, &Hostgroup),
        ask: &Ask<'_>,
    ) -> Choice<'h> {
        let (group, hostgroup) = place;
        let at = (ask.now, ask.instead_of);
        let (sets, backups) =
            preference.open(|server| self.counts(preference.availability, place, server, at));
        if group.choices.notes_backups(backups, ask.now) {
            self.tell_backups(preference, hostgroup, ask.now);
        }
        let stays_with_backups =
            !backups && !preference.backups.servers.is_empty() && self.defers(&sets.servers, place, ask);
        let deferred = match stays_with_backups {
            true => self.choose_in_order(&preference.backups, place, ask),
            false => Choice::Nobody,
        };
        let found = match deferred {
            Choice::Server(_) => deferred,
            _ => match self.choose_in_order(sets, place, ask) {
                Choice::Nobody => self.choose_among(&sets.servers, place, ask),
                found => found,
            },
        };
        if let Choice::Server(server) = &found {
            group.choices.count(server, preference, hostgroup);
        }
        found
    }

    /// The one whose turn it is in the first set that has any.
    fn choose_in_order<'h>(
        &self,
        sets: &'h ServerSets,
        place: (&Group, &Hostgroup),
        ask: &Ask<'_>,
    ) -> Choice<'h> {
        let (mut is_busy, mut deferred) = (false, None);
        for (index, set) in sets.in_order.iter().enumerate() {
            let is_last = index + 1 == sets.in_order.len();
            if !is_last && deferred.is_none() && self.defers(&set.servers, place, ask) {
                deferred = Some(set);
                continue;
            }
            match self.choose_awake(set, place, ask) {
                Choice::Nobody => {}
                Choice::Busy => is_busy = true,
                found @ Choice::Server(_) => return found,
            }
        }
        match deferred.map(|set| self.choose_awake(set, place, ask)) {
            Some(found @ (Choice::Server(_) | Choice::Busy)) => found,
            _ if is_busy => Choice::Busy,
            _ => Choice::Nobody,
        }
    }

    /// Logs that backups are used, unless that was logged within the last minute.
    fn tell_backups(&self, preference: &Preference, hostgroup: &Hostgroup, now: Instant) {
        if hostgroup.demand.may_tell_backups(now.saturating_duration_since(self.epoch)) {
            tracing::warn!(
                hostgroup = hostgroup.id.0,
                "backups are used: fewer than {} of the other servers can serve",
                preference.min_servers
            );
        }
    }

    /// The servers that may be used now, if some are used before others.
    pub(super) fn open_sets<'h>(
        &self,
        (group, hostgroup): (&Group, &'h Hostgroup),
        at: At<'_>,
    ) -> Option<&'h ServerSets> {
        let preference = hostgroup.preference.as_ref()?;
        let counts = |server: &Server| self.counts(preference.availability, (group, hostgroup), server, at);
        Some(preference.open(counts).0)
    }

    /// Whether a server other than a backup keeps backups out of use.
    fn counts(
        &self,
        availability: BackupAvailability,
        (group, hostgroup): (&Group, &Hostgroup),
        server: &Server,
        at: At<'_>,
    ) -> bool {
        let is_online = || server.row.status == ServerStatus::Online && !self.rests(server, at.0);
        // A limit of connections that are opened per second is for all servers alike, and makes none of them full.
        let has_connection =
            || server.has_room() && group.pause(server, at.0).is_none() || group.has_idle(server);
        match availability {
            BackupAvailability::Selectable => {
                self.is_awake(server, (group, hostgroup), at) && has_connection()
            }
            BackupAvailability::Status => is_online(),
            BackupAvailability::Capacity => is_online() && (server.has_room() || group.has_idle(server)),
        }
    }

    /// The one of a set whose turn it is.
    fn choose_awake<'h>(&self, set: &'h ServerSet, place: (&Group, &Hostgroup), ask: &Ask<'_>) -> Choice<'h> {
        let (group, hostgroup) = place;
        let at = (ask.now, ask.instead_of);
        let awake = set.servers.iter().filter(|it| ask.admits(it) && self.is_awake(it, place, at));
        let ready = |server: &Server| {
            let ready = self.readiness(place, server, ask.now);
            match group.choices.backups_since.get() {
                Some(since) if hostgroup.settings.preference.is_backup(server.row.weight) => {
                    let age = ask.now.saturating_duration_since(since);
                    ready.min(readiness(age, hostgroup.settings.slow_start))
                }
                _ => ready,
            }
        };
        self.next_of(awake, place, ready, ask)
    }

    /// Whether `servers` leave this statement to those that would otherwise come after them, because all of these have
    /// only just come back: they take as many of the statements as they have of their weights.
    fn defers(&self, servers: &[Arc<Server>], place: (&Group, &Hostgroup), ask: &Ask<'_>) -> bool {
        let at = (ask.now, ask.instead_of);
        let awake = servers.iter().filter(|it| ask.admits(it) && self.is_awake(it, place, at));
        let readiest = awake.map(|server| self.readiness(place, server, ask.now)).max();
        readiest.is_some_and(|ready| ready < READY && rand::random_range(0..READY) >= ready)
    }

    /// Whether a server may be used, does not rest, and was not left for another.
    fn is_awake(&self, server: &Server, (group, hostgroup): (&Group, &Hostgroup), at: At<'_>) -> bool {
        let (now, instead_of) = at;
        group.is_there(hostgroup, server, now)
            && !self.rests(server, now)
            && !instead_of.is_some_and(|it| std::ptr::eq(it, &*server.figures))
    }

    fn rests(&self, server: &Server, now: Instant) -> bool {
        server.figures.shun.rests(now.saturating_duration_since(self.epoch))
    }
}

impl Choices {
    /// Records whether backups may be used; returns whether that begins now.
    fn notes_backups(&self, are_used: bool, now: Instant) -> bool {
        let since = self.backups_since.get();
        let begins = are_used && since.is_none();
        if are_used != since.is_some() {
            self.backups_since.set(are_used.then_some(now));
        }
        begins
    }

    /// Counts the choice of a server.
    fn count(&self, server: &Server, preference: &Preference, hostgroup: &Hostgroup) {
        if hostgroup.settings.preference.is_backup(server.row.weight) {
            count(&self.backup);
        }
        if preference.has_zones {
            count(if preference.is_in_own_zone(server) { &self.own_zone } else { &self.other_zone });
        }
    }

    /// Adds what is counted.
    pub(super) fn count_into(&self, hostgroup: i32, counters: &mut Counters) {
        let counts = [("own", &self.own_zone), ("other", &self.other_zone), ("backup", &self.backup)];
        for (name, counter) in counts.into_iter().filter(|(_, counter)| counter.get() > 0) {
            *counters.choices.entry((hostgroup, name)).or_default() += counter.get();
        }
    }
}

impl Group {
    /// The idle connection for a worker that asks for one: the one used last, of those to the servers that are used first
    /// and that this limit of lag admits.
    pub(super) fn take_for_other(
        &self,
        hostgroup: Option<&Hostgroup>,
        lag: Option<LagFilter>,
    ) -> Option<Backend> {
        let mut idle = self.idle.borrow_mut();
        let preference = hostgroup.and_then(|hostgroup| hostgroup.preference.as_ref());
        if preference.is_none() && lag.is_none() {
            return idle.pop();
        }
        let rank = |backend: &Backend| preference.map_or(0, |it| it.rank(&backend.login.server));
        let near = |backend: &Backend| lag.is_none_or(|limit| limit.admits(&backend.login.server));
        let fitting = idle.iter().enumerate().filter(|(_, backend)| near(backend));
        let best = fitting.min_by_key(|(index, backend)| (rank(backend), Reverse(*index)));
        let best = best.map(|(index, _)| index)?;
        Some(idle.remove(best))
    }
}

#[cfg(test)]
mod tests;

//! Host names: resolved before they are needed, and again when they expire. A name that can no longer be resolved keeps
//! its addresses.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_proxy::hostgroup::NameTable;
use narrows_proxy::rt::{Instant, Notify, Semaphore, resolve, spawn_local, timeout};

use super::plan::Target;
use super::report_queue::ReportQueue;
use super::settings::NameSettings;

/// The known names.
#[derive(Debug)]
pub struct Resolver {
    reports: Rc<ReportQueue>,
    wanted: RefCell<BTreeSet<String>>,
    known: RefCell<BTreeMap<String, Known>>,
    /// Wakes the resolver, because the names may have changed.
    planned: Notify,
    /// Notifies the users of these names that some addresses have changed.
    pub moved: Notify,
}

#[derive(Debug)]
struct Known {
    /// Empty if the name has not been resolved yet.
    addresses: Arc<[IpAddr]>,
    /// When to resolve it again.
    due: Instant,
}

impl Resolver {
    /// A resolver without names.
    pub fn new(reports: &Rc<ReportQueue>) -> Resolver {
        Resolver {
            reports: Rc::clone(reports),
            wanted: RefCell::default(),
            known: RefCell::default(),
            planned: Notify::new(),
            moved: Notify::new(),
        }
    }

    /// Resolves the names of `targets` from now on.
    pub fn follow(&self, targets: &[Target]) {
        let names = targets.iter().map(|target| &target.address);
        let names = names.filter(|it| it.port != 0 && it.hostname.parse::<IpAddr>().is_err());
        self.wanted.replace(names.map(|address| address.hostname.clone()).collect());
        self.planned.notify_one();
    }

    /// The addresses of a name.
    pub fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let known = self.known.borrow();
        known.get(name).map(|known| Arc::clone(&known.addresses)).filter(|addresses| !addresses.is_empty())
    }

    /// Resolves a name again, at once.
    pub fn refresh(&self, name: &str) {
        if let Some(known) = self.known.borrow_mut().get_mut(name) {
            known.due = Instant::now();
            self.planned.notify_one();
        }
    }

    /// Resolves due names, in a loop.
    pub async fn run(self: Rc<Resolver>) {
        loop {
            let settings = self.reports.settings().names;
            if settings.ttl.is_zero() || settings.interval.is_zero() {
                self.known.borrow_mut().clear();
            } else {
                self.forget_unwanted();
                self.resolve_due(settings).await;
            }
            self.tell();
            let pause = if settings.interval.is_zero() { LONG } else { settings.interval };
            // Whatever ends the pause, the next iteration decides.
            let _ = timeout(pause, self.planned.notified()).await;
        }
    }

    fn forget_unwanted(&self) {
        let wanted = self.wanted.borrow();
        self.known.borrow_mut().retain(|name, _| wanted.contains(name));
    }

    async fn resolve_due(self: &Rc<Resolver>, settings: NameSettings) {
        let now = Instant::now();
        let is_due = |name: &&String| self.known.borrow().get(*name).is_none_or(|known| known.due <= now);
        let due: Vec<String> = self.wanted.borrow().iter().filter(is_due).cloned().collect();
        let places = Rc::new(Semaphore::new(AT_ONCE.max(1 + due.len() / settings.queue.max(1))));
        let resolve = |name| {
            let (resolver, places) = (Rc::clone(self), Rc::clone(&places));
            spawn_local(async move {
                let _place = places.acquire().await;
                resolver.resolve(name, settings).await;
                // Others may take long.
                resolver.tell();
            })
        };
        let running: Vec<_> = due.into_iter().map(resolve).collect();
        for one in running {
            // A panic has already been reported.
            let _ = one.await;
        }
    }

    async fn resolve(&self, name: String, settings: NameSettings) {
        let answer = timeout(LONGEST, resolve(&name)).await;
        let now = Instant::now();
        let mut known = self.known.borrow_mut();
        let nothing = || Known { addresses: Arc::from([]), due: now };
        let entry = known.entry(name.clone()).or_insert_with(nothing);
        let failure = match answer {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                entry.due = now + settings.ttl;
                // Resolvers rotate the order from one answer to the next.
                let (before, after) = (set(&entry.addresses), set(&addresses));
                if before != after {
                    tracing::info!(name, addresses = ?after, "a host name has new addresses");
                    entry.addresses = addresses.into();
                }
                return;
            }
            Ok(Ok(_)) => "it has no address".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {LONGEST:?}"),
        };
        entry.due = now;
        tracing::warn!(name, error = failure, kept = ?set(&entry.addresses), "a host name cannot be resolved");
    }

    /// Reports the known names, if they have changed.
    fn tell(&self) {
        let known = self.known.borrow();
        let table = known.iter().filter(|(_, known)| !known.addresses.is_empty());
        let table = table.map(|(name, known)| (name.clone(), Arc::clone(&known.addresses)));
        if self.reports.tell_names(table.collect::<NameTable>()) {
            self.moved.notify_one();
        }
    }
}

fn set(addresses: &[IpAddr]) -> BTreeSet<IpAddr> {
    addresses.iter().copied().collect()
}

/// How many names are resolved at a time, at least: one that nobody answers for must not hold up the others.
const AT_ONCE: usize = 8;

/// A resolver that does not answer within this time counts as failed.
const LONGEST: Duration = Duration::from_secs(10);

/// Nothing to do until the plan changes.
const LONG: Duration = Duration::from_secs(3600);

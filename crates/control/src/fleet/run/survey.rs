//! Which cluster of etcd each of the configured servers belongs to: two clusters have two orders of versions.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use narrows_proxy::rt::{Notify, sleep};

use super::super::etcd::Etcd;
use super::Runner;

/// What the servers of etcd have said last.
#[derive(Default)]
pub(super) struct Survey {
    /// The cluster of each server that has answered, by its address; `None`: none was asked yet.
    clusters: RefCell<Option<Vec<(String, u64)>>>,
}

impl Survey {
    /// Whether all servers that have answered are of one cluster.
    pub fn is_sure(&self) -> bool {
        let is_one = |clusters: &Vec<(String, u64)>| clusters.windows(2).all(|two| two[0].1 == two[1].1);
        self.clusters.borrow().as_ref().is_some_and(is_one)
    }

    /// Which servers are of another cluster than `home`, or than the first of them; `None`: no one is.
    fn strangers(&self, home: Option<u64>) -> Option<String> {
        let clusters = self.clusters.borrow();
        let clusters = clusters.as_deref().unwrap_or_default();
        let home = home.or(clusters.first().map(|(_, cluster)| *cluster))?;
        let others = clusters.iter().filter(|(_, cluster)| *cluster != home);
        let named: Vec<String> = others.map(|(server, cluster)| format!("{server} ({cluster:x})")).collect();
        let servers = named.join(", ");
        (!named.is_empty())
            .then(|| format!("{servers} of `endpoints` in [fleet] is not of the etcd {home:x}"))
    }
}

/// Asks all servers again and again, and wakes the thread if they say something else.
pub(super) async fn repeat(survey: Rc<Survey>, mut etcd: Etcd, key: String, woken: Rc<Notify>) {
    loop {
        let clusters = Some(etcd.clusters(&key).await);
        if *survey.clusters.borrow() != clusters {
            survey.clusters.replace(clusters);
            woken.notify_one();
        }
        sleep(PAUSE).await;
    }
}

impl Runner {
    /// Says which servers of etcd are not of the fleet's cluster.
    pub(super) fn look_at_strangers(&mut self) {
        let home = self.member.running.as_ref().map(|place| place.home.cluster);
        let strangers = self.survey.strangers(home);
        if self.strangers == strangers {
            return;
        }
        match &strangers {
            Some(reason) => tracing::error!(reason, "servers of two clusters of etcd are configured"),
            None => tracing::info!("all servers of etcd that answer are of one cluster"),
        }
        self.strangers.clone_from(&strangers);
        self.view.change(|view| view.strangers = strangers);
    }

    /// Why this member, which runs no version of the fleet yet, does not take part in it; `None`: it may.
    pub(super) fn uncertainty(&self) -> Option<String> {
        let is_new = self.member.running.is_none() && !self.survey.is_sure();
        let unknown = || "the servers of etcd were not all asked yet".to_owned();
        is_new.then(|| self.survey.strangers(None).unwrap_or_else(unknown))
    }
}

/// The pause before all servers are asked again.
const PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_another_cluster_are_named() {
        let survey = |clusters: &[(&str, u64)]| Survey {
            clusters: RefCell::new(Some(clusters.iter().map(|(it, id)| ((*it).to_owned(), *id)).collect())),
        };
        assert!(!Survey::default().is_sure() && Survey::default().strangers(Some(1)).is_none());
        assert!(survey(&[("a", 1), ("b", 1)]).is_sure() && survey(&[]).is_sure());
        let two = survey(&[("a", 1), ("b", 2)]);
        assert!(!two.is_sure());
        assert!(two.strangers(None).unwrap().starts_with("b (2) of"));
        assert!(two.strangers(Some(2)).unwrap().starts_with("a (1) of"));
        // All of them are of another one than before.
        assert!(survey(&[("a", 2)]).strangers(Some(1)).unwrap().ends_with("not of the etcd 1"));
        assert_eq!(survey(&[("a", 1)]).strangers(Some(1)), None);
    }
}

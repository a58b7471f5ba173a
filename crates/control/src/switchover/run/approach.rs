//! Before clients are held, the new primary comes as near as it can, so that they are not held for what it lags.
//!
//! Where it applies writes faster than clients make them, waiting is enough. Where it does not, clients are braked: they wait for
//! moments that are short, and between them they write, until one moment is enough for all that is missing.

use std::time::Duration;

use narrows_proxy::rt::{Instant, sleep};

use super::{FOLLOW_STEP, Run, told};
use crate::switchover::facts::only;
use crate::switchover::plan::{CATCH_UP, UNBRAKED};

impl Run {
    /// Waits until the new primary has nearly all. Clients may still be held for a moment afterwards.
    pub(super) async fn come_near(&self) -> Result<(), String> {
        let (what, began) = ("wait until it has nearly all, before clients are held", Instant::now());
        let address = self.new.address.to_string();
        let came = self.approach(began).await;
        self.journal.note(&address, what, began, came.as_ref().map(drop).map_err(String::as_str));
        if let Ok(moments @ 1..) = came {
            let note = format!(
                "{address} is slower than clients write: they have waited {moments} times, for {} ms each",
                MOMENT.as_millis()
            );
            self.journal.note("note", &note, began, Ok(()));
        }
        came.map(drop)
    }

    /// Comes near; returns how often clients had to wait for that.
    async fn approach(&self, began: Instant) -> Result<u32, String> {
        let mut last = Duration::MAX;
        loop {
            let round = Instant::now();
            let has_all = self.has_all_within(UNBRAKED).await?;
            let took = round.elapsed();
            if has_all && took < NEAR {
                return Ok(0);
            }
            // It comes no nearer by itself.
            if !has_all || took > last / 2 {
                break if has_all && took <= MOMENT { Ok(0) } else { self.brake(began).await };
            }
            last = took;
        }
    }

    /// Has clients wait for moments until it is near; returns how many there were.
    async fn brake(&self, began: Instant) -> Result<u32, String> {
        let hostgroup = self.order.wish.hostgroup;
        let mut moments = 0;
        while began.elapsed() < CATCH_UP * 2 {
            moments += 1;
            // It ends by itself, should this thread not be able to end it; it is not shown, because nobody could end it.
            self.observer.hold(hostgroup, MOMENT * 2).await;
            let has_all = self.has_all_within(MOMENT).await;
            if has_all == Ok(true) {
                return Ok(moments);
            }
            self.observer.release(hostgroup).await;
            has_all?;
            sleep(BETWEEN_MOMENTS).await;
        }
        Err(self.too_slow(began))
    }

    /// Whether the new primary has, within this time, all that the old one has now.
    async fn has_all_within(&self, limit: Duration) -> Result<bool, String> {
        let what = "wait until it has nearly all";
        let position = self.old.ask(self.plan.old.dialect.position(), FOLLOW_STEP).await;
        let position = only(&position.map_err(|error| told(&self.old, what, &error))?);
        let question = self.plan.new.dialect.wait_for(&position, limit);
        let answer = self.new.ask(&question, limit + Duration::from_secs(1)).await;
        Ok(only(&answer.map_err(|error| told(&self.new, what, &error))?) == "0")
    }

    fn too_slow(&self, began: Instant) -> String {
        format!("{} has not caught up within {} ms", self.new.address, began.elapsed().as_millis())
    }
}

/// How near the new primary is to come before clients are held.
const NEAR: Duration = Duration::from_millis(20);

/// How long a moment is in which clients wait: with what follows, none waits for a second.
const MOMENT: Duration = Duration::from_millis(300);

/// For how long they write between two of them: a replica that commits for each statement what its primary commits for ten at a
/// time still gains on them.
const BETWEEN_MOMENTS: Duration = Duration::from_millis(20);

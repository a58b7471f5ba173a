//! What one member does about what etcd says: a pure decision, without any connection.
//!
//! A member follows the head, and the version on trial if it is one of those that try it. It applies whole versions only, and only
//! one that descends from the version that it runs, in the same cluster of etcd: numbers are given again when etcd has lost
//! them, and two clusters give the same ones. What does not follow is a mismatch, until an administrator makes what one member
//! runs the version of all.

use crate::versions::{FleetHome, FleetMark, FleetPlace, VersionId};

/// What etcd says of the versions of the fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Where it was seen.
    pub home: FleetHome,
    /// The version that all members run, or will; `None`: there is none yet.
    pub head: Option<FleetMark>,
    /// The greatest number that was given to a version; one that was taken back has a number, too.
    pub last: i64,
    /// What etcd calls the revision of the head; 0: there is none.
    pub revision: i64,
    /// The version that some members try.
    pub trial: Option<FleetTrial>,
    /// What is wrong with the key of the trial, if no member has written it.
    pub stray_trial: Option<String>,
}

/// A version that some members try before the others get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTrial {
    /// The version.
    pub mark: FleetMark,
    /// Who tries it.
    pub nodes: Vec<String>,
    /// Who has begun it, and ends it.
    pub by: String,
    /// For how many seconds it must run.
    pub seconds: u64,
    /// What etcd calls its revision.
    pub revision: i64,
}

/// A version that a member cannot apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedVersion {
    /// Its number.
    pub version: i64,
    /// Its id.
    pub id: VersionId,
    /// Why.
    pub reason: String,
    /// Whether the same version can be applied at another time.
    pub may_be_retried: bool,
}

/// What etcd has does not follow from what a member runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where that was seen.
    pub home: FleetHome,
    /// The version that etcd has; `None`: none.
    pub wanted: Option<FleetMark>,
    /// What is wrong.
    pub reason: String,
}

/// What a member knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberState {
    /// Its name.
    pub node: String,
    /// The version that it runs; `None`: none of the fleet.
    pub running: Option<FleetPlace>,
    /// The version that it should run, and cannot apply.
    pub refused: Option<RefusedVersion>,
    /// Why what etcd has is not for this member.
    pub mismatch: Option<Mismatch>,
}

/// What a member is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it runs what it should.
    Stay,
    /// Nothing: it has refused what it should run.
    Wait,
    /// Apply this version, if it descends from the own one.
    Apply(FleetMark),
    /// Nothing: what etcd has does not follow from what runs here.
    Mismatch(Mismatch),
}

impl Seen {
    /// The number of the version that all members run, or will; 0: there is none yet.
    pub fn head_number(&self) -> i64 {
        self.head.map_or(0, |head| head.version)
    }
}

impl MemberState {
    /// What to do about what was seen. A version that was refused is tried again if `may_retry`.
    pub fn next(&self, seen: &Seen, may_retry: bool) -> Next {
        let wanted = self.wanted(seen);
        let known = self.mismatch.as_ref().filter(|known| known.home == seen.home && known.wanted == wanted);
        if let Some(known) = known {
            return Next::Mismatch(known.clone());
        }
        if let Some(reason) = self.running.as_ref().and_then(|place| contradiction(place, wanted, seen)) {
            return Next::Mismatch(Mismatch { home: seen.home.clone(), wanted, reason });
        }
        let Some(wanted) = wanted else { return Next::Stay };
        if self.running.as_ref().is_some_and(|place| place.mark == wanted && place.home == seen.home) {
            return Next::Stay;
        }
        match self.refused.as_ref().filter(|refused| refused.id == wanted.id) {
            Some(refused) if !(may_retry && refused.may_be_retried) => Next::Wait,
            _ => Next::Apply(wanted),
        }
    }

    /// Why a version that was seen as `wanted` is not for this member; `None`: it is. `lineage` has the versions before it, and
    /// `former` the places where the fleet was before.
    pub fn objection(
        &self,
        seen: &Seen,
        wanted: FleetMark,
        (lineage, former): (&[VersionId], &[FleetHome]),
    ) -> Option<Mismatch> {
        let place = self.running.as_ref()?;
        let settled = place.settled();
        let descends = settled.is_none_or(|own| wanted.id == own || lineage.contains(&own));
        let is_there = place.home == seen.home || former.contains(&place.home);
        let reason = match (descends, is_there) {
            (true, true) => return None,
            (false, _) => format!(
                "{} of etcd does not descend from {}, which runs here: etcd has lost that one, or has never had it",
                named(wanted),
                named(place.mark)
            ),
            (true, false) => elsewhere(place, seen),
        };
        Some(Mismatch { home: seen.home.clone(), wanted: Some(wanted), reason })
    }

    /// The version that this member should run.
    fn wanted(&self, seen: &Seen) -> Option<FleetMark> {
        let is_mine =
            |trial: &&FleetTrial| trial.mark.version > seen.head_number() && trial.nodes.contains(&self.node);
        seen.trial.as_ref().filter(is_mine).map(|trial| trial.mark).or(seen.head)
    }

    /// Why a change of the configuration cannot begin here; `None`: it can.
    pub fn obstacle(&self, seen: &Seen) -> Option<String> {
        if let Next::Mismatch(mismatch) = self.next(seen, true) {
            let reason = mismatch.reason;
            return Some(format!(
                "{reason}. NARROWS FLEET RESTORE on the member with the right configuration makes it that of all"
            ));
        }
        if let Some(obstacle) = trial_obstacle(seen) {
            return Some(obstacle);
        }
        let (runs, head) = (self.running.as_ref().map(|place| place.mark), seen.head?);
        if runs.is_some_and(|mark| mark.id == head.id) {
            return None;
        }
        let (head, runs) = (head, runs.map_or(0, |mark| mark.version));
        Some(match &self.refused {
            Some(refused) if refused.id == head.id => format!(
                "version {} of the fleet was refused here ({}): make the change on another member",
                head.version, refused.reason
            ),
            _ => format!("version {} of the fleet is the newest, and version {runs} runs here", head.version),
        })
    }

    /// A version was applied.
    pub fn has_applied(&mut self, place: FleetPlace) {
        self.running = Some(place);
        self.is_settled();
    }

    /// It runs what it should.
    pub fn is_settled(&mut self) {
        (self.refused, self.mismatch) = (None, None);
    }

    /// A version could not be applied: what ran still runs.
    pub fn has_refused(&mut self, refused: RefusedVersion) {
        (self.refused, self.mismatch) = (Some(refused), None);
    }

    /// What etcd has is not for this member.
    pub fn has_mismatch(&mut self, mismatch: Mismatch) {
        (self.refused, self.mismatch) = (None, Some(mismatch));
    }
}

/// Why no change can begin while the key of the trial is as it is.
pub fn trial_obstacle(seen: &Seen) -> Option<String> {
    let of_trial = |trial: &FleetTrial| {
        let (version, nodes, by) = (trial.mark.version, trial.nodes.join(", "), &trial.by);
        format!("version {version} of the fleet is on trial on {nodes}, begun on {by}: wait for its end")
    };
    seen.stray_trial.clone().or_else(|| seen.trial.as_ref().map(of_trial))
}

/// What is wrong with `wanted` for a member that runs `place`, as far as that shows without reading it.
fn contradiction(place: &FleetPlace, wanted: Option<FleetMark>, seen: &Seen) -> Option<String> {
    let runs = named(place.mark);
    let Some(wanted) = wanted else {
        return Some(match place.home == seen.home {
            true => format!("etcd has no version of the fleet, and {runs} runs here: it has lost its data"),
            false => elsewhere(place, seen),
        });
    };
    if wanted.id == place.mark.id && place.home != seen.home {
        return Some(elsewhere(place, seen));
    }
    let is_put_back = match wanted.id == place.mark.id {
        // To the moment in which that was on trial.
        true => wanted.is_on_trial && !place.mark.is_on_trial,
        false => place.lineage.contains(&wanted.id) && place.settled() != Some(wanted.id),
    };
    is_put_back.then(|| {
        let what = if wanted.is_on_trial { " on trial" } else { "" };
        format!("etcd has {}{what}, and {runs} runs here: etcd was put back", named(wanted))
    })
}

/// Why what was seen is not where the fleet is.
fn elsewhere(place: &FleetPlace, seen: &Seen) -> String {
    format!("the keys {} are not the fleet of this member, which is {}", seen.home, place.home)
}

fn named(mark: FleetMark) -> String {
    format!("version {} ({})", mark.version, mark.id.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> VersionId {
        VersionId::of(text.as_bytes())
    }

    fn mark(version: i64, text: &str, is_on_trial: bool) -> FleetMark {
        FleetMark { version, id: id(text), is_on_trial }
    }

    fn home(cluster: u64) -> FleetHome {
        FleetHome { cluster, prefix: "/narrows".to_owned() }
    }

    /// A member that runs the last of these versions; `!`: on trial.
    fn member(versions: &str) -> MemberState {
        let ids: Vec<&str> = versions.split_whitespace().collect();
        let running = ids.split_last().map(|(last, before)| FleetPlace {
            mark: mark(ids.len() as i64, last.trim_end_matches('!'), last.ends_with('!')),
            lineage: before.iter().map(|it| id(it)).collect(),
            home: home(1),
            former: Vec::new(),
        });
        MemberState { node: "a".to_owned(), running, ..MemberState::default() }
    }

    fn seen(head: Option<(i64, &str)>, trial: Option<(i64, &str, &str)>) -> Seen {
        let trial = trial.map(|(version, text, nodes)| FleetTrial {
            mark: mark(version, text, true),
            nodes: nodes.split(',').map(str::to_owned).collect(),
            by: "a".to_owned(),
            seconds: 1,
            revision: 1,
        });
        let head = head.map(|(version, text)| mark(version, text, false));
        Seen { home: home(1), head, trial, ..Seen::default() }
    }

    fn refusing(member: MemberState, version: i64, text: &str, may_be_retried: bool) -> MemberState {
        let refused = RefusedVersion { version, id: id(text), reason: "why".to_owned(), may_be_retried };
        MemberState { refused: Some(refused), ..member }
    }

    /// What it does, in one word; `apply!`: on trial.
    fn done(next: &Next) -> String {
        match next {
            Next::Stay => "stay".to_owned(),
            Next::Wait => "wait".to_owned(),
            Next::Apply(mark) => {
                format!("apply {}{}", mark.version, if mark.is_on_trial { "!" } else { "" })
            }
            Next::Mismatch(mismatch) => mismatch.reason.clone(),
        }
    }

    #[test]
    fn a_member_follows_the_head_and_tries_what_names_it() {
        let head = |version, text| seen(Some((version, text)), None);
        let trying = |nodes| seen(Some((3, "c")), Some((4, "d", nodes)));
        for (what, member, seen, expected) in [
            ("an empty etcd changes nothing", member(""), seen(None, None), "stay"),
            ("a new member takes the head", member(""), head(4, "d"), "apply 4"),
            ("what runs is the head", member("a b c d"), head(4, "d"), "stay"),
            ("a newer one is looked at", member("a"), head(4, "d"), "apply 4"),
            ("one with a smaller number too", member("a b c d"), head(2, "x"), "apply 2"),
            ("a refused one is not tried again", refusing(member("a"), 4, "d", true), head(4, "d"), "wait"),
            ("the one after it is", refusing(member("a"), 4, "d", true), head(5, "e"), "apply 5"),
            ("another one with its number is", refusing(member("a"), 4, "d", true), head(4, "x"), "apply 4"),
            ("it tries", member("a b c"), trying("b,a"), "apply 4!"),
            ("others try", member("a b c"), trying("b"), "stay"),
            ("it refuses to try", refusing(member("a b c"), 4, "d", true), trying("a"), "wait"),
            ("it continues to try", member("a b c d!"), trying("a"), "stay"),
            ("it takes back", member("a b c d!"), head(3, "c"), "apply 3"),
            ("the trial has become the head", member("a b c d!"), head(4, "d"), "apply 4"),
            ("a newer head ends the trial", member("a b c d!"), head(5, "e"), "apply 5"),
        ] {
            assert_eq!(done(&member.next(&seen, false)), expected, "{what}");
        }
        let again = |may_be_retried| refusing(member("a"), 4, "d", may_be_retried).next(&head(4, "d"), true);
        assert_eq!((done(&again(true)).as_str(), done(&again(false)).as_str()), ("apply 4", "wait"));
    }

    #[test]
    fn what_etcd_has_lost_or_another_one_has_is_a_mismatch() {
        let head = |version, text| seen(Some((version, text)), None);
        let of = |cluster, seen| Seen { home: home(cluster), ..seen };
        for (member, seen, expected) in [
            (member("a b c"), seen(None, None), "it has lost its data"),
            (member("a b c"), head(2, "b"), "etcd was put back"),
            (member("a b c d!"), head(2, "b"), "etcd was put back"),
            (member("a b c d"), seen(Some((3, "c")), Some((4, "d", "a"))), "on trial, and version 4"),
            (member("a b c d"), seen(Some((2, "b")), Some((3, "c", "a"))), "etcd was put back"),
            (member("a b c"), of(2, head(3, "c")), "not the fleet of this member"),
            (member("a b c"), of(2, seen(None, None)), "not the fleet of this member"),
        ] {
            let found = done(&member.next(&seen, false));
            assert!(found.contains(expected), "{expected}: {found}");
            let obstacle = member.obstacle(&seen).unwrap();
            assert!(obstacle.contains("NARROWS FLEET RESTORE"), "{obstacle}");
        }
    }

    #[test]
    fn only_what_descends_from_the_own_version_is_for_a_member() {
        let former = [home(1)];
        for (what, member, seen_in, wanted, lineage, former, expected) in [
            ("a new member", member(""), 2, "x", "", &former[..0], None),
            ("the next one", member("a b"), 1, "c", "a b", &former[..0], None),
            ("a later one", member("a"), 1, "c", "a b", &former[..0], None),
            ("what a trial goes back to", member("a b c!"), 1, "b", "a", &former[..0], None),
            ("what follows a trial that was kept", member("a b c!"), 1, "d", "a b c", &former[..0], None),
            ("what follows one that was taken back", member("a b c!"), 1, "d", "a b", &former[..0], None),
            ("one of the same number", member("a b"), 1, "x", "a", &former[..0], Some("does not descend")),
            (
                "one with a greater number",
                member("a b"),
                1,
                "z",
                "x y",
                &former[..0],
                Some("does not descend"),
            ),
            ("one of another cluster", member("a b"), 2, "c", "a b", &former[..0], Some("not the fleet")),
            ("one that has moved the fleet", member("a b"), 2, "c", "a b", &former, None),
        ] {
            let lineage: Vec<VersionId> = lineage.split_whitespace().map(id).collect();
            let seen = Seen { home: home(seen_in), ..Seen::default() };
            let found = member.objection(&seen, mark(3, wanted, false), (&lineage, former));
            let reason = found.map(|mismatch| mismatch.reason).unwrap_or_default();
            assert_eq!(reason.is_empty(), expected.is_none(), "{what}: {reason}");
            assert!(reason.contains(expected.unwrap_or_default()), "{what}: {reason}");
        }
    }

    #[test]
    fn a_mismatch_is_known_until_etcd_has_something_else() {
        let mut it = member("a b");
        let other = seen(Some((2, "x")), None);
        assert_eq!(done(&it.next(&other, false)), "apply 2");
        it.has_mismatch(it.objection(&other, mark(2, "x", false), (&[], &[])).unwrap());
        assert!(done(&it.next(&other, true)).contains("does not descend"));
        assert_eq!(done(&it.next(&seen(Some((3, "y")), None), false)), "apply 3");
        assert_eq!(done(&it.next(&seen(Some((2, "b")), None), false)), "stay");
    }

    #[test]
    fn a_change_begins_only_where_the_newest_version_runs() {
        let head = |version, text| seen(Some((version, text)), None);
        let stray = Seen { stray_trial: Some("etcdctl del".to_owned()), ..head(1, "a") };
        for (member, seen, obstacle) in [
            (member(""), seen(None, None), None),
            (member("a b"), head(2, "b"), None),
            (member("a b"), head(4, "d"), Some("version 4 of the fleet is the newest")),
            (refusing(member("a b"), 4, "d", true), head(4, "d"), Some("was refused here (why)")),
            (member("a b"), seen(Some((2, "b")), Some((3, "c", "b"))), Some("on trial on b, begun on a")),
            (member("a"), stray, Some("etcdctl del")),
        ] {
            let found = member.obstacle(&seen);
            match obstacle {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{found:?}"),
            }
        }
    }

    #[test]
    fn what_is_applied_ends_a_refusal() {
        let mut it = refusing(member("a b c"), 4, "d", true);
        it.has_applied(member("a b c d e").running.unwrap());
        assert_eq!((it.refused, it.running.map(|place| place.mark.version)), (None, Some(5)));
    }
}

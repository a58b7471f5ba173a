//! Random events: changes on one member and on several at once, loads, kills of members and of etcd, and cables that are cut.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use narrows_testkit::{RawClient, wait_until};

use super::traffic::Asker;
use super::{BINARY, Fleet, apply, change, edit, metric, newest_version, plan, tags};
use crate::chaos::random::Random;

const MEMBERS: usize = 5;

/// A fleet, and what is known of it.
struct Scene {
    fleet: Fleet,
    askers: Vec<Asker>,
    random: Random,
    /// Whether each member has drifted.
    has_drifted: [bool; MEMBERS],
    /// The changes that were confirmed, in their order.
    made: Vec<String>,
    changes: usize,
    refused: usize,
    not_known: usize,
    /// How long members took to have one version again, after the last fault.
    converged: Vec<Duration>,
}

#[test]
fn whatever_happens_all_members_have_one_order_of_whole_versions() {
    let Some(fleet) = Fleet::start(MEMBERS) else { return };
    let events = crate::fleet::events();
    let askers = fleet.members.iter().map(|member| Asker::of(member.endpoint())).collect();
    let mut scene = Scene {
        fleet,
        askers,
        random: Random::new("fleet::random"),
        has_drifted: [false; MEMBERS],
        made: vec!["first".to_owned()],
        changes: 0,
        refused: 0,
        not_known: 0,
        converged: Vec::new(),
    };
    for event in 0..events {
        let what = scene.event(event);
        scene.check(&format!("event {event}, {what}"));
        if event % 8 == 7 {
            scene.settle();
        }
    }
    scene.settle();
    scene.check_history();
    let (answers, failures) = scene
        .askers
        .iter()
        .map(Asker::figures)
        .fold((0, 0), |(answers, failures), (more, failed)| (answers + more, failures + failed));
    let slowest = scene.converged.iter().max().copied().unwrap_or_default();
    println!(
        "{events} events: {} changes made, {} refused, {} not known; slowest convergence {} ms of {}; {answers} answers, {failures} failures",
        scene.made.len(),
        scene.refused,
        scene.not_known,
        slowest.as_millis(),
        scene.converged.len(),
    );
    assert_eq!(failures, 0, "clients of members that run");
}

impl Scene {
    fn event(&mut self, number: u64) -> String {
        let (member, node) = (self.random.below(MEMBERS as u64) as usize, self.random.below(3) as usize);
        match self.random.below(10) {
            0..3 => self.change_on(&[member], number),
            3 => {
                let others: Vec<usize> = (0..3).map(|step| (member + step) % MEMBERS).collect();
                self.change_on(&others, number)
            }
            4 => self.drift(member, number),
            5 => {
                self.askers[member].excuse(true);
                self.fleet.members[member].process().kill();
                self.fleet.members[member].start_alone_again(BINARY);
                self.askers[member].excuse(false);
                format!("n{member} is killed")
            }
            6 => {
                self.fleet.etcd.kill(node);
                format!("etcd {node} is killed")
            }
            7 => {
                (0..3)
                    .filter(|node| !self.fleet.etcd.runs(*node))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|node| self.fleet.etcd.run(node));
                "etcd is started".to_owned()
            }
            8 => {
                self.fleet.etcd.mend();
                self.fleet.etcd.part(node);
                format!("etcd {node} is parted from the others")
            }
            _ => {
                self.fleet.etcd.mend();
                self.fleet.etcd.hide(node);
                format!("etcd {node} is parted from the members")
            }
        }
    }

    /// Makes changes on several members at the same time.
    fn change_on(&mut self, members: &[usize], number: u64) -> String {
        let wanted: Vec<(RawClient, String)> =
            members.iter().map(|member| (self.fleet.admin(*member), format!("e{number}m{member}"))).collect();
        let outcomes: Vec<(String, Result<(), String>)> = std::thread::scope(|scope| {
            let one = |(mut admin, tag): (RawClient, String)| {
                edit(&mut admin, &tag);
                let token = plan(&mut admin);
                let outcome = apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}' COMMENT '{tag}'"));
                (tag, outcome)
            };
            let threads: Vec<_> = wanted.into_iter().map(|it| scope.spawn(move || one(it))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for (tag, outcome) in &outcomes {
            match outcome {
                Ok(()) => self.made.push(tag.clone()),
                Err(reason) if reason.contains("not known") || reason.contains("does not run here") => {
                    self.not_known += 1;
                }
                Err(_) => self.refused += 1,
            }
        }
        self.changes += outcomes.len();
        format!("changes {outcomes:?}")
    }

    /// A load that is not one of the fleet.
    fn drift(&mut self, member: usize, number: u64) -> String {
        let mut admin = self.fleet.admin(member);
        let statement = format!("UPDATE mysql_servers SET max_latency_ms = {}", number + 1);
        for statement in ["LOAD MYSQL SERVERS TO MEMORY", &statement, "LOAD MYSQL SERVERS TO RUNTIME"] {
            let answer = admin.query(statement);
            assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
        }
        format!("a load on n{member}")
    }

    /// What must be true at any time: every member serves a whole version, and says how it differs from it.
    fn check(&mut self, what: &str) {
        for member in 0..MEMBERS {
            let mut admin = self.fleet.admin(member);
            let tags = tags(&mut admin);
            let is_whole = !tags[0].is_empty() && tags.iter().all(|tag| *tag == tags[0]);
            assert!(is_whole, "{what}: n{member} runs {tags:?}");
            let (shown, latency, figure) = drift_of(&mut admin);
            self.has_drifted[member] = !shown.is_empty();
            if shown.is_empty() {
                continue;
            }
            // Only a load has made it: the column that only loads change.
            assert!(shown.iter().all(|row| row[3].as_deref() == Some("max_latency_ms")), "{what}: {shown:?}");
            assert!(
                shown[0][5] == latency && figure.as_deref() == Some("1"),
                "{what}: {shown:?} {latency:?} {figure:?}"
            );
        }
    }

    /// Ends all faults, and waits until all members have the same version.
    fn settle(&mut self) {
        self.fleet.etcd.mend();
        (0..3)
            .filter(|node| !self.fleet.etcd.runs(*node))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|node| self.fleet.etcd.run(node));
        let began = Instant::now();
        let logged: Vec<usize> = self.fleet.members.iter().map(|member| member.log().len()).collect();
        self.fleet.etcd.wait_until_it_serves();
        let served = began.elapsed();
        let mut admins: Vec<RawClient> = (0..MEMBERS).map(|member| self.fleet.admin(member)).collect();
        // On a slow machine, etcd loses its leader again at times: each member must have reached it once.
        let mut has_heard = [false; MEMBERS];
        let mut heard_after = [Duration::ZERO; MEMBERS];
        wait_until("all members have the newest version", || {
            let figures = |admin: &mut RawClient| {
                ["narrows_fleet_etcd_up", "narrows_fleet_version", "narrows_fleet_head_version"].map(|name| {
                    metric(admin, name).and_then(|text| text.parse::<i64>().ok()).unwrap_or_default()
                })
            };
            let all: Vec<[i64; 3]> = admins.iter_mut().map(figures).collect();
            for (member, [up, ..]) in all.iter().enumerate() {
                if *up == 1 && !std::mem::replace(&mut has_heard[member], true) {
                    heard_after[member] = began.elapsed();
                }
            }
            let newest = all.iter().map(|[_, _, head]| *head).max();
            has_heard == [true; MEMBERS] && all.iter().all(|[_, runs, _]| Some(*runs) == newest)
        });
        let took = began.elapsed();
        println!(
            "converged {} ms after the last fault; etcd served after {} ms, and members reached it after {heard_after:?}",
            took.as_millis(),
            served.as_millis()
        );
        self.converged.push(took);
        if took > Duration::from_secs(2) {
            for (member, logged) in self.fleet.members.iter().zip(logged) {
                println!("a slow one:\n{}", &member.log()[logged..]);
            }
        }
        let all: Vec<[String; 4]> = admins.iter_mut().map(tags).collect();
        assert!(all.iter().all(|tags| *tags == all[0]), "{all:?}");
        // One more change reaches everybody, and ends every drift.
        let tag = format!("settled{}", self.converged.len());
        wait_until("a change can be made", || change(&mut admins[0], &tag).is_ok());
        self.made.push(tag.clone());
        self.fleet.wait_until_all_run(&tag);
        for admin in &mut admins {
            assert_eq!(metric(admin, "narrows_fleet_drift_rows").as_deref(), Some("0"));
        }
    }

    /// Each number of a version is the same change on every member, numbers only grow, and no change that was confirmed is lost.
    fn check_history(&mut self) {
        let mut changes: BTreeMap<i64, String> = BTreeMap::new();
        for member in 0..MEMBERS {
            let sql = "SELECT command, comment FROM disk.narrows_config_history WHERE source = 'fleet' ORDER BY version";
            let mut last = 0;
            for row in self.fleet.admin(member).query(sql).text_rows() {
                let (command, tag) = (row[0].clone().unwrap(), row[1].clone().unwrap());
                let number =
                    command.strip_prefix("version ").and_then(|text| text.split(' ').next()?.parse().ok());
                let number: i64 = number.unwrap_or_else(|| panic!("{command}"));
                // The same one again: it has ended a drift after a restart.
                assert!(number >= last, "n{member}: {number} after {last}");
                last = number;
                let known = changes.entry(number).or_insert_with(|| tag.clone());
                assert_eq!(*known, tag, "n{member}: version {number}");
            }
        }
        let order: Vec<&String> = changes.values().collect();
        let mut place = order.iter();
        // A member keeps its last 200 versions, which a long run exceeds.
        let is_whole = changes.contains_key(&1);
        let kept = self.made.iter().skip_while(|tag| !is_whole && !order.contains(tag));
        for tag in kept {
            assert!(place.any(|it| *it == tag), "{tag} was confirmed, and is not in its place in {order:?}");
        }
        println!("{} versions of the fleet", changes.len());
    }
}

/// What runs differently than in the version of the fleet, the value that does, and the metric: all of one moment, in which no
/// version has arrived.
fn drift_of(admin: &mut RawClient) -> (Vec<Vec<Option<String>>>, Option<String>, Option<String>) {
    loop {
        let before = newest_version(admin);
        let shown = admin.query("SHOW NARROWS FLEET DRIFT").text_rows();
        let latency = admin.query("SELECT max_latency_ms FROM runtime_mysql_servers").cell();
        let figure = metric(admin, "narrows_fleet_drift_rows");
        if newest_version(admin) == before {
            return (shown, latency, figure);
        }
    }
}

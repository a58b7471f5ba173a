//! Random histories in which etcd also loses data, is put back to an older state, or becomes two clusters. At the end of each, all members run
//! the same, or say that they do not; and no change that was confirmed is gone without a member, a metric and a log line that say so.

use std::time::{Duration, Instant};

use narrows_testkit::{RawClient, wait_until};

use super::{BINARY, Fleet, apply, change_surely, edit, metric, plan, tags};
use crate::chaos::random::Random;

const MEMBERS: usize = 3;

/// SIGCONT of Linux.
const CONTINUE: i32 = 18;

/// How many events a history has.
const EVENTS: u64 = 8;

struct Scene {
    fleet: Fleet,
    random: Random,
    /// The members that are frozen.
    frozen: [bool; MEMBERS],
    /// The members that are killed.
    killed: [bool; MEMBERS],
    has_saved: bool,
    /// The changes that were confirmed in this history, and where.
    made: Vec<(usize, String)>,
    /// What has happened in this history.
    events: Vec<String>,
    figures: Figures,
}

#[derive(Debug, Default)]
struct Figures {
    made: usize,
    not_made: usize,
    /// Histories at whose end a change was gone, or members ran different configurations, and this was said.
    said: usize,
    /// Histories after which an administrator had to name a member.
    restored: usize,
    /// Histories in which etcd has lost something.
    losses: usize,
}

#[test]
fn whatever_etcd_loses_members_run_one_configuration_or_say_that_they_do_not() {
    let Some(fleet) = Fleet::start(MEMBERS) else { return };
    let histories =
        std::env::var("NARROWS_FLEET_HISTORIES").map_or(3, |text| text.parse().expect("a number"));
    let mut scene = Scene {
        fleet,
        random: Random::new("fleet::histories"),
        frozen: [false; MEMBERS],
        killed: [false; MEMBERS],
        has_saved: false,
        made: Vec::new(),
        events: Vec::new(),
        figures: Figures::default(),
    };
    let began = Instant::now();
    for history in 0..histories {
        scene.play(history);
        println!("{} histories in {} s: {:?}", history + 1, began.elapsed().as_secs(), scene.figures);
    }
}

impl Scene {
    fn play(&mut self, history: u64) {
        self.made.clear();
        self.events.clear();
        let logged: Vec<usize> = self.fleet.members.iter().map(|member| member.log().len()).collect();
        self.has_saved = self.fleet.etcd.save("history");
        let mut has_lost = false;
        for event in 0..EVENTS {
            let (what, is_loss) = self.event(&format!("h{history}e{event}"));
            has_lost |= is_loss;
            self.events.push(what);
        }
        self.figures.losses += usize::from(has_lost);
        self.mend();
        self.wait_until_all_have_decided();
        self.check(&logged);
        self.agree(history);
    }

    /// Does something; returns what, and whether etcd may have lost something.
    fn event(&mut self, tag: &str) -> (String, bool) {
        let (member, node) = (self.random.below(MEMBERS as u64) as usize, self.random.below(3) as usize);
        let what = match self.random.below(18) {
            0..4 => self.change_on(&[member], tag),
            4..6 => self.change_on(&[0, 1, 2], tag),
            6 => {
                self.kill(member);
                format!("n{member} is killed")
            }
            7 => {
                self.start_killed();
                "members are started".to_owned()
            }
            8 if !self.killed[member] => {
                self.fleet.members[member].process().freeze();
                self.frozen[member] = true;
                format!("n{member} is frozen")
            }
            9 => {
                self.thaw();
                "members continue".to_owned()
            }
            10 if self.fleet.etcd.runs(node) => {
                self.fleet.etcd.freeze(node);
                format!("etcd {node} is frozen")
            }
            11 => {
                self.fleet.etcd.kill(node);
                format!("etcd {node} is killed")
            }
            12 => {
                self.mend_etcd();
                "etcd is mended".to_owned()
            }
            13 => {
                self.fleet.etcd.mend();
                self.fleet.etcd.part(node);
                format!("etcd {node} is parted from the others")
            }
            14 => {
                self.fleet.etcd.mend();
                self.fleet.etcd.hide(node);
                format!("etcd {node} is parted from the members")
            }
            15 => {
                self.mend_etcd();
                self.fleet.etcd.lose_data();
                return ("etcd loses its data".to_owned(), true);
            }
            16 if self.has_saved => {
                self.mend_etcd();
                self.fleet.etcd.restore("history");
                return ("etcd is put back".to_owned(), true);
            }
            17 => {
                self.mend_etcd();
                self.fleet.etcd.separate(node);
                return (format!("etcd {node} is a cluster of its own"), true);
            }
            _ => "nothing".to_owned(),
        };
        (what, false)
    }

    /// Has administrators make changes on several members at the same time.
    fn change_on(&mut self, members: &[usize], tag: &str) -> String {
        let awake: Vec<usize> =
            members.iter().copied().filter(|it| !self.frozen[*it] && !self.killed[*it]).collect();
        let wanted: Vec<(usize, RawClient, String)> =
            awake.iter().map(|it| (*it, self.fleet.admin(*it), format!("{tag}m{it}"))).collect();
        let outcomes: Vec<(usize, String, Result<(), String>)> = std::thread::scope(|scope| {
            let one = |(member, mut admin, tag): (usize, RawClient, String)| {
                edit(&mut admin, &tag);
                let token = plan(&mut admin);
                let outcome = apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}' COMMENT '{tag}'"));
                (member, tag, outcome)
            };
            let threads: Vec<_> = wanted.into_iter().map(|it| scope.spawn(move || one(it))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for (member, tag, outcome) in &outcomes {
            match outcome {
                Ok(()) => {
                    self.made.push((*member, tag.clone()));
                    self.figures.made += 1;
                }
                Err(_) => self.figures.not_made += 1,
            }
        }
        format!("changes {outcomes:?}")
    }

    fn kill(&mut self, member: usize) {
        if !self.killed[member] {
            self.fleet.members[member].process().kill();
            (self.killed[member], self.frozen[member]) = (true, false);
        }
    }

    fn start_killed(&mut self) {
        for member in 0..MEMBERS {
            if std::mem::take(&mut self.killed[member]) {
                self.fleet.members[member].start_alone_again(BINARY);
            }
        }
    }

    fn thaw(&mut self) {
        for member in 0..MEMBERS {
            if std::mem::take(&mut self.frozen[member]) {
                self.fleet.members[member].process().signal(CONTINUE);
            }
        }
    }

    fn mend_etcd(&mut self) {
        self.fleet.etcd.mend();
        self.fleet.etcd.thaw();
        for node in 0..3 {
            self.fleet.etcd.unite(node);
            if !self.fleet.etcd.runs(node) {
                self.fleet.etcd.run(node);
            }
        }
        self.fleet.etcd.wait_until_it_serves();
    }

    fn mend(&mut self) {
        self.mend_etcd();
        self.thaw();
        self.start_killed();
    }

    /// Waits until each member runs what etcd has, or says that it does not.
    fn wait_until_all_have_decided(&mut self) {
        let mut admins: Vec<RawClient> = (0..MEMBERS).map(|member| self.fleet.admin(member)).collect();
        let mut since = None;
        wait_until(&format!("all members have decided after {:?}", self.events), || {
            let figures = |admin: &mut RawClient| {
                ["etcd_up", "mismatch", "version", "head_version"]
                    .map(|name| metric(admin, &format!("narrows_fleet_{name} ")).unwrap_or_default())
            };
            let has_decided =
                |[up, mismatch, runs, head]: [String; 4]| up == "1" && (mismatch == "1" || runs == head);
            if !admins.iter_mut().all(|admin| has_decided(figures(admin))) {
                since = None;
                return false;
            }
            // What etcd has is looked at twice a second.
            since.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(1_200)
        });
    }

    /// What differs or is gone is said by a member, a metric and a log line.
    fn check(&mut self, logged: &[usize]) {
        let mut admins: Vec<RawClient> = (0..MEMBERS).map(|member| self.fleet.admin(member)).collect();
        let all: Vec<[String; 4]> = admins.iter_mut().map(tags).collect();
        for tags in &all {
            assert!(tags.iter().all(|tag| *tag == tags[0]), "a mixture: {tags:?} after {:?}", self.events);
        }
        let places: Vec<String> = admins.iter_mut().map(place).collect();
        let gone: Vec<&(usize, String)> = self
            .made
            .iter()
            .filter(|(member, tag)| {
                let id = id_of(&mut admins[*member], tag);
                places.iter().any(|place| !place.contains(&id))
            })
            .collect();
        if gone.is_empty() && all.iter().all(|tags| *tags == all[0]) {
            return;
        }
        self.figures.said += 1;
        let says = (0..MEMBERS).filter(|member| {
            let metric = metric(&mut admins[*member], "narrows_fleet_mismatch");
            let log = self.fleet.members[*member].log();
            metric.as_deref() == Some("1")
                && log[logged[*member]..].contains("cannot tell which of them is right")
        });
        let says: Vec<usize> = says.collect();
        assert!(!says.is_empty(), "{gone:?} is gone or members differ ({all:?}) after {:#?}", self.events);
        // A report that etcd has lost is written again.
        let what = format!("it is shown that {gone:?} is gone or members differ after {:#?}", self.events);
        wait_until(&what, || self.fleet.shown(0).values().any(|[_, state, ..]| state == "mismatch"));
    }

    /// An administrator names one member if that is needed. Then all run what it runs, and the next change reaches all.
    fn agree(&mut self, history: u64) {
        let named = self.random.below(MEMBERS as u64) as usize;
        let mut admins: Vec<RawClient> = (0..MEMBERS).map(|member| self.fleet.admin(member)).collect();
        let is_needed =
            admins.iter_mut().any(|admin| metric(admin, "narrows_fleet_mismatch").as_deref() == Some("1"));
        if is_needed {
            self.figures.restored += 1;
            // What a member does not report is not replaced.
            wait_until("all report", || self.fleet.shown(named).len() == MEMBERS);
            let right = tags(&mut admins[named])[0].clone();
            let mut last = String::new();
            wait_until("it is restored", || match apply(&mut admins[named], "NARROWS FLEET RESTORE") {
                Ok(()) => true,
                Err(reason) => {
                    if reason != last {
                        println!("not restored yet: {reason}");
                        last = reason;
                    }
                    false
                }
            });
            self.fleet.wait_until_all_run(&right);
        }
        self.fleet.wait_until_mismatch(&[0, 1, 2], false);
        let tag = format!("end{history}");
        change_surely(&mut admins[self.random.below(MEMBERS as u64) as usize], &tag);
        self.fleet.wait_until_all_run(&tag);
    }
}

/// What a member knows of its version: its id, and those before it.
fn place(admin: &mut RawClient) -> String {
    let sql = "SELECT variable_value FROM disk.global_settings WHERE variable_name = 'fleet'";
    admin.query(sql).cell().expect("a version of the fleet")
}

/// The first digits of the id of a change that was confirmed on a member.
fn id_of(admin: &mut RawClient, tag: &str) -> String {
    let sql = format!(
        "SELECT command FROM disk.narrows_config_history WHERE comment = '{tag}' AND source = 'fleet'"
    );
    let found = admin.query(sql).text_rows().concat();
    let all = "SELECT version, source, command, comment FROM disk.narrows_config_history ORDER BY version DESC LIMIT 12";
    let [Some(command)] = &found[..] else {
        panic!("{tag} was confirmed: {:#?}", admin.query(all).text_rows())
    };
    let id = command.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    id.unwrap_or_else(|| panic!("{command}")).0.to_owned()
}

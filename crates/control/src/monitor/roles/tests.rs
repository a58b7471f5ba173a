use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::config::tables::SERVERS;
use crate::monitor::read_only::{RoleAnswer, RoleChecks};

use ServerRole::{Reader, Silent, Writer};

const CHECK: CheckType = CheckType::ReadOnly;
const ONE: PairSettings = PairSettings { writer_is_also_reader: false, max_writers: 1 };

fn pair() -> ReplicationHostgroupRow {
    ReplicationHostgroupRow {
        writer_hostgroup: HostgroupId(10),
        reader_hostgroup: HostgroupId(20),
        check_type: "read_only".to_owned(),
        comment: String::new(),
    }
}

fn row(hostgroup: i32, name: &str) -> ServerRow {
    let hostgroup = HostgroupId(hostgroup);
    ServerRow { hostgroup, hostname: name.to_owned(), port: 3306, weight: 1, ..(SERVERS.blank)() }
}

fn address(name: &str) -> Address {
    Address { hostname: name.to_owned(), port: 3306 }
}

/// The roles of servers, and the checks that report them.
#[derive(Default)]
struct Monitored {
    roles: Roles,
    checks: BTreeMap<&'static str, RoleChecks>,
    clock_ms: u64,
}

impl Monitored {
    fn now(&mut self) -> Instant {
        self.clock_ms += 1;
        Instant::now() - Duration::from_secs(3600) + Duration::from_millis(self.clock_ms)
    }

    fn check(&mut self, name: &'static str, answer: RoleAnswer) -> Heard {
        let now = self.now();
        let report = self.checks.entry(name).or_default().after(answer, now, 3);
        self.roles.hear(&address(name), CHECK, &report)
    }

    fn writers(&mut self, rows: &[ServerRow], settings: &PairSettings) -> Vec<String> {
        let writers = self.roles.writers(&pair(), rows, settings, |_| false);
        self.roles.hold([(HostgroupId(10), writers.clone())].into());
        writers.into_iter().map(|it| it.hostname).collect()
    }
}

use RoleAnswer::{Failed, Said, TimedOut};

/// One letter and answer a check; which server is then written to.
#[test]
fn the_one_that_is_written_to_keeps_its_place() {
    let w = |name| (name, Said(Writer));
    let r = |name| (name, Said(Reader));
    let configured = [row(10, "a"), row(20, "b"), row(20, "c")];
    let unconfigured = [row(20, "a"), row(20, "b"), row(20, "c")];
    for (rows, checks, expected) in [
        (&configured, vec![], "a"),
        // Nobody takes the place of the configured writer before that has been heard.
        (&configured, vec![w("b")], "a"),
        (&configured, vec![w("b"), r("a")], "b"),
        (&configured, vec![w("b"), w("a")], "a"),
        (&unconfigured, vec![w("b"), w("a")], "b"),
        // One that was promoted keeps its place from the old one that comes back writable.
        (&configured, vec![w("a"), r("b"), r("a"), w("b"), w("a")], "b"),
        (&configured, vec![w("a"), r("b"), r("a"), w("b"), w("a"), r("b")], "a"),
        // A second writable one gets nothing while the first one answers; not at one lost check, either.
        (&configured, vec![w("a"), w("b")], "a"),
        (&configured, vec![w("a"), w("b"), ("a", TimedOut)], "a"),
        (&configured, vec![w("a"), w("b"), ("a", Failed), ("a", Failed), w("a")], "a"),
        (&configured, vec![w("a"), w("b"), ("a", Failed), ("a", Failed), ("a", Failed)], "b"),
        (&configured, vec![w("a"), w("b"), ("a", TimedOut), ("a", TimedOut), ("a", TimedOut), w("a")], "b"),
        // It was promoted after the last answer of the first one, which no longer answers.
        (&configured, vec![w("a"), r("b"), w("b"), ("a", TimedOut)], "b"),
        (&configured, vec![w("a"), r("b"), ("a", Failed), w("b")], "b"),
        (&configured, vec![w("a"), r("b"), w("b"), w("a"), ("a", TimedOut)], "a"),
        // One that does not answer is better than none.
        (&configured, vec![w("a"), ("a", Failed), ("a", Failed), ("a", Failed), r("b")], "a"),
    ] {
        let mut monitored = Monitored::default();
        for (name, answer) in &checks {
            monitored.check(name, *answer);
            monitored.writers(rows, &ONE);
        }
        assert_eq!(monitored.writers(rows, &ONE), [expected], "{checks:?}");
    }
}

#[test]
fn a_server_that_gets_no_statements_leaves_its_place() {
    let mut monitored = Monitored::default();
    for name in ["a", "b"] {
        monitored.check(name, Said(Writer));
    }
    let mut rows = vec![row(10, "a"), row(20, "b")];
    assert_eq!(monitored.writers(&rows, &ONE), ["a"]);
    let out = monitored.roles.writers(&pair(), &rows, &ONE, |it| *it == address("a"));
    assert_eq!(out, [address("b")]);
    rows[0].status = ServerStatus::OfflineSoft;
    assert_eq!(monitored.writers(&rows, &ONE), ["b"]);
    let two = PairSettings { max_writers: 2, ..ONE };
    let all = PairSettings { max_writers: 0, ..ONE };
    assert_eq!(
        (monitored.writers(&rows, &two), monitored.writers(&rows, &all).len()),
        (vec!["b".to_owned(), "a".to_owned()], 2)
    );
}

/// Whatever another path has put in place of what a server says, its next check puts right; a check that began before does not.
#[test]
fn what_was_decided_elsewhere_lasts_until_the_next_check() {
    let mut monitored = Monitored::default();
    monitored.check("a", Said(Writer));
    let late = monitored.now();
    let decided = monitored.now();
    let role = |monitored: &Monitored| monitored.roles.role(&address("a"), CHECK);
    assert_eq!(
        monitored.roles.hear(&address("a"), CHECK, &RoleReport::found(Reader, decided)),
        Heard::Role(Reader)
    );
    monitored.roles.hear(&address("a"), CHECK, &RoleReport::found(Writer, late));
    assert_eq!(role(&monitored), Some(Reader), "it is older");
    // One without an answer does not bring back what was found before.
    monitored.check("a", Failed);
    assert_eq!(role(&monitored), Some(Reader));
    monitored.check("a", Said(Writer));
    assert_eq!(role(&monitored), Some(Writer));
}

/// Random truths, checks, lost and repeated reports, and decisions of others: after one more check of each server, what is known is
/// what they say, and the one that is written to has not lost its place to anybody while it held it.
#[test]
fn after_a_check_of_each_server_the_roles_are_those_that_they_say() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let rows = [row(10, "a"), row(20, "b"), row(20, "c")];
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut monitored = Monitored::default();
        let mut truth = [Said(Writer), Said(Reader), Said(Reader)];
        for _ in 0..30 {
            let which = random.random_range(0..3);
            match random.random_range(0..6) {
                0 => truth[which] = [Said(Writer), Said(Reader), TimedOut, Failed][random.random_range(0..4)],
                1 => {
                    let (role, now) = ([Writer, Reader][random.random_range(0..2)], monitored.now());
                    monitored.roles.hear(&address(NAMES[which]), CHECK, &RoleReport::found(role, now));
                }
                2 => {
                    // The report is lost.
                    let now = monitored.now();
                    monitored.checks.entry(NAMES[which]).or_default().after(truth[which], now, 3);
                }
                _ => {
                    monitored.check(NAMES[which], truth[which]);
                }
            }
            for _ in 0..3 {
                for (name, said) in NAMES.into_iter().zip(truth) {
                    monitored.check(name, said);
                }
            }
            for (name, said) in NAMES.into_iter().zip(truth) {
                let role = monitored.roles.role(&address(name), CHECK);
                match said {
                    Said(role_said) => assert_eq!(role, Some(role_said), "seed {seed}"),
                    TimedOut => assert_eq!(role, Some(Silent), "seed {seed}"),
                    Failed => {}
                }
            }
            let says = |at: usize| truth[at] == Said(Writer);
            let chosen = monitored.writers(&rows, &ONE);
            if (0..3).any(says) {
                let at = NAMES.iter().position(|name| chosen == [*name]).expect("there is one");
                assert!(says(at), "seed {seed}: {chosen:?} of {truth:?}");
                // Others become writable, or go away.
                let other = (at + 1 + random.random_range(0..2)) % 3;
                let answer = [Said(Writer), Said(Reader), TimedOut, Failed][random.random_range(0..4)];
                truth[other] = answer;
                monitored.check(NAMES[other], answer);
                assert_eq!(monitored.writers(&rows, &ONE), chosen, "seed {seed}");
            }
            let read = Roles::from_json(&monitored.roles.to_json(), &monitored.roles.holders_to_json());
            let role = |roles: &Roles, name| roles.is_writer(&address(name), CHECK);
            assert!(NAMES.iter().all(|name| role(&read, name) == role(&monitored.roles, name)));
            assert_eq!(
                read.holders.get(&HostgroupId(10)),
                Some(&monitored.roles.holders[&HostgroupId(10)]).filter(|it| !it.is_empty())
            );
        }
    }
}

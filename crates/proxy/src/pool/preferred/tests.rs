//! Which of the servers of a hostgroup are chosen, in all combinations of their states.

use std::time::Duration;

use super::super::tests::{GROUP, Scene, rows, run};
use super::super::{ConnectionSlot, Scope};
use super::*;
use crate::figures::Counters;
use crate::hostgroup::ShunLimits;
use crate::rows::{HostgroupAttributesRow, ServerRow, Variables, hostgroup_attributes, server};

/// In which state a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Up,
    /// All of its connections are in use.
    Full,
    /// ONLINE, but connects fail.
    Failing,
    /// Connects have failed so often that it rests.
    Resting,
    /// It answers pings too slowly.
    Slow,
    Lagging,
    Down,
}

const ALL: [Is; 7] = [Is::Up, Is::Full, Is::Failing, Is::Resting, Is::Slow, Is::Lagging, Is::Down];

/// The servers: a and c are in the own zone, c and d are backups.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const WEIGHTS: [u32; 4] = [3, 3, 2, 2];

fn attributes(hostgroup_settings: &str) -> HostgroupAttributesRow {
    hostgroup_attributes(GROUP.0, hostgroup_settings)
}

/// Servers with these settings of their hostgroup; this process is in the zone east.
fn scene(servers: &[(&str, u32)], settings: &str, slow_start: Duration) -> Scene {
    let row = |(name, weight): &(&str, u32)| ServerRow {
        weight: *weight,
        max_connections: 1,
        max_latency_ms: 100,
        ..server(GROUP.0, name, 3306)
    };
    let mut rows = rows(servers.iter().map(row).collect());
    rows.variables = Variables { zone: "east".to_owned(), slow_start, ..Variables::default() };
    rows.hostgroup_attributes = vec![attributes(settings)];
    Scene::new(rows)
}

const ZONES: &str = r#""zones":{"a":"east","b":"west","c":"east","d":"west"}"#;

/// Brings a server into a state, from which the result leads back when it is dropped.
fn bring(scene: &Scene, name: &str, is: Is) -> Option<ConnectionSlot> {
    let (server, hostgroup) = (scene.server(name), scene.hostgroup());
    match is {
        Is::Full => return ConnectionSlot::take(&server, &hostgroup.demand, &scene.pool.pokes),
        Is::Failing => {
            let pause = Duration::from_secs(60);
            scene.group().leave_alone(&server, "gone".to_owned(), Scope::Everything, pause);
        }
        Is::Resting => {
            let limits = ShunLimits { failures: 1, rest: None };
            assert!(server.figures.shun.failed(limits, Duration::ZERO));
        }
        Is::Slow => server.figures.set_latency_us(200_000),
        Is::Up | Is::Lagging | Is::Down => {}
    }
    None
}

/// The servers that are chosen, by the definition.
fn expected(states: [Is; 4], availability: &str, min_servers: usize, has_zones: bool) -> Vec<String> {
    let counts = |is: Is| match availability {
        "selectable" => is == Is::Up,
        "status" => matches!(is, Is::Up | Is::Full | Is::Failing | Is::Slow),
        _ => matches!(is, Is::Up | Is::Failing | Is::Slow),
    };
    let enough = states[..2].iter().filter(|is| counts(**is)).count() >= min_servers;
    let open: Vec<usize> = if enough { vec![0, 1] } else { vec![0, 1, 2, 3] };
    let sets: Vec<Vec<usize>> = if has_zones {
        [0, 1].map(|zone| open.iter().copied().filter(|index| index % 2 == zone).collect()).into()
    } else {
        vec![open.clone()]
    };
    let with = |set: &[usize], wanted: Is| -> Vec<String> {
        let names = set.iter().filter(|index| states[**index] == wanted);
        names.map(|index| format!("open {}", NAMES[*index])).collect()
    };
    if let Some(found) = sets.iter().map(|set| with(set, Is::Up)).find(|found| !found.is_empty()) {
        return found;
    }
    if !with(&open, Is::Full).is_empty() {
        return vec!["busy".to_owned()];
    }
    let resting = with(&open, Is::Resting);
    if resting.is_empty() { vec!["no server".to_owned()] } else { resting }
}

#[test]
fn the_first_servers_that_can_serve_are_chosen_in_every_combination_of_states() {
    let mut checked = 0;
    for (availability, min_servers, has_zones) in
        [("selectable", 1, true), ("selectable", 2, true), ("status", 1, true), ("capacity", 1, true)]
            .into_iter()
            .chain([("selectable", 1, false), ("selectable", 2, false), ("status", 2, false)])
    {
        let zones = if has_zones { ZONES } else { r#""zones":{}"# };
        let settings = format!(
            "{{\"backup_weight_threshold\":3,\"backup_availability\":\"{availability}\",\
             \"backup_min_servers\":{min_servers},{zones}}}"
        );
        for number in 0..ALL.len().pow(4) {
            let states: [Is; 4] = std::array::from_fn(|i| ALL[number / ALL.len().pow(i as u32) % ALL.len()]);
            let servers: [(&str, u32); 4] = std::array::from_fn(|i| (NAMES[i], WEIGHTS[i]));
            let mut scene = scene(&servers, &settings, Duration::ZERO);
            scene.change(|rows| {
                for (row, is) in rows.servers.iter_mut().zip(states) {
                    row.status = match is {
                        Is::Lagging => ServerStatus::ShunnedReplicationLag,
                        Is::Down => ServerStatus::Unreachable,
                        _ => ServerStatus::Online,
                    };
                }
            });
            let _kept: Vec<_> = NAMES.iter().zip(states).map(|(name, is)| bring(&scene, name, is)).collect();
            let expected = expected(states, availability, min_servers, has_zones);
            let what = format!("{states:?} {availability} {min_servers} zones: {has_zones}");
            assert_eq!(scene.attempts(), expected, "{what}");
            checked += 1;
        }
    }
    assert_eq!(checked, 7 * 7_usize.pow(4));
}

#[test]
fn an_idle_connection_counts_as_one_to_spare() {
    run(async || {
        let settings = r#"{"backup_weight_threshold":3}"#;
        let scene = scene(&[("a", 3), ("c", 2)], settings, Duration::ZERO);
        let _peer = scene.idle("a", "app");
        // It is leased, and closed at the end of the attempt.
        assert_eq!(scene.attempt(), "idle a");
        let _taken = bring(&scene, "a", Is::Full);
        assert_eq!(scene.attempts(), ["open c"]);
    });
}

#[test]
fn a_statement_that_was_lost_goes_to_the_next_set_if_there_is_no_other_server_in_the_first() {
    let servers = [("a", 3), ("b", 3)];
    for (settings, expected) in [
        (format!("{{{ZONES}}}"), "b"),
        (r#"{"backup_weight_threshold":4,"zones":{"a":"east"}}"#.to_owned(), "b"),
        (r#"{"backup_weight_threshold":3}"#.to_owned(), "b"),
    ] {
        let scene = scene(&servers, &settings, Duration::ZERO);
        let left = scene.server("a");
        let attempt = scene.attempt_instead_of(&left);
        assert_eq!(attempt, format!("open {expected}"), "{settings}");
    }
}

#[test]
fn a_set_whose_servers_have_just_come_back_begins_with_a_small_share() {
    let settings = format!("{{{ZONES}}}");
    let mut scene = scene(&[("a", 1), ("b", 1)], &settings, Duration::from_secs(1_000));
    scene.change(|rows| rows.servers[0].status = ServerStatus::Unreachable);
    assert_eq!(scene.attempts(), ["open b"]);
    scene.change(|rows| rows.servers[0].status = ServerStatus::Online);
    let share = |scene: &Scene, ms: u64| {
        let later = |ask: &mut Ask<'_>| ask.now = Instant::now() + Duration::from_millis(ms);
        (0..2_000).filter(|_| scene.attempt_with(later) == "open a").count()
    };
    // A sixteenth, a half, all of it.
    let (first, half, last) = (share(&scene, 0), share(&scene, 500_000), share(&scene, 1_000_001));
    assert!((50..250).contains(&first) && (850..1_150).contains(&half), "{first} {half}");
    assert_eq!(last, 2_000);
    // It takes more if the others cannot.
    let _full = bring(&scene, "b", Is::Full);
    assert_eq!(scene.attempts(), ["open a"]);
}

#[test]
fn servers_that_come_back_leave_most_of_the_work_to_backups_at_first() {
    let settings = r#"{"backup_weight_threshold":3}"#;
    let mut scene = scene(&[("a", 3), ("b", 3), ("c", 2)], settings, Duration::from_secs(1_000));
    scene.change(|rows| rows.servers[..2].iter_mut().for_each(|row| row.status = ServerStatus::Unreachable));
    assert_eq!(scene.attempts(), ["open c"]);
    scene.change(|rows| rows.servers[0].status = ServerStatus::Online);
    let share = |scene: &Scene, ms: u64| {
        let later = |ask: &mut Ask<'_>| ask.now = Instant::now() + Duration::from_millis(ms);
        (0..2_000).filter(|_| scene.attempt_with(later) == "open c").count()
    };
    let (first, half, last) = (share(&scene, 0), share(&scene, 500_000), share(&scene, 1_000_001));
    assert!((1_750..1_950).contains(&first) && (850..1_150).contains(&half), "{first} {half}");
    assert_eq!(last, 0);
    {
        let _full = bring(&scene, "c", Is::Full);
        assert_eq!(scene.attempts(), ["open a"], "the backup has no connection left");
    }
    // One that has been there all the time takes the rest.
    let mut scene = self::scene(&[("a", 3), ("b", 3), ("c", 2)], settings, Duration::from_secs(1_000));
    scene.change(|rows| rows.servers[0].status = ServerStatus::Unreachable);
    scene.change(|rows| rows.servers[0].status = ServerStatus::Online);
    assert_eq!(share(&scene, 0), 0);
}

#[test]
fn backups_that_join_others_begin_with_a_small_share() {
    let settings = r#"{"backup_weight_threshold":3,"backup_min_servers":2}"#;
    let mut scene = scene(&[("a", 3), ("b", 3), ("c", 2)], settings, Duration::from_secs(1_000));
    assert_eq!(scene.attempts(), ["open a", "open b"]);
    scene.change(|rows| rows.servers[1].status = ServerStatus::Unreachable);
    let share = |ms: u64| {
        let later = |ask: &mut Ask<'_>| ask.now = Instant::now() + Duration::from_millis(ms);
        (0..1_000).filter(|_| scene.attempt_with(later) == "open c").count()
    };
    let (first, last) = (share(0), share(1_000_001));
    // 2 of 50 by weight, and then 2 of 5.
    assert!((30..50).contains(&first) && (390..410).contains(&last), "{first} {last}");
}

#[test]
fn choices_are_counted_by_zone_and_those_of_backups() {
    let settings = format!("{{\"backup_weight_threshold\":3,{ZONES}}}");
    let servers: [(&str, u32); 4] = std::array::from_fn(|i| (NAMES[i], WEIGHTS[i]));
    let mut scene = scene(&servers, &settings, Duration::ZERO);
    let mut down = |name: &'static str| {
        assert_eq!(scene.attempts().len(), 1);
        let is_it = |row: &&mut ServerRow| row.hostname == name;
        scene.change(|rows| rows.servers.iter_mut().find(is_it).unwrap().status = ServerStatus::Unreachable);
    };
    NAMES.into_iter().for_each(&mut down);
    assert_eq!(scene.attempt(), "no server");
    let mut counters = Counters::default();
    scene.pool.count_into(&mut counters);
    let counts: Vec<_> = counters.choices.into_iter().map(|((_, what), count)| (what, count)).collect();
    assert_eq!(counts, [("backup", 40), ("other", 40), ("own", 40)]);
}

#[test]
fn another_worker_is_lent_a_connection_to_a_server_that_is_used_first() {
    run(async || {
        let settings = format!("{{\"backup_weight_threshold\":3,{ZONES}}}");
        let servers: [(&str, u32); 4] = std::array::from_fn(|i| (NAMES[i], WEIGHTS[i]));
        let scene = scene(&servers, &settings, Duration::ZERO);
        let _peers = ["a", "b", "d", "c"].map(|name| scene.idle(name, "app"));
        let lend = || {
            let lent = scene.group().take_for_other(Some(&scene.hostgroup()), None);
            lent.map(|backend| backend.login.server.row.hostname.clone()).unwrap()
        };
        assert_eq!([lend(), lend(), lend(), lend()], ["a", "b", "c", "d"]);
    });
}

#[test]
fn without_any_server_the_error_tells_which_backups_were_not_used() {
    let settings = r#"{"backup_weight_threshold":3,"backup_availability":"status"}"#;
    let scene = scene(&[("a", 3), ("c", 2)], settings, Duration::ZERO);
    let _full = bring(&scene, "a", Is::Full);
    assert_eq!(scene.attempt(), "busy");
    let (group, hostgroup) = (scene.group(), scene.hostgroup());
    let error = scene.pool.unavailable(GROUP, Some((&group, &hostgroup)), (Instant::now(), None));
    let text = format!("{error:?}");
    assert!(text.contains("c:3306 ONLINE (pool 0/1), a backup that is not used"), "{text}");
    let mut counters = Counters::default();
    scene.pool.count_into(&mut counters);
    assert_eq!(counters.unavailable.keys().collect::<Vec<_>>(), [&(GROUP.0, "pool_full")]);
}

//! Statements with a limit of lag: which server each gets, and that those that wait for a lag hold up nobody.

use super::*;
use crate::lag::{LagLimit, ReplicaLag};
use crate::rows::{Variables, hostgroup_attributes};

/// A limit in milliseconds.
fn within(ms: u32) -> Option<LagFilter> {
    Some(LagFilter::from(LagLimit::MaxLagMs(ms)))
}

/// Makes a server lag.
fn lags(scene: &Scene, name: &str, lag_ms: Option<u32>) {
    let lag = lag_ms.map(|lag_ms| ReplicaLag { lag_ms, at_ms: 1, is_aurora: false });
    scene.server(name).figures.lag.set(lag);
}

/// What statements with this limit get, each once.
fn got(scene: &Scene, lag: Option<LagFilter>) -> String {
    let mut all: Vec<String> = (0..30).map(|_| scene.attempt_with(|ask| ask.lag = lag)).collect();
    all.sort();
    all.dedup();
    all.iter().map(|it| it.strip_prefix("open ").unwrap_or(it)).collect::<Vec<_>>().join("+")
}

/// Servers a to d; a and c are in the own zone, c and d are backups, as far as the settings say so.
fn scene(settings: &str) -> Scene {
    let weights = [("a", 3), ("b", 3), ("c", 2), ("d", 2)];
    let row = |(name, weight)| ServerRow { weight, ..server(GROUP.0, name, 3306) };
    let mut rows = rows(weights.map(row).to_vec());
    rows.variables =
        Variables { zone: "east".to_owned(), slow_start: Duration::ZERO, ..Variables::default() };
    rows.hostgroup_attributes = vec![hostgroup_attributes(GROUP.0, settings)];
    Scene::new(rows)
}

#[test]
fn a_limit_is_kept_before_any_preference() {
    const ZONES: &str = r#"{"zones":{"a":"east","b":"west","c":"east","d":"west"}}"#;
    const BACKUPS: &str = r#"{"backup_weight_threshold":3}"#;
    let far = Some(5_000);
    // The lags of a to d, and who gets statements within 1 s and 10 s.
    let cases = [
        ("{}", [None, None, None, None], ["a+b+c+d", "a+b+c+d"]),
        ("{}", [Some(1_000), Some(1_001), far, None], ["a+d", "a+b+c+d"]),
        ("{}", [far, far, far, far], ["no server", "a+b+c+d"]),
        (ZONES, [None, None, None, None], ["a+c", "a+c"]),
        (ZONES, [far, None, None, None], ["c", "a+c"]),
        (ZONES, [far, None, far, None], ["b+d", "a+c"]),
        (ZONES, [far, far, far, far], ["no server", "a+c"]),
        (BACKUPS, [far, None, None, None], ["b", "a+b"]),
        // Backups replace servers that cannot serve anybody, not those that are too far behind for one statement.
        (BACKUPS, [far, far, None, None], ["no server", "a+b"]),
    ];
    for (settings, lag, expected) in cases {
        let scene = scene(settings);
        ["a", "b", "c", "d"].iter().zip(lag).for_each(|(name, lag)| lags(&scene, name, lag));
        assert_eq!([got(&scene, within(1_000)), got(&scene, within(10_000))], expected, "{settings} {lag:?}");
        assert_eq!(got(&scene, None), expected[1]);
    }
}

#[test]
fn a_lagging_server_is_no_last_resort_for_a_statement_with_a_limit() {
    run(async || {
        let scene = Scene::of_one(1);
        lags(&scene, "a", Some(5_000));
        let _peer = scene.idle("a", "app");
        let pause = Duration::from_secs(60);
        scene.group().leave_alone(&scene.server("a"), "gone".to_owned(), Scope::Everything, pause);
        assert_eq!(got(&scene, within(1_000)), "no server");
        assert_eq!(scene.attempt(), "idle a");
    });
}

#[test]
fn the_connection_of_an_earlier_statement_is_left_if_its_server_lags() {
    run(async || {
        let scene = Scene::of_one(2);
        lags(&scene, "a", Some(5_000));
        let _peer = scene.idle("a", "app");
        let last = scene.group().idle.borrow()[0].login.last_use();
        let asked = |lag| scene.attempt_with(|ask| (ask.untouched, ask.lag) = (Some(last), lag));
        assert_eq!(asked(within(1_000)), "no server");
        assert_eq!(scene.idle_count(), 1);
        assert_eq!(asked(within(9_000)), "idle a");
    });
}

#[test]
fn a_worker_lends_only_what_is_within_the_limit() {
    run(async || {
        let scene = Scene::new(rows(servers(&["a", "b"])));
        lags(&scene, "b", Some(5_000));
        let _peers = [scene.idle("a", "app"), scene.idle("b", "app")];
        let lent = |lag| {
            scene.pool.receive(Mail::Borrow { hostgroup: GROUP, to: 1, lag });
            match scene.mail.try_recv() {
                Ok((1, Mail::Backend(Lent(lent)))) => {
                    lent.attach().unwrap().login.server.row.hostname.clone()
                }
                _ => "nothing".to_owned(),
            }
        };
        assert_eq!([lent(within(1_000)), lent(within(1_000)), lent(None)], ["a", "nothing", "b"]);
    });
}

#[test]
fn who_lets_others_pass_is_asked_first_after_each_change() {
    let scene = Scene::of_one(1);
    let (group, demand) = (scene.group(), Arc::clone(&scene.hostgroup().demand));
    let [first, second] = [5, 7].map(|since| waiters::Place::join(scene.group(), WORKER, since));
    assert_eq!(
        (first.is_first(), second.is_first(), demand.oldest_waiter()),
        (true, false, Some((WORKER, 5)))
    );
    first.let_pass();
    assert_eq!(
        (first.is_first(), second.is_first(), demand.oldest_waiter()),
        (true, true, Some((WORKER, 7)))
    );
    group.waiters.poke();
    assert_eq!((first.is_first(), second.is_first()), (true, false));
    first.let_pass();
    drop(second);
    assert!(group.waiters.is_anyone_next(), "who has gone has made it look again");
    first.let_pass();
    assert_eq!((group.waiters.is_anyone_next(), group.waiters.longest()), (false, Some(5)));
    assert_eq!(demand.oldest_waiter(), None);
    drop(first);
    assert_eq!(group.waiters.len(), 0);
}

#[test]
fn who_waits_for_a_lag_holds_up_nobody_and_goes_on_when_it_ends() {
    run(async || {
        let scene = Scene::of_one(1);
        lags(&scene, "a", Some(5_000));
        let _peer = scene.idle("a", "app");
        let (snapshot, want) = (scene.snapshot(), scene.want("app"));
        let plain = Ask::plain(&want, &scene.state, Instant::now());
        let lease = scene.pool.lease(&snapshot, GROUP, Ask { lag: within(1_000), ..plain });
        let mut limited = std::pin::pin!(lease);
        let passes = async {
            while scene.group().waiters.len() == 0 || scene.group().waiters.is_anyone_next() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        crate::rt::select! {
            _ = &mut limited => panic!("the server lags"),
            () = passes => {}
        }
        let (found, reports) = (scene.pool.lease_at_once(&snapshot, GROUP, &plain), scene.pool.waiting());
        assert_eq!((reports.len(), reports[0].cause), (1, UnavailableCause::Lag));
        found.ok().expect("nobody is before it").settle(Exit::Return, &scene.pool, &want, Instant::now());
        lags(&scene, "a", Some(500));
        assert!(limited.await.is_ok());
        let mut counters = crate::figures::Counters::default();
        scene.pool.count_into(&mut counters);
        assert_eq!((counters.with_lag, counters.delayed_by_lag), (1, 1));
    });
}

#[test]
fn the_error_tells_that_servers_lag() {
    let scene = Scene::new(rows(servers(&["a", "b"])));
    lags(&scene, "a", Some(5_000));
    lags(&scene, "b", Some(7_000));
    let (group, hostgroup) = (scene.group(), scene.hostgroup());
    let waited = (Instant::now(), within(1_000));
    let text = format!("{:?}", scene.pool.unavailable(GROUP, Some((&group, &hostgroup)), waited));
    assert!(text.contains("a:3306 its lag was 5000 ms when it was checked"), "{text}");
    assert!(text.contains("the statement has max_lag_ms=1000"), "{text}");
    let mut counters = crate::figures::Counters::default();
    scene.pool.count_into(&mut counters);
    assert_eq!(counters.unavailable.keys().collect::<Vec<_>>(), [&(GROUP.0, "lag")]);
}

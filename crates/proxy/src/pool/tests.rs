//! Which server and connection a request gets, and what becomes of a connection that is given back.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use narrows_wire::Capabilities;
use narrows_wire::auth::Secret;
use narrows_wire::charset::Family;

use super::idle::{NEW_LOGIN, fitness};
use super::*;
use crate::backend::{Kinds, Uncollected};
use crate::hostgroup::ShunLimits;
use crate::rows::{JsonColumn, ServerRow, ServerStatus, UserRow, server};
use crate::rt::{block_on, sleep};
use crate::snapshot::Rows;
use crate::state::SessionState;

mod lag;

/// The worker whose pool is tested, of two.
const WORKER: usize = 0;
pub(super) const GROUP: HostgroupId = HostgroupId(0);

/// A pool, and what it sends to other workers.
pub(super) struct Scene {
    pub(super) pool: Rc<Pool>,
    mail: Receiver<(usize, Mail)>,
    pub(super) rows: Rows,
    state: SharedState,
}

/// The rows of two users and these servers.
pub(super) fn rows(servers: Vec<ServerRow>) -> Rows {
    let user = |name: &str| UserRow {
        username: name.to_owned(),
        password: String::new(),
        active: true,
        use_ssl: false,
        default_hostgroup: GROUP,
        default_schema: String::new(),
        schema_locked: false,
        transaction_persistent: true,
        fast_forward: false,
        max_connections: 10,
        attributes: JsonColumn::default(),
        comment: String::new(),
    };
    Rows { servers, users: vec![user("app"), user("other")], ..Rows::default() }
}

/// Servers of these names.
fn servers(names: &[&str]) -> Vec<ServerRow> {
    names.iter().map(|name| server(GROUP.0, name, 3306)).collect()
}

impl Scene {
    pub(super) fn new(rows: Rows) -> Scene {
        let snapshot = Snapshot::compile(rows.clone(), 2, None).unwrap();
        let (sender, mail) = channel();
        let station = Station {
            worker: WORKER,
            started: Instant::now(),
            in_force: Rc::new(InForce::new(Arc::new(snapshot))),
            outbox: Outbox::new(move |worker, mail| sender.send((worker, mail)).unwrap()),
            pokes: Outbox::new(|_, _| ()),
            errors: Rc::default(),
        };
        let state = Arc::new(SessionState::after_login("utf8mb4", None));
        Scene { pool: Rc::new(Pool::new(station)), mail, rows, state }
    }

    /// One server with room for this many connections.
    fn of_one(max_connections: u32) -> Scene {
        Scene::new(rows(vec![ServerRow { max_connections, ..server(GROUP.0, "a", 3306) }]))
    }

    fn snapshot(&self) -> crate::snapshot::LocalSnapshot {
        self.pool.in_force.get()
    }

    pub(super) fn hostgroup(&self) -> Arc<Hostgroup> {
        Arc::clone(&self.snapshot().hostgroups[&GROUP])
    }

    pub(super) fn group(&self) -> Rc<Group> {
        self.pool.group(&self.hostgroup().demand)
    }

    pub(super) fn server(&self, name: &str) -> Arc<Server> {
        let hostgroup = self.hostgroup();
        Arc::clone(hostgroup.servers.iter().find(|server| server.row.hostname == name).unwrap())
    }

    /// Puts changed rows in force.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Rows)) {
        change(&mut self.rows);
        let snapshot = Snapshot::compile(self.rows.clone(), 2, Some(&self.snapshot())).unwrap();
        self.pool.in_force.replace(Arc::new(snapshot));
    }

    fn want(&self, user: &str) -> Want {
        let snapshot = self.snapshot();
        let account = Arc::clone(&snapshot.users[user.as_bytes()]);
        Want::new(account, Secret::clear(b""), Capabilities::NONE, Arc::default(), &snapshot)
    }

    /// A connection of `user` to `server`, which takes a slot.
    fn backend(&self, server: &str, user: &str) -> (Backend, UnixStream) {
        let (server, hostgroup) = (self.server(server), self.hostgroup());
        let slot = ConnectionSlot::take(&server, &hostgroup.demand, &self.pool.pokes).expect("room");
        Backend::of_test(&server, slot, Family::MySql, &self.want(user), &self.state)
    }

    /// The same, idle.
    pub(super) fn idle(&self, server: &str, user: &str) -> UnixStream {
        let (backend, peer) = self.backend(server, user);
        self.pool.put_idle(&self.group(), backend);
        peer
    }

    /// The same, leased.
    fn lease(&self) -> (Lease, UnixStream) {
        let (backend, peer) = self.backend("a", "app");
        (Lease::new(backend), peer)
    }

    fn ask<T>(&self, change: impl FnOnce(&mut Ask<'_>), then: impl FnOnce(&Ask<'_>) -> T) -> T {
        let want = self.want("app");
        let mut ask = Ask::plain(&want, &self.state, Instant::now());
        change(&mut ask);
        then(&ask)
    }

    /// What a request gets now, as text. Slots and connections are given up at once.
    pub(super) fn attempt_with(&self, change: impl FnOnce(&mut Ask<'_>)) -> String {
        let attempt = |ask: &Ask<'_>| self.pool.attempt(&self.group(), &self.hostgroup(), ask);
        told(self.ask(change, attempt))
    }

    /// The same for a statement that was lost on `server`.
    pub(super) fn attempt_instead_of(&self, server: &Server) -> String {
        let attempt = |ask: &Ask<'_>| {
            let ask = Ask { instead_of: Some(&server.figures), ..*ask };
            told(self.pool.attempt(&self.group(), &self.hostgroup(), &ask))
        };
        self.ask(|_| (), attempt)
    }

    pub(super) fn attempt(&self) -> String {
        self.attempt_with(|_| ())
    }

    /// What several requests get, sorted, each once.
    pub(super) fn attempts(&self) -> Vec<String> {
        let mut all: Vec<String> = (0..20).map(|_| self.attempt()).collect();
        all.sort();
        all.dedup();
        all
    }

    fn idle_count(&self) -> usize {
        self.group().idle.borrow().len()
    }

    /// Waits until the tasks that were spawned have this many idle and open connections.
    async fn wait_for(&self, idle: usize, open: u32) {
        for _ in 0..1_000 {
            if (self.idle_count(), self.server("a").figures.connections()) == (idle, open) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
        panic!("{} idle, {} open", self.idle_count(), self.server("a").figures.connections());
    }
}

/// What a request got, as text.
fn told(attempt: Attempt) -> String {
    match attempt {
        Attempt::Idle(backend, _) => format!("idle {}", backend.login.server.row.hostname),
        Attempt::Open(server, _) => format!("open {}", server.row.hostname),
        Attempt::Busy => "busy".to_owned(),
        Attempt::NoServer => "no server".to_owned(),
    }
}

pub(super) fn run(test: impl AsyncFnOnce()) {
    block_on(test()).unwrap();
}

#[test]
fn a_connection_is_opened_where_there_is_room_and_waited_for_where_there_is_none() {
    let scene = Scene::of_one(1);
    assert_eq!(scene.attempt(), "open a");
    let slot = ConnectionSlot::take(&scene.server("a"), &scene.hostgroup().demand, &scene.pool.pokes);
    assert_eq!(scene.attempt(), "busy");
    drop(slot);
    assert_eq!(scene.attempt(), "open a");
}

#[test]
fn servers_that_get_no_work_are_no_servers() {
    let mut scene = Scene::new(rows(servers(&["a", "b"])));
    assert_eq!(scene.attempts(), ["open a", "open b"]);
    scene.change(|rows| rows.servers[0].status = ServerStatus::OfflineSoft);
    assert_eq!(scene.attempts(), ["open b"]);
    scene.change(|rows| rows.servers[1].weight = 0);
    assert_eq!(scene.attempt(), "no server");
    scene.change(|rows| rows.servers.clear());
    assert_eq!(scene.attempt(), "no server");
}

#[test]
fn a_server_that_failed_is_left_alone_for_a_moment() {
    let scene = Scene::new(rows(servers(&["a", "b"])));
    let leave =
        |scope| scene.group().leave_alone(&scene.server("a"), "gone".to_owned(), scope, Duration::ZERO);
    leave(Scope::Everything);
    assert_eq!(scene.attempts(), ["open b"]);
    assert!(scene.group().next_unpaused(&scene.hostgroup()).is_some());
    let later = |ask: &mut Ask<'_>| ask.now = Instant::now() + Duration::from_secs(2);
    let all: Vec<String> = (0..20).map(|_| scene.attempt_with(later)).collect();
    assert!(all.contains(&"open a".to_owned()), "{all:?}");
}

#[test]
fn a_server_that_cannot_be_connected_to_serves_those_who_are() {
    run(async || {
        for (scope, with_idle, without) in [
            (Scope::Opening, "idle a", "busy"),
            (Scope::Everything, "idle a", "no server"),
            (Scope::Writes, "no server", "no server"),
        ] {
            let scene = Scene::of_one(2);
            let _peer = scene.idle("a", "app");
            scene.group().leave_alone(&scene.server("a"), "gone".to_owned(), scope, Duration::from_secs(60));
            assert_eq!([scene.attempt().as_str(), &scene.attempt()], [with_idle, without], "{scope:?}");
        }
    });
}

#[test]
fn a_shunned_server_rests_unless_all_do() {
    let scene = Scene::new(rows(servers(&["a", "b"])));
    let shun = |name| {
        let limits = ShunLimits { failures: 1, rest: None };
        assert!(scene.server(name).figures.shun.failed(limits, Duration::ZERO));
    };
    shun("a");
    assert_eq!(scene.attempts(), ["open b"]);
    shun("b");
    assert_eq!(scene.attempts(), ["open a", "open b"]);
}

#[test]
fn a_statement_that_was_lost_on_a_server_goes_to_another_if_there_is_one() {
    let instead_of = |scene: &Scene| scene.attempt_instead_of(&scene.server("a"));
    let two = Scene::new(rows(servers(&["a", "b"])));
    assert!((0..20).all(|_| instead_of(&two) == "open b"));
    assert_eq!(instead_of(&Scene::of_one(2)), "open a");
}

#[test]
fn a_second_has_a_budget_of_new_connections() {
    let mut rows = rows(servers(&["a"]));
    rows.variables.throttle_connections_per_sec_to_hostgroup = 2;
    let scene = Scene::new(rows);
    let now = Instant::now();
    let at = |after: u64| scene.attempt_with(|ask| ask.now = now + Duration::from_secs(after));
    assert_eq!([at(5), at(5), at(5)], ["open a", "open a", "busy"]);
    assert_eq!(at(7), "open a");
}

#[test]
fn servers_slower_than_the_average_get_no_work_where_that_is_wanted() {
    let mut rows = rows(servers(&["a", "b"]));
    rows.variables.min_num_servers_latency_awareness = 2;
    let scene = Scene::new(rows);
    scene.server("a").figures.set_latency_us(1_000);
    scene.server("b").figures.set_latency_us(9_000);
    assert_eq!(scene.attempts(), ["open a"]);
}

#[test]
fn fitness_is_what_must_be_done_to_a_connection() {
    run(async || {
        let scene = Scene::of_one(10);
        let fitness_of = |change: &dyn Fn(&mut Backend, &mut Want, &mut SharedState)| {
            let (mut backend, _peer) = scene.backend("a", "app");
            let (mut want, mut state) = (scene.want("app"), Arc::clone(&scene.state));
            change(&mut backend, &mut want, &mut state);
            scene.ask(|_| (), |ask| fitness(&backend, &Ask { want: &want, state: &state, ..*ask }))
        };
        let with = |change: fn(&mut SessionState)| {
            let mut state = SessionState::after_login("utf8mb4", None);
            change(&mut state);
            Arc::new(state)
        };
        assert_eq!(fitness_of(&|_, _, _| ()), 0);
        assert_eq!(fitness_of(&|_, _, state| *state = with(|_| ())), 0, "an equal state is the same");
        assert_eq!(fitness_of(&|_, _, state| *state = with(|it| it.set_names("latin1", None))), 1);
        let in_shop: fn(&mut SessionState) = |state| state.schema = Some(b"shop".as_slice().into());
        assert_eq!(fitness_of(&|_, _, state| *state = with(in_shop)), 2);
        assert_eq!(fitness_of(&|backend, _, _| backend.login.state = with(in_shop)), NEW_LOGIN);
        let elsewhere = |backend: &mut Backend, _: &mut Want, state: &mut SharedState| {
            let mut other = SessionState::clone(&scene.state);
            other.schema = Some(b"other".as_slice().into());
            *state = Arc::new(other);
            backend.login.state = with(in_shop);
        };
        assert_eq!(fitness_of(&elsewhere), 2);
        assert_eq!(fitness_of(&|_, want, _| *want = scene.want("other")), NEW_LOGIN);
        let of_mariadb = |backend: &mut Backend, want: &mut Want, _: &mut SharedState| {
            backend.login.family = Family::MariaDb;
            *want = scene.want("other");
        };
        assert_eq!(fitness_of(&of_mariadb), NEW_LOGIN + 1);
        assert_eq!(fitness_of(&|_, want, _| want.class = Capabilities::FOUND_ROWS), NEW_LOGIN + 1);
        assert_eq!(fitness_of(&|_, want, _| *want = want.own(Capabilities::NONE)), NEW_LOGIN + 1);
    });
}

#[test]
fn of_idle_connections_the_nearest_is_taken_and_of_equals_the_one_used_last() {
    run(async || {
        let scene = Scene::of_one(10);
        let mut peers = Vec::new();
        let mut serials = Vec::new();
        for charset in ["latin1", "utf8mb4", "utf8mb4", "latin1"] {
            let (mut backend, peer) = scene.backend("a", "app");
            backend.login.state = Arc::new(SessionState::after_login(charset, None));
            serials.push(backend.login.last_use());
            peers.push(peer);
            scene.pool.put_idle(&scene.group(), backend);
        }
        let take = || {
            let taken = scene.ask(|_| (), |ask| scene.pool.attempt(&scene.group(), &scene.hostgroup(), ask));
            let Attempt::Idle(backend, _) = taken else { panic!("no idle connection") };
            serials.iter().position(|last| *last == backend.login.last_use()).unwrap()
        };
        assert_eq!([take(), take(), take(), take()], [2, 1, 3, 0]);
        assert_eq!(scene.attempt(), "open a");
    });
}

#[test]
fn another_account_keeps_its_connection_where_there_is_room_for_one_more() {
    run(async || {
        let scene = Scene::of_one(2);
        let _peer = scene.idle("a", "other");
        assert_eq!((scene.attempt().as_str(), scene.idle_count()), ("open a", 1));
        let scene = Scene::of_one(1);
        let _peer = scene.idle("a", "other");
        assert_eq!((scene.attempt().as_str(), scene.idle_count()), ("idle a", 0));
    });
}

#[test]
fn a_connection_that_its_server_has_closed_is_given_to_nobody() {
    run(async || {
        let scene = Scene::of_one(1);
        drop(scene.idle("a", "app"));
        // The runtime hears of it.
        sleep(Duration::from_millis(1)).await;
        assert_eq!((scene.attempt().as_str(), scene.idle_count()), ("open a", 0));
        assert!(scene.server("a").figures.is_distrusted());
    });
}

#[test]
fn a_connection_that_nobody_has_used_since_comes_before_all_others() {
    run(async || {
        let scene = Scene::of_one(5);
        let (backend, _first) = scene.backend("a", "app");
        let last = backend.login.last_use();
        scene.pool.put_idle(&scene.group(), backend);
        let _second = scene.idle("a", "app");
        let taken = scene.ask(
            |ask| ask.untouched = Some(last),
            |ask| scene.pool.attempt(&scene.group(), &scene.hostgroup(), ask),
        );
        assert!(matches!(taken, Attempt::Idle(backend, _) if backend.login.last_use() == last));
    });
}

#[test]
fn a_returned_connection_is_idle_and_a_dropped_lease_closes_its_own() {
    run(async || {
        let scene = Scene::of_one(2);
        let ((returned, _one), (closed, _two)) = (scene.lease(), scene.lease());
        returned.settle(Exit::Return, &scene.pool, &scene.want("app"), Instant::now());
        assert_eq!((scene.idle_count(), scene.server("a").figures.connections()), (1, 2));
        drop(closed);
        assert_eq!((scene.idle_count(), scene.server("a").figures.connections()), (1, 1));
        let (closed, _three) = scene.lease();
        closed.settle(Exit::Close, &scene.pool, &scene.want("app"), Instant::now());
        assert_eq!((scene.idle_count(), scene.server("a").figures.connections()), (1, 1));
    });
}

#[test]
fn a_connection_in_the_place_of_the_leased_one_is_closed() {
    run(async || {
        let scene = Scene::of_one(2);
        let ((mut lease, _one), (other, _two)) = (scene.lease(), scene.backend("a", "app"));
        drop(std::mem::replace(&mut *lease, other));
        lease.settle(Exit::Return, &scene.pool, &scene.want("app"), Instant::now());
        assert_eq!((scene.idle_count(), scene.server("a").figures.connections()), (0, 0));
    });
}

#[test]
fn a_connection_that_may_not_stay_is_closed_when_it_is_returned() {
    type Change = fn(&mut Rows);
    let changes: [(&str, Change); 5] = [
        ("its server drains", |rows| rows.servers[0].status = ServerStatus::OfflineSoft),
        ("its server is gone", |rows| rows.servers.clear()),
        ("its server is never chosen", |rows| rows.servers[0].weight = 0),
        ("its server has too many", |rows| rows.servers[0].max_connections = 1),
        ("it is too old", |rows| rows.variables.connection_max_age = Duration::from_nanos(1)),
    ];
    run(async || {
        for (why, change) in changes {
            let mut scene = Scene::of_one(3);
            let ((lease, _one), (_other, _two)) = (scene.lease(), scene.lease());
            let figures = Arc::clone(&scene.server("a").figures);
            scene.change(change);
            lease.settle(Exit::Return, &scene.pool, &scene.want("app"), Instant::now());
            let idle: usize = scene.pool.groups.borrow().values().map(|it| it.idle.borrow().len()).sum();
            assert_eq!((idle, figures.connections()), (0, 1), "{why}");
        }
    });
}

#[test]
fn a_connection_goes_to_the_worker_whose_client_waits_longest() {
    run(async || {
        let scene = Scene::of_one(1);
        let (lease, _peer) = scene.lease();
        scene.hostgroup().demand.set_oldest_waiter(1, Some(5));
        lease.settle(Exit::Return, &scene.pool, &scene.want("app"), Instant::now());
        let sent = scene.mail.try_recv();
        let Ok((1, Mail::Backend(lent))) = sent else { panic!("{sent:?}") };
        assert_eq!(scene.idle_count(), 0);
        // It comes back when nobody waits there any more.
        scene.hostgroup().demand.set_oldest_waiter(1, None);
        scene.pool.receive(Mail::Backend(lent));
        assert_eq!(scene.idle_count(), 1);
    });
}

#[test]
fn a_search_that_continues_another_keeps_its_place() {
    run(async || {
        let scene = Scene::of_one(1);
        let (lease, _peer) = scene.lease();
        let (snapshot, want, began) = (scene.snapshot(), scene.want("app"), Instant::now());
        let plain = Ask::plain(&want, &scene.state, began);
        let is_queued = async |waiters: usize| {
            while scene.group().waiters.len() < waiters {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let mut other = std::pin::pin!(scene.pool.lease(&snapshot, GROUP, plain));
        crate::rt::select! {
            _ = &mut other => panic!("the only connection is leased"),
            () = is_queued(1) => {}
        }
        // What it had found first was of no use.
        let mut first =
            std::pin::pin!(scene.pool.lease(&snapshot, GROUP, Ask { began: Some(began), ..plain }));
        crate::rt::select! {
            _ = &mut first => panic!("the only connection is leased"),
            () = is_queued(2) => {}
        }
        lease.settle(Exit::Return, &scene.pool, &want, Instant::now());
        let found = crate::rt::select! {
            biased;
            _ = &mut other => panic!("it came later"),
            found = &mut first => found,
        };
        found.unwrap().settle(Exit::Return, &scene.pool, &want, Instant::now());
        assert!(other.await.is_ok());
    });
}

#[test]
fn a_worker_lends_what_is_idle_unless_its_own_clients_wait() {
    run(async || {
        let scene = Scene::of_one(2);
        let _peers = [scene.idle("a", "app"), scene.idle("a", "app")];
        let borrow = || scene.pool.receive(Mail::Borrow { hostgroup: GROUP, to: 1, lag: None });
        let place = waiters::Place::join(scene.group(), WORKER, 7);
        borrow();
        assert!(scene.mail.try_recv().is_err());
        drop(place);
        borrow();
        assert!(matches!(scene.mail.try_recv(), Ok((1, Mail::Backend(_)))));
        assert_eq!(scene.idle_count(), 1);
    });
}

/// Reads a command.
fn hear(peer: &mut UnixStream) -> io::Result<u8> {
    let mut header = [0; 4];
    peer.read_exact(&mut header)?;
    let mut body = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8];
    peer.read_exact(&mut body)?;
    Ok(body[0])
}

/// Reads a command and answers it.
fn answer(peer: &mut UnixStream, answer: &[u8]) -> u8 {
    let command = hear(peer).unwrap();
    peer.write_all(&[&[answer.len() as u8, 0, 0, 1], answer].concat()).unwrap();
    command
}

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const ERROR: &[u8] = b"\xFF\x15\x04#28000no";

/// What the server hears of a connection that is settled with `exit`, and how many connections are idle and open then.
fn hears(exit: Exit, replies: &'static [&'static [u8]], idle: usize, open: u32) -> Vec<u8> {
    hears_of(exit, |_| (), replies, (idle, open))
}

/// The same of a connection that was used.
fn hears_of(
    exit: Exit,
    uses: impl Fn(&mut Backend),
    replies: &'static [&'static [u8]],
    (idle, open): (usize, u32),
) -> Vec<u8> {
    let mut heard = Vec::new();
    run(async || {
        let scene = Scene::of_one(1);
        let (mut lease, mut peer) = scene.lease();
        uses(&mut lease);
        lease.settle(exit, &scene.pool, &scene.want("app"), Instant::now());
        assert_eq!(scene.idle_count(), 0, "nobody gets it before");
        let server = std::thread::spawn(move || {
            let heard = replies.iter().map(|reply| answer(&mut peer, reply)).collect::<Vec<u8>>();
            (heard, peer)
        });
        scene.wait_for(idle, open).await;
        heard = server.join().unwrap().0;
    });
    heard
}

const RESET_CONNECTION: u8 = 0x1F;
const QUERY: u8 = 0x03;

#[test]
fn a_connection_is_reset_before_anybody_else_gets_it() {
    // Traces are removed, and it is asked whether the server has an init_connect.
    assert_eq!(hears(Exit::Reset, &[OK, OK, OK], 1, 1), [RESET_CONNECTION, QUERY, QUERY]);
}

#[test]
fn a_connection_that_does_not_tell_what_it_keeps_is_closed() {
    // Answers to later questions, unread, would be taken for those to the reset.
    let inserts = |backend: &mut Backend| {
        (backend.login.has_insert_id, backend.login.has_conditions) = (true, true);
    };
    assert_eq!(hears_of(Exit::Reset, inserts, &[ERROR], (0, 0)), [QUERY]);
}

#[test]
fn a_connection_tells_what_it_keeps_before_the_pool_closes_it() {
    type Way = fn(&mut Scene);
    let ways: [(&str, Way); 4] = [
        ("the server has refused a write", |scene| {
            scene.pool.turn_away(&scene.snapshot(), &scene.server("a"), "read only");
        }),
        ("the server may have fewer connections", |scene| {
            scene.change(|rows| rows.servers[0].max_connections = 0);
            scene.pool.take_over();
        }),
        ("the server is OFFLINE_SOFT", |scene| {
            scene.change(|rows| rows.servers[0].status = ServerStatus::OfflineSoft);
            assert!(scene.pool.take_due(&scene.snapshot()).is_empty());
        }),
        ("the server is gone", |scene| {
            scene.change(|rows| rows.servers.clear());
            assert!(scene.pool.take_due(&scene.snapshot()).is_empty());
        }),
    ];
    for (name, close) in ways {
        run(async || {
            let mut scene = Scene::of_one(1);
            let (mut backend, mut peer) = scene.backend("a", "app");
            let client = Arc::default();
            let kinds = Kinds { insert_id: true, ..Kinds::default() };
            backend.login.uncollected = Some(Uncollected::new(&client, kinds));
            scene.pool.put_idle(&scene.group(), backend);
            let server = std::thread::spawn(move || answer(&mut peer, ERROR));
            close(&mut scene);
            assert_eq!(scene.idle_count(), 0, "{name}");
            while !server.is_finished() {
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(server.join().unwrap(), QUERY, "{name}");
        });
    }
}

#[test]
fn a_connection_whose_answers_were_not_all_read_is_not_used_further() {
    // The answer to the question for what was not reported: a variable, and something that a program has left.
    let late = b"\0\0\0\x02\x40\0\0\0\x14\0\x0E\x08sql_mode\x04ANSI\x02\x02\x011";
    run(async || {
        let scene = Scene::of_one(1);
        let (mut lease, mut peer) = scene.lease();
        lease.login.capabilities = Capabilities::PROTOCOL_41.union(Capabilities::SESSION_TRACK);
        lease.login.note_untold(true, false);
        lease.login.late_is_ours = false;
        let server = std::thread::spawn(move || {
            let mut heard = vec![answer(&mut peer, late)];
            heard.extend(std::iter::from_fn(|| hear(&mut peer).ok()));
            heard
        });
        let mut state = SessionState::clone(&scene.state);
        state.set_names("latin1", None);
        let aligned = lease.align(&Arc::new(state), false, None, Duration::from_millis(200)).await;
        assert!(aligned.is_err());
        drop(lease);
        let heard = server.join().unwrap();
        assert!(!heard.contains(&RESET_CONNECTION), "{heard:?}");
    });
}

#[test]
fn a_connection_that_cannot_be_reset_is_closed() {
    assert_eq!(hears(Exit::Reset, &[ERROR], 0, 0), [RESET_CONNECTION]);
    assert_eq!(hears(Exit::ChangeUser, &[ERROR], 0, 0).len(), 1);
}

#[test]
fn a_connection_whose_timeouts_are_the_defaults_is_returned_without_a_word() {
    assert!(hears(Exit::UndoTimeouts, &[], 1, 1).is_empty());
}

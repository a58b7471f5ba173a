//! The collation of a login and of a COM_CHANGE_USER: which ids are refused, and which character sets the others
//! select.

use narrows_testkit::{Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer};

use crate::support::start;

/// The result of an id: the session's character sets, or the error.
type Outcome = Result<Vec<Option<String>>, (u16, String, String)>;

const ASKED: &str = "SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection";

/// Past the last id that a server has.
const NUMBERS: std::ops::RangeInclusive<u16> = 0..=2400;

fn login(collation: u16) -> Login {
    Login { collation, ..Login::new("sbtest", "sbtest") }
}

fn told(client: &mut RawClient, outcome: Result<Vec<u8>, narrows_testkit::ErrorPacket>) -> Outcome {
    match outcome {
        Ok(_) => {
            let answer = client.query(ASKED);
            Ok(answer.text_rows().pop().unwrap_or_else(|| panic!("{:?}", answer.error())))
        }
        Err(error) => Err((error.code, error.state, error.message)),
    }
}

fn logins(endpoint: &Endpoint) -> Vec<Outcome> {
    let one = |number: u16| {
        let mut client = RawClient::connect(endpoint);
        let outcome = client.login(&login(number));
        told(&mut client, outcome)
    };
    (0..=255).map(one).collect()
}

/// MariaDB takes a second for each COM_CHANGE_USER that it refuses, so many clients share the ids.
fn changes(endpoint: &Endpoint) -> Vec<Outcome> {
    let share = |first: u16| {
        let numbers = NUMBERS.skip(usize::from(first)).step_by(usize::from(CLIENTS));
        let open = || RawClient::open(endpoint, &login(45));
        let mut client = open();
        let mut one = |number: u16| {
            let outcome = client.change_user(&login(number));
            let outcome = told(&mut client, outcome);
            if outcome.is_err() {
                // MySQL closes the connection, and so does Narrows; MariaDB continues with the old user.
                client = open();
            }
            (number, outcome)
        };
        numbers.map(&mut one).collect::<Vec<_>>()
    };
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|first| scope.spawn(move || share(first))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

const CLIENTS: u16 = 40;

fn narrows(server: &RealServer) -> Narrows {
    let config = NarrowsConfig::in_front_of(server.port());
    let narrows = start(&config);
    // Narrows learns the server family from the first connection.
    assert!(narrows.client().query("DO 1").ok().is_some());
    narrows
}

/// `utf8mb4_0900_ai_ci`: known to MySQL, although it has the same result as unknown ids.
const MYSQL_DEFAULT: usize = 255;

fn compare(run: impl Fn(&Endpoint) -> Vec<Outcome>) {
    let servers: Vec<_> = Flavour::both().into_iter().map(RealServer::shared).collect();
    let direct: Vec<Vec<Outcome>> =
        servers.iter().map(|server| run(&Endpoint::Unix(server.socket()))).collect();
    for (server, theirs) in servers.iter().zip(&direct) {
        let narrows = narrows(server);
        let ours = run(&Endpoint::Unix(narrows.socket()));
        let default = &theirs[0];
        for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
            let what = format!("{:?}, collation {number}: {their:?}", server.flavour());
            let by_all: Vec<&Outcome> = direct.iter().map(|outcomes| &outcomes[number]).collect();
            match our {
                // What all servers refuse is refused with the same message, and nothing else is refused.
                Err(_) => assert!(by_all.iter().all(|by_one| *by_one == our), "{what}: {our:?}"),
                Ok(_) if servers.len() > 1 => {
                    assert!(by_all.iter().any(|by_one| by_one.is_ok()), "{what}: {our:?}");
                }
                Ok(_) => {}
            }
            // An id that this server does not know leaves the default, unless another family knows it and this server
            // has its character set: then it is clear which one is meant.
            let is_known_elsewhere = direct.iter().any(|outcomes| {
                let is_default = outcomes[number] == outcomes[0] && number != MYSQL_DEFAULT;
                outcomes != theirs && outcomes[number].is_ok() && !is_default
            });
            match their {
                Ok(_) if their != default || !is_known_elsewhere => assert_eq!(our, their, "{what}"),
                Ok(_) => {}
                Err(_) if our.is_ok() => assert_eq!(our, default, "{what}"),
                Err(_) => {}
            }
        }
        let refused = ours.iter().filter(|outcome| outcome.is_err()).count();
        assert!(refused > 50, "{:?}: only {refused} numbers are refused", server.flavour());
    }
}

#[test]
fn logins_take_the_collations_that_servers_take() {
    compare(logins);
}

#[test]
fn changes_of_the_user_take_the_collations_that_servers_take() {
    compare(changes);
}

#[test]
fn a_collation_is_refused_before_the_password_is_looked_at() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = narrows(server);
        for endpoint in [server.endpoint(), narrows.endpoint()] {
            let wrong = Login { collation: 35, ..Login::new("sbtest", "wrong") };
            let error = RawClient::connect(&endpoint).login(&wrong).expect_err("refused");
            assert_eq!((error.code, error.state.as_str()), (1231, "42000"), "{flavour:?} {endpoint:?}");
        }
    }
}

//! Capabilities, compression and commands of the protocol.

use std::time::Duration;

use narrows_testkit::{
    Answer, Endpoint, Flavour, Login, Narrows, NarrowsConfig, Packet, RawClient, RealServer, ServerOptions,
    capability, command,
};

use crate::support::Stand;

/// A step of a client's conversation.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// `COM_QUERY`.
    Query(&'static str),
    /// Prepares, executes without parameters, and closes.
    Prepared(&'static str),
    /// `COM_STMT_BULK_EXECUTE` of an insertion of the number 7.
    Bulk(&'static str),
    /// `COM_SET_OPTION`.
    SetOption(u16),
    /// `COM_INIT_DB`.
    InitDb(&'static str),
    ResetConnection,
}

/// What depends on some capability, or could.
const STEPS: &[Step] = &[
    Step::Query("UPDATE t SET a = 1 WHERE a = 1"),
    Step::Prepared("UPDATE t SET a = 1 WHERE a = 1"),
    Step::Query("SELECT a FROM other.t ORDER BY a"),
    Step::Query("SELECT other.t.a FROM t ORDER BY a"),
    Step::Prepared("SELECT a FROM other.t ORDER BY a"),
    Step::Query("LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded"),
    Step::Query("SHOW WARNINGS"),
    Step::Query("SELECT COUNT(*) FROM loaded"),
    Step::Query("SELECT COUNT (*) FROM t"),
    Step::Query("SELECT @@wait_timeout, @@interactive_timeout"),
    Step::Prepared("SELECT @@wait_timeout"),
    Step::Query("SELECT @@sql_mode"),
    Step::Query("SELECT 1; SELECT 2"),
    Step::Query("CALL shows()"),
    Step::Prepared("CALL shows()"),
    Step::Query("CALL gives(@x)"),
    Step::Query("SELECT @x"),
    Step::Prepared("CALL gives(?)"),
    Step::Prepared("CALL shows_and_gives(?)"),
    Step::Query("SET autocommit = 0"),
    Step::Query("SELECT a FROM t"),
    Step::Query("COMMIT"),
    Step::Query("SET autocommit = 1"),
    Step::Query("USE other"),
    Step::InitDb("app"),
    Step::Bulk("INSERT INTO bulk VALUES (?)"),
    Step::Query("SELECT COUNT(*) FROM bulk"),
    Step::Query("SELECT j, p FROM typed"),
    Step::SetOption(0),
    Step::Query("SELECT 1; SELECT 2"),
    Step::SetOption(1),
    Step::Query("SELECT 1; SELECT 2"),
    Step::ResetConnection,
    Step::Query("SELECT @@wait_timeout, @@interactive_timeout"),
    Step::Query("SELECT COUNT (*) FROM t"),
    Step::Query("SELECT a FROM other.t ORDER BY a"),
    Step::Prepared("CALL gives(?)"),
];

const SCHEMA: &[&str] = &[
    "DROP DATABASE IF EXISTS app",
    "DROP DATABASE IF EXISTS other",
    "CREATE DATABASE app",
    "CREATE DATABASE other",
    "CREATE TABLE app.t (a INT)",
    "INSERT INTO app.t VALUES (1), (2)",
    "CREATE TABLE other.t (a INT)",
    "INSERT INTO other.t VALUES (30), (40), (50)",
    "CREATE TABLE app.loaded (a INT)",
    "CREATE TABLE app.bulk (a INT)",
    "CREATE TABLE app.typed (j JSON, p POINT)",
    "CREATE PROCEDURE app.shows() SELECT a FROM app.t",
    "CREATE PROCEDURE app.gives(OUT p INT) SET p = 5",
    "CREATE PROCEDURE app.shows_and_gives(OUT p INT) BEGIN SELECT 8; SET p = 5; END",
];

/// A flag, and what a client without it has: the rest of its capabilities.
struct Flag {
    name: &'static str,
    lower: u32,
    extended: u32,
    of: Option<Flavour>,
}

const fn flag(name: &'static str, lower: u32) -> Flag {
    Flag { name, lower, extended: 0, of: None }
}

const fn extended(name: &'static str, extended: u32) -> Flag {
    Flag { name, lower: 0, extended, of: Some(Flavour::MariaDb) }
}

/// Every flag that clients are offered and that a login may have or not.
const FLAGS: &[Flag] = &[
    flag("FOUND_ROWS", capability::FOUND_ROWS),
    flag("LONG_FLAG", capability::LONG_FLAG),
    flag("NO_SCHEMA", capability::NO_SCHEMA),
    flag("ODBC", capability::ODBC),
    flag("LOCAL_FILES", capability::LOCAL_FILES),
    flag("IGNORE_SPACE", capability::IGNORE_SPACE),
    flag("INTERACTIVE", capability::INTERACTIVE),
    flag("TRANSACTIONS", capability::TRANSACTIONS),
    flag("MULTI_STATEMENTS", capability::MULTI_STATEMENTS),
    flag("MULTI_RESULTS", capability::MULTI_RESULTS),
    flag("PS_MULTI_RESULTS", capability::PS_MULTI_RESULTS),
    flag("SESSION_TRACK", capability::SESSION_TRACK),
    flag("DEPRECATE_EOF", capability::DEPRECATE_EOF),
    Flag {
        name: "QUERY_ATTRIBUTES",
        lower: capability::QUERY_ATTRIBUTES,
        extended: 0,
        of: Some(Flavour::MySql9),
    },
    extended("STMT_BULK", capability::EXTENDED_STMT_BULK),
    extended("EXTENDED_METADATA", capability::EXTENDED_METADATA),
];

/// Two clients, one with and one without a flag, take turns on the same connections; each of their answers is that of a
/// connection of their own.
#[test]
fn a_capability_is_that_of_its_client_alone() {
    for flavour in Flavour::both() {
        let options = ServerOptions::new(flavour)
            .option("--local-infile=1")
            .option("--wait-timeout=20000")
            .option("--interactive-timeout=30000");
        let server = options.option("--log-bin-trust-function-creators=1").start();
        server.execute(SCHEMA);
        // A transaction of one client must not stop the other.
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=2")
            .variable("threads", "1")
            .variable("enable_load_data_local_infile", "true")
            .user("sbtest", "sbtest", "");
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
        // A first client, after which the servers' own capabilities are known and offered.
        narrows.client().query("SELECT 1");
        let mut faults = Vec::new();
        for flag in FLAGS.iter().filter(|flag| flag.of.is_none_or(|of| of == flavour)) {
            for base in [0, capability::DEPRECATE_EOF | capability::SESSION_TRACK] {
                server.execute(SCHEMA);
                let mut through = pair(&narrows.endpoint(), flag, base);
                let shared = talk(&mut through);
                drop(through);
                server.execute(SCHEMA);
                let mut own = pair(&Endpoint::Unix(server.socket()), flag, base);
                let direct = talk(&mut own);
                for ((step, with), (shared, direct)) in turns().zip(shared.iter().zip(&direct)) {
                    if shared != direct && !is_known(flavour, flag, step) {
                        let with = if with { "with" } else { "without" };
                        faults.push(format!(
                            "{flavour:?} {with} {} (base {base:#x}): {step:?}\n  shared {shared:?}\n  direct {direct:?}",
                            flag.name
                        ));
                    }
                }
            }
        }
        assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
    }
}

/// What differs for a reason that is not the capability's.
fn is_known(flavour: Flavour, flag: &Flag, step: Step) -> bool {
    match (flavour, flag.name, step) {
        // A reset of MariaDB leads to the global value of wait_timeout, and not to that of the login, for the client's own
        // resets and for those of the connection between two clients.
        (Flavour::MariaDb, "INTERACTIVE", Step::Query(text) | Step::Prepared(text)) => {
            text.contains("@@wait_timeout")
        }
        // The EOF packet after OUT parameters has no count of warnings, and the OK packet in its place has one.
        (Flavour::MySql9, "NO_SCHEMA", Step::Prepared(text)) => text.contains("gives(?)"),
        _ => false,
    }
}

/// A client with the flag and one without it.
fn pair(endpoint: &Endpoint, flag: &Flag, base: u32) -> [RawClient; 2] {
    [true, false].map(|with| {
        let mut login = Login::new("sbtest", "sbtest").schema("app").with(base);
        match with {
            true => login = login.with(flag.lower).extended(flag.extended),
            false => login = login.without(flag.lower),
        }
        let mut client = RawClient::open(endpoint, &login);
        client.set_local_file(b"1\n2\n".to_vec());
        client
    })
}

fn turns() -> impl Iterator<Item = (Step, bool)> {
    STEPS.iter().flat_map(|step| [(*step, true), (*step, false)])
}

fn talk(clients: &mut [RawClient; 2]) -> Vec<Vec<Packet>> {
    turns().map(|(step, with)| run(&mut clients[usize::from(!with)], step)).collect()
}

fn run(client: &mut RawClient, step: Step) -> Vec<Packet> {
    let packets = |answer: Answer| answer.packets;
    match step {
        Step::Query(text) => counted_after_rows(client.query(text)),
        Step::Prepared(text) => {
            let mut all = packets(client.command(command::STMT_PREPARE, text.as_bytes()));
            let Some(id) = statement_id(&all) else { return all };
            // MariaDB counts preparations in a way of its own.
            all[0].payload[1..5].fill(0);
            let parameters = text.contains('?').then_some([0_u8, 1, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
            let answer = execute(client, id, parameters.as_ref().map_or(&[][..], |it| &it[..]));
            all.extend(counted_after_rows(answer));
            client.command(command::STMT_CLOSE, &id.to_le_bytes());
            all
        }
        Step::Bulk(text) => {
            let all = packets(client.command(command::STMT_PREPARE, text.as_bytes()));
            let Some(id) = statement_id(&all) else { return all };
            // Flag: types follow; one parameter of four bytes, not NULL.
            let body = [&id.to_le_bytes()[..], &[128, 0, 3, 0, 0, 7, 0, 0, 0]].concat();
            let answer = packets(client.command(command::STMT_BULK_EXECUTE, &body));
            client.command(command::STMT_CLOSE, &id.to_le_bytes());
            answer
        }
        Step::SetOption(option) => packets(client.command(command::SET_OPTION, &option.to_le_bytes())),
        Step::InitDb(schema) => packets(client.command(command::INIT_DB, schema.as_bytes())),
        Step::ResetConnection => packets(client.command(command::RESET_CONNECTION, &[])),
    }
}

/// The packets, without the count of warnings in each EOF packet between columns and rows, which Narrows has made.
fn counted_after_rows(answer: Answer) -> Vec<Packet> {
    let mut packets = answer.packets;
    let ends = packets.iter_mut().filter(|it| it.payload.len() == 5 && it.payload[0] == 0xFE);
    ends.step_by(2).for_each(|columns_end| columns_end.payload[1..3].fill(0));
    packets
}

/// The id in the answer to a preparation that has succeeded.
fn statement_id(answer: &[Packet]) -> Option<u32> {
    let head = &answer.first()?.payload;
    (head.first() == Some(&0)).then(|| u32::from_le_bytes(head[1..5].try_into().expect("four bytes")))
}

/// `COM_STMT_EXECUTE`; `parameters` follow the number of iterations.
fn execute(client: &mut RawClient, id: u32, parameters: &[u8]) -> Answer {
    let mut body = [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
    // With query attributes, the number of parameters is sent if a flag says so, and each has a name.
    if client.capabilities() & capability::QUERY_ATTRIBUTES != 0 && !parameters.is_empty() {
        body.extend([1, parameters[0], parameters[1], parameters[2], parameters[3], 0]);
        body.extend(&parameters[4..]);
    } else {
        body.extend(parameters);
    }
    client.command(command::STMT_EXECUTE, &body)
}

const MIB: usize = 1 << 20;

/// The length of a line of a file that is loaded.
const LINE: usize = 4000;

/// Around the size of a server's network buffer, of what drivers have seen fail, and of one packet.
const SIZES: &[usize] = &[100, 16_000, 16_384, 17_000, 50_000, 66_000, 300_000, 16 * MIB - 1, 17 * MIB];

/// Statements and answers of any size arrive, with the numbers of packets that drivers expect, whichever side compresses.
#[test]
fn packets_are_in_order_whichever_side_compresses() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour)
            .option("--local-infile=1")
            .option("--max-allowed-packet=64M")
            .account("fast", "fast")
            .start();
        server.execute(&[
            "CREATE DATABASE app",
            "CREATE TABLE app.many (id INT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(300))",
            "INSERT INTO app.many (t) SELECT SHA2(UUID(), 512) FROM information_schema.collations a, \
             information_schema.collations b LIMIT 5000",
            "CREATE TABLE app.loaded (t TEXT)",
        ]);
        for columns in ["max_connections=4", "max_connections=4 compression=1"] {
            let config = NarrowsConfig::new()
                .server(0, server.port(), columns)
                .variable("threads", "1")
                .variable("max_allowed_packet", "268435456")
                .variable("enable_load_data_local_infile", "true")
                .user("sbtest", "sbtest", "")
                .user("fast", "fast", "fast_forward=1");
            let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
            for user in ["sbtest", "fast"] {
                for compression in [0, capability::COMPRESS, capability::ZSTD_COMPRESSION] {
                    for form in [0, capability::DEPRECATE_EOF] {
                        let login = Login::new(user, user).schema("app").with(compression | form);
                        let mut client = RawClient::open(&narrows.endpoint(), &login);
                        client.set_patience(Duration::from_secs(60));
                        let about = format!("{flavour:?} {columns} {user} {compression:#x} {form:#x}");
                        // The long ones take their time. The form of ends and the algorithm are no matter of theirs.
                        let compresses = columns.contains("compression") != (compression != 0);
                        let longest =
                            compresses && form == 0 && compression & capability::ZSTD_COMPRESSION == 0;
                        any_size(&mut client, longest, &about);
                    }
                }
            }
        }
    }
}

fn any_size(client: &mut RawClient, longest: bool, about: &str) {
    let has_eof = client.capabilities() & capability::DEPRECATE_EOF == 0;
    for size in SIZES.iter().copied().filter(|size| longest || *size < MIB) {
        let about = format!("{about}, {size} bytes");
        let question = |text: &str| format!("SELECT LENGTH('{}')", "y".repeat(size - text.len()));
        // The packet has the length `size`, with the command's byte.
        let statement = question("SELECT LENGTH('')x");
        let answer = client.query(&statement);
        in_order(&answer, packets_of(size), &about);
        assert_eq!(answer.cell(), Some((size - 18).to_string()), "{about}");
        let refused = format!("SELEKT {}", "y".repeat(size - 8));
        let answer = client.query(&refused);
        in_order(&answer, packets_of(size), &about);
        assert_eq!(answer.error().map(|error| error.code), Some(1064), "{about}");
        let answer = client.query(format!("SELECT REPEAT('z', {size}), 1"));
        in_order(&answer, 1, &about);
        let sent: usize = answer.packets.iter().map(|packet| packet.payload.len()).sum();
        assert!(sent > size, "{about}: {sent} bytes of an answer");
        let prepared = client.command(command::STMT_PREPARE, b"SELECT LENGTH(?), ?");
        in_order(&prepared, 1, &about);
        let id = statement_id(&prepared.packets).expect("it is prepared");
        for parameter in [0_u16, 1] {
            let part = "p".repeat(size);
            let body = [&id.to_le_bytes()[..], &parameter.to_le_bytes(), part.as_bytes()].concat();
            client.send_command(command::STMT_SEND_LONG_DATA, &body).expect("connected");
        }
        let answer = execute(client, id, &[0, 1, 252, 0, 252, 0]);
        in_order(&answer, 1, &about);
        assert!(answer.error().is_none(), "{about}: {:?}", answer.error());
        let sent: usize = answer.packets.iter().map(|packet| packet.payload.len()).sum();
        assert!(sent > size, "{about}: {sent} bytes of a prepared answer");
        client.command(command::STMT_CLOSE, &id.to_le_bytes());
        // Files of many packets, whose numbers wrap around.
        if size > 60_000 {
            client.query("TRUNCATE loaded");
            let rows = size / LINE;
            client.set_local_file(format!("{}\n", "z".repeat(LINE - 1)).repeat(rows).into_bytes());
            let answer = client.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded");
            let packets = (rows * LINE).div_ceil(16 << 10) + 1;
            assert!(answer.error().is_none(), "{about}: {:?}", answer.error());
            if !about.contains(" fast ") {
                assert_eq!(answer.packets[0].sequence, 1, "{about}");
                assert_eq!(answer.packets[1].sequence, (2 + packets) as u8, "{about}: after the file");
            }
            assert_eq!(answer.ok().map(|ok| ok.affected_rows), Some(rows as u64), "{about}");
        }
    }
    let answer = client.query("SELECT id, t FROM many ORDER BY id");
    in_order(&answer, 1, about);
    assert_eq!(answer.packets.len(), 5000 + 4 + usize::from(has_eof), "{about}");
}

/// How many packets a payload of this length is.
fn packets_of(length: usize) -> usize {
    length / Packet::MAX + 1
}

fn in_order(answer: &Answer, command_packets: usize, about: &str) {
    assert_eq!(answer.lost, None, "{about}: {:?}", answer.packets.last());
    // The bytes of both sides are frames of the same form, whose numbers the client checks.
    if about.contains(" fast ") && !about.contains(" fast 0x0 ") {
        return;
    }
    for (place, packet) in answer.packets.iter().enumerate() {
        assert_eq!(packet.sequence, (command_packets + place) as u8, "{about}: packet {place} of the answer");
    }
}

/// What libraries send with `COM_CHANGE_USER`, and what they do with the server's question.
#[test]
fn a_change_of_the_user_asks_for_an_answer_as_servers_do() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        for announced in ["mysql_native_password", "caching_sha2_password"] {
            let config = NarrowsConfig::new()
                .server(0, server.port(), "")
                .variable("default_authentication_plugin", announced)
                .user("sbtest", "sbtest", "")
                .user("two", "two", "");
            let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
            for named in ["mysql_native_password", "caching_sha2_password"] {
                // A right answer, none, and one to a nonce of nobody, as Vert.x sends it.
                for sent in [None, Some(&b""[..]), Some(&[9_u8; 20][..]), Some(&[9_u8; 32][..])] {
                    let about = format!("{flavour:?} announced {announced}, named {named}, sent {sent:?}");
                    let mut client =
                        RawClient::open(&Endpoint::Unix(narrows.socket()), &Login::new("sbtest", "sbtest"));
                    let login = Login::new("two", "two").plugin(named);
                    let asked = client.change_user_with(&login, sent);
                    assert_eq!(asked, Ok(true), "{about}");
                    let answer = client.query("SELECT SUBSTRING_INDEX(USER(), '@', 1)");
                    // The server has no such account, and refuses it in one of several ways, but the session is that of the
                    // other user.
                    let is_other = answer.error().is_some_and(|error| error.code == 1045);
                    assert!(is_other || answer.cell().as_deref() == Some("two"), "{about}: {answer:?}");
                    let wrong = Login::new("two", "wrong").plugin(named);
                    let refused = client.change_user_with(&wrong, sent);
                    assert_eq!(refused.map_err(|error| error.code), Err(1045), "{about}");
                }
            }
        }
        // A server does the same.
        let mut direct = RawClient::open(&Endpoint::Unix(server.socket()), &Login::new("sbtest", "sbtest"));
        let asked = direct.change_user_with(&Login::new("sbtest", "sbtest"), None);
        assert_eq!(asked, Ok(true), "{flavour:?}");
    }
}

/// A schema that a reader does not have yet: the writer answers.
#[test]
fn a_schema_that_a_reader_lacks_is_read_from_the_writer() {
    for flavour in Flavour::both() {
        let with_gtids = |id: u32| {
            let options = ServerOptions::new(flavour)
                .option(&format!("--server-id={id}"))
                .option("--log-bin=binlog")
                .option("--log-bin-trust-function-creators=1");
            match flavour {
                Flavour::MariaDb => options,
                Flavour::MySql9 => options.option("--gtid-mode=ON").option("--enforce-gtid-consistency=ON"),
            }
        };
        // The reader applies nothing.
        let (writer, reader) = (with_gtids(1).start(), with_gtids(2).start());
        let config = NarrowsConfig::new()
            .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
            .rule("rule_id=5 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
            .server(0, writer.port(), "")
            .server(1, reader.port(), "")
            .variable("threads", "1")
            .variable("causal_reads", "session")
            .variable("causal_reads_timeout", "100")
            .user("sbtest", "sbtest", "");
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
        let mut client = narrows.client();
        for schema in ["one", "two"] {
            client.query(format!("CREATE DATABASE {schema}"));
            client.query(format!("USE {schema}"));
            client.query("CREATE TABLE t (a INT)");
            client.query("INSERT INTO t VALUES (4)");
            let answer = client.query("SELECT a FROM t");
            assert_eq!(answer.error(), None, "{flavour:?} {schema}");
            assert_eq!(answer.cell().as_deref(), Some("4"), "{flavour:?} {schema}");
            // The second time with a connection to the reader that is open and has no schema.
            narrows.client().query("SELECT 1");
        }
    }
}

/// A statement that was prepared without a schema is prepared again on a connection that has one.
#[test]
fn a_statement_prepared_without_a_schema_is_executed_in_any() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, SCHEMA);
        let mut client = stand.client();
        let prepared = client.command(command::STMT_PREPARE, b"SELECT a FROM app.t ORDER BY a");
        let id = statement_id(&prepared.packets).expect("it is prepared");
        client.query("USE other");
        client.query("SET sql_mode = 'ANSI_QUOTES'");
        for round in 0..3 {
            if round > 0 {
                end_connections(&stand);
            }
            let answer = execute(&mut client, id, &[]);
            assert_eq!(answer.error(), None, "{flavour:?}, round {round}");
            assert_eq!(answer.packets.len(), 1 + 1 + 1 + 2 + 1, "{flavour:?}: two rows");
            assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("other"), "{flavour:?}");
            // It is known that the connection has a schema.
            assert_eq!(stand.client().query("SELECT DATABASE()").cell(), None, "{flavour:?}: another client");
        }
    }
}

/// Ends Narrows' connections.
fn end_connections(stand: &Stand) {
    let list = "SELECT id FROM information_schema.processlist WHERE user = 'sbtest'";
    for row in stand.server.rows(list) {
        let id = row[0].clone().expect("an id");
        let _ = stand.server.try_execute(&format!("KILL {id}"));
    }
    narrows_testkit::wait_until("they are gone", || stand.server.rows(list).is_empty());
}

/// A part of a parameter that a statement does not have: no execution succeeds until it is reset.
#[test]
fn a_part_for_a_wrong_parameter_lasts_until_a_reset() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        let talk = |mut client: RawClient| {
            let mut all = Vec::new();
            for (text, parameters) in [("SELECT 1", &[][..]), ("SELECT ?", &[0_u8, 1, 252, 0, 1, b'v'][..])] {
                let prepared = client.command(command::STMT_PREPARE, text.as_bytes());
                let id = statement_id(&prepared.packets).expect("it is prepared");
                let good: &[u8] = parameters;
                for wrong in [1_u16, 2, 65_535] {
                    all.push(execute(&mut client, id, good).packets);
                    let body = [&id.to_le_bytes()[..], &wrong.to_le_bytes(), b"part"].concat();
                    client.send_command(command::STMT_SEND_LONG_DATA, &body).expect("connected");
                    all.push(execute(&mut client, id, good).packets);
                    all.push(execute(&mut client, id, good).packets);
                    if !parameters.is_empty() {
                        let body = [&id.to_le_bytes()[..], &[0, 0], b"part"].concat();
                        client.send_command(command::STMT_SEND_LONG_DATA, &body).expect("connected");
                        all.push(execute(&mut client, id, &[0, 1, 252, 0]).packets);
                    }
                    all.push(client.command(command::STMT_RESET, &id.to_le_bytes()).packets);
                    all.push(execute(&mut client, id, good).packets);
                }
            }
            all
        };
        assert_eq!(talk(stand.client()), talk(stand.direct()), "{flavour:?}");
    }
}

/// The flag for new columns is for the client that knows others, also if another client had the server prepare again.
#[test]
fn a_client_is_told_of_new_columns_once() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, SCHEMA);
        for form in [0, capability::DEPRECATE_EOF] {
            let talk = |endpoint: &Endpoint| {
                stand.server.execute(SCHEMA);
                let mut clients = [(); 3].map(|()| {
                    RawClient::open(endpoint, &Login::new("sbtest", "sbtest").schema("app").with(form))
                });
                let text = b"SELECT * FROM t";
                let id = |client: &mut RawClient| {
                    statement_id(&client.command(command::STMT_PREPARE, text).packets).expect("prepared")
                };
                let [one, two, late] = &mut clients;
                let (of_one, of_two) = (id(one), id(two));
                let mut all = vec![execute(one, of_one, &[]).packets, execute(two, of_two, &[]).packets];
                for statements in [
                    &[
                        "DROP TABLE app.t",
                        "CREATE TABLE app.t (a INT, b INT)",
                        "INSERT INTO app.t VALUES (1, 2)",
                    ][..],
                    // As many columns, of other types.
                    &["DROP TABLE app.t", "CREATE TABLE app.t (a INT, c TEXT)"],
                    &["ALTER TABLE app.t DROP COLUMN c"],
                ] {
                    stand.server.execute(statements);
                    let of_late = id(late);
                    for _ in 0..2 {
                        all.push(execute(late, of_late, &[]).packets);
                        all.push(execute(one, of_one, &[]).packets);
                        all.push(execute(two, of_two, &[]).packets);
                    }
                    late.command(command::STMT_CLOSE, &of_late.to_le_bytes());
                }
                all
            };
            let shared = talk(&stand.narrows.endpoint());
            let direct = talk(&Endpoint::Unix(stand.server.socket()));
            for (place, (shared, direct)) in shared.iter().zip(&direct).enumerate() {
                assert_eq!(shared, direct, "{flavour:?}, form {form:#x}, answer {place}");
            }
        }
    }
}

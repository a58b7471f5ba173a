//! Logins to servers with tokens of AWS IAM: towards a server that verifies them, with keys from services like those of AWS.

mod real_server;
mod refusals;
mod renewal;
mod sources;
mod tokens;

use narrows_testkit::{
    Authority, AwsKey, Endpoint, FakeRds, Login, Narrows, NarrowsConfig, RawClient, TempFolder, Validity,
    seconds_from_now,
};

use crate::support::start;

/// The parts of keys that must never be seen.
const SECRET: &str = "sEcReTkEy/of+tests";
const SESSION: &str = "sEsSiOnToKeN+of/tests==";

/// The name of the key of most tests.
const KEY: &str = "ASIATESTS";

const REGION: &str = "eu-central-1";

/// A server, and the files of those who connect to it.
struct Scene {
    rds: FakeRds,
    folder: TempFolder,
    authority: Authority,
}

impl Scene {
    fn new() -> Scene {
        let authority = Authority::new("of servers");
        let certificate = authority.issue("rds", &["127.0.0.1"], Validity::Current);
        let (rds, folder) = (FakeRds::start(&certificate, REGION), TempFolder::new("aws-iam"));
        std::fs::write(folder.file("ca.pem"), authority.pem()).expect("a new folder");
        rds.know(key(KEY, None));
        Scene { rds, folder, authority }
    }

    /// A Narrows in front of the server, whose account `app` gets tokens. It closes a connection that is older than a moment after a
    /// statement.
    fn config(&self) -> NarrowsConfig {
        NarrowsConfig::new()
            .server(0, self.rds.port(), "use_ssl=1")
            .user("app", "of-clients", TOKENS)
            .variable("ssl_p2s_ca", &self.folder.file("ca.pem").display().to_string())
            .variable("connection_max_age_ms", "1")
            .variable("connect_timeout_server", "30000")
            .variable("connect_timeout_server_max", "5000")
            .environment("HOME", &self.folder.path().display().to_string())
            .environment("AWS_EC2_METADATA_DISABLED", "true")
            .environment("NARROWS_LOG", "trace")
    }

    /// The same with keys in the environment.
    fn with_keys(&self) -> NarrowsConfig {
        self.config()
            .environment("AWS_ACCESS_KEY_ID", KEY)
            .environment("AWS_SECRET_ACCESS_KEY", SECRET)
            .environment("AWS_SESSION_TOKEN", SESSION)
    }
}

/// The attributes of an account with tokens.
const TOKENS: &str = r#"attributes="{\"aws_iam\":{\"region\":\"eu-central-1\"}}""#;

/// A key that servers know.
fn key(id: &str, until: Option<i64>) -> AwsKey {
    AwsKey { id: id.to_owned(), secret: SECRET.to_owned(), session: Some(SESSION.to_owned()), until }
}

/// The answer of a service that hands out a key.
fn handed_out(id: &str, until: i64) -> String {
    format!(
        r#"{{"Code":"Success","AccessKeyId":"{id}","SecretAccessKey":"{SECRET}","Token":"{SESSION}","Expiration":"{}"}}"#,
        date(until)
    )
}

/// `2015-08-30T12:36:00Z` of a number of seconds since 1970, after 2000.
fn date(seconds: i64) -> String {
    let (mut days, second) = (seconds / 86_400 - 10_957, seconds % 86_400);
    let mut year = 2000;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", days + 1, second % 60)
}

fn now() -> i64 {
    seconds_from_now(0)
}

fn app(narrows: &Narrows) -> RawClient {
    RawClient::open(&narrows.endpoint(), &Login::new("app", "of-clients"))
}

/// A column of the only row about the keys.
fn credentials(narrows: &Narrows, column: &str) -> String {
    let sql = format!("SELECT {column} FROM stats_narrows_aws_credentials");
    narrows.admin().query(sql).cell().unwrap_or_default()
}

/// Fails if a client without keys receives more than that, or if a line of the log does not have all these parts of the reason.
fn reason_is_in_the_log_alone(narrows: &Narrows, client: &mut RawClient, parts: &[&str]) {
    let error = client.query("DO 1").error().expect("no keys");
    let end = " for you: there are no credentials for its IAM token; the log of Narrows says why";
    assert!(error.code == 1045 && error.message.ends_with(end), "{error:?}");
    narrows.wait_for_log(0, |line| {
        line.contains("a server refuses an account") && parts.iter().all(|part| line.contains(part))
    });
}

/// Fails if a part of a key or of a token can be seen anywhere.
fn nothing_is_shown(narrows: &Narrows) {
    let mut admin = narrows.admin();
    let mut seen = narrows.log();
    for table in [
        "stats_narrows_aws_credentials",
        "stats_mysql_errors",
        "runtime_mysql_users",
        "mysql_users",
        "runtime_global_variables",
    ] {
        seen.push_str(&format!("{:?}\n", admin.query(format!("SELECT * FROM {table}")).text_rows()));
    }
    seen.push_str(&format!("{:?}\n", admin.query("SHOW PROMETHEUS METRICS").text_rows()));
    for part in [SECRET, SESSION, "sEsSiOnToKeN", "X-Amz-"] {
        let line = seen.lines().find(|line| line.contains(part));
        assert_eq!(line, None, "{part}");
    }
}

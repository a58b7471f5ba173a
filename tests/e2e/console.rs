//! The console: its pages, who may see them, and texts that mean no good.

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig, wait_until};

use crate::http::{ADMIN, Answer, STATS, ask, ask_with, enable};
use crate::support::start;

const PAGES: &[&str] = &[
    "",
    "history",
    "history?span=month",
    "servers",
    "topology",
    "digests",
    "sessions",
    "rules",
    "errors",
    "configuration",
    "route",
];

const POLICY: &str = "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn page(port: u16, path: &str, login: &str) -> Answer {
    ask(port, "GET", &format!("/console/{path}"), &[login])
}

/// Sends a form.
fn post(port: u16, path: &str, headers: &[&str], form: &str) -> Answer {
    let length = format!("Content-Length: {}", form.len());
    let mut all = vec!["Content-Type: application/x-www-form-urlencoded", length.as_str()];
    all.extend(headers);
    ask_with(port, "POST", path, &all, form)
}

fn session_of(narrows: &Narrows) -> String {
    let query = "SELECT MAX(SessionID) FROM stats_mysql_processlist";
    narrows.admin().query(query).cell().expect("a session")
}

#[test]
fn every_page_needs_a_login_and_may_only_load_what_is_here() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    assert_eq!(narrows.client().query("SELECT 1").error(), None);
    for path in PAGES.iter().chain(&["style.css", "script.js"]) {
        for login in [ADMIN, STATS] {
            let answer = page(port, path, login);
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            for header in
                [POLICY, "x-frame-options: deny", "referrer-policy: no-referrer", "nosniff", "no-store"]
            {
                assert!(answer.head.contains(header), "{path}: {}", answer.head);
            }
            if !path.contains('.') {
                assert!(answer.body.starts_with("<!doctype html>\n<html lang=\"en\">"), "{path}");
                assert_eq!(answer.body.matches("<h1>").count(), 1, "{path}");
                assert!(!answer.body.contains("style=") && !answer.body.contains("<style"), "{path}");
                assert!(answer.body.trim_end().ends_with("</html>"), "{path}");
            }
        }
        for wrong in ["X: y", "Authorization: Basic YWRtaW46d3Jvbmc=", "Authorization: Bearer x"] {
            let answer = page(port, path, wrong);
            assert_eq!(answer.status, 401, "{path}");
            assert!(
                answer.head.contains("www-authenticate: basic") && answer.head.contains(POLICY),
                "{}",
                answer.head
            );
        }
    }
    assert_eq!(page(port, "nothing", STATS).status, 404);
    assert_eq!(ask(port, "DELETE", "/console/", &[ADMIN]).status, 405);
    assert_eq!(ask(port, "HEAD", "/console/servers", &[STATS]).status, 200);
    let moved = ask(port, "GET", "/console", &[STATS]);
    assert!(moved.status == 303 && moved.head.contains("location: /console/\r\n"), "{}", moved.head);
    assert!(ask(port, "GET", "/", &[]).body.contains("/console/"));
}

#[test]
fn the_history_has_charts_with_gaps_and_the_same_as_a_table() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    let empty = page(port, "history?span=month", STATS).body;
    assert!(empty.contains("There are no figures") || empty.contains("<path"), "{empty}");
    // An hour of statements and errors, in the middle of which Narrows did not run.
    let rows = "INSERT OR REPLACE INTO stats_history.narrows_traffic_5m WITH RECURSIVE step(n) AS \
                (SELECT 1 UNION ALL SELECT n + 1 FROM step WHERE n < 60) \
                SELECT STRFTIME('%s', 'now') / 300 * 300 - n * 300, 300000, 300 * 1234, 0, 3, 0, 0, 10, 5, 30000, 7, 1, 2, 3, \
                8, 2, 4, 3, 0, 0, 0, '[100,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]' FROM step WHERE n < 20 OR n > 40";
    assert_eq!(narrows.admin().query(rows).error(), None);
    for login in [ADMIN, STATS] {
        let week = page(port, "history?span=week", login);
        assert_eq!(week.status, 200);
        let body = &week.body;
        for part in [
            "<li><a href=\"/console/history?span=week\" aria-current=\"true\">Week</a></li>",
            "all 1,234, most 1,234 at ",
            "</title><desc id=",
            "<details id=\"figures\">",
            "<td class=\"number\">1,234</td>",
            "<td class=\"number\">50.0 %</td>",
            "of a core 10.0 %",
        ] {
            assert!(body.contains(part), "{part}: {body}");
        }
        let (_, line) = body.split_once("<path class=\"one\" d=\"M").expect("a legend");
        let (_, line) = line.split_once("<path class=\"one\" d=\"").expect("a line");
        let (line, _) = line.split_once('"').expect("its end");
        assert_eq!(line.matches('M').count(), 2, "a gap: {line}");
    }
    let hostile = page(port, "history?span=week'%3BDROP+TABLE+x", STATS);
    assert!(hostile.status == 200 && hostile.body.contains("\"true\">Day</a>"), "{}", hostile.body);
    assert!(page(port, "", STATS).body.contains("href=\"/console/history?span=week\""));
}

#[test]
fn what_clients_send_is_never_markup() {
    let error = Move::error(1064, "42000", "no <script>alert(2)</script> & \"quotes\"");
    let conversation = Conversation::new().on("SELECT `<i>`, '<script>'", &[error]);
    let server = FakeMysql::start(conversation);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    let mut client = narrows.client();
    client.query("SELECT '<script>alert(1)</script>'");
    client.query("SELECT `<script>alert(1)</script>`");
    client.query("SELECT `<i>`, '<script>'");
    for login in [ADMIN, STATS] {
        for (path, wanted) in [
            ("digests", "SELECT `&lt;script&gt;alert(?)&lt;/script&gt;`"),
            ("errors", "no &lt;script&gt;alert(2)&lt;/script&gt; &amp; &quot;quotes&quot;"),
            ("sessions?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "value=\"&quot;&gt;&lt;script&gt;"),
            ("sessions?q='+OR+1=1+--", "Sessions: none."),
        ] {
            let answer = page(port, path, login);
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            assert!(answer.body.contains(wanted), "{path}: {}", answer.body);
            assert!(
                !answer.body.contains("<script>") && !answer.body.contains("<i>"),
                "{path}: {}",
                answer.body
            );
        }
    }
    assert!(page(port, "sessions?q=SBTEST", STATS).body.contains("<td>sbtest</td>"));
    assert!(page(port, "digests?sort=1;DROP&order='", STATS).body.contains("aria-sort=\"descending\""));
}

#[test]
fn a_route_is_explained_whatever_the_statement() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    // SELECT 'it''s', "\'" FROM `a<b>`
    let statement = "SELECT+%27it%27%27s%27,+%22%5C%27%22+FROM+%60a%3Cb%3E%60";
    let answer = page(port, &format!("route?statement={statement}&user=sbtest&schema=o%27x%5C"), ADMIN);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("SELECT ?,? FROM `a&lt;b&gt;`"), "{}", answer.body);
    assert!(answer.body.contains(&format!("127.0.0.1:{}", server.port())), "{}", answer.body);
    assert!(answer.body.contains("SELECT &#39;it&#39;&#39;s&#39;, &quot;\\&#39;&quot;"), "{}", answer.body);
    let unknown = page(port, "route?statement=SELECT+1&user=%27+AS+%27x", ADMIN);
    assert_eq!(unknown.status, 200, "{}", unknown.body);
    assert!(page(port, "route?statement=a%00b", ADMIN).body.contains("no NUL"));
    let hidden = page(port, "route?statement=SELECT+1&user=sbtest", STATS);
    assert!(hidden.status == 200 && !hidden.body.contains("<form"), "{}", hidden.body);
}

#[test]
fn only_administrators_end_sessions_and_only_from_a_page_of_the_console() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    let mut client = narrows.client();
    assert_eq!(client.query("SELECT 1").error(), None);
    let session = session_of(&narrows);
    let form = format!("session={session}");
    let link = format!("/console/kill?session={session}");
    assert!(page(port, "sessions", ADMIN).body.contains(&link));
    assert!(!page(port, "sessions", STATS).body.contains("/console/kill"));
    let long = "x".repeat(5_000);
    for (headers, form, status) in [
        (&["X: y"][..], form.as_str(), 401),
        (&[STATS], form.as_str(), 403),
        (&[ADMIN, "Origin: http://elsewhere.example"], form.as_str(), 403),
        (&[ADMIN, "Origin: null"], form.as_str(), 403),
        (&[ADMIN, "Sec-Fetch-Site: cross-site"], form.as_str(), 403),
        (&[ADMIN], long.as_str(), 413),
        (&[ADMIN], "session=1+OR+1", 400),
    ] {
        let answer = post(port, "/console/kill", headers, form);
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
    }
    assert_eq!(client.query("SELECT 1").error(), None, "the session still exists");
    let asks = ask(port, "GET", &link, &[ADMIN]);
    assert!(asks.head.contains("referrer-policy: same-origin"), "browsers send an Origin: {}", asks.head);
    assert!(asks.body.contains("<form method=\"post\""), "{}", asks.body);
    let here = [ADMIN, "Origin: http://narrows", "Sec-Fetch-Site: same-origin"];
    let done = post(port, "/console/kill", &here, &form);
    assert!(done.status == 303 && done.head.contains("location: /console/sessions?killed="), "{}", done.head);
    wait_until("the session has ended", || !page(port, "sessions", ADMIN).body.contains(&link));
    assert_eq!(post(port, "/console/kill", &[ADMIN], &form).status, 400, "there is no such session");
}

#[test]
fn the_layers_of_the_configuration_are_compared_without_passwords() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    let mut admin = narrows.admin();
    let same = page(port, "configuration", ADMIN).body;
    for layers in
        ["Servers: memory and runtime are", "Users: memory and runtime are", "Users: memory and disk are"]
    {
        assert!(same.contains(layers), "{same}");
    }
    for statement in [
        "UPDATE mysql_users SET password = 'very secret', max_connections = 17, \
         attributes = '{\"additional_password\":\"very secret\",\"note\":1}'",
        "UPDATE mysql_servers SET weight = 23",
        "SET mysql-monitor_password = 'very secret'",
    ] {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
    let differs = page(port, "configuration", ADMIN).body;
    for part in [
        "<code>17</code>",
        "<code>23</code>",
        "mysql-monitor_password",
        "(not shown)",
        "LOAD MYSQL USERS TO RUNTIME",
    ] {
        assert!(differs.contains(part), "{part}: {differs}");
    }
    assert!(!differs.contains("very secret"), "{differs}");
    assert_eq!(admin.query("LOAD MYSQL USERS TO RUNTIME").error(), None);
    let loaded = page(port, "configuration", ADMIN).body;
    assert!(
        loaded.contains("Users: memory and runtime are the same") && !loaded.contains("very secret"),
        "{loaded}"
    );
    let hidden = page(port, "configuration", STATS).body;
    assert!(!hidden.contains("hostgroup") && hidden.contains("only administrators"), "{hidden}");
}

#[test]
fn a_busy_control_thread_is_said_on_the_page() {
    let narrows = start(&NarrowsConfig::in_front_of(FakeMysql::nobody()));
    let port = enable(&narrows);
    let mut admin = narrows.admin();
    let long = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n";
    let busy = std::thread::spawn(move || admin.query(long).error());
    // It may not have begun yet.
    wait_until("a page has no answer", || {
        let answer = page(port, "servers", STATS);
        answer.status == 503 && answer.body.contains("<h1>No answer</h1>")
    });
    busy.join().expect("the statement has ended").expect("it takes too long");
    assert_eq!(page(port, "servers", STATS).status, 200);
}

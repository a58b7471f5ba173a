//! How a server appears to sqlx: `suite HOST PORT USER PASSWORD` prints `OUTCOME<tab>TEST` for each check with every
//! set of options.

use std::future::Future;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlRow, MySqlSslMode};
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Executor, MySqlConnection, Row, SqlSafeStr, Statement,
    TypeInfo,
};

type Outcome = Result<String, sqlx::Error>;

/// Types, names and bytes of a row, as received in either protocol.
fn text(row: &MySqlRow) -> String {
    let cells = row.columns().iter().map(|column| {
        let value = row.try_get_unchecked::<Option<&[u8]>, _>(column.ordinal());
        let value = match &value {
            Ok(Some(bytes)) => bytes.escape_ascii().to_string(),
            Ok(None) => "NULL".to_owned(),
            Err(error) => error.to_string(),
        };
        format!("{} {}={value}", column.type_info().name(), column.name())
    });
    cells.collect::<Vec<_>>().join(", ")
}

fn texts(rows: &[MySqlRow]) -> String {
    rows.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// The rows of a text without parameters, in the text protocol.
async fn plain(db: &mut MySqlConnection, sql: &'static str) -> Outcome {
    Ok(texts(&sqlx::raw_sql(sql).fetch_all(db).await?))
}

/// The number and SQLSTATE of a server error.
fn failure<T>(result: Result<T, sqlx::Error>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(sqlx::Error::Database(error)) => {
            let error = error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>();
            format!("{} {:?}", error.number(), error.code())
        }
        Err(error) => error.to_string(),
    }
}

async fn fresh(db: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    db.execute("DROP TABLE IF EXISTS t").await?;
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(100), b INT UNIQUE) ENGINE=InnoDB").await?;
    Ok(())
}

async fn session(db: &mut MySqlConnection) -> Outcome {
    plain(db, "SELECT @@character_set_client, @@collation_connection, @@sql_mode, @@time_zone, @@autocommit, DATABASE()").await
}

async fn types(db: &mut MySqlConnection) -> Outcome {
    const SQL: &str = "SELECT 1, -2.50, 'é', NULL, DATE '2020-02-03', TIMESTAMP '2020-02-03 04:05:06', \
                       18446744073709551615, X'00ff', TIME '-12:00:00.5', 1.5e0, b'101'";
    let simple = plain(db, SQL).await?;
    let prepared = texts(&sqlx::query(SQL).fetch_all(db).await?);
    Ok(format!("{simple} | {prepared}"))
}

async fn write(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    let inserted = db.execute("INSERT INTO t (a, b) VALUES ('x', 1), ('y', 2)").await?;
    let updated = sqlx::query("UPDATE t SET a = ? WHERE b > ?").bind("z").bind(0).execute(&mut *db).await?;
    let rows = plain(db, "SELECT * FROM t ORDER BY id").await?;
    Ok(format!("{} {} {} {rows}", inserted.last_insert_id(), inserted.rows_affected(), updated.rows_affected()))
}

async fn prepared(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    for i in 0..20 {
        sqlx::query("INSERT INTO t (a, b) VALUES (?, ?)").bind("v").bind(i).execute(&mut *db).await?;
    }
    let select = "SELECT COUNT(*) AS n, SUM(b) AS s FROM t WHERE a = ?";
    let first = texts(&sqlx::query(select).bind("v").fetch_all(&mut *db).await?);
    db.execute("ALTER TABLE t ADD COLUMN c INT").await?;
    let second = texts(&sqlx::query(select).bind("v").fetch_all(&mut *db).await?);
    let wider = texts(&sqlx::query("SELECT * FROM t WHERE b = ?").bind(3).fetch_all(&mut *db).await?);
    Ok(format!("{first} | {second} | {wider}"))
}

/// More statements than the cache of 100 holds: the least recently used ones are closed.
async fn many_prepared(db: &mut MySqlConnection) -> Outcome {
    let mut sum = 0;
    for round in 0..2 {
        for i in 0..250_i64 {
            let sql = AssertSqlSafe(format!("SELECT {i} + ? AS n"));
            sum += sqlx::query_scalar::<_, i64>(sql).bind(round).fetch_one(&mut *db).await?;
        }
    }
    let cached = db.cached_statements_size();
    db.clear_cached_statements().await?;
    Ok(format!("{sum} {cached} {}", db.cached_statements_size()))
}

async fn describe(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    let statement = db.prepare("SELECT id AS i, a, b, ? AS p FROM t AS tt WHERE b > ?".into_sql_str()).await?;
    let columns: Vec<_> =
        statement.columns().iter().map(|column| format!("{} {}", column.name(), column.type_info())).collect();
    Ok(format!("{columns:?} {:?}", statement.parameters()))
}

async fn transaction(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    let mut outer = db.begin().await?;
    outer.execute("INSERT INTO t (b) VALUES (1)").await?;
    let mut inner = outer.begin().await?;
    inner.execute("INSERT INTO t (b) VALUES (2)").await?;
    let within = plain(&mut inner, "SELECT COUNT(*) FROM t").await?;
    inner.rollback().await?;
    outer.commit().await?;
    let mut dropped = db.begin().await?;
    dropped.execute("INSERT INTO t (b) VALUES (3)").await?;
    drop(dropped);
    let after = plain(db, "SELECT COUNT(*) FROM t").await?;
    let mut read_only = db.begin_with("START TRANSACTION READ ONLY").await?;
    let refused = failure(read_only.execute("INSERT INTO t (b) VALUES (4)").await);
    read_only.rollback().await?;
    Ok(format!("{within} | {after} | {refused}"))
}

async fn isolation(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    db.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await?;
    let mut serializable = db.begin().await?;
    let seen = plain(&mut serializable, "SELECT COUNT(*) FROM t").await?;
    serializable.commit().await?;
    db.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    let mut committed = db.begin().await?;
    let again = plain(&mut committed, "SELECT COUNT(*) FROM t").await?;
    committed.commit().await?;
    Ok(format!("{seen} | {again}"))
}

async fn stream(db: &mut MySqlConnection) -> Outcome {
    const SQL: &str = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
                       SELECT i, REPEAT('x', 2000) AS x FROM n WHERE i > ?";
    let mut rows = sqlx::query(SQL).bind(0).fetch(&mut *db);
    let mut number = 0;
    while let Some(row) = rows.try_next().await? {
        number += usize::from(!row.is_empty());
    }
    drop(rows);
    // A result that is abandoned halfway: the rest of its rows is read before the next statement.
    let mut rows = sqlx::query(SQL).bind(5).fetch(&mut *db);
    let first = rows.try_next().await?.map(|row| row.get::<i64, _>(0));
    drop(rows);
    Ok(format!("{number} {first:?} {}", plain(db, "SELECT 'after'").await?))
}

async fn several(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    let rows = plain(db, "SELECT 1 AS one; INSERT INTO t (b) VALUES (3), (4); SELECT b FROM t ORDER BY b").await?;
    let broken = failure(db.execute("SELECT 1; SELECT nothing; SELECT 2").await);
    Ok(format!("{rows} | {broken} | {}", plain(db, "SELECT 'after'").await?))
}

async fn procedure(db: &mut MySqlConnection) -> Outcome {
    db.execute("DROP PROCEDURE IF EXISTS p").await?;
    db.execute("CREATE PROCEDURE p(IN a INT, OUT b INT) BEGIN SELECT a; SET b = a * 2; SELECT b, a; END").await?;
    let simple = plain(db, "CALL p(21, @out)").await?;
    let prepared = texts(&sqlx::query("CALL p(?, @out)").bind(4).fetch_all(&mut *db).await?);
    Ok(format!("{simple} | {prepared} | {}", plain(db, "SELECT @out").await?))
}

async fn errors(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    db.execute("INSERT INTO t (b) VALUES (1)").await?;
    let mut seen = Vec::new();
    for sql in [
        "INSERT INTO t (b) VALUES (1)",
        "SELECT * FROM nowhere",
        "SELEC",
        "SELECT nothing",
        "SET nothing = 1",
        "CALL nothing()",
    ] {
        seen.push(failure(db.execute(sql).await));
        seen.push(failure(sqlx::query(sql).execute(&mut *db).await));
    }
    Ok(seen.join(", "))
}

async fn session_objects(db: &mut MySqlConnection) -> Outcome {
    db.execute("CREATE TEMPORARY TABLE tmp (a INT)").await?;
    db.execute("INSERT INTO tmp VALUES (1), (2)").await?;
    db.execute("SET @x = 5").await?;
    let tables = plain(db, "SELECT COUNT(*), @x FROM tmp").await?;
    let locked = plain(db, "SELECT GET_LOCK('sqlx', 1)").await?;
    Ok(format!("{tables} {locked} {}", plain(db, "SELECT IS_FREE_LOCK('sqlx'), RELEASE_LOCK('sqlx')").await?))
}

async fn insert_id_and_warnings(db: &mut MySqlConnection) -> Outcome {
    fresh(db).await?;
    db.execute("INSERT INTO t (b) VALUES (1), (2)").await?;
    let id = plain(db, "SELECT LAST_INSERT_ID()").await?;
    db.execute("SELECT 'abc' + 1").await?;
    Ok(format!("{id} {} {}", plain(db, "SHOW WARNINGS").await?, plain(db, "SELECT ROW_COUNT()").await?))
}

async fn large(db: &mut MySqlConnection) -> Outcome {
    db.execute("CREATE TABLE IF NOT EXISTS big (id INT PRIMARY KEY, a LONGBLOB)").await?;
    let bytes = b"0123456789".repeat((17 << 20) / 10);
    sqlx::query("REPLACE INTO big VALUES (1, ?)").bind(&bytes).execute(&mut *db).await?;
    let read: Vec<u8> = sqlx::query_scalar("SELECT a FROM big").fetch_one(&mut *db).await?;
    Ok((bytes == read).to_string())
}

async fn ping(db: &mut MySqlConnection) -> Outcome {
    db.ping().await?;
    Ok("pong".to_owned())
}

/// Sixty transactions that each add one to the same row, over eight connections.
async fn pool(login: MySqlConnectOptions) -> Outcome {
    let pool = MySqlPoolOptions::new().max_connections(8).connect_with(login).await?;
    pool.execute("DROP TABLE IF EXISTS pooled").await?;
    pool.execute("CREATE TABLE pooled (id INT PRIMARY KEY, n INT)").await?;
    pool.execute("INSERT INTO pooled VALUES (1, 0)").await?;
    let one = |pool: sqlx::MySqlPool| async move {
        let mut transaction = pool.begin().await?;
        let n: i32 =
            sqlx::query_scalar("SELECT n FROM pooled WHERE id = 1 FOR UPDATE").fetch_one(&mut *transaction).await?;
        sqlx::query("UPDATE pooled SET n = ? WHERE id = 1").bind(n + 1).execute(&mut *transaction).await?;
        transaction.commit().await
    };
    let tasks: Vec<_> = (0..60).map(|_| tokio::spawn(one(pool.clone()))).collect();
    for task in tasks {
        task.await.expect("no task panics")?;
    }
    let rows = texts(&pool.fetch_all("SELECT n FROM pooled").await?);
    pool.close().await;
    Ok(rows)
}

/// A future that is dropped while its statement runs: the pool continues with another connection.
async fn cancelled(login: MySqlConnectOptions) -> Outcome {
    let pool = MySqlPoolOptions::new().max_connections(1).connect_with(login).await?;
    let late = tokio::time::timeout(Duration::from_millis(300), pool.execute("SELECT SLEEP(1)")).await.is_err();
    let after = texts(&pool.fetch_all("SELECT 'after'").await?);
    pool.close().await;
    Ok(format!("{late} {after}"))
}

async fn report(name: String, check: impl Future<Output = Outcome>) {
    let outcome = match tokio::time::timeout(Duration::from_secs(300), check).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => format!("error {error}"),
        Err(_) => "error not done after 300 s".to_owned(),
    };
    println!("{}\t{name}", outcome.split_whitespace().collect::<Vec<_>>().join(" "));
}

/// Runs checks, each on a separate connection.
macro_rules! checks {
    ($login:expr, $kind:expr, $($check:ident)+) => {$(
        report(format!("{}/{}", $kind, stringify!($check)), async {
            let mut db = $login.connect().await?;
            let outcome = $check(&mut db).await?;
            db.close().await?;
            Ok(outcome)
        })
        .await;
    )+};
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, password] = arguments.as_slice() else { panic!("usage: suite HOST PORT USER PASSWORD") };
    let login = MySqlConnectOptions::new()
        .host(host)
        .port(port.parse().expect("a port"))
        .username(user)
        .password(password)
        .database("sqlx");
    let options = [
        ("defaults", login.clone()),
        ("no cache", login.clone().statement_cache_capacity(0)),
        ("small cache", login.clone().statement_cache_capacity(2)),
        ("tls required", login.clone().ssl_mode(MySqlSslMode::Required)),
        ("tls off", login.clone().ssl_mode(MySqlSslMode::Disabled)),
        ("latin1", login.clone().charset("latin1")),
        ("collation", login.clone().collation("utf8mb4_bin")),
        ("no names", login.clone().set_names(false)),
        ("session untouched", login.clone().pipes_as_concat(false).no_engine_substitution(false).timezone(None)),
    ];
    for (kind, login) in &options {
        checks!(login, kind, session types write prepared many_prepared describe transaction isolation stream several
            procedure errors session_objects insert_id_and_warnings large ping);
        report(format!("{kind}/pool"), pool(login.clone())).await;
        report(format!("{kind}/cancelled"), cancelled(login.clone())).await;
    }
    // Server and proxy have different certificates, so this connection ends before a statement.
    checks!(login.clone().ssl_mode(MySqlSslMode::VerifyCa), "authority unknown", ping);
}

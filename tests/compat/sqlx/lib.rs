//! The helpers that sqlx's tests need: connections to `DATABASE_URL`, and macros that generate tests of types.

use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Database, Pool};

#[doc(hidden)]
pub use {anyhow, sqlx, sqlx_macros};

/// Upstream reads a settings file here; these tests use the environment.
pub fn setup_if_needed() {}

fn database_url() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL is set")
}

/// A separate connection.
pub async fn new<DB: Database>() -> sqlx::Result<DB::Connection> {
    DB::Connection::connect(&database_url()).await
}

/// A pool, small enough that tests have to wait for each other.
pub async fn pool<DB: Database>() -> sqlx::Result<Pool<DB>> {
    let options = PoolOptions::<DB>::new().max_connections(5).acquire_timeout(Duration::from_secs(30));
    options.connect(&database_url()).await
}

/// `test_type!(name<Type>(MySql, "SQL" == value, ..))`: the value is returned unchanged in both protocols, and the
/// server finds it equal to the SQL. A text before the pairs is the query, with `{0}` for the SQL; the type may double
/// as the name.
#[macro_export]
macro_rules! test_type {
    ($name:ident<$type:ty>($db:ident, $($rest:tt)+)) => {
        $crate::__unprepared!($name, $type, $db, $($rest)+);
        $crate::test_prepared_type!($name<$type>($db, $($rest)+));
    };
    ($name:ident($db:ident, $($rest:tt)+)) => {
        $crate::test_type!($name<$name>($db, $($rest)+));
    };
}

/// As `test_type!`, with parameters only.
#[macro_export]
macro_rules! test_prepared_type {
    ($name:ident<$type:ty>($db:ident, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::test_prepared_type!($name<$type>($db, "SELECT {0} <=> ?, {0}, ?", $($text == $value),+));
    };
    ($name:ident<$type:ty>($db:ident, $query:literal, $($text:literal == $value:expr),+ $(,)?)) => {
        #[allow(non_snake_case)]
        mod $name {
            use super::*;

            #[$crate::sqlx_macros::test]
            async fn prepared() -> $crate::anyhow::Result<()> {
                use $crate::sqlx::Row as _;
                let mut connection = $crate::new::<$db>().await?;
                $({
                    let query = $crate::sqlx::AssertSqlSafe($query.replace("{0}", $text));
                    let row = $crate::sqlx::query(query)
                        .bind($value)
                        .bind($value)
                        .fetch_one(&mut connection)
                        .await?;
                    let equal: i32 = row.try_get(0)?;
                    assert_eq!(equal, 1, "{}", $text);
                    assert_eq!($value, row.try_get::<$type, _>(1)?);
                    assert_eq!($value, row.try_get::<$type, _>(2)?);
                })+
                Ok(())
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __unprepared {
    ($name:ident, $type:ty, $db:ident, $query:literal, $($text:literal == $value:expr),+ $(,)?) => {
        $crate::__unprepared!($name, $type, $db, $($text == $value),+);
    };
    ($name:ident, $type:ty, $db:ident, $($text:literal == $value:expr),+ $(,)?) => {
        #[$crate::sqlx_macros::test]
        async fn $name() -> $crate::anyhow::Result<()> {
            use $crate::sqlx::{Executor as _, Row as _};
            let mut connection = $crate::new::<$db>().await?;
            $({
                let row = connection.fetch_one($crate::sqlx::AssertSqlSafe(format!("SELECT {}", $text))).await?;
                assert_eq!($value, row.try_get::<$type, _>(0)?);
            })+
            Ok(())
        }
    };
}

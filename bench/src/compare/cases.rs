//! The cases of a comparison, one row each.

use crate::load::Usage;

/// Which statement is run, and on how many connections.
#[derive(Debug)]
pub struct Case {
    /// Its name in options and JSON.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Connections, each with one query outstanding.
    pub connections: usize,
    /// The statement; the mock server knows it.
    pub statement: &'static str,
    /// Rows of its answer.
    pub rows: u64,
    /// How connections are used.
    pub usage: Usage,
    /// Whether clients connect to a Unix socket.
    pub socket: bool,
    /// What the CPU time is divided by.
    pub unit: Unit,
}

/// What the CPU time is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Microseconds per query.
    Query,
    /// Nanoseconds per row.
    Row,
    /// Microseconds per connection, with its login and one query.
    Connection,
}

impl Unit {
    /// The heading of its column.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Query => "us/query",
            Unit::Row => "ns/row",
            Unit::Connection => "us/conn",
        }
    }

    /// Nanoseconds of the figure's time unit.
    pub fn scale_ns(self) -> f64 {
        match self {
            Unit::Query | Unit::Connection => 1_000.0,
            Unit::Row => 1.0,
        }
    }
}

const POINT: &str = "SELECT c FROM sbtest1 WHERE id=5000";
const PREPARED_POINT: &str = "SELECT c FROM sbtest1 WHERE id=?";
const ROWS: &str = "SELECT c FROM rows LIMIT 100000";

/// All cases, in the order of the tables.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "point-1", title: "text point select, 1 connection", connections: 1, statement: POINT, rows: 1, usage: Usage::Keep, socket: false, unit: Unit::Query },
    Case { name: "point-16", title: "text point select, 16 connections", connections: 16, statement: POINT, rows: 1, usage: Usage::Keep, socket: false, unit: Unit::Query },
    Case { name: "point-128", title: "text point select, 128 connections", connections: 128, statement: POINT, rows: 1, usage: Usage::Keep, socket: false, unit: Unit::Query },
    Case { name: "varied-16", title: "text point select with another number each time, 16 connections", connections: 16, statement: POINT, rows: 1, usage: Usage::Vary, socket: false, unit: Unit::Query },
    Case { name: "varied-128", title: "text point select with another number each time, 128 connections", connections: 128, statement: POINT, rows: 1, usage: Usage::Vary, socket: false, unit: Unit::Query },
    Case { name: "socket-1", title: "text point select by Unix socket, 1 connection", connections: 1, statement: POINT, rows: 1, usage: Usage::Keep, socket: true, unit: Unit::Query },
    Case { name: "socket-64", title: "text point select by Unix socket, 64 connections", connections: 64, statement: POINT, rows: 1, usage: Usage::Keep, socket: true, unit: Unit::Query },
    Case { name: "execute-16", title: "COM_STMT_EXECUTE of a point select, 16 connections", connections: 16, statement: PREPARED_POINT, rows: 1, usage: Usage::Execute, socket: false, unit: Unit::Query },
    Case { name: "execute-64", title: "COM_STMT_EXECUTE of a point select, 64 connections", connections: 64, statement: PREPARED_POINT, rows: 1, usage: Usage::Execute, socket: false, unit: Unit::Query },
    Case { name: "execute-128", title: "COM_STMT_EXECUTE of a point select, 128 connections", connections: 128, statement: PREPARED_POINT, rows: 1, usage: Usage::Execute, socket: false, unit: Unit::Query },
    Case { name: "rows-1", title: "100,000 rows of 200 bytes, 1 connection", connections: 1, statement: ROWS, rows: 100_000, usage: Usage::Keep, socket: false, unit: Unit::Row },
    Case { name: "rows-8", title: "100,000 rows of 200 bytes, 8 connections", connections: 8, statement: ROWS, rows: 100_000, usage: Usage::Keep, socket: false, unit: Unit::Row },
    Case { name: "connect-16", title: "connect, log in, one query, quit; 16 at a time", connections: 16, statement: POINT, rows: 1, usage: Usage::Reconnect, socket: false, unit: Unit::Connection },
];

//! The charts of the history page, and how their values are calculated.

use super::point::Point;
use super::units::{amount, bytes, seconds, share};
use crate::schema::traffic::percentile;

/// A chart.
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// Its lines, at most three.
    pub lines: &'static [PanelLine],
    /// Its vertical axis.
    pub scale: Scale,
    /// Writes a value.
    pub shown: fn(f64) -> String,
}

/// A line of a chart.
pub struct PanelLine {
    /// What it means in the chart.
    pub label: &'static str,
    /// Its value in a step; `None`: there is none.
    pub of: fn(&Point) -> Option<f64>,
}

/// A vertical axis.
#[derive(Debug, Clone, Copy)]
pub enum Scale {
    /// From 0 to a round number.
    Decimal,
    /// From 0 to a round number of percent.
    Percent,
    /// From 0 to 100 %.
    Share,
    /// From 0 to a round number of KiB, MiB or GiB.
    Binary,
    /// Powers of ten.
    Powers,
}

const fn line(label: &'static str, of: fn(&Point) -> Option<f64>) -> PanelLine {
    PanelLine { label, of }
}

fn per_second(point: &Point, count: f64) -> Option<f64> {
    (point.seconds > 0.0).then(|| count / point.seconds)
}

#[expect(clippy::cast_precision_loss, reason = "a value for people")]
fn latency(point: &Point, thousandths: u64) -> Option<f64> {
    percentile(&point.latencies, thousandths).map(|us| us as f64 / 1e6)
}

fn hits(point: &Point) -> Option<f64> {
    let [lookups, hits] = point.cache;
    (lookups > 0.0).then(|| hits / lookups)
}

/// All charts, the most important first.
pub const PANELS: &[Panel] = &[
    Panel {
        title: "Statements/s",
        lines: &[line("all", |point| per_second(point, point.counts[0]))],
        scale: Scale::Decimal,
        shown: amount,
    },
    Panel {
        title: "Latency",
        lines: &[
            line("median", |point| latency(point, 500)),
            line("95th", |point| latency(point, 950)),
            line("99th percentile", |point| latency(point, 990)),
        ],
        scale: Scale::Powers,
        shown: seconds,
    },
    Panel {
        title: "Errors and slow statements/s",
        lines: &[
            line("errors", |point| per_second(point, point.counts[2])),
            line("slow", |point| per_second(point, point.counts[1])),
        ],
        scale: Scale::Decimal,
        shown: amount,
    },
    Panel {
        title: "Clients active",
        lines: &[
            line("average", |point| Some(point.levels[1])),
            line("highest", |point| Some(point.highest[1])),
        ],
        scale: Scale::Decimal,
        shown: amount,
    },
    Panel {
        title: "Connections to servers",
        lines: &[
            line("in use", |point| Some(point.levels[2])),
            line("highest in use", |point| Some(point.highest[2])),
            line("idle", |point| Some(point.levels[3])),
        ],
        scale: Scale::Decimal,
        shown: amount,
    },
    Panel {
        title: "CPU",
        lines: &[line("of a core", |point| per_second(point, point.cpu_s))],
        scale: Scale::Percent,
        shown: share,
    },
    Panel {
        title: "Clients connected",
        lines: &[
            line("average", |point| Some(point.levels[0])),
            line("highest", |point| Some(point.highest[0])),
        ],
        scale: Scale::Decimal,
        shown: amount,
    },
    Panel {
        title: "Bytes/s",
        lines: &[
            line("to clients", |point| per_second(point, point.bytes[1])),
            line("from clients", |point| per_second(point, point.bytes[0])),
        ],
        scale: Scale::Binary,
        shown: bytes,
    },
    Panel { title: "Cache hits", lines: &[line("of lookups", hits)], scale: Scale::Share, shown: share },
];

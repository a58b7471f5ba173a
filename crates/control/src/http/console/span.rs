//! The time that the history page shows: how far back, from which table, and what stands at its axis.

use super::fields::Fields;
use crate::calendar::date_and_time;

/// A choice of the page.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// As it stands in the link.
    pub name: &'static str,
    /// What the link says.
    pub label: &'static str,
    /// Its length in seconds.
    pub length: i64,
    /// The seconds that a point of a chart stands for.
    pub step: i64,
    /// The table that has the figures.
    pub table: &'static str,
    /// Seconds between two times at the axis.
    tick: i64,
    /// The part of date and time that stands at the axis: the first character, and how many.
    part: (usize, usize),
}

/// A span that ends at a certain moment, in Unix time.
#[derive(Debug, Clone, Copy)]
pub struct Period {
    /// Its begin.
    pub from: i64,
    /// Its end.
    pub to: i64,
}

impl Span {
    /// The choice in a link; a day if there is none.
    pub fn chosen(fields: &Fields) -> &'static Span {
        let wanted = fields.value("span");
        SPANS.iter().find(|span| span.name == wanted).unwrap_or(DAY)
    }

    /// An hour with other steps, in seconds.
    pub fn hour(step: i64) -> Span {
        Span { step, ..*HOUR }
    }

    /// The period that ends at `now`. It begins with a whole step, so that points do not move from one view to the next.
    pub fn period(&self, now: i64) -> Period {
        let to = (now.div_euclid(self.step) + 1) * self.step;
        Period { from: to - self.length, to }
    }

    /// A moment as short as it is clear in this span.
    pub fn moment(&self, at: i64) -> String {
        date_and_time(at).chars().take(16).skip(if self.part == TIME { 11 } else { 5 }).collect()
    }

    /// The times at the axis, and how they are written.
    pub fn ticks(&self, period: Period) -> Vec<(i64, String)> {
        let first = (period.from.div_euclid(self.tick) + 1) * self.tick;
        let (begin, count) = self.part;
        let times = (0..MOST_TICKS).map(|place| first + place * self.tick);
        let times = times.take_while(|at| *at < period.to);
        times.map(|at| (at, date_and_time(at).chars().skip(begin).take(count).collect())).collect()
    }
}

impl Period {
    /// Where a moment is, from 0 at the begin to 1 at the end.
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    pub fn share(self, at: i64) -> f64 {
        ((at - self.from) as f64 / (self.to - self.from).max(1) as f64).clamp(0.0, 1.0)
    }
}

/// A moment to the minute, in UTC.
pub fn minute(at: i64) -> String {
    date_and_time(at).chars().take(16).collect()
}

/// All choices, the shortest first. A chart has at most 744 points.
pub const SPANS: &[Span] = &[
    *HOUR,
    *DAY,
    Span {
        name: "week",
        label: "Week",
        length: 7 * 86_400,
        step: 900,
        table: "narrows_traffic_5m",
        tick: 86_400,
        part: DATE,
    },
    Span {
        name: "month",
        label: "Month",
        length: 31 * 86_400,
        step: 3_600,
        table: "narrows_traffic_5m",
        tick: 5 * 86_400,
        part: DATE,
    },
];

const HOUR: &Span = &Span {
    name: "hour",
    label: "Hour",
    length: 3_600,
    step: 10,
    table: "narrows_traffic_10s",
    tick: 600,
    part: TIME,
};

const DAY: &Span = &Span {
    name: "day",
    label: "Day",
    length: 86_400,
    step: 120,
    table: "narrows_traffic_10s",
    tick: 4 * 3_600,
    part: TIME,
};

/// Month and day in a text of date and time.
const DATE: (usize, usize) = (5, 5);

/// Hour and minute in it.
const TIME: (usize, usize) = (11, 5);

/// More than any span has.
const MOST_TICKS: i64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_whole_times() {
        // 2024-02-29 12:34:56.
        let now = 1_709_210_096;
        let span = Span::chosen(&Fields::read("span=nothing"));
        let period = span.period(now);
        assert_eq!(
            (span.name, minute(period.from), minute(period.to)),
            ("day", "2024-02-28 12:36".into(), "2024-02-29 12:36".into())
        );
        let times: Vec<String> = span.ticks(period).into_iter().map(|(_, text)| text).collect();
        assert_eq!(times, ["16:00", "20:00", "00:00", "04:00", "08:00", "12:00"]);
        let week = Span::chosen(&Fields::read("span=week"));
        let days: Vec<String> = week.ticks(week.period(now)).into_iter().map(|(_, text)| text).collect();
        assert_eq!(days, ["02-23", "02-24", "02-25", "02-26", "02-27", "02-28", "02-29"]);
        for span in SPANS {
            let period = span.period(now);
            assert!(period.to > now && (period.to - period.from) / span.step <= 744, "{span:?}");
            assert!((4..=8).contains(&span.ticks(period).len()), "{span:?}");
        }
    }
}

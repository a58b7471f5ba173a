//! What has happened in an hour, a day, a week or a month, as charts and as a table.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use narrows_proxy::clock::now_s;

use super::chart::{Axis, CLASSES, Chart, Pieces};
use super::fields::Fields;
use super::grid::{Grid, Head};
use super::html::Html;
use super::layout::ConsolePage;
use super::panels::{PANELS, Panel, Scale};
use super::point::{Point, question};
use super::span::{Period, SPANS, Span, minute};
use super::viewer::{Trouble, Viewer};

/// The charts of the last hour, for the overview. They are made again after a while, because asking for them writes to the
/// disk.
pub type LastHour = RefCell<Option<(Instant, Html)>>;

/// The charts of the last hour, at most [`LIFE`] old.
///
/// # Errors
/// If Narrows does not answer.
pub async fn last_hour(viewer: &Viewer<'_>) -> Result<Html, Trouble> {
    let kept = viewer.console.last_hour.borrow().clone();
    if let Some((since, charts)) = kept
        && since.elapsed() < LIFE
    {
        return Ok(charts);
    }
    // The overview is sent often, so it has fewer points.
    let span = Span::hour(30);
    let period = span.period(now_s());
    let points = points(viewer, &span, period).await?;
    let charts = charts(PANELS.iter().take(MOST_IMPORTANT), &points, &span, period);
    viewer.console.last_hour.replace(Some((Instant::now(), charts.clone())));
    Ok(charts)
}

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>, fields: &Fields) -> Result<ConsolePage, Trouble> {
    let span = Span::chosen(fields);
    let period = span.period(now_s());
    let points = points(viewer, span, period).await?;
    let mut contents = choices(span);
    contents.raw("<p class=\"remark\">").text(&minute(period.from)).raw(" to ").text(&minute(period.to));
    contents
        .raw(" UTC. A point stands for ")
        .text(&length(span.step))
        .raw(". Where a line has a gap, Narrows did not run.</p>\n");
    if points.is_empty() {
        contents.raw("<p class=\"none\">There are no figures of that time (admin-narrows_history).</p>\n");
    }
    contents.push(&charts(PANELS.iter(), &points, span, period)).push(&table(&points));
    Ok(ConsolePage { title: "History", path: "/console/history", contents, refresh_s: 30, acts: false })
}

async fn points(viewer: &Viewer<'_>, span: &Span, period: Period) -> Result<Vec<Point>, Trouble> {
    let rows = viewer.figures(&question(span, period)).await?.rows;
    Ok(rows.iter().map(Point::read).collect())
}

fn charts(
    panels: impl Iterator<Item = &'static Panel>,
    points: &[Point],
    span: &Span,
    period: Period,
) -> Html {
    let ticks = span.ticks(period);
    let mut html = Html::of("<div class=\"charts\">\n");
    for (id, panel) in panels.enumerate() {
        html.push(&figure(id, panel, points, span, period, &ticks));
    }
    html.raw("</div>\n");
    html
}

/// Links to all spans.
fn choices(chosen: &Span) -> Html {
    let mut html = Html::of("<nav class=\"choices\" aria-label=\"Span\"><ul>\n");
    for span in SPANS {
        html.raw("<li><a href=\"/console/history?span=").raw(span.name).raw("\"");
        if span.name == chosen.name {
            html.raw(" aria-current=\"true\"");
        }
        html.raw(">").raw(span.label).raw("</a></li>\n");
    }
    html.raw("</ul></nav>\n");
    html
}

fn length(seconds: i64) -> String {
    match seconds {
        seconds if seconds % 3_600 == 0 => format!("{} hour", seconds / 3_600),
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

/// A chart with its name and what its lines mean.
fn figure(
    id: usize,
    panel: &Panel,
    points: &[Point],
    span: &Span,
    period: Period,
    ticks: &[(i64, String)],
) -> Html {
    let lines: Vec<Pieces> = panel.lines.iter().map(|line| pieces(points, span.step, line.of)).collect();
    let values = || lines.iter().flatten().flatten().map(|(_, value)| *value);
    let most = values().fold(0.0, f64::max);
    let axis = match panel.scale {
        Scale::Powers => {
            Axis::powers(values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min), most)
        }
        Scale::Share => Axis::Linear { top: 1.0, step: 0.5 },
        Scale::Decimal => Axis::linear(most, 1.0),
        Scale::Percent => Axis::linear(most, 0.01),
        Scale::Binary => Axis::linear(most, 1_024_f64.powf(most.max(1.0).log(1_024.0).floor())),
    };
    let told: Vec<String> = panel
        .lines
        .iter()
        .zip(&lines)
        .map(|(line, pieces)| told(line.label, pieces, panel.shown, span))
        .collect();
    let description = told.join("; ");
    let chart =
        Chart { id, title: panel.title, description: &description, period, ticks, axis, shown: panel.shown };
    let mut html = Html::of("<figure><figcaption><h2>");
    html.raw(panel.title).raw("</h2><ul>");
    for (told, class) in told.iter().zip(CLASSES) {
        html.raw("<li><svg class=\"key\" aria-hidden=\"true\" viewBox=\"0 0 24 8\"><path class=\"")
            .raw(class);
        html.raw("\" d=\"M1 4H23\"/></svg>").text(told).raw("</li>");
    }
    html.raw("</ul></figcaption>\n").push(&chart.html(&lines)).raw("</figure>\n");
    html
}

/// A line in words: its latest value, and its highest one with the time.
fn told(label: &str, pieces: &Pieces, shown: fn(f64) -> String, span: &Span) -> String {
    let all = || pieces.iter().flatten();
    let most = all().max_by(|one, other| one.1.total_cmp(&other.1));
    let (Some((_, last)), Some((at, most))) = (all().next_back(), most) else {
        return format!("{label} none");
    };
    format!("{label} {}, most {} at {}", shown(*last), shown(*most), span.moment(*at))
}

/// The values of a line, apart where there are none.
fn pieces(points: &[Point], step: i64, of: fn(&Point) -> Option<f64>) -> Pieces {
    let mut pieces = Pieces::new();
    let mut end = None;
    for point in points {
        let Some(value) = of(point) else {
            end = None;
            continue;
        };
        let place = (point.at + step / 2, value);
        match pieces.last_mut() {
            // Intervals may be longer than a step.
            Some(piece) if end.is_some_and(|end| point.at <= end) => piece.push(place),
            _ => pieces.push(vec![place]),
        }
        #[expect(clippy::cast_possible_truncation, reason = "seconds of a step")]
        let known = point.seconds as i64;
        end = Some(point.at + step.max(known) + step / 2);
    }
    pieces
}

/// All values, the latest first.
fn table(points: &[Point]) -> Html {
    let lines = || PANELS.iter().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)));
    let heads = lines().map(|(panel, line)| {
        let label = if panel.lines.len() == 1 { "" } else { line.label };
        Head::number(panel.title).with_part(label)
    });
    let mut grid = Grid::new(
        "The figures of the charts, the latest first",
        std::iter::once(Head::text("UTC")).chain(heads),
    );
    for point in points.iter().rev() {
        let mut cells = vec![Html::text_of(&minute(point.at))];
        cells.extend(lines().map(|(panel, line)| match (line.of)(point) {
            Some(value) => Html::text_of(&(panel.shown)(value)),
            None => Html::default(),
        }));
        grid.row(cells);
    }
    let mut html = Html::of("<details id=\"figures\"><summary>The same as a table</summary>\n");
    html.push(&grid.into_html()).raw("</details>\n");
    html
}

/// The charts that the overview has.
const MOST_IMPORTANT: usize = 6;

/// How long the charts of the last hour are shown.
const LIFE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: i64, seconds: f64) -> Point {
        Point { at, seconds, ..Point::default() }
    }

    #[test]
    fn a_restart_is_a_gap_and_a_long_interval_is_none() {
        let points = [point(0, 10.0), point(10, 10.0), point(60, 10.0), point(70, 60.0), point(130, 60.0)];
        let found = pieces(&points, 10, |point| (point.at != 130).then_some(point.seconds));
        assert_eq!(found, [vec![(5, 10.0), (15, 10.0)], vec![(65, 10.0), (75, 60.0)]]);
        assert_eq!(pieces(&points, 10, |_| Some(1.0)).len(), 2);
        assert!(pieces(&[], 10, |_| Some(1.0)).is_empty());
    }

    #[test]
    fn a_line_is_told_in_words() {
        let day = Span::chosen(&Fields::read(""));
        assert_eq!(
            told("all", &vec![vec![(0, 1.0), (60, 3.0)], vec![(120, 2.0)]], |value| value.to_string(), day),
            "all 2, most 3 at 00:01"
        );
        assert_eq!(told("all", &Pieces::new(), |value| value.to_string(), day), "all none");
    }
}

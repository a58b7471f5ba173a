//! The first page: whether clients can be served, and how much there is to do.

use std::time::Duration;

use super::history::last_hour;
use super::html::Html;
use super::layout::ConsolePage;
use super::recent::{PLACES, look};
use super::sample::Sample;
use super::spark;
use super::units::{amount, bytes, seconds, share};
use super::viewer::{Trouble, Viewer};

/// A figure with its chart.
struct Figure {
    label: &'static str,
    value: String,
    /// Over the last minutes, the oldest first.
    values: Vec<f64>,
    shown: fn(f64) -> String,
}

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let readiness = viewer.console.server.readiness(viewer.peer).await;
    look(viewer.console).await;
    let mut contents = Html::default();
    match &readiness {
        Ok(()) => contents.raw(
            "<p class=\"state good\"><span aria-hidden=\"true\">● </span>Ready: clients can be served.</p>\n",
        ),
        Err(reason) => contents
            .raw("<p class=\"state bad\"><span aria-hidden=\"true\">▲ </span>Not ready: ")
            .text(reason)
            .raw("</p>\n"),
    };
    let Some(last) = viewer.console.samples.last() else { return Err(Trouble::NoAnswer) };
    contents.raw("<h2>The last five minutes</h2>\n<dl class=\"figures\">\n");
    for figure in rates(viewer).into_iter().chain(levels(viewer, &last)).chain(latencies(viewer)) {
        contents.push(&card(&figure));
    }
    contents.raw("</dl>\n<p class=\"remark\">Rates are those of the last ten seconds, and latencies those of the last minute. ");
    contents.raw("A sample is taken every 5 s while somebody looks. Latency runs from the arrival of a statement to the end of its answer.</p>\n");
    contents.raw("<h2>The last hour</h2>\n").push(&last_hour(viewer).await?);
    contents.raw("<p class=\"remark\">Times are in UTC. Longer: <a href=\"/console/history\">day</a>, ");
    contents.raw("<a href=\"/console/history?span=week\">week</a>, <a href=\"/console/history?span=month\">month</a>.</p>\n");
    Ok(ConsolePage { title: "Overview", path: "/console/", contents, refresh_s: 1, acts: false })
}

fn card(figure: &Figure) -> Html {
    let shown = figure.shown;
    let most = figure.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let label =
        format!("{} over the last five minutes: at most {}, now {}", figure.label, shown(most), figure.value);
    let mut html = Html::of("<div><dt>");
    html.raw(figure.label).raw("</dt><dd>").text(&figure.value).raw("</dd><dd class=\"chart\">");
    html.push(&spark::line(&figure.values, PLACES, &label)).raw("</dd></div>\n");
    html
}

/// How much of a counter there was per second.
fn rate(count: fn(&Sample) -> f64, earlier: &Sample, later: &Sample) -> f64 {
    let seconds = later.at.duration_since(earlier.at).as_secs_f64();
    if seconds > 0.0 { (count(later) - count(earlier)).max(0.0) / seconds } else { 0.0 }
}

/// The share of lookups that were found.
fn hit_share(earlier: &Sample, later: &Sample) -> f64 {
    let lookups = later.lookups - earlier.lookups;
    if lookups > 0.0 { (later.hits - earlier.hits) / lookups } else { f64::NAN }
}

fn rates(viewer: &Viewer<'_>) -> Vec<Figure> {
    let samples = &viewer.console.samples;
    let recent = samples.span(RECENT);
    let of = |label, count: fn(&Sample) -> f64, shown: fn(f64) -> String| Figure {
        label,
        value: recent.as_ref().map_or_else(waiting, |(first, last)| shown(rate(count, first, last))),
        values: samples.intervals(|earlier, later| rate(count, earlier, later)),
        shown,
    };
    let hits = Figure {
        label: "Cache hits",
        value: recent.as_ref().map_or_else(waiting, |(first, last)| match hit_share(first, last) {
            hits if hits.is_nan() => "no lookups".to_owned(),
            hits => share(hits),
        }),
        values: samples.intervals(hit_share),
        shown: share,
    };
    vec![
        of("Statements/s", |sample| sample.statements, amount),
        of("Slow statements/s", |sample| sample.slow, amount),
        of("Errors/s", |sample| sample.errors, amount),
        of("Bytes/s to and from clients", |sample| sample.bytes, bytes),
        hits,
    ]
}

fn levels(viewer: &Viewer<'_>, last: &Sample) -> Vec<Figure> {
    let of = |label, level: fn(&Sample) -> f64| Figure {
        label,
        value: amount(level(last)),
        values: viewer.console.samples.intervals(|_, later| level(later)),
        shown: amount,
    };
    vec![of("Clients", |sample| sample.clients), of("Connections to servers", |sample| sample.connections)]
}

fn latencies(viewer: &Viewer<'_>) -> Vec<Figure> {
    let samples = &viewer.console.samples;
    let minute = samples.span(MINUTE);
    let of = |label, quantile: f64| Figure {
        label,
        value: minute.as_ref().map_or_else(waiting, |(first, last)| {
            last.quantile_since(first, quantile).map_or_else(|| "no statements".to_owned(), seconds)
        }),
        values: samples.intervals(|earlier, later| later.quantile_since(earlier, quantile).unwrap_or(0.0)),
        shown: seconds,
    };
    vec![
        of("Latency, median", 0.5),
        of("Latency, 95th percentile", 0.95),
        of("Latency, 99th percentile", 0.99),
    ]
}

fn waiting() -> String {
    "in a second".to_owned()
}

const RECENT: Duration = Duration::from_millis(10_500);

const MINUTE: Duration = Duration::from_millis(60_500);

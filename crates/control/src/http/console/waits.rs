//! How long statements waited for a connection to a server, by hostgroup.

use std::time::Duration;

use super::grid::{Grid, Head};
use super::html::Html;
use super::sample::Waits;
use super::units::{amount, seconds};
use super::viewer::Viewer;

/// The table, from the samples of the last minutes.
pub fn grid(viewer: &Viewer<'_>) -> Html {
    let samples = &viewer.console.samples;
    let heads = [
        Head::number("Hostgroup"),
        Head::number("Last 5 minutes"),
        Head::number("Since the start"),
        Head::number("Median"),
        Head::number("95th percentile"),
        Head::number("99th percentile"),
        Head::text("Up to 1 ms, 10 ms, 100 ms, 1 s, longer"),
    ];
    let mut grid = Grid::new("Waits for a connection", heads);
    let Some(last) = samples.last() else { return grid.into_html() };
    let span = samples.span(FIVE_MINUTES);
    for (hostgroup, waits) in last.waits().filter(|(_, waits)| waits.count() > 0.0) {
        let recent = span.as_ref().map(|(first, last)| amount(last.waits_since(first, hostgroup)));
        let mut cells =
            vec![Html::text_of(&hostgroup.to_string()), Html::text_of(&recent.unwrap_or_default())];
        cells.push(Html::text_of(&amount(waits.count())));
        cells.extend(
            [0.5, 0.95, 0.99]
                .map(|share| Html::text_of(&waits.quantile(share).map_or_else(String::new, seconds))),
        );
        cells.push(bars(&waits));
        grid.row(cells);
    }
    grid.into_html()
}

/// The shares of waits by duration, as bars.
fn bars(waits: &Waits) -> Html {
    let shares = shares(waits);
    let told = shares.map(|share| format!("{:.0} %", share * 100.0)).join(", ");
    let mut html = Html::of("<span class=\"bars\"><svg viewBox=\"0 0 100 24\" aria-hidden=\"true\">");
    for (place, share) in (0_u8..).zip(shares) {
        let height = (share * 24.0).max(1.0);
        html.raw("<rect width=\"16\" x=\"").text(&(place * 20).to_string());
        html.raw("\" y=\"")
            .text(&format!("{:.1}", 24.0 - height))
            .raw("\" height=\"")
            .text(&format!("{height:.1}"));
        html.raw("\"/>");
    }
    html.raw("</svg> ").text(&told).raw("</span>");
    html
}

/// The share of waits up to each of [`LIMITS_S`] and above the one before, and of longer ones.
fn shares(waits: &Waits) -> [f64; LIMITS_S.len() + 1] {
    let mut shares = [0.0; LIMITS_S.len() + 1];
    let all = waits.count().max(1.0);
    for (limit, count) in waits.by_duration() {
        let place = LIMITS_S.iter().position(|most| limit <= most * 1.000_001).unwrap_or(LIMITS_S.len());
        if let Some(share) = shares.get_mut(place) {
            *share += count / all;
        }
    }
    shares
}

const LIMITS_S: [f64; 4] = [0.001, 0.01, 0.1, 1.0];

const FIVE_MINUTES: Duration = Duration::from_secs(302);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::http::console::sample::Sample;

    #[test]
    fn shares_are_by_duration() {
        let counts = [("0.0001", 1), ("0.001", 2), ("0.0025", 3), ("1", 3), ("+Inf", 4)];
        let line = |(limit, count)| {
            format!(
                "narrows_connection_wait_duration_seconds_bucket{{hostgroup=\"2\",le=\"{limit}\"}} {count}\n"
            )
        };
        let text: String = counts.map(line).concat();
        let sample = Sample::read(&text, Instant::now());
        let (hostgroup, waits) = sample.waits().next().unwrap();
        assert_eq!((hostgroup, shares(&waits)), (2, [0.5, 0.25, 0.0, 0.0, 0.25]));
        assert!(bars(&waits).into_string().contains("50 %, 25 %, 0 %, 0 %, 25 %"));
    }
}

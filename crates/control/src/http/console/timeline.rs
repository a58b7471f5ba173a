//! The states of servers over time, as SVG: a line for each server, and a piece of it for each state.

use std::collections::BTreeMap;

use narrows_proxy::clock;

use super::html::Html;
use super::servers::Reasons;
use super::viewer::Listing;

/// A state that a server had.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    from: u64,
    to: u64,
    status: String,
}

/// The picture of rows that have: when a state begins, hostgroup, server, port, state, and the server's last sample.
/// The reasons are those of the present states.
pub fn chart(states: &Listing, reasons: &Reasons) -> Html {
    let now = clock::now().as_secs();
    let mut begins: BTreeMap<(i64, String), Vec<Piece>> = BTreeMap::new();
    for row in &states.rows {
        let number = |place| row.text(place).parse::<u64>().unwrap_or(0);
        let hostgroup = row.text(1).parse().unwrap_or(-1);
        let server = format!("{}:{}", row.text(2), row.text(3));
        let piece = Piece { from: number(0), to: number(5), status: row.text(4).into_owned() };
        begins.entry((hostgroup, server)).or_default().push(piece);
    }
    let mut html = Html::default();
    if begins.is_empty() {
        html.raw("<p class=\"none\">There are no samples yet.</p>\n");
        return html;
    }
    let first = begins.values().flatten().map(|piece| piece.from).min().unwrap_or(now);
    let span = Span { now, length: now.saturating_sub(first).clamp(SHORTEST, DAY) };
    html.raw("<ul class=\"timeline\">\n");
    for ((hostgroup, server), pieces) in begins.into_iter().take(MOST_LINES) {
        let line = line(&joined(pieces), span);
        let label = format!("{server} in hostgroup {hostgroup}");
        html.raw("<li><span>").text(&label).raw("</span>").push(&line);
        if let Some((status, reason)) = reasons.get(&format!("{hostgroup}_{server}")) {
            html.raw("<span class=\"reason\">").text(&format!("{status}: {reason}")).raw("</span>");
        }
        html.raw("</li>\n");
    }
    html.raw("</ul>\n<p class=\"remark\">From ").text(&ago(span.length));
    html.raw(" ago on the left to now on the right. A full line is ONLINE, a half one OFFLINE_SOFT, and a thin one any other state.</p>\n");
    html
}

/// The time that a picture shows, in seconds.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// Its end, in Unix time.
    now: u64,
    length: u64,
}

impl Span {
    /// Where a moment is.
    fn place(self, at: u64) -> f64 {
        let age = self.now.saturating_sub(at).min(self.length);
        WIDTH * (self.length - age) as f64 / self.length.max(1) as f64
    }
}

/// A time in hours or minutes.
fn ago(seconds: u64) -> String {
    match seconds / 60 {
        minutes if minutes >= 120 => format!("{} hours", minutes.div_ceil(60)),
        minutes => format!("{minutes} minutes"),
    }
}

/// Lets each piece end where the next one begins.
fn joined(mut pieces: Vec<Piece>) -> Vec<Piece> {
    let begins: Vec<u64> = pieces.iter().skip(1).map(|piece| piece.from).collect();
    for (piece, next) in pieces.iter_mut().zip(begins) {
        piece.to = next;
    }
    pieces
}

fn line(pieces: &[Piece], span: Span) -> Html {
    let now = span.now;
    let told = pieces
        .iter()
        .map(|piece| format!("{} from {} ago", piece.status, ago(now.saturating_sub(piece.from))));
    let told: Vec<String> = told.collect();
    let mut html =
        Html::of("<svg viewBox=\"0 0 1440 16\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    html.text(&told.join(", ")).raw("\">");
    for (place, piece) in (1..).zip(pieces) {
        // Until the next sample, the last state is taken for the same.
        let lasts = place == pieces.len() && now.saturating_sub(piece.to) <= LATEST;
        let to = if lasts { now } else { piece.to };
        let from = span.place(piece.from);
        let width = (span.place(to) - from).max(2.0);
        let (class, top, height) = match piece.status.as_str() {
            "ONLINE" => ("good", "0", "16"),
            "OFFLINE_SOFT" => ("fair", "4", "8"),
            _ => ("bad", "6", "4"),
        };
        html.raw("<rect class=\"").raw(class).raw("\" x=\"").text(&format!("{from:.1}"));
        html.raw("\" y=\"").raw(top).raw("\" height=\"").raw(height).raw("\" width=\"");
        html.text(&format!("{width:.1}")).raw("\"/>");
    }
    html.raw("</svg>");
    html
}

/// Lines of the picture.
const MOST_LINES: usize = 100;

/// The width of the picture, which the style sheet stretches.
const WIDTH: f64 = 1_440.0;

const DAY: u64 = 86_400;

/// The shortest time that is shown.
const SHORTEST: u64 = 600;

/// A sample is at most this many seconds old, with the longest interval that can be set.
const LATEST: u64 = 330;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, to: u64, status: &str) -> Piece {
        Piece { from, to, status: status.to_owned() }
    }

    #[test]
    fn states_follow_each_other() {
        let pieces = joined(vec![piece(10, 90, "ONLINE"), piece(50, 90, "SHUNNED")]);
        assert_eq!(pieces, [piece(10, 50, "ONLINE"), piece(50, 90, "SHUNNED")]);
        let now = 1_000_000;
        let html = line(&[piece(now - DAY, now - 60, "ONLINE")], Span { now, length: DAY }).into_string();
        assert!(html.contains("x=\"0.0\" y=\"0\" height=\"16\" width=\"1440.0\""), "{html}");
        assert!(html.contains("aria-label=\"ONLINE from 24 hours ago\""), "{html}");
        let pieces = [piece(now - 200, now - 100, "SHUNNED"), piece(now - 100, now - 10, "ONLINE")];
        let html = line(&pieces, Span { now, length: 200 }).into_string();
        assert!(html.contains("x=\"0.0\" y=\"6\" height=\"4\" width=\"720.0\""), "{html}");
        assert!(html.contains("x=\"720.0\" y=\"0\" height=\"16\" width=\"720.0\""), "{html}");
    }
}

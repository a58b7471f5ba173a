//! Small charts of the last minutes, as SVG without styles of its own.

use std::fmt::Write;

use super::html::Html;

/// A line through `values`, the oldest first, over `places` equal steps; `label` says in words what it shows.
pub fn line(values: &[f64], places: usize, label: &str) -> Html {
    let mut html = Html::of(
        "<svg class=\"spark\" viewBox=\"0 0 120 32\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"",
    );
    html.text(label).raw("\">");
    if values.len() > 1 {
        html.raw("<polyline points=\"").text(&points(values, places)).raw("\"/>");
    }
    html.raw("</svg>");
    html
}

/// The corners of the line; the newest value is at the right end.
fn points(values: &[f64], places: usize) -> String {
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
    let step = WIDTH / (places.max(values.len()).max(2) - 1) as f64;
    let first = WIDTH - step * (values.len().saturating_sub(1)) as f64;
    let mut out = String::new();
    for (place, value) in values.iter().enumerate() {
        let share = if most > 0.0 && value.is_finite() { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        let (x, y) = (first + step * place as f64, BOTTOM - share * (BOTTOM - TOP));
        let separator = if place == 0 { "" } else { " " };
        write!(out, "{separator}{x:.1},{y:.1}").expect("writing to a String cannot fail");
    }
    out
}

/// The size of the picture, which the style sheet stretches.
const WIDTH: f64 = 120.0;
const TOP: f64 = 2.0;
const BOTTOM: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_at_the_right_end() {
        assert_eq!(points(&[0.0, 10.0, 5.0], 3), "0.0,30.0 60.0,2.0 120.0,16.0");
        assert_eq!(points(&[1.0, 1.0], 61), "118.0,2.0 120.0,2.0");
        assert_eq!(points(&[0.0, f64::NAN], 2), "0.0,30.0 120.0,30.0");
        assert!(!line(&[1.0], 10, "a \"label\"").into_string().contains("polyline"));
    }
}

//! A chart with axes, as SVG without styles of its own. Texts keep their size: only the lines are stretched to the width of
//! the page.

use std::fmt::Write;

use super::html::Html;
use super::span::Period;

/// A chart without its lines.
pub struct Chart<'a> {
    /// Makes the names of its parts unique in the page.
    pub id: usize,
    /// What it shows.
    pub title: &'a str,
    /// The same in words, with the figures that matter.
    pub description: &'a str,
    /// The time from its left to its right end.
    pub period: Period,
    /// Times at the axis.
    pub ticks: &'a [(i64, String)],
    /// The values from its lower to its upper end.
    pub axis: Axis,
    /// Writes a value.
    pub shown: fn(f64) -> String,
}

/// A line: pieces with gaps between them, each of moments and values.
pub type Pieces = Vec<Vec<(i64, f64)>>;

/// The values of a chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// From 0 to `top`, with a mark at each `step`.
    Linear {
        /// The upper end.
        top: f64,
        /// The distance of two marks.
        step: f64,
    },
    /// Powers of ten.
    Powers {
        /// The exponent at the lower end.
        low: i32,
        /// The exponent at the upper end.
        high: i32,
    },
}

impl Axis {
    /// From 0 to a whole number of steps above `most`. `unit` is the number that round values are multiples of.
    pub fn linear(most: f64, unit: f64) -> Axis {
        let most = if most.is_finite() && most > 0.0 { most } else { unit };
        let rough = most / (MARKS * unit);
        let power = 10_f64.powf(rough.log10().floor());
        let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
        let step = digit * power * unit;
        Axis::Linear { top: (most / step).ceil().max(1.0) * step, step }
    }

    /// Powers of ten around these values.
    pub fn powers(least: f64, most: f64) -> Axis {
        let is_known = least > 0.0 && least <= most && most.is_finite();
        let (least, most) = if is_known { (least, most) } else { (1e-4, 1e-1) };
        let [low, high] =
            [least.log10().floor(), most.log10().ceil()].map(|power| power.clamp(-9.0, 9.0) as i32);
        Axis::Powers { low, high: high.max(low + 1) }
    }

    /// Where a value is, from 0 at the lower end to 1.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Axis::Linear { top, .. } => value / top,
            Axis::Powers { low, .. } if value <= 10_f64.powi(low) => 0.0,
            Axis::Powers { low, high } => (value.log10() - f64::from(low)) / f64::from(high - low),
        };
        share.clamp(0.0, 1.0)
    }

    /// The values with marks.
    fn marks(self) -> Vec<f64> {
        match self {
            Axis::Linear { top, step } => (0..=MOST_MARKS)
                .map(|place| f64::from(place) * step)
                .take_while(|value| *value <= top * 1.001)
                .collect(),
            Axis::Powers { low, high } => {
                let every = usize::try_from((high - low + 3) / 4).unwrap_or(1).max(1);
                (low..=high).step_by(every).map(|power| 10_f64.powi(power)).collect()
            }
        }
    }
}

impl Chart<'_> {
    /// The picture.
    pub fn html(&self, lines: &[Pieces]) -> Html {
        let id = self.id.to_string();
        let mut html = Html::of(
            "<svg class=\"plot\" role=\"img\" width=\"100%\" height=\"10rem\" aria-labelledby=\"title-",
        );
        html.text(&id)
            .raw(" text-")
            .text(&id)
            .raw("\"><title id=\"title-")
            .text(&id)
            .raw("\">")
            .text(self.title);
        html.raw("</title><desc id=\"text-").text(&id).raw("\">").text(self.description).raw("</desc>\n");
        html.push(&self.times());
        let marks = self.axis.marks();
        for value in &marks {
            let y = self.height(*value);
            html.raw("<line class=\"rule\" x1=\"0\" x2=\"100%\" y1=\"")
                .text(&y)
                .raw("\" y2=\"")
                .text(&y)
                .raw("\"/>");
        }
        html.raw("\n<svg y=\"1.25rem\" width=\"100%\" height=\"7rem\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">");
        for (pieces, class) in lines.iter().zip(CLASSES) {
            html.raw("<path class=\"").raw(class).raw("\" d=\"").text(&self.path(pieces)).raw("\"/>");
        }
        html.raw("</svg>\n");
        for value in &marks {
            html.raw("<text class=\"mark\" y=\"").text(&self.height(*value)).raw("\" dy=\"-0.2rem\">");
            html.text(&(self.shown)(*value).replace(".0 %", " %")).raw("</text>");
        }
        html.raw("</svg>\n");
        html
    }

    /// How far down a value is.
    fn height(&self, value: f64) -> String {
        format!("{:.2}rem", TOP_REM + HEIGHT_REM * (1.0 - self.axis.share(value)))
    }

    fn times(&self) -> Html {
        let mut html = Html::default();
        for (at, text) in self.ticks {
            let share = self.period.share(*at);
            let x = format!("{:.2}%", share * 100.0);
            html.raw("<line class=\"rule\" y1=\"1.25rem\" y2=\"8.5rem\" x1=\"")
                .text(&x)
                .raw("\" x2=\"")
                .text(&x);
            html.raw("\"/>");
            // Near the ends there is no space for it.
            if share > EDGE && share < 1.0 - EDGE {
                html.raw("<text class=\"time\" y=\"9.5rem\" x=\"")
                    .text(&x)
                    .raw("\">")
                    .text(text)
                    .raw("</text>");
            }
        }
        html.raw("\n");
        html
    }

    /// The commands that draw a line. A piece of one point becomes a dot, because lines have round ends.
    fn path(&self, pieces: &Pieces) -> String {
        let mut out = String::new();
        for piece in pieces {
            for (place, (at, value)) in piece.iter().enumerate() {
                let (x, y) = (self.period.share(*at) * 1_000.0, 100.0 * (1.0 - self.axis.share(*value)));
                let command = if place == 0 { 'M' } else { 'L' };
                write!(out, "{command}{x:.1} {y:.1}").expect("writing to a String cannot fail");
            }
            if piece.len() == 1 {
                out.push_str("h0");
            }
        }
        out
    }
}

/// The kinds of lines, in their order.
pub const CLASSES: [&str; 3] = ["one", "two", "three"];

/// Steps of a linear axis, about.
const MARKS: f64 = 3.0;

const MOST_MARKS: i32 = 10;

/// Where lines begin below the upper end of the picture, and how high the highest can be.
const TOP_REM: f64 = 1.25;
const HEIGHT_REM: f64 = 7.0;

/// So near to an end, a time is not written around its place.
const EDGE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values() {
        assert_eq!(Axis::linear(870.0, 1.0), Axis::Linear { top: 1_000.0, step: 500.0 });
        assert_eq!(Axis::linear(3.0, 1.0), Axis::Linear { top: 3.0, step: 1.0 });
        assert_eq!(Axis::linear(5_000.0, 1_024.0), Axis::Linear { top: 6_144.0, step: 2_048.0 });
        for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(Axis::linear(nothing, 1.0), Axis::Linear { top, .. } if (1.0..2.0).contains(&top))
            );
        }
        assert_eq!(Axis::powers(0.000_2, 0.03), Axis::Powers { low: -4, high: -1 });
        assert_eq!(Axis::powers(0.0, 0.0), Axis::Powers { low: -4, high: -1 });
        assert_eq!(Axis::powers(0.01, 0.01).marks().len(), 2);
        assert!(Axis::powers(1e-6, 10.0).marks().len() <= 5);
    }

    #[test]
    fn gaps_stay_gaps() {
        let chart = Chart {
            id: 1,
            title: "<title>",
            description: "a & b",
            period: Period { from: 0, to: 100 },
            ticks: &[(0, "a".to_owned()), (50, "b".to_owned())],
            axis: Axis::Linear { top: 10.0, step: 5.0 },
            shown: |value| value.to_string(),
        };
        let pieces = vec![vec![(0, 0.0), (10, 10.0)], vec![(50, 5.0)]];
        assert_eq!(chart.path(&pieces), "M0.0 100.0L100.0 0.0M500.0 50.0h0");
        let html = chart.html(&[pieces]).into_string();
        for part in [
            "&lt;title&gt;</title>",
            "a &amp; b</desc>",
            "x1=\"50.00%\"",
            "y=\"4.75rem\"",
            "class=\"one\" d=\"M",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("style"), "{html}");
    }
}

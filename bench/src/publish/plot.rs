//! Plots as SVG: bars by group, one colour per series.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

/// A plot.
#[derive(Debug)]
pub struct Plot<'a> {
    /// Its heading.
    pub title: &'a str,
    /// The unit of the figures.
    pub unit: &'a str,
    /// The groups of bars, from left to right.
    pub groups: Vec<String>,
    /// The series: a name, and a figure per group, if there is one.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl Plot<'_> {
    /// Writes the plot to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), Box<dyn Error>> {
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let highest =
            self.series.iter().flat_map(|(_, figures)| figures).flatten().copied().fold(0.0, f64::max);
        let groups = self.groups.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..groups, 0.0..(highest * 1.15).max(f64::MIN_POSITIVE))?;
        let name = |place: &f64| match place.fract() == 0.0 {
            true => String::new(),
            false => self.groups.get(*place as usize).cloned().unwrap_or_default(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(2 * self.groups.len() + 1)
            .x_label_formatter(&name)
            .y_desc(self.unit)
            .label_style(("sans-serif", 13))
            .draw()?;
        let width = 0.8 / self.series.len().max(1) as f64;
        for (number, (name, figures)) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let bar = |(group, figure): (usize, &Option<f64>)| {
                let left = group as f64 + 0.1 + number as f64 * width;
                figure.map(|figure| {
                    Rectangle::new([(left, 0.0), (left + width * 0.92, figure)], colour.filled())
                })
            };
            chart
                .draw_series(figures.iter().enumerate().filter_map(bar))?
                .label(name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .label_font(("sans-serif", 13))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// Width and height in pixels.
const SIZE: (u32, u32) = (720, 360);

/// Colours that people with colour-blindness can tell apart (Okabe and Ito).
const COLOURS: &[RGBColor] = &[
    RGBColor(153, 153, 153),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_missing_leaves_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plot.svg");
        let series =
            vec![("one".to_owned(), vec![Some(1.0), None]), ("two".to_owned(), vec![Some(2.0), Some(3.0)])];
        let groups = vec!["first".to_owned(), "second".to_owned()];
        Plot { title: "A title", unit: "us", groups, series }.write(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        for part in ["A title", "first", "second", "one", "two"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

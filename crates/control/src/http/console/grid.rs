//! Tables of a page. A wide one is moved within its own region, which the keyboard reaches.

use super::html::Html;

/// A column's head.
#[derive(Debug, Default)]
pub struct Head {
    label: Html,
    sorted: Option<&'static str>,
    is_number: bool,
}

impl Head {
    /// A column of texts.
    pub fn text(label: &'static str) -> Head {
        Head { label: Html::of(label), ..Head::default() }
    }

    /// A column of numbers.
    pub fn number(label: &'static str) -> Head {
        Head { is_number: true, ..Head::text(label) }
    }

    /// With a second line in its label, if there is one.
    pub fn with_part(mut self, part: &'static str) -> Head {
        if !part.is_empty() {
            self.label.raw("<span class=\"part\">").raw(part).raw("</span>");
        }
        self
    }

    /// With another label, and how the rows are sorted by this column (`ascending`, `descending`).
    pub fn sorting(self, label: Html, sorted: Option<&'static str>) -> Head {
        Head { label, sorted, ..self }
    }
}

/// A table with its rows.
#[derive(Debug)]
pub struct Grid {
    caption: String,
    heads: Vec<Head>,
    rows: Html,
    count: usize,
}

impl Grid {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, heads: impl IntoIterator<Item = Head>) -> Grid {
        let heads = heads.into_iter().collect();
        Grid { caption: caption.into(), heads, rows: Html::default(), count: 0 }
    }

    /// Adds a row of as many cells as there are heads; the first one names it.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Html>) {
        self.rows.raw("<tr>");
        for (place, (head, cell)) in self.heads.iter().zip(cells).enumerate() {
            let (open, close) = match (place, head.is_number) {
                (0, true) => ("<th scope=\"row\" class=\"number\">", "</th>"),
                (0, false) => ("<th scope=\"row\">", "</th>"),
                (_, true) => ("<td class=\"number\">", "</td>"),
                (_, false) => ("<td>", "</td>"),
            };
            self.rows.raw(open).push(&cell).raw(close);
        }
        self.rows.raw("</tr>\n");
        self.count += 1;
    }

    /// Adds a row of texts.
    pub fn texts<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        let cells: Vec<Html> = cells.into_iter().map(Html::text_of).collect();
        self.row(cells);
    }

    /// The table; a sentence if it has no rows.
    pub fn into_html(self) -> Html {
        let mut html = Html::default();
        if self.count == 0 {
            html.raw("<p class=\"none\">").text(&self.caption).raw(": none.</p>\n");
            return html;
        }
        html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"").text(&self.caption);
        html.raw("\"><table><caption>").text(&self.caption).raw("</caption>\n<thead><tr>");
        for head in &self.heads {
            html.raw(if head.is_number { "<th scope=\"col\" class=\"number\"" } else { "<th scope=\"col\"" });
            if let Some(sorted) = head.sorted {
                html.raw(" aria-sort=\"").raw(sorted).raw("\"");
            }
            html.raw(">").push(&head.label).raw("</th>");
        }
        html.raw("</tr></thead>\n<tbody>\n").push(&self.rows).raw("</tbody></table></div>\n");
        html
    }
}

/// A text in a fixed-width font, such as a statement.
pub fn code(text: &str) -> Html {
    let mut html = Html::default();
    html.element("<code>", text, "</code>");
    html
}

/// A text of some length, which is broken into lines.
pub fn prose(text: &str) -> Html {
    let mut html = Html::default();
    html.element("<span class=\"prose\">", text, "</span>");
    html
}

/// A state of a server with a colour, and a sign for those who do not see it.
pub fn state(status: &str) -> Html {
    let (open, sign) = match status {
        "ONLINE" => ("<span class=\"good\">", "● "),
        "OFFLINE_SOFT" => ("<span class=\"fair\">", "◐ "),
        _ => ("<span class=\"bad\">", "▲ "),
    };
    let mut html = Html::of(open);
    html.raw("<span aria-hidden=\"true\">").raw(sign).raw("</span>").text(status).raw("</span>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_captions_and_heads() {
        let mut grid = Grid::new("A <caption>", [Head::text("Name"), Head::number("Count")]);
        grid.texts(["<x>", "1", "too many"]);
        let html = grid.into_html().into_string();
        for part in [
            "<caption>A &lt;caption&gt;</caption>",
            "tabindex=\"0\" role=\"region\" aria-label=\"A &lt;caption&gt;\"",
            "<th scope=\"col\">Name</th><th scope=\"col\" class=\"number\">Count</th>",
            "<tr><th scope=\"row\">&lt;x&gt;</th><td class=\"number\">1</td></tr>",
        ] {
            assert!(html.contains(part), "{html}");
        }
        let none = Grid::new("Pins", [Head::text("Name")]).into_html().into_string();
        assert_eq!(none, "<p class=\"none\">Pins: none.</p>\n");
    }
}

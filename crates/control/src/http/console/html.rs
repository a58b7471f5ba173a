//! HTML that is put together from two kinds of text: markup that stands in the sources, and text from elsewhere, which one
//! function escapes.

/// A piece of a document. Only what stands in the sources can be markup.
#[derive(Debug, Default, Clone)]
pub struct Html(String);

impl Html {
    /// Markup from the sources.
    pub fn of(markup: &'static str) -> Html {
        Html(markup.to_owned())
    }

    /// A text from elsewhere, escaped.
    pub fn text_of(text: &str) -> Html {
        Html(escaped(text))
    }

    /// Appends markup from the sources.
    pub fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Appends a text from elsewhere, escaped; it may also stand between the quotes of an attribute.
    pub fn text(&mut self, text: &str) -> &mut Html {
        self.0.push_str(&escaped(text));
        self
    }

    /// Appends another piece.
    pub fn push(&mut self, other: &Html) -> &mut Html {
        self.0.push_str(&other.0);
        self
    }

    /// Appends an element without attributes that has this text.
    pub fn element(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Html {
        self.raw(open).text(text).raw(close)
    }

    /// The document.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// `text` as it may stand in an element or between the quotes of an attribute. Characters that would not be seen, or would
/// make others look different, are replaced by ones that are seen.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            '\0'..='\x1f' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or(REPLACEMENT)),
            '\x7f' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => out.push(REPLACEMENT),
            // They change the direction of what follows.
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push(REPLACEMENT);
            }
            '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => out.push(REPLACEMENT),
            c => out.push(c),
        }
    }
    out
}

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        for (text, expected) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload=\"x", "&quot; onload=&quot;x"),
            ("' onload='x", "&#39; onload=&#39;x"),
            ("a & b &lt; c", "a &amp; b &amp;lt; c"),
            ("<!--", "&lt;!--"),
            ("]]>", "]]&gt;"),
            ("naïve 日本", "naïve 日本"),
        ] {
            assert_eq!(escaped(text), expected);
        }
        let mut html = Html::of("<p>");
        html.text("<b>").raw("</p>");
        assert_eq!(html.into_string(), "<p>&lt;b&gt;</p>");
    }

    #[test]
    fn characters_that_are_not_seen_are_shown() {
        assert_eq!(escaped("a\0b\x1b[31m\x7f"), "a\u{2400}b\u{241b}[31m\u{2421}");
        assert_eq!(escaped("a\tb\nc"), "a\tb\nc");
        assert_eq!(escaped("\u{202e}gpj\u{200b}\u{85}"), "\u{fffd}gpj\u{fffd}\u{fffd}");
        let all: String = (0..=0x2fff).filter_map(char::from_u32).collect();
        let out = escaped(&all);
        assert!(!out.contains(['<', '>', '"', '\'', '\0', '\u{1b}', '\u{202e}']));
    }
}

//! The trace context of a statement: `traceparent` of the W3C's Trace Context, which applications put into a comment in the form of
//! sqlcommenter, or into a query attribute.

use std::fmt;

use memchr::memmem;

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span above.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads the text of a header or attribute. Later versions may have more at the end.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let mut parts = text.splitn(5, |byte| *byte == b'-');
        let [version] = hex(parts.next()?)?;
        let trace_id = hex(parts.next()?)?;
        let span_id = hex(parts.next()?)?;
        let [flags] = hex::<1>(parts.next()?)?;
        let is_valid = version != 0xFF && (version > 0 || parts.next().is_none());
        let is_known = trace_id != [0; 16] && span_id != [0; 8];
        (is_valid && is_known).then_some(TraceParent { trace_id, span_id, is_sampled: flags & SAMPLED != 0 })
    }

    /// The trace in hexadecimal digits.
    pub fn trace_id_text(&self) -> String {
        text(&self.trace_id)
    }

    /// Finds it in a comment at the end or the beginning of a statement.
    pub fn of_comment(statement: &[u8]) -> Option<TraceParent> {
        // Few statements have one, and every statement is asked.
        let trimmed = statement.trim_ascii_end();
        let trimmed = trimmed.strip_suffix(b";").unwrap_or(trimmed).trim_ascii_end();
        if !trimmed.ends_with(b"*/") && !statement.starts_with(b"/*") {
            return None;
        }
        let end = statement.get(statement.len().saturating_sub(SEARCHED)..).unwrap_or(statement);
        in_comment(end).or_else(|| in_comment(statement.get(..SEARCHED)?))
    }
}

/// Its value among the `key='value'` pairs of a comment.
fn in_comment(text: &[u8]) -> Option<TraceParent> {
    let key = memmem::rfind(text, KEY)?;
    let opening = memmem::rfind(text.get(..key)?, b"/*")?;
    if memmem::find(text.get(opening..key)?, b"*/").is_some() {
        return None;
    }
    let value = text.get(key + KEY.len()..)?;
    let end = value.iter().position(|byte| *byte == b'\'')?;
    TraceParent::parse(value.get(..end)?)
}

/// Lower-case hexadecimal digits, two for each byte.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", text(&self.trace_id), text(&self.span_id), u8::from(self.is_sampled))
    }
}

/// The flag of traces that are recorded.
const SAMPLED: u8 = 1;

/// What precedes the value in a comment.
const KEY: &[u8] = b"traceparent='";

/// How far from the ends of a statement the comment may be, in bytes.
const SEARCHED: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the W3C's recommendation.
    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn texts_are_read_and_written() {
        let read = TraceParent::parse(EXAMPLE.as_bytes()).expect("valid");
        assert_eq!(read.to_string(), EXAMPLE);
        assert!(read.is_sampled);
        let later = format!("cc{}-more", &EXAMPLE[2..]);
        assert_eq!(TraceParent::parse(later.as_bytes()), Some(read));
        for wrong in [
            "",
            "00",
            &EXAMPLE[..54],
            &format!("{EXAMPLE}-more"),
            &format!("ff{}", &EXAMPLE[2..]),
            &EXAMPLE.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(TraceParent::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn comments_of_sqlcommenter_are_found() {
        let read = TraceParent::parse(EXAMPLE.as_bytes());
        let comment = format!("/*action='x',traceparent='{EXAMPLE}',tracestate='a%3D1'*/");
        let long = "x".repeat(100_000);
        for statement in [
            format!("SELECT 1 {comment}"),
            format!("SELECT 1{comment};"),
            format!("{comment} SELECT '{long}'"),
            format!("SELECT '{long}' {comment}"),
            format!("/* one */ SELECT 1 {comment}"),
        ] {
            assert_eq!(TraceParent::of_comment(statement.as_bytes()), read, "{}", &statement[..20]);
        }
        for statement in [
            format!("SELECT 'traceparent=''{EXAMPLE}'''"),
            format!("/* a */ SELECT \"traceparent='{EXAMPLE}'\""),
            "SELECT 1 /*traceparent='".to_owned(),
            String::new(),
        ] {
            assert_eq!(TraceParent::of_comment(statement.as_bytes()), None, "{statement}");
        }
    }
}

//! Figures as people read them.

/// A whole number with its thousands apart; a text that is no number is left as it is.
pub fn grouped(number: &str) -> String {
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.to_owned();
    }
    let mut out = String::with_capacity(number.len() + number.len() / 3);
    for (place, digit) in number.chars().enumerate() {
        if place > 0 && (number.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate or a number: one decimal if it is small, two if it is very small.
pub fn amount(value: f64) -> String {
    match value {
        value if !value.is_finite() => "unknown".to_owned(),
        value if value > 0.0 && value < 0.005 => "< 0.01".to_owned(),
        value if value > 0.0 && value < 0.095 => format!("{value:.2}"),
        value if value < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
        value => grouped(&format!("{value:.0}")),
    }
}

/// Bytes in the largest unit of which there is one.
pub fn bytes(value: f64) -> String {
    scaled(value, 1_024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Seconds in the largest unit of which there is one.
pub fn seconds(value: f64) -> String {
    scaled(value * 1e6, 1_000.0, &["µs", "ms", "s"])
}

/// A number of microseconds, as the statistics have it.
pub fn microseconds(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |value| seconds(value / 1e6))
}

/// A share as a percentage.
pub fn share(value: f64) -> String {
    if value.is_finite() { format!("{:.1} %", value * 100.0) } else { "unknown".to_owned() }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        if value < step || units.peek().is_none() {
            return format!("{} {unit}", amount(value));
        }
        value /= step;
    }
    amount(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(grouped("1234567"), "1,234,567");
        assert_eq!((grouped("123"), grouped(""), grouped("-5")), ("123".into(), "".into(), "-5".into()));
        assert_eq!((amount(0.0), amount(2.25), amount(1_234.5)), ("0".into(), "2.2".into(), "1,234".into()));
        assert_eq!((amount(0.04), amount(0.000_1)), ("0.04".into(), "< 0.01".into()));
        assert_eq!(amount(f64::NAN), "unknown");
        assert_eq!((bytes(0.0), bytes(2_048.0)), ("0 B".into(), "2 KiB".into()));
        assert_eq!(
            (seconds(0.0001), seconds(0.25), seconds(120.0)),
            ("100 µs".into(), "250 ms".into(), "120 s".into())
        );
        assert_eq!((microseconds("1500"), microseconds("x")), ("1.5 ms".into(), "x".into()));
        assert_eq!(share(0.5), "50.0 %");
    }
}

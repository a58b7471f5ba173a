//! A share of events, from none to all.

/// A share, of which chance decides for each event.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Share(f64);

impl Share {
    /// Reads a decimal number between 0 and 1.
    pub fn parse(text: &str) -> Option<Share> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let share: f64 = text.parse().ok().filter(|_| is_plain)?;
        (0.0..=1.0).contains(&share).then_some(Share(share))
    }

    /// Whether it is none at all.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0.0
    }

    /// Whether an event is one of those that are chosen.
    pub fn chooses(self) -> bool {
        self.0 > 0.0 && rand::random_range(0.0..1.0) < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_plain_decimal_number_between_0_and_1() {
        for text in ["0", "1", "0.5", "1.0", "0.000001", ".25"] {
            assert!(Share::parse(text).is_some(), "{text}");
        }
        for text in ["", "-0.1", "1.1", "nan", "inf", "1e-3", "half", "0,5", "."] {
            assert_eq!(Share::parse(text), None, "{text}");
        }
    }

    #[test]
    fn none_and_all_are_exact() {
        let chosen = |text: &str| {
            let share = Share::parse(text).unwrap();
            (0..10_000).filter(|_| share.chooses()).count()
        };
        assert_eq!((chosen("0"), chosen("1")), (0, 10_000));
        assert!((4_500..5_500).contains(&chosen("0.5")));
    }
}

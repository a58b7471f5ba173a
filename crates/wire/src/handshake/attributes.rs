//! Connection attributes: name-value pairs that a client sends about itself (`program_name`, `_os`, ...). Kept as the
//! bytes received, so that a backend receives exactly the same.

use crate::codec::{Malformed, Reader, put_lenenc_bytes};

/// Longest set of attributes: the limit of both MySQL and MariaDB servers, which refuse a login with more.
const MAX_LENGTH: usize = 65_535;

/// Connection attributes as on the wire, without the length in front.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectAttributes(Vec<u8>);

impl ConnectAttributes {
    /// Takes the attributes and the length in front of them. If nothing is left, there are no attributes. The pairs are
    /// not checked: servers accept a login whose pairs are broken.
    pub(super) fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if reader.is_empty() {
            return Ok(ConnectAttributes::default());
        }
        let bytes = reader.lenenc_bytes()?;
        if bytes.len() > MAX_LENGTH {
            return Err(Malformed("connection attributes beyond 64 KiB"));
        }
        Ok(ConnectAttributes(bytes.to_vec()))
    }

    /// Appends the attributes and the length in front of them.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_lenenc_bytes(out, &self.0);
    }

    /// Adds a pair; returns false, and adds nothing, if the total would exceed 64 KiB.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> bool {
        let before = self.0.len();
        put_lenenc_bytes(&mut self.0, name);
        put_lenenc_bytes(&mut self.0, value);
        let fits = self.0.len() <= MAX_LENGTH;
        if !fits {
            self.0.truncate(before);
        }
        fits
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Total length of all pairs, without the length in front.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Names and values in the order received; ends before the first broken pair.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut reader = Reader::new(&self.0);
        std::iter::from_fn(move || Some((reader.lenenc_bytes().ok()?, reader.lenenc_bytes().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_in_order() {
        let mut attributes = ConnectAttributes::default();
        assert!(attributes.push(b"_os", b"Linux") && attributes.push(b"program_name", b""));
        let pairs: Vec<_> = attributes.iter().collect();
        assert_eq!(pairs, [(&b"_os"[..], &b"Linux"[..]), (b"program_name", b"")]);
    }

    #[test]
    fn ends_before_a_broken_pair() {
        let mut payload = vec![];
        put_lenenc_bytes(&mut payload, b"\x01a\x01b\x01c\xFFd");
        let attributes = ConnectAttributes::take(&mut Reader::new(&payload)).unwrap();
        assert_eq!(attributes.iter().count(), 1);
    }

    #[test]
    fn keeps_to_64_kib() {
        let mut attributes = ConnectAttributes::default();
        assert!(attributes.push(b"a", &[0; 60_000]));
        assert!(!attributes.push(b"b", &[0; 6_000]));
        assert_eq!(attributes.iter().count(), 1);
        let mut payload = vec![];
        put_lenenc_bytes(&mut payload, &[0; 65_536]);
        assert!(ConnectAttributes::take(&mut Reader::new(&payload)).is_err());
    }
}

//! The keys of a fleet in etcd.

/// The keys of one fleet.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// The keys that begin with `prefix`.
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: prefix.to_owned() }
    }

    /// What they begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The version that all members run, or will.
    pub fn head(&self) -> String {
        format!("{}/head", self.prefix)
    }

    /// The version that some members try.
    pub fn trial(&self) -> String {
        format!("{}/trial", self.prefix)
    }

    /// The versions that were taken back last.
    pub fn taken_back(&self) -> String {
        format!("{}/taken_back", self.prefix)
    }

    /// What a version holds. The digits keep the keys in the order of the versions.
    pub fn version(&self, version: i64) -> String {
        format!("{}/versions/{version:019}", self.prefix)
    }

    /// The report of one member.
    pub fn node(&self, node: &str) -> String {
        format!("{}{node}", self.nodes())
    }

    /// What the keys of all reports begin with.
    pub fn nodes(&self) -> String {
        format!("{}/nodes/", self.prefix)
    }

    /// What all keys begin with.
    pub fn all(&self) -> String {
        format!("{}/", self.prefix)
    }
}

/// The end of the range of all keys that begin with `start`: the first key after them.
pub fn end_of(start: &str) -> Vec<u8> {
    let mut end = start.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys.
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_versions_have_their_order_and_end_before_others() {
        let keys = Keys::new("/narrows");
        assert!(keys.version(9) < keys.version(10) && keys.version(10) < keys.version(i64::MAX));
        assert_eq!(end_of("/narrows/"), b"/narrows0");
        assert_eq!(end_of("a\u{7f}"), [b'a', 0x80]);
        assert!(keys.node("b").as_bytes() < end_of(&keys.nodes()).as_slice());
    }
}

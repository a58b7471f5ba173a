//! Keys that a JSON object has twice: the parser keeps the last one without a word.

/// The first key that occurs twice in one object of `json`, which is valid. Values inside of arrays count too.
pub(super) fn repeated_key(json: &str) -> Option<String> {
    // The keys of each object that is open; an array has none.
    let mut open: Vec<Vec<String>> = Vec::new();
    let mut rest = json;
    while let Some(at) = rest.find(['{', '}', '[', ']', '"']) {
        let (byte, after) = (rest.as_bytes().get(at)?, rest.get(at + 1..)?);
        rest = after;
        match byte {
            b'{' | b'[' => open.push(Vec::new()),
            b'}' | b']' => drop(open.pop()),
            _ => {
                let (text, after) = after.split_at_checked(end_of_string(after)?)?;
                rest = after.get(1..)?;
                if !rest.trim_start().starts_with(':') {
                    continue;
                }
                let key: String = serde_json::from_str(&format!("\"{text}\"")).ok()?;
                let keys = open.last_mut()?;
                if keys.contains(&key) {
                    return Some(key);
                }
                keys.push(key);
            }
        }
    }
    None
}

/// Where a string ends that has begun before `text`.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_an_object_has_twice_is_found() {
        let cases = [
            ("{}", None),
            (r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, None),
            (r#"{"a":"a","b":"a","c":["a","a"]}"#, None),
            (r#"{"a":"{\"a\":1,\"a\":2}"}"#, None),
            (r#"{"a":1 , "b":2, "a" :3}"#, Some("a")),
            (r#"{"z":{"h:1":"x","h:2":"y","h:1":"x"}}"#, Some("h:1")),
            (r#"{"z":{"h\u003a1":"x","h:1":"y"}}"#, Some("h:1")),
            (r#"[{"a":1},{"b\\":1,"b\\":2}]"#, Some("b\\")),
        ];
        for (json, expected) in cases {
            assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{json}");
            assert_eq!(repeated_key(json).as_deref(), expected, "{json}");
        }
    }
}

//! Replays a recording of ProxySQL's answers: each answer equals the recorded one, or is listed as different on purpose,
//! with the reason. Anything else fails the test. What differs on purpose is fixed too: Narrows' answers are in a file
//! beside the recording, and a section of docs/compatibility.md is the same list in prose.
//!
//! With NARROWS_BLESS=1 the tests write that file and the page, otherwise they check them. What is asked, and when two
//! answers are equal, differs from recording to recording.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use narrows_testkit::reader;
use serde_json::{Value, json};

/// The capabilities of the recordings' client: no `DEPRECATE_EOF`.
pub const CAPABILITIES: u32 = 958_981;

/// Numbers of records that are answered differently on purpose, and why.
pub type Differences = &'static [(&'static [u64], &'static str)];

/// A recording.
pub struct Recording {
    /// Its file in `tests/vectors`, with a line of JSON for each record.
    pub records: &'static str,
    /// How many records there are.
    pub count: usize,
    /// The file with Narrows' answers where they differ on purpose.
    pub pinned: &'static str,
    /// What differs on purpose.
    pub differences: Differences,
    /// How an answer differs from the recorded one, in words.
    pub compare: fn(record: &Value, found: &Value) -> Vec<String>,
    /// The same for Narrows' answer of before, in the place of the recorded one.
    pub compare_pinned: fn(record: &Value, pinned: &Value, found: &Value) -> Vec<String>,
    /// What is stored of an answer: nothing that depends on the run.
    pub keep: fn(id: u64, found: Value) -> Value,
    /// What a record is about.
    pub title: fn(record: &Value) -> String,
    /// The marks around its section of docs/compatibility.md.
    pub marks: [&'static str; 2],
    /// The section, with the marks left out.
    pub section: fn(records: &[Value]) -> String,
}

impl Recording {
    /// Every record, in the order of the recording.
    pub fn records(&self) -> Vec<Value> {
        let records = lines(self.records);
        assert_eq!(records.len(), self.count);
        records
    }

    /// Checks answers to records, or writes down those that differ on purpose.
    pub fn check(&self, answered: impl IntoIterator<Item = (Value, Value)>) {
        let pinned = if is_blessed() { Vec::new() } else { lines(self.pinned) };
        let (mut equal, mut unexplained, mut stale, mut listed) = (0, Vec::new(), Vec::new(), Vec::new());
        for (record, found) in answered {
            let id = record["id"].as_u64().expect("every record has a number");
            let on_purpose = self.differences.iter().any(|(ids, _)| ids.contains(&id));
            match ((self.compare)(&record, &found), on_purpose) {
                (differences, false) if differences.is_empty() => equal += 1,
                (differences, true) if differences.is_empty() => stale.push(id),
                (_, true) => {
                    let pin = pinned.iter().find(|pinned| pinned["id"] == id);
                    let differences = match pin {
                        Some(pin) => (self.compare_pinned)(&record, &pin["found"], &found),
                        None if is_blessed() => Vec::new(),
                        None => vec!["no answer".to_owned()],
                    };
                    if !differences.is_empty() {
                        unexplained.push(self.explain(&record, "pinned", &differences));
                    }
                    listed.push(json!({"id": id, "found": (self.keep)(id, found)}));
                }
                (differences, false) => unexplained.push(self.explain(&record, "recorded", &differences)),
            }
        }
        println!("{equal} equal, {} differ on purpose, {} unexplained", listed.len(), unexplained.len());
        if is_blessed() {
            let lines: String = listed.iter().map(|line| line.to_string() + "\n").collect();
            std::fs::write(vectors(self.pinned), lines).expect("write the pinned answers");
        }
        assert!(unexplained.is_empty(), "{} unexplained:\n{}", unexplained.len(), unexplained.join("\n"));
        assert!(stale.is_empty(), "listed as different, yet equal: {stale:?}");
    }

    /// A difference, described in words.
    fn explain(&self, record: &Value, from_what: &str, differences: &[String]) -> String {
        let (id, title) = (&record["id"], (self.title)(record));
        format!("{id} {title} (from what was {from_what})\n    {}", differences.join("\n    "))
    }

    /// Checks that the page lists the same differences, or writes them there.
    pub fn check_page(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
        let page = std::fs::read_to_string(&path).expect("the page");
        let [begin, end] = self.marks;
        let section = (self.section)(&self.records());
        let (before, rest) = page.split_once(begin).expect("the page has the mark where the section begins");
        let (current, after) = rest.split_once(end).expect("the page has the mark where the section ends");
        if is_blessed() {
            std::fs::write(&path, [before, begin, &section, end, after].concat()).expect("write the page");
            return;
        }
        assert!(current == section, "docs/compatibility.md is stale: run this test with NARROWS_BLESS=1");
    }
}

/// The parts of a section that every recording has: what is normalised for all records, and what differs on purpose.
pub fn write_lists(text: &mut String, everywhere: &[&str], differences: Differences) {
    text.push_str("\n### Everywhere\n\n");
    for line in everywhere {
        writeln!(text, "- {line}").expect("writing to a String cannot fail");
    }
    text.push_str("\n### On purpose\n\n| what | records |\n|---|---|\n");
    for (ids, reason) in differences {
        writeln!(text, "| {reason} | {} |", numbers(ids)).expect("writing to a String cannot fail");
    }
}

/// Numbers of records, as the page shows them.
pub fn numbers(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// The cells of a row in text form, `None` for NULL; fewer if the row does not have that many.
pub fn cells<'p>(row: &mut reader::Bytes<'p>, columns: usize) -> Vec<Option<&'p [u8]>> {
    let cell = |_| {
        if row.rest().first() == Some(&0xFB) {
            return row.take(1).map(|_| None);
        }
        row.lenenc_bytes().map(Some)
    };
    (0..columns).map_while(cell).collect()
}

fn is_blessed() -> bool {
    std::env::var("NARROWS_BLESS").as_deref() == Ok("1")
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(vectors(name)).expect("the vectors");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

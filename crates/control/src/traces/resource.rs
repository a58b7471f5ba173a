//! What sends the spans: the resource of OTLP.

use std::fs;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::attributes::text;
use super::environment;

/// This process. Each has an instance of its own, so that two Narrows on one machine, or two after each other, differ.
pub fn resource() -> Resource {
    let mut pairs = vec![
        ("service.name".to_owned(), "narrows".to_owned()),
        ("service.version".to_owned(), VERSION.to_owned()),
        ("service.instance.id".to_owned(), uuid(rand::random())),
    ];
    if let Ok(name) = fs::read_to_string("/proc/sys/kernel/hostname") {
        pairs.push(("host.name".to_owned(), name.trim().to_owned()));
    }
    for (name, value) in environment::resource() {
        pairs.retain(|(other, _)| *other != name);
        pairs.push((name, value));
    }
    let attributes = pairs.into_iter().map(|(name, value)| text(&name, value)).collect();
    Resource { attributes, ..Resource::default() }
}

/// What has measured the spans.
pub fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "narrows".to_owned(),
        version: VERSION.to_owned(),
        ..InstrumentationScope::default()
    }
}

/// The version of Narrows.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the conventions that the attributes follow.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.36.0";

/// A UUID of version 4.
fn uuid(random: [u8; 16]) -> String {
    let number = u128::from_be_bytes(random) & !(0xF << 76) | (4 << 76);
    let number = number & !(0b11 << 62) | (0b10 << 62);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_named_by_uuids_of_version_4() {
        assert_eq!(uuid([0xFF; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}

//! The settings that OpenTelemetry's own exporters take from the environment, too: headers and the resource.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};

/// The headers of each request, such as keys of a service. Their values are never logged.
pub fn headers() -> HeaderMap {
    read_headers(&first(&["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"]))
}

fn read_headers(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (position, pair) in (1..).zip(text.split(',').filter(|pair| !pair.trim().is_empty())) {
        match header(pair) {
            Some((name, value)) => {
                headers.insert(name, value);
            }
            None => tracing::warn!(position, "a header in OTEL_EXPORTER_OTLP_HEADERS cannot be sent"),
        }
    }
    headers
}

fn header(pair: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = pair.split_once('=')?;
    let name: HeaderName = name.trim().parse().ok()?;
    let mut value = HeaderValue::from_bytes(&decoded(value.trim())).ok()?;
    value.set_sensitive(true);
    // What the request itself needs.
    let is_free = ![CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING].contains(&name);
    is_free.then_some((name, value))
}

/// Names and values that describe this process; the later ones count.
pub fn resource() -> Vec<(String, String)> {
    let mut all = read_pairs(&first(&["OTEL_RESOURCE_ATTRIBUTES"]));
    let service = first(&["OTEL_SERVICE_NAME"]);
    if !service.is_empty() {
        all.push(("service.name".to_owned(), service));
    }
    all
}

fn read_pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let read = |text: &str| String::from_utf8_lossy(&decoded(text.trim())).into_owned();
    pairs.map(|(name, value)| (read(name), read(value))).filter(|(name, _)| !name.is_empty()).collect()
}

/// The first of these variables that is set and not empty.
pub fn first(names: &[&str]) -> String {
    names
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .unwrap_or_default()
}

/// Text in which `%41` is `A`.
fn decoded(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                plain.extend(part.bytes().skip(2));
            }
            None => plain.extend([b"%", part.as_bytes()].concat()),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_and_others_are_left_out() {
        let headers = read_headers("api-key=a%20b%3D, X-Two = 2,,host=evil,no pair,bad name=1,c=\u{7}");
        let found: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(found, [("api-key", &b"a b="[..]), ("x-two", b"2")]);
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert_eq!(decoded("%"), b"%");
        assert_eq!(decoded("%4"), b"%4");
        assert_eq!(decoded("%zz%C3%BC%+1"), "%zzü%+1".as_bytes());
    }

    #[test]
    fn resources_are_pairs() {
        let found = read_pairs("service.name=shop,deployment.environment.name=a%2Cb,=c,d");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("service.name", "shop"), pair("deployment.environment.name", "a,b")]);
    }
}

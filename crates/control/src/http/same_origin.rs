//! Where the page is from that has made a browser send a request.

use hyper::Request;
use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};

/// Whether no page of another site has made a browser send the request: browsers send passwords along with those too.
pub fn is_from_here<B>(request: &Request<B>) -> bool {
    let header = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    let is_own_origin = header(ORIGIN).is_none_or(|origin| {
        let authority = origin.strip_prefix(b"https://").or(origin.strip_prefix(b"http://"));
        authority.is_some() && authority == header(HOST)
    });
    // `none` is what the user has typed.
    let site = header(HeaderName::from_static("sec-fetch-site"));
    is_own_origin && site.is_none_or(|site| site == b"same-origin" || site == b"none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_are_found() {
        let is_from_here = |headers: &[(&'static str, &str)]| {
            let mut request = Request::new(());
            for (name, value) in headers {
                request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
            }
            super::is_from_here(&request)
        };
        let host = ("host", "narrows:6070");
        assert!(is_from_here(&[host]));
        assert!(is_from_here(&[host, ("origin", "http://narrows:6070"), ("sec-fetch-site", "same-origin")]));
        for (name, value) in [
            ("origin", "http://elsewhere.example"),
            ("origin", "http://narrows:6071"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!is_from_here(&[host, (name, value)]), "{name}: {value}");
        }
        assert!(!is_from_here(&[("origin", "http://")]));
    }
}

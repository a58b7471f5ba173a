//! Checks of the section `fleet`: what its settings must be together, and the files that they name.

use std::fs::File;

use super::sections::Sections;
use crate::config::bootstrap::FleetSettings;
use crate::config::diagnostic::{Problem, Problems};
use crate::config::schema::Placed;
use crate::config::tables::FLEET;

/// Reports settings that lack another one, and those without effect.
pub(super) fn check(sections: &Sections, report: &mut Problems) {
    let Some(placed) = &sections.fleet else { return };
    let fleet = &placed.row;
    let mut lacks =
        |of: &str, name| report.add(placed.at(of), Problem::Missing { section: FLEET.name, name });
    let is_encrypted = fleet.endpoints.iter().any(|endpoint| endpoint.starts_with("https:"));
    if is_encrypted && fleet.tls_ca.is_none() {
        lacks("endpoints", "tls_ca");
    }
    match (&fleet.tls_cert, &fleet.tls_key) {
        (Some(_), None) => lacks("tls_cert", "tls_key"),
        (None, Some(_)) => lacks("tls_key", "tls_cert"),
        _ => {}
    }
    let has_password = !fleet.password.is_empty() || fleet.password_file.is_some();
    if !fleet.username.is_empty() && !has_password {
        lacks("username", "password");
    }
    without_effect(placed, is_encrypted, report);
}

fn without_effect(placed: &Placed<FleetSettings>, is_encrypted: bool, report: &mut Problems) {
    let fleet = &placed.row;
    let mut idle = |name: &str, what: &str| {
        let problem = Problem::NoEffect { name: format!("{}.{name}", FLEET.name), what: what.to_owned() };
        report.add(placed.at(name), problem);
    };
    if !fleet.password.is_empty() && fleet.password_file.is_some() {
        idle("password", "has no effect beside password_file");
    }
    if fleet.username.is_empty() {
        if !fleet.password.is_empty() {
            idle("password", "has no effect without username");
        }
        if fleet.password_file.is_some() {
            idle("password_file", "has no effect without username");
        }
    }
    let of_tls = [("tls_ca", &fleet.tls_ca), ("tls_cert", &fleet.tls_cert), ("tls_key", &fleet.tls_key)];
    for (name, _) in of_tls.into_iter().filter(|(_, path)| path.is_some() && !is_encrypted) {
        idle(name, "has no effect: no address in endpoints begins with https");
    }
}

/// Reports files that cannot be read.
pub(super) fn files(sections: &Sections, report: &mut Problems) {
    let Some(placed) = &sections.fleet else { return };
    for (name, path) in placed.row.clone().files() {
        let Some(path) = path.as_ref().map(|path| sections.bootstrap.resolve(path)) else { continue };
        // Without a data folder, it is not known where a relative path begins.
        if path.is_absolute()
            && let Err(error) = File::open(&path)
        {
            let at = placed.at(name);
            let name = format!("{}.{name}", FLEET.name);
            report.add(at, super::paths::problem(&name, &path, super::paths::reason(&error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{LoadedFile, read};

    fn loaded(text: &str) -> Result<LoadedFile, String> {
        let told = |problems: Vec<_>| {
            problems.iter().map(|it: &crate::config::diagnostic::Diagnostic| format!("{it}\n")).collect()
        };
        read(Path::new("test.toml"), text, &|_| Err("no such file".to_owned())).map_err(told)
    }

    #[test]
    fn addresses_are_a_list_or_a_text_in_both_forms_of_the_file() {
        for text in [
            "[fleet]\nendpoints = [\"http://a:1\", \"http://b:2\"]\nprefix = \"/x/\"\n",
            "[fleet]\nendpoints = \"http://a:1, http://b:2\"\nprefix = \"/x\"\n",
            "fleet = { endpoints = (\"http://a:1\", \"http://b:2\") prefix = \"/x\" }\n",
        ] {
            let fleet = loaded(text).expect(text).bootstrap.fleet.expect(text);
            assert_eq!(
                (fleet.endpoints, fleet.prefix.as_str()),
                (vec!["http://a:1".to_owned(), "http://b:2".to_owned()], "/x")
            );
        }
        assert_eq!(loaded("").unwrap().bootstrap.fleet, None);
    }

    #[test]
    fn what_is_lacking_or_wrong_prevents_the_start() {
        for (text, reason) in [
            ("prefix = \"/x\"", "`endpoints` must be given"),
            ("endpoints = [\"a:1\"]", "expected http://host:port"),
            ("endpoints = []", "expected http://host:port"),
            ("endpoints = [\"http://a:1/path\"]", "expected http://host:port"),
            ("endpoints = [\"https://a:1\"]", "`tls_ca` must be given"),
            ("endpoints = [\"http://a:1\"]\nnode = \"a b\"", "expected letters, digits"),
            ("endpoints = [\"http://a:1\"]\naddress = \"::1:6032\"", "expected host:port"),
            ("endpoints = [\"http://a:1\"]\naddress = \"a\"", "expected host:port"),
            ("endpoints = [\"http://a:1\"]\nusername = \"u\"", "`password` must be given"),
            ("endpoints = [\"https://a:1\"]\ntls_ca = \"a\"\ntls_cert = \"b\"", "`tls_key` must be given"),
            ("endpoints = [\"https://a:1\"]\ntls_ca = \"a\"\ntls_key = \"b\"", "`tls_cert` must be given"),
        ] {
            let told = loaded(&format!("[fleet]\n{text}\n")).expect_err(text);
            assert!(told.contains(reason), "{text}: {told}");
        }
        assert!(loaded("[[fleet]]\nendpoints = \"http://a:1\"\n").unwrap_err().contains("expected a group"));
    }

    #[test]
    fn what_has_no_effect_is_told() {
        for (text, told) in [
            ("password = \"x\"", "`fleet.password` has no effect without username"),
            ("password_file = \"x\"", "`fleet.password_file` has no effect without username"),
            (
                "username = \"u\"\npassword = \"x\"\npassword_file = \"y\"",
                "`fleet.password` has no effect beside",
            ),
            ("tls_ca = \"x\"", "`fleet.tls_ca` has no effect: no address"),
        ] {
            let loaded = loaded(&format!("[fleet]\nendpoints = \"http://a:1\"\n{text}\n")).expect(text);
            let all: String = loaded.passed_over.iter().map(|it| format!("{it}\n")).collect();
            assert!(all.contains(told) && !all.contains("secret"), "{text}: {all}");
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let text = "[fleet]\nendpoints = \"http://a:1\"\nusername = \"u\"\npassword = \"secret\"\n";
        let loaded = loaded(text).unwrap();
        assert_eq!(loaded.bootstrap.fleet.as_ref().unwrap().password, "secret");
        assert!(!format!("{:?}", loaded.bootstrap).contains("secret"));
    }
}

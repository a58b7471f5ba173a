//! Keys in the shared files of AWS: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::HashMap;
use std::path::Path;

use super::credentials::AwsCredentials;
use super::surroundings::{Environment, small_file};
use super::web_identity::WebIdentity;

/// A profile with keys, or with a role that a token is exchanged for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OfProfile {
    /// Its name.
    pub name: String,
    /// Its keys, or where to get them.
    pub keys: Result<AwsCredentials, WebIdentity>,
}

/// The profile that the environment names, or `default`; `None`: there is none.
///
/// # Errors
/// What is wrong with it.
pub(super) fn find(environment: &Environment) -> Result<Option<OfProfile>, String> {
    let home = environment("HOME").unwrap_or_default();
    let file =
        |variable: &str, name: &str| environment(variable).unwrap_or_else(|| format!("{home}/.aws/{name}"));
    let (credentials, config) =
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config"));
    let named = environment("AWS_PROFILE").filter(|name| !name.is_empty());
    let name = named.clone().unwrap_or_else(|| "default".to_owned());
    let mut settings =
        section(&config, &[&format!("profile {name}"), "default"][usize::from(name == "default")..])?;
    let of_credentials = section(&credentials, &[&name])?;
    if named.is_some() && settings.is_none() && of_credentials.is_none() {
        return Err(format!("no profile {name} in {credentials} or {config}"));
    }
    settings.get_or_insert_default().extend(of_credentials.unwrap_or_default());
    let settings = settings.unwrap_or_default();
    match keys(&settings, environment) {
        Ok(Some(keys)) => Ok(Some(OfProfile { name, keys })),
        Ok(None) if named.is_none() => Ok(None),
        Ok(None) => Err(format!("profile {name} has no keys")),
        Err(reason) => Err(format!("profile {name}: {reason}")),
    }
}

type Settings = HashMap<String, String>;

fn keys(
    settings: &Settings,
    environment: &Environment,
) -> Result<Option<Result<AwsCredentials, WebIdentity>>, String> {
    let value = |name: &str| settings.get(name).map(String::as_str);
    if let (Some(role), Some(file)) = (value("role_arn"), value("web_identity_token_file")) {
        let session = value("role_session_name").map(str::to_owned);
        let identity = WebIdentity::new(file.to_owned(), role.to_owned(), session, environment)?;
        return Ok(Some(Err(identity)));
    }
    if value("role_arn").is_none()
        && let (Some(id), Some(secret)) = (value("aws_access_key_id"), value("aws_secret_access_key"))
    {
        return AwsCredentials::new(id, secret, value("aws_session_token")).map(|keys| Some(Ok(keys)));
    }
    let not_here = ["role_arn", "credential_process", "sso_session", "sso_account_id"];
    match not_here.iter().find(|name| settings.contains_key(**name)) {
        Some(name) => Err(format!("it has {name}, which Narrows does not use (docs/aws-iam.md)")),
        None => Ok(None),
    }
}

/// The settings of the first of these sections in a file; `None`: there is no such section, or no such file.
fn section(path: &str, names: &[&str]) -> Result<Option<Settings>, String> {
    if !Path::new(path).exists() {
        return Ok(None);
    }
    let text = small_file(path)?;
    let mut found: Option<Settings> = None;
    let mut is_in = false;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            is_in = names.contains(&name.as_str());
            if is_in {
                found.get_or_insert_default();
            }
        } else if let (true, false, Some((name, value))) = (is_in, is_nested, line.split_once('=')) {
            found.get_or_insert_default().insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::aws_iam::of_test::environment;

    #[test]
    fn profiles_are_read_from_both_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".aws")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(".aws").join(name), text).unwrap();
        write(
            "config",
            "[default]\nregion = eu-west-1\n[profile  web]\nrole_arn=arn:a\nweb_identity_token_file=/t\n\
             [profile role]\nrole_arn = arn:a\nsource_profile = default\n[profile empty]\n[profile sso]\nsso_session = a\n",
        );
        write(
            "credentials",
            "# keys\n[default]\naws_access_key_id = A\n  nested = 1\naws_secret_access_key = a+/=\n\n[app]\n\
             aws_access_key_id=B\naws_secret_access_key=b\naws_session_token=c\n[bad]\naws_access_key_id=B C\n\
             aws_secret_access_key=s3cret\n",
        );
        let home = folder.path().display().to_string();
        let of = |name: &str| {
            let all = [("HOME", home.as_str()), ("AWS_PROFILE", name)];
            find(&environment(&all[..1 + usize::from(!name.is_empty())]))
        };
        let keys = |name: &str| of(name).unwrap().unwrap().keys.unwrap();
        assert_eq!((keys("").access_key_id.as_str(), keys("").secret_access_key.as_str()), ("A", "a+/="));
        assert_eq!(keys("app").session_token.unwrap().as_str(), "c");
        assert!(of("web").unwrap().unwrap().keys.is_err());
        let not_used = |what: &str| format!("it has {what}, which Narrows does not use (docs/aws-iam.md)");
        for (name, why) in [
            ("role", format!("profile role: {}", not_used("role_arn"))),
            ("sso", format!("profile sso: {}", not_used("sso_session"))),
            ("empty", "profile empty has no keys".to_owned()),
            ("bad", "profile bad: the access key ID is none".to_owned()),
        ] {
            assert_eq!(of(name).unwrap_err(), why);
        }
        fs::remove_dir_all(folder.path().join(".aws")).unwrap();
        assert_eq!(of("").unwrap(), None);
    }
}

//! Keys and certificates in force: read for a configuration, again on demand and when their files change; and a warning before
//! they expire.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use narrows_proxy::clock;
use narrows_proxy::tls::{Certificate, SharedTls, TowardServers};

use super::Runtime;
use super::remarks::{remark, with_warnings};
use crate::admin::reply::Reply;
use crate::store::{Answer, Candidate, Store, Warning};
use crate::tls::{self, KeyFile, LoadedTls};
use crate::variables::{Special, VARIABLES};

impl Runtime {
    /// Keys and certificates for a candidate, if their sources are others than those in force.
    pub(super) fn keys_for(
        &self,
        store: &Store,
        candidate: &Candidate,
        warnings: &mut Vec<Warning>,
    ) -> Option<(SharedTls, Vec<KeyFile>)> {
        let (now, then) = (store.variables(), &candidate.variables);
        let mut of_tls = VARIABLES.iter().filter(|variable| variable.special == Some(Special::ForTls));
        let changed = of_tls.any(|variable| now.value(variable.name) != then.value(variable.name))
            || candidate.rows.ssl_params != self.rows.ssl_params;
        if !changed {
            return None;
        }
        match tls::load(&self.datadir, then, &candidate.rows.ssl_params, &self.secrets) {
            Ok(loaded) => {
                warnings.extend(loaded.remarks.into_iter().map(remark));
                Some((loaded.tls, loaded.read))
            }
            Err(error) => {
                warnings.push(remark(format!("keys and certificates are unchanged: {error}")));
                None
            }
        }
    }

    /// `PROXYSQL RELOAD TLS`
    pub fn reload_tls(&mut self, store: &Store) -> Reply {
        match tls::load(&self.datadir, store.variables(), &self.rows.ssl_params, &self.secrets) {
            Ok(loaded) => {
                let remarks = self.put_keys_into_force(store, loaded);
                let warnings = remarks.into_iter().map(remark).collect();
                Reply::Answer(with_warnings(Answer::done(0), warnings))
            }
            Err(error) => Reply::error(error),
        }
    }

    /// Reads keys and certificates again, since their files have changed. What does not fit together changes nothing: half of
    /// a pair may not be written yet.
    pub(super) fn renew_keys(&mut self, store: &Store) {
        match self.renewed_keys(store) {
            Ok(loaded) => {
                let remarks = self.put_keys_into_force(store, loaded);
                tracing::info!("keys and certificates have changed, and are in force");
                remarks.iter().take(MOST_LOGGED).for_each(|remark| tracing::warn!("{remark}"));
            }
            Err(reason) => {
                tracing::warn!("keys and certificates have changed; those before stay in force: {reason}");
            }
        }
    }

    fn renewed_keys(&self, store: &Store) -> Result<LoadedTls, String> {
        // What is not there would be generated.
        if let Some((path, _)) = self.key_files.iter().find(|(path, mark)| mark.is_some() && !path.exists()) {
            return Err(format!("{} is not there", path.display()));
        }
        let loaded = tls::load(&self.datadir, store.variables(), &self.rows.ssl_params, &self.secrets)
            .map_err(|error| error.to_string())?;
        match new_fault(&self.rows.tls.servers, &loaded.tls.servers) {
            Some(reason) => Err(reason),
            None => Ok(loaded),
        }
    }

    /// Puts what was loaded into force; returns the remarks.
    fn put_keys_into_force(&mut self, store: &Store, loaded: LoadedTls) -> Vec<String> {
        self.rows.tls = loaded.tls;
        self.key_files = loaded.read;
        self.expiry = ExpiryWarnings::default();
        self.plane.replace_tls(self.rows.tls.clone());
        self.announce_to_listeners(store);
        self.announce_plan(store);
        self.announce_secrets(store);
        loaded.remarks
    }

    /// Warns of certificates that expire soon, once a day.
    pub fn warn_of_expiry(&mut self) {
        for warning in self.expiry.due(&self.rows.tls.certificates, clock::now_s(), Instant::now()) {
            tracing::warn!("{warning}");
        }
    }
}

/// Why servers that could be reached with `before` cannot be with `after`.
fn new_fault(before: &TowardServers, after: &TowardServers) -> Option<String> {
    let worked: HashMap<_, _> = before.rows.iter().filter(|(_, toward)| toward.is_ok()).collect();
    let of_rows = after.rows.iter().filter(|(key, _)| worked.contains_key(key)).map(|(_, toward)| toward);
    let default_worked = before.default.as_ref().is_some_and(Result::is_ok);
    let of_default = after.default.iter().filter(|_| default_worked);
    of_default.chain(of_rows).find_map(|toward| toward.as_ref().err().cloned())
}

/// When the log last had certificates that expire soon.
#[derive(Debug, Default)]
pub(super) struct ExpiryWarnings {
    last: Option<Instant>,
}

impl ExpiryWarnings {
    /// The warnings that are due, at `now` in seconds since 1970.
    fn due(&mut self, certificates: &[Certificate], now: i64, clock: Instant) -> Vec<String> {
        if self.last.is_some_and(|last| clock.duration_since(last) < A_DAY) {
            return Vec::new();
        }
        self.last = Some(clock);
        let sentence = |certificate: &Certificate| {
            let left = certificate.not_after.saturating_sub(now);
            let when = match left / SECONDS_OF_A_DAY {
                _ if left <= 0 => "has expired".to_owned(),
                days if days > DAYS_BEFORE => return None,
                days => format!("expires in {days} days"),
            };
            let Certificate { role, file, subject, .. } = certificate;
            Some(format!("{role} {subject:?} of {} {when}", file.display()))
        };
        certificates.iter().filter_map(sentence).take(MOST_LOGGED).collect()
    }
}

/// How long before its end the log tells of a certificate.
const DAYS_BEFORE: i64 = 30;

const SECONDS_OF_A_DAY: i64 = 86_400;

/// The time between two warnings of the same certificate.
const A_DAY: Duration = Duration::from_secs(86_400);

/// The most lines at a time: a folder of authorities may have hundreds that have expired.
const MOST_LOGGED: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_of_once_a_day_from_thirty_days_before_its_end() {
        let certificate = |subject: &str, not_after: i64| Certificate {
            role: "server certificate",
            file: "/c.pem".into(),
            subject: subject.to_owned(),
            issuer: String::new(),
            serial: String::new(),
            not_before: 0,
            not_after,
        };
        let (day, now) = (SECONDS_OF_A_DAY, 1_000 * SECONDS_OF_A_DAY);
        let all = [
            certificate("CN=later", now + 31 * day),
            certificate("CN=soon", now + 30 * day),
            certificate("CN=gone", now - 1),
        ];
        let (mut warnings, begin) = (ExpiryWarnings::default(), Instant::now());
        let told = [
            "server certificate \"CN=soon\" of /c.pem expires in 30 days",
            "server certificate \"CN=gone\" of /c.pem has expired",
        ];
        assert_eq!(warnings.due(&all, now, begin), told);
        assert!(warnings.due(&all, now, begin + A_DAY / 2).is_empty());
        assert_eq!(warnings.due(&all, now, begin + A_DAY), told);
    }
}

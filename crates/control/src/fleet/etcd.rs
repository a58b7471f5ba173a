//! etcd's interface for HTTP (its gRPC gateway): requests, what their answers mean, and which server is asked.
//!
//! It is part of every etcd since 3.4, and needs neither HTTP/2 nor generated code. What is written with a transaction is written
//! as a whole, or not at all.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use narrows_proxy::rt::{self, Instant, JoinHandle, spawn_local, timeout};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value as Json, json};
use tokio_rustls::TlsConnector;

use super::keys::end_of;
use super::transaction::{KeyValue, Transaction, TransactionOutcome, cluster, encoded, number, pairs};
use crate::config::bootstrap::FleetSettings;
use crate::http_client::address::WebAddress;
use crate::http_client::authorities;
use crate::http_client::connection::{Connection, with_causes};
use crate::secrets;

/// The etcd servers of a fleet, of which one is asked.
pub struct Etcd {
    settings: FleetSettings,
    addresses: Vec<WebAddress>,
    tls: Option<TlsConnector>,
    /// Which one is asked.
    current: usize,
    connection: Option<Connection>,
    /// What a login has given.
    token: Option<String>,
}

impl Etcd {
    /// The etcd that is configured.
    ///
    /// # Errors
    /// The files of certificates cannot be used.
    pub fn new(settings: FleetSettings) -> Result<Etcd, String> {
        let addresses: Vec<WebAddress> =
            settings.endpoints.iter().filter_map(|endpoint| WebAddress::parse(endpoint)).collect();
        let is_encrypted = addresses.iter().any(|address| address.is_encrypted);
        let tls = if is_encrypted { Some(connector(&settings)?) } else { None };
        // Members ask different servers first.
        let current = rand::random_range(0..addresses.len().max(1));
        Ok(Etcd { settings, addresses, tls, current, connection: None, token: None })
    }

    /// The server that is asked.
    pub fn endpoint(&self) -> String {
        self.addresses.get(self.current).map(ToString::to_string).unwrap_or_default()
    }

    /// Asks the next server from now on.
    pub fn turn_away(&mut self) {
        self.connection = None;
        self.current = (self.current + 1) % self.addresses.len().max(1);
    }

    /// Reads `key` from all servers at once, again and again within a second, and turns to the first that answers: one that hangs,
    /// or whose network comes back in the meantime, costs no time. One of another cluster than `home` is the last resort.
    ///
    /// # Errors
    /// Why the last one that has said so does not answer.
    pub async fn find(&mut self, key: &str, home: Option<u64>) -> Result<(), String> {
        let mut stranger = None;
        let (to, mut found) = rt::mailbox();
        let mut tasks = OwnedTasks::default();
        // A login takes etcd long, and each costs it much: it is tried once at each server.
        let logs_in = !self.settings.username.is_empty() && self.token.is_none();
        let (limit, again) = if logs_in { (LOGIN_TIME, LOGIN_TIME) } else { (FIND_TIME, FIND_AGAIN) };
        let mut reason = no_answer(limit);
        let began = Instant::now();
        for round in 1.. {
            tasks.0.extend((0..self.addresses.len()).map(|index| {
                let (mut etcd, to, read) = (self.of(index), to.clone(), Transaction::default().get(key));
                spawn_local(async move {
                    let answer = etcd.run(&read, limit).await;
                    // What comes later than the first answer is not needed.
                    let _ = to.send((etcd, answer));
                })
            }));
            let next = began + again * round;
            while let Ok(Some((etcd, answer))) = rt::timeout_at(next, found.recv()).await {
                match answer {
                    Ok(outcome) if home.is_none_or(|home| home == outcome.cluster) => {
                        *self = etcd;
                        return Ok(());
                    }
                    Ok(_) => stranger = Some(etcd),
                    // Each of them would say so, after the work of a login.
                    Err(error) if is_refusal(&error) => return Err(error),
                    Err(error) => reason = error,
                }
            }
            if began.elapsed() >= limit {
                break;
            }
        }
        if let Some(stranger) = stranger {
            *self = stranger;
            return Ok(());
        }
        // It may be one that etcd does not know any more: the next time begins with a login.
        self.token = None;
        Err(reason)
    }

    /// Which cluster each server belongs to that says so, by its address. A server without a majority says it too.
    pub async fn clusters(&mut self, key: &str) -> Vec<(String, u64)> {
        let mut clusters = Vec::new();
        for index in 0..self.addresses.len() {
            let mut etcd = self.of(index);
            let body = json!({ "key": encoded(key), "serializable": true });
            if let Ok(answer) = etcd.post("/v3/kv/range", &body, USUAL_TIME).await {
                clusters.push((etcd.endpoint(), cluster(&answer)));
            }
            self.token = etcd.token.or_else(|| self.token.take());
        }
        clusters
    }

    /// The same etcd, of which another server is asked.
    fn of(&self, index: usize) -> Etcd {
        Etcd {
            settings: self.settings.clone(),
            addresses: self.addresses.clone(),
            tls: self.tls.clone(),
            current: index,
            connection: None,
            token: self.token.clone(),
        }
    }

    /// The address of this machine towards the server that is asked.
    pub fn local(&self) -> Option<IpAddr> {
        self.connection.as_ref()?.local()
    }

    /// Runs a transaction. After an error it is not known whether it was run.
    ///
    /// # Errors
    /// Why there is no answer, or what etcd says.
    pub async fn run(
        &mut self,
        transaction: &Transaction,
        limit: Duration,
    ) -> Result<TransactionOutcome, String> {
        let answer = self.post("/v3/kv/txn", &transaction.body(), limit).await?;
        Ok(TransactionOutcome::of(&answer))
    }

    /// All keys that begin with `start`, up to `most`.
    ///
    /// # Errors
    /// Why there is no answer, or what etcd says.
    pub async fn all(&mut self, start: &str, most: u32) -> Result<Vec<KeyValue>, String> {
        let (key, range_end) = (encoded(start), encoded(end_of(start)));
        let body = json!({ "key": key, "range_end": range_end, "limit": most.to_string() });
        let answer = self.post("/v3/kv/range", &body, USUAL_TIME).await?;
        Ok(pairs(&answer))
    }

    /// A new lease.
    ///
    /// # Errors
    /// Why there is no answer, or what etcd says.
    pub async fn grant(&mut self, seconds: u64) -> Result<i64, String> {
        let answer = self.post("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }), USUAL_TIME).await?;
        number(&answer["ID"]).ok_or_else(|| "etcd has granted no lease".to_owned())
    }

    /// Keeps a lease for another of its times; returns whether it was still there.
    ///
    /// # Errors
    /// Why there is no answer, or what etcd says.
    pub async fn keep(&mut self, lease: i64) -> Result<bool, String> {
        let answer =
            self.post("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }), USUAL_TIME).await?;
        Ok(number(&answer["result"]["TTL"]).is_some_and(|seconds| seconds > 0))
    }

    /// Begins to watch all keys that begin with `start`: each piece of the answer says that something has changed.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn watch(&mut self, start: &str) -> Result<(Connection, Incoming), String> {
        let (key, range_end) = (encoded(start), encoded(end_of(start)));
        let body = json!({ "create_request": { "key": key, "range_end": range_end } });
        self.have_token().await?;
        let sent = timeout(USUAL_TIME, self.request("/v3/watch", &body)).await;
        let response = sent.map_err(|_| no_answer(USUAL_TIME))??;
        if !response.status().is_success() {
            (self.connection, self.token) = (None, None);
            return Err(format!("HTTP status {}", response.status()));
        }
        let connection = self.connection.take().ok_or("the connection was lost")?;
        Ok((connection, response.into_body()))
    }

    /// Sends a request to the server that is asked, after a login if one is needed.
    async fn post(&mut self, path: &str, body: &Json, limit: Duration) -> Result<Json, String> {
        match self.post_once(path, body, limit).await {
            // Tokens of etcd end after a time without use, and with a server that is started again.
            Err(error) if error.contains("invalid auth token") && self.token.take().is_some() => {
                self.post_once(path, body, limit).await
            }
            answer => answer,
        }
    }

    async fn post_once(&mut self, path: &str, body: &Json, limit: Duration) -> Result<Json, String> {
        self.have_token().await?;
        match timeout(limit, self.exchange(path, body)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.connection = None;
                Err(no_answer(limit))
            }
        }
    }

    async fn exchange(&mut self, path: &str, body: &Json) -> Result<Json, String> {
        let response = self.request(path, body).await?;
        let read = read(response).await;
        if read.is_err() {
            self.connection = None;
        }
        let (is_success, text) = read?;
        // A stream of answers has one for one request; each is a line.
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let answer: Json = serde_json::from_slice(first).unwrap_or_default();
        if is_success && answer["error"].is_null() {
            return Ok(answer);
        }
        Err(said(&answer, &text))
    }

    /// Logs in, if that is needed.
    async fn have_token(&mut self) -> Result<(), String> {
        if self.settings.username.is_empty() || self.token.is_some() {
            return Ok(());
        }
        let logged_in = timeout(LOGIN_TIME, self.log_in()).await;
        logged_in.unwrap_or_else(|_| {
            self.connection = None;
            Err(no_answer(LOGIN_TIME))
        })
    }

    async fn log_in(&mut self) -> Result<(), String> {
        let password = match &self.settings.password_file {
            Some(path) => {
                let text =
                    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
            None => secrets::read(&self.settings.password)
                .map_err(|reason| format!("fleet.password: {reason}"))?
                .to_string(),
        };
        let body = json!({ "name": self.settings.username, "password": password });
        let (is_success, text) = read(self.request("/v3/auth/authenticate", &body).await?).await?;
        let answer: Json = serde_json::from_slice(&text).unwrap_or_default();
        match answer["token"].as_str().filter(|_| is_success) {
            Some(token) => self.token = Some(token.to_owned()),
            None => {
                let user = &self.settings.username;
                return Err(format!("etcd refuses the user {user}: {}", said(&answer, &text)));
            }
        }
        Ok(())
    }

    async fn request(&mut self, path: &str, body: &Json) -> Result<Response<Incoming>, String> {
        let address = self.addresses.get(self.current).cloned().ok_or("there is no address of etcd")?;
        let mut request =
            Request::post(path).header(HOST, &address.authority).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let body = Full::new(Bytes::from(body.to_string()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let mut connection = self.connection(&address).await?;
        let response = connection.send(request).await.map_err(|error| with_causes(&error))?;
        self.connection = Some(connection);
        Ok(response)
    }

    async fn connection(&mut self, address: &WebAddress) -> Result<Connection, String> {
        if let Some(mut connection) = self.connection.take()
            && connection.is_ready().await
        {
            return Ok(connection);
        }
        let tls = self.tls.as_ref().filter(|_| address.is_encrypted);
        Connection::open(address, tls).await.map_err(|error| with_causes(&error))
    }
}

/// Whether etcd has said that it does not do what it is asked for.
pub fn is_refusal(reason: &str) -> bool {
    ["too large", "permission denied", "database space exceeded", "refuses the user", "user name is empty"]
        .iter()
        .any(|part| reason.contains(part))
}

/// Tasks that end with their owner.
#[derive(Default)]
pub struct OwnedTasks(pub Vec<JoinHandle<()>>);

impl Drop for OwnedTasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

fn connector(settings: &FleetSettings) -> Result<TlsConnector, String> {
    let trusted = authorities::trusting(settings.tls_ca.as_deref().unwrap_or(Path::new("")))?;
    let config = match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => {
            let fault = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
            let chain: Vec<_> = chain.map_err(|error| fault(certificate, &error))?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| fault(key, &error))?;
            trusted.with_client_auth_cert(chain, secret).map_err(|error| fault(certificate, &error))?
        }
        _ => trusted.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The whole answer, and whether its status is one of success.
async fn read(response: Response<Incoming>) -> Result<(bool, Bytes), String> {
    let is_success = response.status().is_success();
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    Ok((is_success, body.map_err(|error| error.to_string())?.to_bytes()))
}

/// What etcd says of an error: in JSON, or as plain text.
fn said(answer: &Json, text: &[u8]) -> String {
    let parts = [&answer["error"]["message"], &answer["message"], &answer["error"]];
    let plain = String::from_utf8_lossy(text);
    let said = parts.into_iter().find_map(Json::as_str).unwrap_or(&plain);
    said.trim().chars().filter(|it| !it.is_control()).take(LONGEST_REASON).collect()
}

fn no_answer(limit: Duration) -> String {
    format!("no answer in {} ms", limit.as_millis())
}

/// The usual limit of a request. A server of etcd without a majority answers nothing: the next one is asked.
pub const USUAL_TIME: Duration = Duration::from_secs(1);

/// How long a server is looked for that answers.
const FIND_TIME: Duration = Duration::from_secs(1);

/// After how long all servers are asked again: Linux repeats the first packet of a connection after a second only.
const FIND_AGAIN: Duration = Duration::from_millis(250);

/// The limit of a login: etcd makes it slow on purpose.
const LOGIN_TIME: Duration = Duration::from_secs(5);

/// The longest answer: the largest version in base64, and the reports of some thousand members, fit.
const LONGEST_ANSWER: usize = 8 << 20;

/// How many characters of what etcd says are shown.
const LONGEST_REASON: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_numbers_as_texts() {
        let answer = json!({ "kvs": [
            { "key": "YQ==", "value": "eA==", "mod_revision": "7" },
            { "key": "YQ==", "mod_revision": "8" },
            { "key": "?", "value": "", "mod_revision": "8" },
        ]});
        let pair = |value: &[u8], revision| KeyValue {
            key: "a".to_owned(),
            value: value.to_vec(),
            revision,
            lease: 0,
        };
        assert_eq!(pairs(&answer), [pair(b"x", 7), pair(b"", 8)]);
        assert_eq!(pairs(&json!({ "header": {} })), []);
        assert_eq!((number(&json!("5")), number(&json!(5)), number(&json!(null))), (Some(5), Some(5), None));
    }

    #[test]
    fn what_etcd_says_is_shown_whatever_its_form() {
        for (text, expected) in [
            (
                r#"{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}"#,
                "etcdserver: no leader",
            ),
            (r#"{"error":{"grpc_code":5,"message":"not found"}}"#, "not found"),
            ("CommonName of client will be ignored\n", "CommonName of client will be ignored"),
            ("", ""),
        ] {
            let answer = serde_json::from_str(text).unwrap_or_default();
            assert_eq!(said(&answer, text.as_bytes()), expected);
        }
    }
}

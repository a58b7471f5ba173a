//! What a login to a server proves itself with: the password of the account, or a token that is made for this login.
//!
//! A token is as good as a password for as long as it is valid, and servers ask for it in clear text. So none is made for a
//! server that could be anybody.

use std::borrow::Cow;
use std::time::Duration;

use narrows_wire::Errno;
use narrows_wire::auth::{Secret, repeats};

use super::{Backend, BackendError, Want};
use crate::hostgroup::Server;
use crate::rt::{Instant, sleep};
use crate::server_tokens::NoToken;

impl Want {
    /// The same with a token for `server`, if the account has tokens. Only the first token of all is waited for, not longer than
    /// `limit`.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn with_token(
        &self,
        server: &Server,
        limit: Duration,
    ) -> Result<Cow<'_, Want>, BackendError> {
        let Some(tokens) = &self.account.tokens else { return Ok(Cow::Borrowed(self)) };
        let (row, username) = (&server.row, &self.account.row.username);
        if let Some(reason) = why_unverified(server, username)? {
            return Err(BackendError::NoToken(reason.to_owned()));
        }
        let deadline = Instant::now() + limit;
        loop {
            match tokens.token((&row.hostname, row.port), username) {
                Ok(secret) => return Ok(Cow::Owned(Want { secret, ..self.clone() })),
                Err(NoToken::NotYet) if Instant::now() < deadline => sleep(PAUSE).await,
                Err(NoToken::NotYet) => return Err(BackendError::NoToken(NOT_YET.to_owned())),
                Err(NoToken::Because(reason)) => return Err(BackendError::NoToken(reason)),
                Err(NoToken::NoCredentials(reason)) => return Err(BackendError::NoCredentials(reason)),
            }
        }
    }

    /// The error of a login, with what is known about a token that the server has refused, and without the token. The client learns
    /// that there was one, and only the log which key it was signed with.
    pub(super) fn explained(&self, error: BackendError) -> BackendError {
        let Some(tokens) = &self.account.tokens else { return error };
        let mut error = match error {
            BackendError::Server(error) => error,
            other => return other,
        };
        if let Secret::Clear(token) = &self.secret
            && repeats(&error.message, signed_part(token.bytes()))
        {
            error.message =
                "the error of the server has a part of the token in it, and is not shown".to_owned();
        }
        if error.code == Errno::ACCESS_DENIED_ERROR.number {
            error.message = format!("{} ({TOKEN_SENT})", error.message);
            error.details = format!(" ({})", tokens.if_refused());
        }
        BackendError::Server(error)
    }
}

/// A token without the names of the server and the account, which an error may have.
fn signed_part(token: &[u8]) -> &[u8] {
    let begin = b"&X-Amz-";
    token.windows(begin.len()).position(|bytes| bytes == begin).map_or(token, |at| &token[at..])
}

impl Backend {
    /// Whether this may log in again as another account on the same socket: not with a token, if the server was not verified
    /// when the socket was opened.
    pub fn may_change_user(&self, want: &Want) -> bool {
        !self.login.spoiled_by_reset && (self.login.verifies || want.account.tokens.is_none())
    }

    /// What to prove a new login on the same socket with.
    ///
    /// # Errors
    /// Why there is no token.
    pub(super) async fn proving<'a>(
        &self,
        want: &'a Want,
        limit: Duration,
    ) -> Result<Cow<'a, Want>, BackendError> {
        if !self.may_change_user(want) {
            let reason = "the connection was opened without verifying the certificate of its server";
            return Err(BackendError::NoToken(reason.to_owned()));
        }
        want.with_token(&self.login.server, limit).await
    }
}

/// Why the server's identity will not be known when it gets a token.
fn why_unverified(server: &Server, username: &str) -> Result<Option<&'static str>, BackendError> {
    if server.row.port == 0 {
        return Ok(Some("it is a Unix socket, and an IAM token is for a host name and a port"));
    }
    if !server.wants_tls() {
        return Ok(Some("an IAM token is sent over TLS only, and use_ssl of the server is 0"));
    }
    let toward = server.tls.servers.toward(&server.row.hostname, server.row.port, username);
    let toward = toward.map_err(BackendError::TlsSettings)?;
    Ok((!toward.verifies).then_some(
        "an IAM token is sent to a verified server only, and its certificate is not verified: set mysql-ssl_p2s_ca, or ssl_ca in \
         mysql_servers_ssl_params",
    ))
}

/// What a client learns about the token that a server has refused.
const TOKEN_SENT: &str = "it was sent an IAM token; the log of Narrows says which one";

/// Nothing is known about the server then.
const NOT_YET: &str = "the credentials for its IAM token are still being fetched";

/// The time between two questions whether the first token can be made.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_may_have_the_names_of_the_account_and_the_server_and_no_more_of_a_token() {
        let (host, user) = ("prod-instance.us-east-1.rds.amazonaws.com", "an_account_of_a_long_name");
        let token = format!(
            "{host}:3306/?Action=connect&DBUser={user}&X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=ASIAEXAMPLE%2F20240826%2Fus-east-1%2Frds-db%2Faws4_request&X-Amz-Date=20240826T220000Z\
             &X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=dd0cba843009474347af724090233265"
        );
        let shows = |text: &str| repeats(text, signed_part(token.as_bytes()));
        assert!(!shows(&format!("Access denied for user '{user}'@'{host}' (using password: YES)")));
        for part in ["ASIAEXAMPLE%2F20240826", "dd0cba843009474347af724090233265", "3009474347af7240"] {
            assert!(shows(&format!("wrong: {part}")), "{part}");
        }
    }
}

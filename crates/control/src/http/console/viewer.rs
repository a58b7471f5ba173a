//! Who looks at a page, and what that account may ask.

use std::rc::Rc;

use super::Console;
use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::http::peer::Peer;
use crate::store::{Answer, Cell, Role};

/// Why a page has no contents.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The control thread does not answer.
    #[error("Narrows has not answered in time")]
    NoAnswer,
    /// It has refused a statement.
    #[error("{0}")]
    Refused(String),
}

/// The rows of an answer.
#[derive(Debug, Default)]
pub struct Listing {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<ListedRow>,
}

/// A row of an answer.
#[derive(Debug)]
pub struct ListedRow(Vec<Cell>);

impl ListedRow {
    /// A row of these texts.
    #[cfg(test)]
    pub fn of(texts: Vec<Option<String>>) -> ListedRow {
        ListedRow(texts.into_iter().map(|text| text.map(String::into_bytes)).collect())
    }

    /// The text in a place; empty for NULL and where there is none. What is not UTF-8 becomes replacement characters.
    pub fn text(&self, place: usize) -> std::borrow::Cow<'_, str> {
        let bytes = self.0.get(place).and_then(Option::as_deref).unwrap_or_default();
        String::from_utf8_lossy(bytes)
    }

    /// The texts in all places.
    pub fn texts(&self) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
        (0..self.0.len()).map(|place| self.text(place))
    }

    /// Whether there is no value in a place.
    pub fn is_null(&self, place: usize) -> bool {
        self.0.get(place).is_none_or(Option::is_none)
    }
}

/// Who has sent a request, after the login.
pub struct Viewer<'a> {
    /// The console.
    pub console: &'a Rc<Console>,
    /// The other end of the connection.
    pub peer: &'a Peer,
    /// The account.
    pub user: String,
    /// Its role.
    pub role: Role,
}

impl Viewer<'_> {
    /// Whether it is an administrator.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Asks what statistics users may ask. Also for administrators, because no other administrator waits for such SQL.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn figures(&self, statement: &str) -> Result<Listing, Trouble> {
        self.console.figures_as(self.peer, &self.user, statement).await
    }

    /// Asks what only administrators may ask; `None` if this is not one.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn administration(&self, statement: &str) -> Result<Option<Listing>, Trouble> {
        if !self.is_admin() {
            return Ok(None);
        }
        self.console.ask(caller(self.peer, &self.user, Role::Admin), statement).await.map(Some)
    }
}

impl Console {
    /// Asks with the rights of statistics users.
    pub(super) async fn figures_as(
        &self,
        peer: &Peer,
        user: &str,
        statement: &str,
    ) -> Result<Listing, Trouble> {
        self.ask(caller(peer, user, Role::Stats), statement).await
    }

    async fn ask(&self, caller: Caller, statement: &str) -> Result<Listing, Trouble> {
        match self.server.reply(caller, statement).await {
            Ok(Reply::Answer(Answer::Rows(set))) => {
                let rows = set.rows.into_iter().map(ListedRow).collect();
                Ok(Listing { columns: set.columns, rows })
            }
            Ok(Reply::Answer(Answer::Done { .. })) => Ok(Listing::default()),
            Ok(Reply::Refused(refusal)) => Err(Trouble::Refused(refusal.message)),
            Ok(_) | Err(_) => Err(Trouble::NoAnswer),
        }
    }
}

fn caller(peer: &Peer, user: &str, role: Role) -> Caller {
    Caller { role, user: user.to_owned(), host: peer.host.clone(), port: peer.port, ..Caller::default() }
}

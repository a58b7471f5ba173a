//! The writes that a statement must see.

use narrows_wire::gtid::GtidSet;

use super::doubts::Doubts;
use super::written::Token;
use crate::rows::{CausalReads, HostgroupId};

/// The writes that a statement must see.
#[derive(Debug)]
pub(in super::super) struct MustSee {
    pub(in super::super) gtids: GtidSet,
    /// What has been written is not known: only the writer has all of it, and is asked what that is.
    pub(super) is_unknown: bool,
    pub(super) level: CausalReads,
    /// Where it runs if no reader has them in time.
    pub(super) writer: Option<HostgroupId>,
    /// Those among them that the client names, which may exist nowhere.
    pub(super) token: Option<GtidSet>,
}

impl MustSee {
    /// It must see what the client names, too. Returns whether the writer has lacked that a moment ago.
    pub(super) fn add(&mut self, token: Token, doubts: &Doubts, writer: Option<HostgroupId>) -> bool {
        let gtids = match token {
            Token::Gtids(gtids) => gtids,
            Token::Unknown => {
                self.is_unknown = true;
                return false;
            }
        };
        let doubt = writer.and_then(|writer| doubts.about(writer, &gtids));
        match doubt.and_then(|doubt| doubt.left.as_ref()) {
            // The rest is lost.
            Some(left) => self.gtids.add(left),
            None => {
                self.gtids.add(&gtids);
                self.token = Some(gtids);
            }
        }
        doubt.is_some_and(|doubt| doubt.left.is_none())
    }
}

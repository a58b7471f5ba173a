//! The writes that a statement must see.

use narrows_wire::gtid::GtidSet;

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
    /// Some are named by the client, and may exist nowhere.
    pub(super) has_token: bool,
}

impl MustSee {
    /// It must see what the client names, too.
    pub(super) fn add(&mut self, token: Token) {
        match token {
            Token::Gtids(gtids) => {
                self.has_token = true;
                self.gtids.add(&gtids);
            }
            Token::Unknown => self.is_unknown = true,
        }
    }
}

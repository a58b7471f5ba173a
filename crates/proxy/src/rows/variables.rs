//! The global variables of the data plane, with their defaults. `variable_rows.rs` declares them.

use std::time::Duration;

use super::{CausalReads, HostgroupId, Networks, Share, UnshunAlgorithm, convert};

macro_rules! declare {
    ($(
        $field:ident: $type:ty = $kind:ident($default:expr $(, $limits:expr)*),
        $name:literal, $importance:ident $([$special:ident])?, $doc:literal;
    )*) => {
        /// The `mysql-` variables that the data plane reads; units are in the types.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Variables {
            $( #[doc = $doc] pub $field: $type, )*
        }

        impl Default for Variables {
            fn default() -> Self {
                Variables { $( $field: convert::$kind($default), )* }
            }
        }
    };
}

crate::data_plane_variables!(declare);

impl Variables {
    /// The idle time before the first TCP keepalive probe, for clients and servers; `None` if keepalive is off.
    pub fn tcp_keepalive(&self) -> Option<Duration> {
        Some(self.tcp_keepalive_time).filter(|time| self.use_tcp_keepalive && !time.is_zero())
    }
}

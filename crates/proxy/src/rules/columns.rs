//! The columns of `mysql_query_rules`, each declared once, with its purpose. How a column is read from a file and from
//! the admin table, and its documentation, is declared by its row of `RULES` in the control plane's `config/tables.rs`.
//!
//! - Each column defines its field in [`RuleRow`] and its definition in `mysql_query_rules` and
//!   `runtime_mysql_query_rules`.
//! - A *condition on the client* also defines its fields in [`Client`] and [`OwnedClient`], how it is compiled
//!   ([`Conditions`]), its part of the [`ProfileKey`], the interpreter and the random rules of the tests, and its name in
//!   `EXPLAIN ROUTE`.
//! - An *output* also defines its field in [`RuleOutput`], how a rule sets it, and its text in `EXPLAIN ROUTE`.
//!
//! Workers remember results of the rules by [`ProfileKey`]. So that no client gets the result of a different one, only
//! [`Conditions::key`] sees a [`Client`]. After that, the key decides whether a condition holds ([`Conditions::hold`]),
//! and the walk over the rules only has the [`Query`](super::Query).

use super::Activity;
use super::client::{Addresses, Class, Comparison, Exactly, Property};
#[cfg(test)]
use super::share::Share;
use super::share::Shares;
use crate::lag::LagLimit;
use crate::rows::{CausalReads, HostgroupId, JsonColumn};

/// The index of a rule among the active ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleIndex(pub(super) u32);

macro_rules! columns {
    (@sort [$($all:tt)*] [$($client:tt)*] [$($output:tt)*]
        $(#[$doc:meta])* $definition:literal, $field:ident: $cell:ty, client: $value:ty, $comparison:ty; $($rest:tt)*
    ) => {
        columns! {
            @sort [$($all)* { [$(#[$doc])*] $definition $field [$cell] }]
            [$($client)* { [$(#[$doc])*] $definition $field [$value] [$comparison] }] [$($output)*] $($rest)*
        }
    };
    (@sort [$($all:tt)*] [$($client:tt)*] [$($output:tt)*]
        $(#[$doc:meta])* $definition:literal, $field:ident: $cell:ty, output: $said:ty; $($rest:tt)*
    ) => {
        columns! {
            @sort [$($all)* { [$(#[$doc])*] $definition $field [$cell] }]
            [$($client)*] [$($output)* { [$(#[$doc])*] $definition $field [$said] }] $($rest)*
        }
    };
    (@sort [$($all:tt)*] [$($client:tt)*] [$($output:tt)*]
        $(#[$doc:meta])* $definition:literal, $field:ident: $cell:ty, other; $($rest:tt)*
    ) => {
        columns! {
            @sort [$($all)* { [$(#[$doc])*] $definition $field [$cell] }] [$($client)*] [$($output)*] $($rest)*
        }
    };
    (@sort
        [$( { [$(#[$doc:meta])*] $definition:literal $field:ident [$cell:ty] } )*]
        [$( { [$(#[$client_doc:meta])*] $condition:literal $property:ident [$value:ty] [$comparison:ty] } )*]
        [$( { [$(#[$output_doc:meta])*] $action:literal $output:ident [$said:ty] } )*]
    ) => {
        /// One row of `mysql_query_rules`. A condition that is `None` is not checked; an action that is `None` changes
        /// nothing.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct RuleRow {
            $( $(#[$doc])* pub $field: $cell, )*
        }

        impl RuleRow {
            /// The columns of the admin table, in order.
            pub const DEFINITION: &[&str] = &[$( $definition ),*];
        }

        /// The client that sent a statement, with the properties that rules can check.
        #[derive(Debug, Clone, Copy)]
        pub struct Client<'a> {
            $( $(#[$client_doc])* pub $property: &'a $value, )*
            /// The id of its session, which decides whether it belongs to the share of a rule; `None`: to every share.
            pub session: Option<u32>,
        }

        /// The description of a client, which need not be connected.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct OwnedClient {
            $( $(#[$client_doc])* pub $property: <$value as ToOwned>::Owned, )*
            /// The id of its session, if it is that of a session.
            pub session: Option<u32>,
        }

        impl OwnedClient {
            /// The client as rules see it.
            pub fn as_client(&self) -> Client<'_> {
                Client {
                    $( $property: std::borrow::Borrow::borrow(&self.$property), )*
                    session: self.session,
                }
            }

            /// Parses `text` as the property that `column` checks, or as `SessionID`; false if there is no such column, or the
            /// text is invalid.
            pub fn set(&mut self, column: &str, text: &str) -> bool {
                if column.eq_ignore_ascii_case("SessionID") {
                    self.session = text.parse().ok();
                    return self.session.is_some();
                }
                $(
                    if column.eq_ignore_ascii_case(name($condition)) {
                        let read = <$value as Property>::read(text);
                        return read.map(|value| self.$property = value).is_some();
                    }
                )*
                false
            }
        }

        /// The conditions on clients of all rules.
        #[derive(Debug, Default)]
        pub(super) struct Conditions {
            /// Whether there are any: few rule sets check more than the statement.
            is_any: bool,
            $( $property: $comparison, )*
            shares: Shares,
        }

        /// The properties of a client that make a difference for the rules.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub(super) struct ProfileKey {
            $( $property: Class, )*
            share: Class,
        }

        /// What a worker remembers about the properties of clients.
        #[derive(Debug, Default)]
        pub(super) struct Seen {
            $( $property: <$comparison as Comparison>::Seen, )*
        }

        impl Conditions {
            /// Compiles the conditions of `rows`, in order.
            pub(super) fn new<'r>(rows: impl Iterator<Item = &'r RuleRow> + Clone) -> Conditions {
                $( let $property: $comparison = Comparison::new(rows.clone().map(|row| &row.$property)); )*
                let shares = Shares::new(rows.map(|row| &row.attributes));
                Conditions { is_any: $( $property.is_asked() )||* || shares.is_asked(), $( $property, )* shares }
            }

            /// The key of a client: everything that rules need to know about it.
            #[inline]
            pub(super) fn key(&self, client: &Client<'_>, seen: &mut Seen) -> ProfileKey {
                if !self.is_any {
                    return ProfileKey::default();
                }
                ProfileKey {
                    $( $property: self.$property.class(client.$property, &mut seen.$property), )*
                    share: self.shares.class(client.session),
                }
            }

            /// Whether the conditions of a rule hold.
            pub(super) fn hold(&self, rule: usize, key: &ProfileKey, seen: &Seen) -> bool {
                $( self.$property.holds(rule, key.$property, &seen.$property) )&&*
                    && self.shares.holds(rule, key.share)
            }
        }

        /// The outputs of the rules; `None` if no rule sets an output.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct RuleOutput {
            $( $(#[$output_doc])* pub $output: Option<$said>, )*
            /// The flag at the end of the walk.
            pub flag_out: u32,
            /// Whether a hint requests a connection that nobody has used before.
            pub create_new_connection: bool,
            /// Which writes a hint, or the attributes of a rule, make the statement see.
            pub causal_reads: Option<CausalReads>,
            /// Whether a hint names transactions that a server must have.
            pub names_gtids: bool,
            /// How far behind its server may be, if a hint says so.
            pub lag: Option<LagLimit>,
            /// Whether the transaction that the statement begins is run again after its server was lost
            /// (`attributes.transaction_replay`).
            pub transaction_replay: Option<bool>,
        }

        impl RuleRow {
            /// Sets the outputs of this row in `output`; the others stay unchanged. `rule` is the index of the row.
            pub(super) fn act(&self, rule: RuleIndex, output: &mut RuleOutput) {
                $(
                    if let Some(value) = &self.$output {
                        output.$output = Some(value.said(rule));
                    }
                )*
            }

            /// The outputs that the row has, in the order of its columns.
            pub(crate) fn outputs(&self) -> impl Iterator<Item = (&'static str, String)> {
                [$( (name($action), self.$output.as_ref().map(Output::shown)) ),*]
                    .into_iter()
                    .filter_map(|(column, value)| Some((column, value?)))
            }
        }

        #[cfg(test)]
        impl RuleRow {
            /// Whether the conditions on the client hold, without a key.
            pub(super) fn is_for(&self, client: &Client<'_>) -> bool {
                let share = Share::of_attributes(&self.attributes);
                $( <$comparison>::is_met(&self.$property, client.$property) )&&*
                    && share.is_none_or(|share| share.has(client.session))
            }

            /// Sets random values in the conditions on the client for which `is_set` returns true.
            pub(super) fn with_random_conditions(mut self, is_set: impl Fn() -> bool) -> RuleRow {
                $(
                    if is_set() {
                        self.$property = <$comparison>::cell(super::tests::one(<$comparison>::CELLS));
                    }
                )*
                self
            }
        }

        #[cfg(test)]
        impl Client<'static> {
            /// A random client.
            pub(super) fn random() -> Client<'static> {
                Client {
                    $( $property: super::tests::one(<$comparison>::VALUES), )*
                    session: Some(rand::random_range(0..1_000)),
                }
            }
        }
    };
    ($(#[$doc:meta])* $definition:literal, $($rest:tt)*) => {
        columns! { @sort [] [] [] $(#[$doc])* $definition, $($rest)* }
    };
}

// The definition in the admin table, the field and its type, and its purpose: a condition on a property of clients (the
// type of the property, and how it is compared), an output (its type in a `RuleOutput`), or something else.
columns! {
    /// Rules are tried in this order.
    "rule_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL", rule_id: i64, other;
    /// 0: the rule is not loaded; 1: it is in force; 2: a dry run.
    "active INT CHECK (active IN (0,1,2)) NOT NULL DEFAULT 0", active: Activity, other;
    /// The account; in a rule, empty for any.
    "username VARCHAR", username: Option<String>, client: str, Exactly<str>;
    /// The current schema; in a rule, empty for any.
    "schemaname VARCHAR", schemaname: Option<String>, client: [u8], Exactly<[u8]>;
    /// Condition: the flag of the rule chain.
    "flagIN INT CHECK (flagIN >= 0) NOT NULL DEFAULT 0", flag_in: u32, other;
    /// The client's address; in a rule also the beginning of one with a final `%`, or a network.
    "client_addr VARCHAR", client_addr: Option<String>, client: str, Addresses;
    /// The local address the client connected to.
    "proxy_addr VARCHAR", proxy_addr: Option<String>, client: str, Exactly<str>;
    /// The local port the client connected to.
    "proxy_port INT CHECK (proxy_port >= 0 AND proxy_port <= 65535)",
        proxy_port: Option<u16>, client: u16, Exactly<u16>;
    /// Condition: the digest, as `0x...`.
    "digest VARCHAR", digest: Option<String>, other;
    /// Condition: an expression that is searched for in the digest text.
    "match_digest VARCHAR", match_digest: Option<String>, other;
    /// Condition: an expression that is searched for in the statement.
    "match_pattern VARCHAR", match_pattern: Option<String>, other;
    /// Inverts both expressions.
    "negate_match_pattern INT CHECK (negate_match_pattern IN (0,1)) NOT NULL DEFAULT 0",
        negate_match_pattern: bool, other;
    /// `CASELESS` and `GLOBAL`, separated by commas.
    "re_modifiers VARCHAR DEFAULT 'CASELESS'", re_modifiers: String, other;
    /// Action: the flag to continue with.
    "flagOUT INT CHECK (flagOUT >= 0)", flag_out: Option<u32>, other;
    /// Action: the replacement for what `match_pattern` has found.
    "replace_pattern VARCHAR CHECK (CASE WHEN replace_pattern IS NULL THEN 1 WHEN replace_pattern IS NOT NULL AND match_pattern IS NOT NULL THEN 1 ELSE 0 END)",
        replace_pattern: Option<String>, other;
    /// The hostgroup that runs the statement; otherwise the user's default hostgroup.
    "destination_hostgroup INT DEFAULT NULL", destination_hostgroup: Option<HostgroupId>, output: HostgroupId;
    /// Milliseconds for which the result is cached.
    "cache_ttl INT CHECK (cache_ttl > 0)", cache_ttl: Option<u32>, output: u32;
    /// Whether empty results are cached.
    "cache_empty_result INT CHECK (cache_empty_result IN (0,1)) DEFAULT NULL",
        cache_empty_result: Option<bool>, output: bool;
    /// Stored; without effect, as in ProxySQL.
    "cache_timeout INT CHECK (cache_timeout >= 0)", cache_timeout: Option<u32>, other;
    /// Stored; without effect, as in ProxySQL.
    "reconnect INT CHECK (reconnect IN (0,1)) DEFAULT NULL", reconnect: Option<bool>, other;
    /// Milliseconds until the statement is killed.
    "timeout INT UNSIGNED CHECK (timeout >= 0)", timeout: Option<u32>, output: u32;
    /// How often the statement is run again after a failure.
    "retries INT CHECK (retries>=0 AND retries <=1000)", retries: Option<u32>, output: u32;
    /// Milliseconds to wait before the statement runs.
    "delay INT UNSIGNED CHECK (delay >=0)", delay: Option<u32>, output: u32;
    /// The chain that the session's next statement begins in.
    "next_query_flagIN INT UNSIGNED", next_query_flag_in: Option<u32>, output: u32;
    /// The chain that a mirrored copy begins in.
    "mirror_flagOUT INT UNSIGNED", mirror_flag_out: Option<u32>, output: u32;
    /// The hostgroup of a mirrored copy.
    "mirror_hostgroup INT UNSIGNED", mirror_hostgroup: Option<HostgroupId>, output: HostgroupId;
    /// The answer is error 1148 with this text.
    "error_msg VARCHAR", error_msg: Option<String>, output: RuleIndex;
    /// The answer is OK with this text.
    "OK_msg VARCHAR", ok_msg: Option<String>, output: RuleIndex;
    /// Stored; without effect, as in ProxySQL.
    "sticky_conn INT CHECK (sticky_conn IN (0,1))", sticky_conn: Option<bool>, other;
    /// 0 disables multiplexing, 1 enables it, 2 keeps it for this statement.
    "multiplex INT CHECK (multiplex IN (0,1,2))", multiplex: Option<u8>, output: u8;
    /// The hostgroup whose last write of the session a server must have.
    "gtid_from_hostgroup INT UNSIGNED", gtid_from_hostgroup: Option<HostgroupId>, output: HostgroupId;
    /// Whether the statement is logged.
    "log INT CHECK (log IN (0,1))", log: Option<bool>, output: bool;
    /// Whether later rules are skipped.
    "apply INT CHECK (apply IN(0,1)) NOT NULL DEFAULT 0", apply: bool, other;
    /// JSON, or empty.
    "attributes VARCHAR CHECK (JSON_VALID(attributes) OR attributes = '') NOT NULL DEFAULT ''",
        attributes: JsonColumn, other;
    /// Free text.
    "comment VARCHAR", comment: Option<String>, other;
}

/// The name of a column, from its definition.
fn name(definition: &'static str) -> &'static str {
    definition.split(' ').next().unwrap_or(definition)
}

/// The type of a column that is an output.
trait Output {
    /// The type of the output in a `RuleOutput`.
    type Said: Copy;

    /// The output that this cell of `rule` sets.
    fn said(&self, rule: RuleIndex) -> Self::Said;

    /// The cell as text, as in the admin table.
    fn shown(&self) -> String;
}

macro_rules! said_as_they_are {
    ($($type:ty: $shown:expr;)*) => { $(
        impl Output for $type {
            type Said = $type;

            fn said(&self, _: RuleIndex) -> $type {
                *self
            }

            fn shown(&self) -> String {
                let shown: fn(&$type) -> String = $shown;
                shown(self)
            }
        }
    )* };
}

said_as_they_are! {
    u8: u8::to_string;
    u32: u32::to_string;
    bool: |flag| u8::from(*flag).to_string();
    HostgroupId: HostgroupId::to_string;
}

/// Texts are not copied: a `RuleOutput` has the index of the rule.
impl Output for String {
    type Said = RuleIndex;

    fn said(&self, rule: RuleIndex) -> RuleIndex {
        rule
    }

    fn shown(&self) -> String {
        self.clone()
    }
}

impl RuleOutput {
    /// Whether a mirrored copy of the statement runs.
    pub fn is_mirrored(&self) -> bool {
        self.mirror_hostgroup.is_some() || self.mirror_flag_out.is_some()
    }
}

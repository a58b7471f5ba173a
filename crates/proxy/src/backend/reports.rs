//! What a server reports about its session: what Narrows needs, and what the client has asked for.
//!
//! `session_track_schema`, `session_track_system_variables` and `session_track_transaction_info` are values of the client,
//! which Narrows holds for it. A connection has values of its own: always the schema and all variables, so that a client cannot
//! switch off what Narrows relies on; the relay removes what the client has not asked for. Only a statement that may read or
//! set these variables runs with those of its client ([`WantedReports::Client`]).

use narrows_wire::Capabilities;
use narrows_wire::charset::Family;
use narrows_wire::codec::Reader;
use narrows_wire::packet::{Change, Ok as OkPacket};

use super::ask::cell_bytes;
use super::diagnostics::{ResultSet, one_row};
use super::{Backend, BackendError, Login};
use crate::buffer::Buffer;
use crate::state::{
    Difference, HELD_FOR_CLIENTS, SessionState, TRACKED_VARIABLES, TRACKS_SCHEMA, TRACKS_STATE,
    TRACKS_TRANSACTIONS, is_variable_name, quoted,
};

/// What the server reports on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Reports {
    /// What it reports by itself: nothing was set since the last login or reset.
    #[default]
    ItsOwn,
    /// What Narrows needs,
    Narrows {
        /// with variables that only a client has asked for: `*`, or names,
        besides: Option<Box<str>>,
        /// and perhaps transactions.
        transactions: TransactionReports,
    },
    /// What the client of the connection's state has asked for.
    Client {
        /// And perhaps more about transactions.
        transactions: TransactionReports,
    },
    /// A mixture: a statement has changed some of it.
    InDoubt,
}

/// A value of `session_track_transaction_info`; each reports what the one before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TransactionReports {
    /// Nothing.
    #[default]
    Off,
    /// What the open transaction has done.
    State,
    /// And statements that would begin it, or the next one.
    Characteristics,
}

/// The reports that a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WantedReports {
    /// All that Narrows relies on.
    #[default]
    Narrows,
    /// And what is set for the next transaction. It is not told afterwards: it must be on when something is set.
    Transactions,
    /// Those that the client has asked for, because the statement may read or set that.
    Client {
        /// And what is set for the next transaction.
        transactions: bool,
    },
}

/// What of a statement the server has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Everything that Narrows relies on.
    All,
    /// What the client has asked for, which the statement may have changed.
    AsTheClientLikes,
    /// Nothing: it cannot.
    Nothing,
}

/// What a session has that has not set these variables, as literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnReports {
    schema: Box<str>,
    variables: Box<str>,
    transactions: Box<str>,
    state: Box<str>,
}

impl Default for OwnReports {
    /// The defaults of servers.
    fn default() -> OwnReports {
        OwnReports {
            schema: "1".into(),
            variables:
                "'autocommit,character_set_client,character_set_connection,character_set_results,time_zone'"
                    .into(),
            transactions: "'OFF'".into(),
            state: "0".into(),
        }
    }
}

impl OwnReports {
    fn literal(&self, name: &str) -> &str {
        match name {
            TRACKS_SCHEMA => &self.schema,
            TRACKED_VARIABLES => &self.variables,
            TRACKS_STATE => &self.state,
            _ => &self.transactions,
        }
    }
}

/// What is asked along with an alignment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReportQuestions {
    /// What the server reports by itself.
    pub(super) own_values: bool,
    /// What it has not reported yet.
    pub(super) late: bool,
}

impl ReportQuestions {
    pub(super) fn are_any(self) -> bool {
        self.own_values || self.late
    }
}

/// What a client has asked for.
#[derive(Debug, Clone, Copy)]
pub struct ClientReports<'a> {
    /// The schema.
    pub schema: bool,
    /// These variables, separated by commas.
    variables: &'a str,
    /// Transactions.
    pub transactions: TransactionReports,
    /// That something has changed which has no report of its own.
    pub state: bool,
}

impl ClientReports<'_> {
    /// Whether a variable is among those that it has asked for.
    pub fn has(&self, variable: &[u8]) -> bool {
        let is_it = |name: &str| name.as_bytes().eq_ignore_ascii_case(variable);
        self.variables == "*" || names(self.variables).any(is_it)
    }
}

impl TransactionReports {
    fn of(literal: &str) -> TransactionReports {
        let value = plain(literal);
        let is = |name: &str, number: &str| value.eq_ignore_ascii_case(name) || value == number;
        if is("CHARACTERISTICS", "2") {
            TransactionReports::Characteristics
        } else if is("STATE", "1") {
            TransactionReports::State
        } else {
            TransactionReports::Off
        }
    }

    fn literal(self) -> &'static str {
        match self {
            TransactionReports::Off => "'OFF'",
            TransactionReports::State => "'STATE'",
            TransactionReports::Characteristics => "'CHARACTERISTICS'",
        }
    }
}

impl Login {
    /// What the client in `state` has asked for.
    pub fn reports_for<'a>(&'a self, state: &'a SessionState) -> ClientReports<'a> {
        let literal = |name: &str| state.literal(name).unwrap_or_else(|| self.own_reports().literal(name));
        ClientReports {
            schema: is_on(literal(TRACKS_SCHEMA)),
            variables: plain(literal(TRACKED_VARIABLES)),
            transactions: TransactionReports::of(literal(TRACKS_TRANSACTIONS)),
            state: is_on(literal(TRACKS_STATE)),
        }
    }

    /// What the server reports of transactions, at most.
    pub fn transaction_reports(&self) -> TransactionReports {
        let of_its_own = TransactionReports::of(&self.own_reports().transactions);
        match self.reports {
            Reports::ItsOwn => of_its_own,
            Reports::Narrows { transactions, .. } | Reports::Client { transactions } => {
                transactions.max(of_its_own)
            }
            Reports::InDoubt => TransactionReports::Characteristics,
        }
    }

    /// What of a client's statement the server has reported.
    pub fn coverage(&self) -> Coverage {
        match self.reports {
            Reports::Narrows { .. } => Coverage::All,
            Reports::Client { .. } | Reports::InDoubt => Coverage::AsTheClientLikes,
            Reports::ItsOwn => Coverage::Nothing,
        }
    }

    /// Whether it reports what a statement for a client in `state` needs, and has no news of another client.
    pub(super) fn has_reports(&self, state: &SessionState) -> bool {
        if (self.may_report_late || self.left_by_program.get()) && !self.late_is_ours {
            return false;
        }
        // Most statements: it was asked for this client, or for one like it.
        let is_as_before = self.wants_reports == WantedReports::Narrows
            && matches!(self.reports, Reports::Narrows { .. })
            && std::ptr::eq(&*self.state, state);
        is_as_before || self.reports_fit(state)
    }

    /// Whether it reports what a statement for a client in `state` needs.
    fn reports_fit(&self, state: &SessionState) -> bool {
        match (&self.reports, self.wants_reports) {
            (
                Reports::Narrows { besides, transactions },
                WantedReports::Narrows | WantedReports::Transactions,
            ) => {
                *transactions >= self.wanted_transactions(state)
                    && besides.as_deref() == besides_ours(state, self.family).as_deref()
            }
            (Reports::Client { transactions }, WantedReports::Client { .. }) => {
                *transactions == self.wanted_transactions(state)
                    && HELD_FOR_CLIENTS.iter().all(|name| state.literal(name) == self.state.literal(name))
            }
            _ => !self.capabilities.contains(Capabilities::SESSION_TRACK),
        }
    }

    /// How much about transactions must be reported for the next statement.
    fn wanted_transactions(&self, state: &SessionState) -> TransactionReports {
        match self.wants_reports {
            WantedReports::Transactions | WantedReports::Client { transactions: true } => {
                TransactionReports::Characteristics
            }
            _ => match state.literal(TRACKS_TRANSACTIONS) {
                Some(literal) => TransactionReports::of(literal),
                None => self
                    .own_reports
                    .as_ref()
                    .map_or(TransactionReports::Off, |own| TransactionReports::of(&own.transactions)),
            },
        }
    }

    fn own_reports(&self) -> &OwnReports {
        static DEFAULTS: std::sync::LazyLock<OwnReports> = std::sync::LazyLock::new(OwnReports::default);
        self.own_reports.as_deref().unwrap_or(&DEFAULTS)
    }

    /// A statement of its client has ended, perhaps without a report of everything that it has changed, or with one of all that
    /// was not reported before.
    pub fn note_untold(&mut self, is_untold: bool, tells_all: bool) {
        if is_untold {
            self.may_report_late = true;
            self.late_is_ours = true;
        } else if tells_all && !self.has_news.get() {
            self.may_report_late = false;
        }
    }

    /// Whether the next report may be about an earlier statement of the same client.
    pub fn may_report_late(&self) -> bool {
        self.may_report_late
    }

    /// A statement has changed what the server reports, though it names none of these variables: a routine, for instance.
    pub fn doubt_coverage(&mut self) {
        if let Reports::Narrows { .. } = self.reports {
            self.reports = Reports::InDoubt;
        }
    }

    /// Its client leaves it.
    pub fn is_for_anybody(&mut self) {
        self.late_is_ours = false;
        self.wants_reports = WantedReports::Narrows;
    }

    /// A login or a reset: the server reports what it does by itself, and nothing that was before.
    pub(super) fn forget_reports(&mut self) {
        self.reports = Reports::ItsOwn;
        self.own_reports = None;
        self.may_report_late = false;
        self.has_news.set(false);
        self.left_by_program.set(false);
    }
}

impl Backend {
    /// Adds the assignments that make the server report what the next statement needs. Returns what must be asked, too.
    pub(super) fn ask_for_reports(
        &mut self,
        state: &SessionState,
        difference: &mut Difference,
    ) -> ReportQuestions {
        let login = &mut self.login;
        // In an XA transaction the server may refuse them, and the client's own settings wait for its end.
        if !login.capabilities.contains(Capabilities::SESSION_TRACK) || login.is_in_xa {
            return ReportQuestions::default();
        }
        let questions = ReportQuestions {
            own_values: login.own_reports.is_none() && !login.is_own,
            late: login.may_report_late && !login.late_is_ours,
        };
        let is_clients = matches!(login.reports, Reports::Client { .. } | Reports::InDoubt);
        if login.reports_fit(state) && !(questions.late && is_clients) {
            return questions;
        }
        let transactions = login.wanted_transactions(state);
        match login.wants_reports {
            WantedReports::Narrows | WantedReports::Transactions => {
                let besides = besides_ours(state, login.family);
                let had = match &login.reports {
                    Reports::Narrows { besides, .. } => Some(besides),
                    Reports::Client { .. } | Reports::InDoubt | Reports::ItsOwn => None,
                };
                if had.is_none() {
                    difference.assign(&format!("{TRACKS_SCHEMA}=ON, {TRACKS_STATE}=ON"));
                }
                if had.is_none_or(|had| *had != besides) {
                    let list = match (login.family, besides.as_deref()) {
                        (Family::MariaDb, _) | (_, Some("*")) => "*".to_owned(),
                        (_, Some(names)) => format!("{MYSQL_TRACKED},{names}"),
                        (_, None) => MYSQL_TRACKED.to_owned(),
                    };
                    difference.assign(&format!("{TRACKED_VARIABLES}='{list}'"));
                }
                // What is reported beyond what is wanted costs little, and a session that has asked once may do so again.
                let (had, is_known) = match &login.reports {
                    Reports::Narrows { transactions, .. } => (*transactions, true),
                    Reports::ItsOwn => (TransactionReports::Off, true),
                    // Its client's last statement may have set it.
                    Reports::Client { .. } | Reports::InDoubt => (TransactionReports::Off, false),
                };
                if had < transactions || !is_known {
                    difference.assign(&format!("{TRACKS_TRANSACTIONS}={}", transactions.literal()));
                }
                login.reports = Reports::Narrows { besides, transactions: had.max(transactions) };
            }
            WantedReports::Client { transactions: with_transactions } => {
                let is_its_own = login.reports == Reports::ItsOwn;
                for name in HELD_FOR_CLIENTS {
                    let own = login.own_reports().literal(name);
                    match state.literal(name) {
                        _ if with_transactions && name == TRACKS_TRANSACTIONS => {
                            difference.assign(&format!("{name}={}", transactions.literal()));
                        }
                        Some(literal) => difference.assign(&format!("{name}={literal}")),
                        None if is_its_own => {}
                        None => difference.assign(&format!("{name}={own}")),
                    }
                }
                login.reports = Reports::Client { transactions };
            }
        }
        questions
    }

    pub(super) fn put_question_for_own_reports(&self, out: &mut Vec<u8>) {
        let columns = HELD_FOR_CLIENTS.map(|name| format!("CAST(@@session.{name} AS BINARY)"));
        self.put_query(out, one_row(&columns.join(", ")));
    }

    pub(super) async fn read_own_reports(&mut self, buffer: &mut Buffer) -> Result<(), BackendError> {
        let set = match self.result_set(buffer).await {
            Ok(set) => set,
            // An old version without one of them.
            Err(BackendError::Server(_)) => ResultSet::default(),
            Err(error) => return Err(error),
        };
        self.login.own_reports = Some(own_reports(&set).unwrap_or_default().into());
        Ok(())
    }

    /// A statement that changes nothing, and whose OK packet tells everything that was not reported before, but nothing of itself,
    /// so that any report of a change is about an earlier statement. MariaDB tells that only if it has something to report of the
    /// statement, which is the state of transactions here: assignments without a scope are not reported themselves.
    pub(super) fn put_question_for_late_reports(&self, out: &mut Vec<u8>) {
        match self.login.family {
            Family::MySql => self.put_query(out, "DO 0"),
            Family::MariaDb => {
                let transactions = match self.login.reports {
                    Reports::Narrows { transactions, .. } | Reports::Client { transactions } => {
                        transactions.literal()
                    }
                    Reports::ItsOwn | Reports::InDoubt => &self.login.own_reports().transactions,
                };
                // Words, because the session may have a character set in which literals are not read.
                let transactions = transactions.trim_matches('\'');
                self.put_query(out, format!("SET @@{TRACKS_TRANSACTIONS}=STATE"));
                self.put_query(out, format!("SET @@{TRACKS_TRANSACTIONS}={transactions}"));
            }
        }
    }

    /// Reads its answer. What it tells, or an answer before it has told, was changed by another client, whose statement failed
    /// after that.
    pub(super) async fn read_late_reports(&mut self, buffer: &mut Buffer) -> Result<(), BackendError> {
        self.answer(buffer).await?;
        if self.login.family == Family::MariaDb {
            self.answer(buffer).await?;
        }
        if self.login.has_news.get() {
            return Err(BackendError::Unknown);
        }
        self.login.may_report_late = false;
        Ok(())
    }
}

impl Login {
    /// An OK packet of a statement of our own, which may report what was changed before it.
    pub(super) fn note_news(&self, payload: &[u8]) -> Result<(), BackendError> {
        if !self.may_report_late {
            return Ok(());
        }
        for change in OkPacket::decode(payload, self.capabilities)?.changes() {
            let is_known = match change?.1 {
                // The GTID is of what was written before the error.
                Change::SystemVariable { name, .. } => {
                    HELD_FOR_CLIENTS.iter().any(|held| held.as_bytes() == name) || name == b"last_gtid"
                }
                Change::Schema(schema) => schema == self.state.schema.as_deref().unwrap_or_default(),
                // A user variable, a temporary table: a program has left something. It comes with the first answer after the error,
                // whatever was asked first.
                Change::State => {
                    self.left_by_program.set(true);
                    true
                }
                _ => true,
            };
            if !is_known {
                self.has_news.set(true);
            }
        }
        Ok(())
    }
}

fn own_reports(set: &ResultSet) -> Option<OwnReports> {
    let mut reader = Reader::new(set.rows.first()?);
    let mut literal = || -> Option<Box<str>> {
        Some(cell_bytes(&mut reader).ok()?.map_or_else(|| "NULL".into(), |value| quoted(value).into()))
    };
    let (schema, variables, transactions, state) = (literal()?, literal()?, literal()?, literal()?);
    let switch = |literal: &str| if is_on(literal) { "1" } else { "0" }.into();
    Some(OwnReports { schema: switch(&schema), variables, transactions, state: switch(&state) })
}

/// What a client has asked for and Narrows does not need; on MariaDB, all is reported anyway.
fn besides_ours(state: &SessionState, family: Family) -> Option<Box<str>> {
    let wanted = plain(state.literal(TRACKED_VARIABLES).filter(|_| family == Family::MySql)?);
    if wanted == "*" {
        return Some("*".into());
    }
    let is_ours = |name: &str| names(MYSQL_TRACKED).any(|ours| ours.eq_ignore_ascii_case(name));
    let others: Vec<&str> = names(wanted).filter(|name| is_variable_name(name) && !is_ours(name)).collect();
    (!others.is_empty()).then(|| others.join(",").into())
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

fn plain(literal: &str) -> &str {
    literal.trim_matches(['\'', '"'])
}

fn is_on(literal: &str) -> bool {
    let value = plain(literal);
    ["1", "ON", "TRUE"].iter().any(|on| value.eq_ignore_ascii_case(on))
}

/// Session variables that a MySQL server reports to us. Not `*`: since 8.4 that reports `statement_id` with every
/// statement. Unknown names cause a warning, so those that only old versions have are left out.
pub(super) const MYSQL_TRACKED: &str = "autocommit,auto_increment_increment,auto_increment_offset,big_tables,binlog_format,binlog_row_image\
,binlog_rows_query_log_events,block_encryption_mode,bulk_insert_buffer_size,character_set_client\
,character_set_connection,character_set_database,character_set_results,character_set_server\
,collation_connection,collation_database,collation_server,cte_max_recursion_depth\
,default_collation_for_utf8mb4,default_storage_engine,default_table_encryption,default_tmp_storage_engine\
,default_week_format,div_precision_increment,end_markers_in_json,eq_range_index_dive_limit,explain_format\
,explicit_defaults_for_timestamp,foreign_key_checks,generated_random_password_length,group_concat_max_len\
,group_replication_consistency,histogram_generation_max_mem_size,identity,immediate_server_version\
,information_schema_stats_expiry,innodb_ft_enable_stopword,innodb_ft_user_stopword_table\
,innodb_lock_wait_timeout,innodb_strict_mode,innodb_table_locks,insert_id,interactive_timeout\
,internal_tmp_mem_storage_engine,join_buffer_size,keep_files_on_create,last_insert_id,lc_messages\
,lc_time_names,lock_wait_timeout,long_query_time,low_priority_updates,max_allowed_packet,max_error_count\
,max_execution_time,max_heap_table_size,max_join_size,max_length_for_sort_data,max_points_in_geometry\
,max_seeks_for_key,max_sort_length,max_sp_recursion_depth,min_examined_row_limit,myisam_sort_buffer_size\
,myisam_stats_method,net_buffer_length,net_read_timeout,net_retry_count,net_write_timeout,old_alter_table\
,optimizer_prune_level,optimizer_search_depth,optimizer_switch,optimizer_trace,optimizer_trace_features\
,optimizer_trace_limit,optimizer_trace_max_mem_size,optimizer_trace_offset,original_commit_timestamp\
,original_server_version,parser_max_mem_size,preload_buffer_size,print_identified_with_as_hex,profiling\
,profiling_history_size,pseudo_replica_mode,pseudo_slave_mode,pseudo_thread_id,query_alloc_block_size\
,query_prealloc_size,rand_seed1,rand_seed2,range_alloc_block_size,range_optimizer_max_mem_size\
,rbr_exec_mode,read_buffer_size,read_rnd_buffer_size,require_row_format,resultset_metadata\
,secondary_engine_cost_threshold,select_into_buffer_size,select_into_disk_sync,select_into_disk_sync_delay\
,session_track_gtids,session_track_schema,session_track_state_change,session_track_transaction_info\
,set_operations_buffer_size,show_create_table_skip_secondary_engine,show_create_table_verbosity\
,show_gipk_in_create_table_and_information_schema,sort_buffer_size,sql_auto_is_null,sql_big_selects\
,sql_buffer_result,sql_generate_invisible_primary_key,sql_log_bin,sql_log_off,sql_mode,sql_notes\
,sql_quote_show_create,sql_require_primary_key,sql_safe_updates,sql_select_limit,sql_warnings\
,terminology_use_previous,time_zone,timestamp,tmp_table_size,transaction_alloc_block_size\
,transaction_allow_batching,transaction_isolation,transaction_prealloc_size,transaction_read_only\
,unique_checks,updatable_views_with_limit,use_secondary_engine,wait_timeout,windowing_use_high_precision\
,xa_detach_on_prepare";

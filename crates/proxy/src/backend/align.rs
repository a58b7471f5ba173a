//! Brings the session of a backend connection into a client's state, and resets it.

use std::sync::Arc;
use std::time::Duration;

use narrows_wire::charset::{Collation, Family};
use narrows_wire::frame::put_encoded;
use narrows_wire::handshake::{ChangeUser, ConnectAttributes};
use narrows_wire::{Capabilities, Command, Status};

use super::{Answer, Backend, BackendError, FOREIGN_INSERT_ID, InsertIdBefore, Uncollected, Want};
use crate::buffer::Buffer;
use crate::rt::timeout;
use crate::state::{Difference, SessionState, SharedState};

/// The variable with which we request reports; it is ours, see [`Backend::align`].
pub const TRACKED_VARIABLES: &str = "session_track_system_variables";

impl Backend {
    /// Whether the session is already in `state`; in most cases this only compares a pointer. User variables only count
    /// if the next statement reads them.
    pub fn is_aligned(&self, state: &SharedState, user_variables: bool) -> bool {
        if self.login.tracking.is_none() || self.login.uncollected.is_some() {
            return false;
        }
        if self.login.wants_gtids && !self.login.tells_gtids() {
            return false;
        }
        let found = &self.login.state;
        Arc::ptr_eq(found, state) || state.difference(found, user_variables).is_empty()
    }

    /// Brings the session into `state` in one round trip; user variables only if the next statement reads them, and the
    /// value of `LAST_INSERT_ID()` if it uses it. In the same round trip, reports of session variables are turned on,
    /// unless the client has chosen its own, and what the connection keeps for another client is fetched.
    ///
    /// # Errors
    /// The server's if it refuses an assignment (servers of a hostgroup may have different versions); then the
    /// session is in an unknown state, and the connection must be closed.
    pub async fn align(
        &mut self,
        state: &SharedState,
        user_variables: bool,
        last_insert_id: Option<u64>,
        limit: Duration,
    ) -> Result<(), BackendError> {
        let mut difference = state.difference(&self.login.state, user_variables);
        if difference.reset {
            self.login.tracking = None;
            self.login.statements.forget_all();
        }
        self.ask_for_reports(state, &mut difference);
        self.ask_for_gtids(state, &mut difference);
        if let Some(id) = last_insert_id {
            let value =
                if state.null_is_insert_id() { format!("LAST_INSERT_ID({id})") } else { id.to_string() };
            difference.assign(&format!("last_insert_id={value}"));
        }
        let uncollected = self.login.uncollected.take();
        if uncollected.is_some() || !difference.is_empty() {
            debug_assert!(!difference.schema_must_go, "the pool has ensured that");
            match timeout(limit, self.send_difference(&difference, uncollected)).await {
                Ok(sent) => sent?,
                Err(_) => return Err(BackendError::Timeout),
            }
        }
        if difference.reset {
            self.login.insert_id_before = InsertIdBefore::Is(0);
            self.login.sequences_are_own = true;
        }
        if let Some(id) = last_insert_id {
            self.login.insert_id_before = match id {
                FOREIGN_INSERT_ID => InsertIdBefore::Is(id),
                _ => InsertIdBefore::Own,
            };
        }
        self.login.state = if user_variables || state.same_user_variables(&self.login.state) {
            Arc::clone(state)
        } else {
            Arc::new(state.with_user_variables_of(&self.login.state))
        };
        Ok(())
    }

    /// Drops what the connection keeps if its owner has disconnected: nobody will read it, but its value of
    /// `LAST_INSERT_ID()` is still set.
    pub fn drop_unwanted_diagnostics(&mut self) {
        if let Some(uncollected) = self.login.uncollected.take_if(|uncollected| !uncollected.is_wanted())
            && uncollected.has_insert_id()
        {
            self.login.insert_id_before = InsertIdBefore::Unknown;
        }
    }

    /// Adds the assignment that makes the server report variables. A client may assign the variable itself; its value
    /// is then part of its state, and what is not reported is derived from the statement.
    fn ask_for_reports(&mut self, state: &SessionState, difference: &mut Difference) {
        if !self.login.capabilities.contains(Capabilities::SESSION_TRACK) {
            return;
        }
        if state.literal(TRACKED_VARIABLES).is_some() {
            self.login.tracking = None;
            return;
        }
        let chosen_by_a_client = !difference.reset && self.login.state.literal(TRACKED_VARIABLES).is_some();
        if self.login.tracking.is_some() && !chosen_by_a_client {
            return;
        }
        let tracked = match self.login.family {
            Family::MariaDb => "*",
            Family::MySql => MYSQL_TRACKED,
        };
        let assignment = format!("{TRACKED_VARIABLES}='{tracked}'");
        let default = format!("{TRACKED_VARIABLES}=DEFAULT");
        match &mut difference.set {
            Some(set) if set.contains(&default) => *set = set.replace(&default, &assignment),
            _ => difference.assign(&assignment),
        }
        self.login.tracking = Some(tracked);
    }

    /// Sends all commands at once and reads their answers.
    async fn send_difference(
        &mut self,
        difference: &Difference,
        uncollected: Option<Uncollected>,
    ) -> Result<(), BackendError> {
        let mut out = Vec::with_capacity(256);
        let mut answers = 0;
        if let Some(uncollected) = &uncollected {
            self.put_questions(&mut out, uncollected);
        }
        if difference.reset {
            put_command(&mut out, Command::ResetConnection, &[]);
            answers += 1;
        }
        if let Some(in_use) = &self.in_use {
            in_use.count(|tally| {
                tally.init_dbs += u64::from(difference.schema.is_some());
                tally.sets += u64::from(difference.set.is_some());
            });
        }
        if let Some(schema) = &difference.schema {
            put_command(&mut out, Command::InitDb, schema);
            answers += 1;
        }
        if let Some(on) = difference.multi_statements {
            put_command(&mut out, Command::SetOption, &[u8::from(!on), 0]);
            answers += 1;
        }
        if let Some(set) = &difference.set {
            self.put_query(&mut out, set);
            answers += 1;
        }
        self.stream.write_all(&out).await?;
        let mut buffer = Buffer::default();
        if let Some(uncollected) = uncollected {
            self.deliver_answers(&mut buffer, uncollected).await?;
        }
        for _ in 0..answers {
            self.answer(&mut buffer).await?;
        }
        Ok(())
    }

    /// `COM_PING`.
    ///
    /// # Errors
    /// If there is no OK within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<(), BackendError> {
        self.command(Command::Ping, &[], limit).await.map(|_| ())
    }

    /// `COM_RESET_CONNECTION`: rolls back, releases locks, temporary tables, prepared statements and variables. The
    /// schema stays.
    ///
    /// # Errors
    /// The server's; then the connection must be closed.
    pub async fn reset(&mut self, limit: Duration) -> Result<(), BackendError> {
        self.command(Command::ResetConnection, &[], limit).await?;
        // Whether the character sets are those of the login or the server's defaults depends on the server. Neither is
        // assumed: a state without them differs from every client's.
        self.login.state = Arc::new(self.login.state.after_reset());
        self.login.uncollected = None;
        self.login.reset();
        self.forget_traces(limit).await
    }

    /// Removes the texts of statements that a server keeps for the session over a reset and over a change of the user: profiles
    /// on MariaDB, optimizer traces on MySQL. Whether there are any nobody can see: a routine may have switched them on.
    async fn forget_traces(&self, limit: Duration) -> Result<(), BackendError> {
        let statements: &[&str] = match self.login.family {
            // Setting it, to whatever, removes the traces.
            Family::MySql => &["SET optimizer_trace_limit = DEFAULT"],
            // The history is cut to its size at the end of a statement that is profiled.
            Family::MariaDb => &[
                "SET profiling = 1, profiling_history_size = 0",
                // The first that is profiled from its beginning, if profiling was off.
                "DO 0",
                "SET profiling = 0, profiling_history_size = DEFAULT",
            ],
        };
        for statement in statements {
            match self.execute(statement, limit).await {
                // A server without them.
                Ok(()) | Err(BackendError::Server(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// `COM_CHANGE_USER`: a new login on the same socket; the session is as after a first login, without a schema.
    ///
    /// # Errors
    /// The server's, such as 1045; then the server closes the connection.
    pub async fn change_user(&mut self, want: &Want, limit: Duration) -> Result<(), BackendError> {
        self.collect_diagnostics(limit).await?;
        let proving = self.proving(want, limit).await?;
        let collation = Collation::by_id(super::connect::FALLBACK_COLLATION, self.login.family)
            .expect("the table has the fallback");
        let (nonce, plugin) = &self.login.greeting;
        let (mut exchange, first) =
            super::connect::exchange((&self.stream, self.login.verifies), nonce, plugin, &proving);
        let request = ChangeUser {
            user: want.account.row.username.clone().into_bytes(),
            auth_response: first.auth_response,
            schema: None,
            charset: Some(collation.id),
            plugin: Some(first.plugin.as_bytes().to_vec()),
            attributes: ConnectAttributes::clone(&want.about),
        };
        let mut out = Vec::with_capacity(256);
        put_encoded(&mut out, &mut 0, |out| request.encode(self.login.capabilities, out));
        let mut buffer = Buffer::default();
        let log_in = async {
            self.stream.write_all(&out).await?;
            super::connect::log_in(&self.stream, &mut buffer, &mut exchange).await
        };
        let changed = timeout(limit, log_in).await.unwrap_or(Err(BackendError::Timeout));
        changed.map_err(|error| proving.explained(error))?;
        self.login.greeting.0 = *exchange.nonce();
        self.login.account = Arc::clone(&want.account);
        let mut state = SessionState::after_login(collation.charset, Some(collation.name));
        state.multi_statements = self.login.state.multi_statements;
        self.login.state = Arc::new(state);
        self.login.reset();
        self.forget_traces(limit).await
    }

    /// Fetches what the connection keeps for another client, before that is lost.
    ///
    /// # Errors
    /// As [`Backend::align`].
    pub async fn collect_diagnostics(&mut self, limit: Duration) -> Result<(), BackendError> {
        self.drop_unwanted_diagnostics();
        match self.login.uncollected.take() {
            Some(uncollected) => {
                let nothing = Difference::default();
                let asked = self.send_difference(&nothing, Some(uncollected));
                timeout(limit, asked).await.unwrap_or(Err(BackendError::Timeout))
            }
            None => Ok(()),
        }
    }

    /// The session's status flags, read with a `COM_PING`.
    ///
    /// # Errors
    /// As [`Backend::ping`].
    pub async fn status(&self, limit: Duration) -> Result<Status, BackendError> {
        match self.command(Command::Ping, &[], limit).await? {
            Answer::Ok(status) => Ok(status),
            Answer::Eof => Err(narrows_wire::Malformed("EOF for a ping").into()),
        }
    }

    async fn command(
        &self,
        command: Command,
        argument: &[u8],
        limit: Duration,
    ) -> Result<Answer, BackendError> {
        let run = async {
            let mut out = Vec::with_capacity(argument.len() + 5);
            put_command(&mut out, command, argument);
            self.stream.write_all(&out).await?;
            self.answer(&mut Buffer::default()).await
        };
        timeout(limit, run).await.unwrap_or(Err(BackendError::Timeout))
    }

    /// Appends a `COM_QUERY` in the form this connection has negotiated.
    pub(super) fn put_query(&self, out: &mut Vec<u8>, statement: impl AsRef<[u8]>) {
        put_encoded(out, &mut 0, |out| {
            out.push(Command::Query.code());
            if self.login.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
                out.extend(narrows_wire::query::NO_ATTRIBUTES);
            }
            out.extend_from_slice(statement.as_ref());
        });
    }
}

fn put_command(out: &mut Vec<u8>, command: Command, argument: &[u8]) {
    put_encoded(out, &mut 0, |out| {
        out.push(command.code());
        out.extend_from_slice(argument);
    });
}

/// Session variables that a MySQL server reports to us. Not `*`: since 8.4 that reports `statement_id` with every
/// statement. Unknown names cause a warning, so those that only old versions have are left out.
const MYSQL_TRACKED: &str = "autocommit,auto_increment_increment,auto_increment_offset,big_tables,binlog_format,binlog_row_image\
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

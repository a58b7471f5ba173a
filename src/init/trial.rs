//! The proof that a configuration works: Narrows runs with it for a moment, on ports and in a folder of its own, and an
//! application's account runs a statement in each hostgroup.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use narrows_control::config_file;
use narrows_control::monitor::plan::Address;
use narrows_proxy::rt;

use super::accounts::AppAccount;
use super::file_text;
use super::proposal::{Listeners, Proposal, READERS, WRITERS};
use super::remains::{Passing, PassingProcess};
use super::visit::{Credentials, connect};

/// What was seen.
#[derive(Debug)]
pub struct Proof {
    /// The account that ran the statements.
    pub username: String,
    /// Whether it is one of the file's accounts.
    pub is_of_the_file: bool,
    /// Each hostgroup, with the server that answered.
    pub answers: Vec<(u16, String)>,
}

/// Checks the file that `proposal` gives, and runs Narrows with it.
///
/// # Errors
/// What does not work.
pub fn prove(proposal: &Proposal, examiner: &Credentials) -> anyhow::Result<Proof> {
    let folder = Passing::folder()?;
    let known = |account: &&AppAccount| account.password.is_some();
    let of_the_file = proposal.accounts.iter().find(known).cloned();
    let account = match &of_the_file {
        Some(account) => account.clone(),
        None => AppAccount::with_password(&examiner.username, &examiner.password),
    };
    let mut accounts = proposal.accounts.clone();
    if of_the_file.is_none() {
        accounts.retain(|other| other.username != account.username);
        accounts.push(account.clone());
    }
    check(proposal, folder.path())?;
    let mut attempts = 0;
    let (running, listeners) = loop {
        match start(proposal, &accounts, folder.path()) {
            // Another process may take the port after it is chosen and before it is used.
            Err(_) if attempts < 3 => attempts += 1,
            outcome => break outcome?,
        }
    };
    let password = account.password.clone().unwrap_or_default();
    let login = Credentials { username: account.username.clone(), password };
    let answers = rt::block_on(ask(proposal, &listeners, &login))?;
    drop(running);
    Ok(Proof { username: login.username, is_of_the_file: of_the_file.is_some(), answers: answers? })
}

/// Checks the text as `narrows check` does. There may not even be a warning.
fn check(proposal: &Proposal, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("narrows.toml");
    fs::write(&path, file_text::text(proposal, &proposal.listeners, &proposal.accounts))
        .with_context(|| format!("writing {}", path.display()))?;
    let remarks = match config_file::load(&path) {
        Ok(loaded) => [loaded.passed_over, loaded.warnings].concat(),
        Err(diagnostics) => diagnostics,
    };
    let remarks: Vec<String> = remarks.iter().map(|remark| remark.problem.to_string()).collect();
    ensure!(remarks.is_empty(), "the file would not pass `narrows check`: {}", remarks.join("; "));
    Ok(())
}

/// Starts Narrows and waits until it serves.
fn start(
    proposal: &Proposal,
    accounts: &[AppAccount],
    folder: &Path,
) -> anyhow::Result<(PassingProcess, Listeners)> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let listeners = Listeners {
        clients: free.context("looking for a free port")?.to_string(),
        administrators: folder.join("admin.sock").display().to_string(),
    };
    let (file, data, log) = (folder.join("trial.toml"), folder.join("data"), folder.join("log"));
    let text = file_text::text(proposal, &listeners, accounts);
    fs::write(&file, format!("drain_timeout = 0\n{text}")).context("writing the file for the trial")?;
    // What an earlier attempt has stored would take precedence.
    let _ = fs::remove_dir_all(&data);
    fs::create_dir(&data).context("creating a data folder for the trial")?;
    let output = File::create(&log).context("creating a log for the trial")?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.args(["-f", "--no-supervisor", "-c"]).arg(&file).arg("-D").arg(&data);
    command.env("NARROWS_LOG", "info").stdin(Stdio::null());
    command.stdout(output.try_clone().context("a descriptor")?).stderr(output);
    let mut process = PassingProcess::start(&mut command).context("starting Narrows for the trial")?;
    let deadline = Instant::now() + STARTS_WITHIN;
    loop {
        let log = fs::read_to_string(&log).unwrap_or_default();
        if log.contains(" serving interfaces=") {
            return Ok((process, listeners));
        }
        if process.has_ended() || Instant::now() > deadline {
            let last = log.lines().rev().find(|line| line.contains("narrows:")).or(log.lines().last());
            bail!("Narrows does not start with the file: {}", last.unwrap_or("it says nothing"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a statement in each hostgroup.
async fn ask(
    proposal: &Proposal,
    listeners: &Listeners,
    login: &Credentials,
) -> anyhow::Result<Vec<(u16, String)>> {
    let clients = super::address::parse(&listeners.clients).map_err(anyhow::Error::msg)?;
    let client = connect(&clients, login, false, PATIENCE).await;
    let client = client.with_context(|| format!("'{}' cannot log in through Narrows", login.username))?;
    let mut answers = Vec::new();
    for hostgroup in proposal.hostgroups().into_iter().filter(|it| proposal.serves(*it)) {
        let statement = format!("/* hostgroup={hostgroup} */ SELECT @@server_id");
        let answer = client.ask(&statement, PATIENCE).await;
        let table = answer.with_context(|| {
            format!("'{}' cannot run a statement in hostgroup {hostgroup} through Narrows", login.username)
        })?;
        let server_id = table.rows.first().and_then(|row| row.first().cloned().flatten()).unwrap_or_default();
        let server = proposal
            .servers
            .iter()
            .find(|line| line.facts.server_id == server_id && line.hostgroup == hostgroup && line.is_used);
        let server =
            server.map_or_else(|| format!("server_id {server_id}"), |it| it.facts.address.to_string());
        answers.push((hostgroup, server));
    }
    client.quit().await;
    routes(proposal, listeners, login).await?;
    Ok(answers)
}

/// Makes sure that reads and writes are routed as the file says.
async fn routes(proposal: &Proposal, listeners: &Listeners, login: &Credentials) -> anyhow::Result<()> {
    let admin = Credentials { username: "admin".to_owned(), password: proposal.admin_password.clone() };
    let address = Address { hostname: listeners.administrators.clone(), port: 0 };
    let admin = connect(&address, &admin, false, PATIENCE)
        .await
        .context("the administrator cannot log in to Narrows")?;
    let reads = match (proposal.splits, proposal.serves(READERS)) {
        (true, true) => Some(("SELECT 1", READERS)),
        // Reads go to the primary from the moment at which the monitor finds that no replica can serve them.
        (true, false) => None,
        (false, _) => Some(("SELECT 1", WRITERS)),
    };
    for (statement, expected) in reads.into_iter().chain([("DELETE FROM t", WRITERS)]) {
        let name = login.username.replace('\\', "\\\\").replace('`', "``");
        let table = admin.ask(&format!("EXPLAIN ROUTE '{statement}' AS `{name}`"), PATIENCE).await;
        let table = table.with_context(|| format!("asking Narrows for the route of {statement}"))?;
        let is_hostgroup =
            |row: &&Vec<Option<String>>| row.get(1).and_then(Option::as_deref) == Some("hostgroup");
        let found = table.rows.iter().find(is_hostgroup).and_then(|row| row.get(2).cloned().flatten());
        ensure!(
            found.as_deref() == Some(expected.to_string().as_str()),
            "Narrows would run {statement} in hostgroup {} and not in {expected}",
            found.unwrap_or_default()
        );
    }
    admin.quit().await;
    Ok(())
}

/// Narrows starts in a tenth of a second; this is for a machine under load.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// More than `mysql-connect_timeout_server_max`, so that Narrows says what is wrong.
const PATIENCE: Duration = Duration::from_secs(15);

//! Everything that is decided before a file can be proposed: by the command line, by the user, or by default.

use anyhow::{Context, bail};
use narrows_control::monitor::plan::Address;
use narrows_proxy::rt;

use super::accounts::{self, AppAccount, ServerAccount, Storable};
use super::address;
use super::args::InitArgs;
use super::destination::Destination;
use super::dialogue::Dialogue;
use super::monitor_account::{self, MonitorAccount, MonitorState};
use super::proposal::{Decisions, Listeners};
use super::report;
use super::screen::Screen;
use super::topology::{Relation, Topology};
use super::trust::Trust;
use super::visit::{Credentials, Visit, VisitError};

/// Who decides.
#[derive(Debug)]
pub struct Chooser<'a> {
    /// The command line, which takes precedence.
    pub args: &'a InitArgs,
    /// The user, for what the command line does not say; `None`: the defaults decide.
    pub dialogue: Option<Dialogue>,
    /// Where the outcome is shown.
    pub screen: Screen,
}

impl Chooser<'_> {
    /// The file to write.
    ///
    /// # Errors
    /// It exists and may not be replaced, or its folder does not exist.
    pub fn destination(&self) -> anyhow::Result<Destination> {
        let path = self.args.output.clone().unwrap_or_else(|| "narrows.toml".into());
        let mut destination = Destination { path, replaces: self.args.force };
        if let Some(dialogue) = self.dialogue
            && !destination.replaces
            && destination.path.is_file()
        {
            let question = format!("{} exists. Replace it?", destination.path.display());
            destination.replaces = dialogue.agrees(&question, false)?;
        }
        destination.check()?;
        Ok(destination)
    }

    /// The account that examines the servers, and the servers.
    ///
    /// # Errors
    /// A server that is needed and cannot be examined.
    pub fn servers(&self) -> anyhow::Result<(Credentials, Topology)> {
        let (address, account) = match self.dialogue {
            None => {
                let (server, user) = (self.args.server.first().cloned(), self.args.user.clone());
                let server = server.context("--server is missing")?;
                let username = user.context("--user is missing")?;
                let password = self.args.password.read()?.context(
                    "the account's password is missing: give --password, --password-env or --password-file",
                )?;
                (server, Credentials { username, password })
            }
            Some(dialogue) => self.first_login(dialogue)?,
        };
        let trust = Trust::new(self.args, &address, self.dialogue, &account.username);
        let topology = rt::block_on(Topology::find(&address, &account, &trust))??;
        report::servers(self.screen, &topology);
        Ok((account, topology))
    }

    /// Asks for a server and an account until the login succeeds.
    fn first_login(&self, dialogue: Dialogue) -> anyhow::Result<(Address, Credentials)> {
        let (mut server, mut user) = (self.args.server.first().cloned(), self.args.user.clone());
        let mut given = self.args.password.read()?;
        loop {
            let address = match server.take() {
                Some(address) => address,
                None => dialogue.ask("One of your servers, HOST:PORT", "127.0.0.1:3306", address::parse)?,
            };
            let username = match user.take() {
                Some(name) => name,
                None => dialogue.ask("Account that may see replication and accounts", "root", not_empty)?,
            };
            let password = match given.take() {
                Some(password) => password,
                None => dialogue.password(&format!("Password of '{username}'"))?,
            };
            let account = Credentials { username, password };
            match rt::block_on(log_in(&address, &account))? {
                Ok(()) => return Ok((address, account)),
                Err(error) => {
                    dialogue.screen.refusal(&error.to_string());
                    if error.is_about_account {
                        server = Some(address);
                    } else {
                        (user, given) = (Some(account.username), Some(account.password));
                    }
                }
            }
        }
    }

    /// Everything else.
    ///
    /// # Errors
    /// An account that cannot be used.
    pub fn decide(&self, topology: &Topology, examiner: &Credentials) -> anyhow::Result<Decisions> {
        let accounts = self.accounts(topology, examiner)?;
        let splits = self.splits(topology)?;
        let listeners = self.listeners()?;
        // Last, because it may change something.
        let monitor = self.monitor(topology, examiner)?;
        Ok(Decisions { accounts, monitor, splits, listeners })
    }

    fn accounts(&self, topology: &Topology, examiner: &Credentials) -> anyhow::Result<Vec<AppAccount>> {
        let wanted = self.args.applications()?;
        let mut found = rt::block_on(accounts::of_server(&topology.primary, examiner))?;
        if let Ok(found) = &mut found {
            found.retain(|account| account.username != self.args.monitor_user);
        }
        if !wanted.is_empty() {
            return wanted
                .iter()
                .map(|(name, password)| given(topology, name, password.as_deref(), &found))
                .collect();
        }
        match (self.dialogue, found) {
            (Some(dialogue), Ok(found)) if !found.is_empty() => choose(dialogue, topology, examiner, &found),
            (Some(dialogue), found) => {
                if let Err(error) = found {
                    dialogue.screen.remark(&format!("accounts cannot be listed: {error}."));
                }
                Ok(vec![with_password(dialogue, topology, None, &examiner.username)?])
            }
            (None, found) => {
                let others = found.unwrap_or_default().into_iter().map(|account| account.username);
                let others: Vec<String> = others.filter(|name| *name != examiner.username).collect();
                self.screen.remark(&format!(
                    "'{}' is the application's account too, because no --app-user is given.",
                    examiner.username
                ));
                if !others.is_empty() {
                    self.screen.remark(&format!("the servers also have the accounts {}.", others.join(", ")));
                }
                Ok(vec![AppAccount::with_password(&examiner.username, &examiner.password)])
            }
        }
    }

    fn splits(&self, topology: &Topology) -> anyhow::Result<bool> {
        let has_replicas = topology.relation != Relation::Alone && !topology.others.is_empty();
        match self.dialogue {
            _ if self.args.no_split || !has_replicas => Ok(false),
            None => Ok(true),
            Some(dialogue) => dialogue.agrees("Send what is certain to be a read to the replicas?", true),
        }
    }

    fn listeners(&self) -> anyhow::Result<Listeners> {
        let mut listeners = Listeners::free(self.args);
        if let Some(dialogue) = self.dialogue.filter(|_| self.args.listen.is_none()) {
            listeners.clients =
                dialogue.ask("Address for clients of Narrows", &listeners.clients, address::listener)?;
        }
        if listeners.clients == listeners.administrators {
            bail!("clients and administrators cannot both use {}: give another --listen", listeners.clients);
        }
        Ok(listeners)
    }

    fn monitor(&self, topology: &Topology, examiner: &Credentials) -> anyhow::Result<MonitorAccount> {
        let (name, password) = (&self.args.monitor_user, self.args.monitor_password.as_deref());
        if let Some(found) = rt::block_on(monitor_account::look(topology, name, password))? {
            return Ok(found);
        }
        let login = monitor_account::planned(name, password)?;
        let is_agreed = match self.dialogue {
            _ if self.args.create_monitor => true,
            None => false,
            Some(dialogue) => {
                let MonitorState::Missing(_, statements) =
                    monitor_account::postponed(topology, login.clone()).state
                else {
                    bail!("an account that is not created is missing");
                };
                dialogue.screen.line(
                    "Narrows checks the servers with an account of its own, which these statements create:",
                );
                statements.iter().for_each(|statement| dialogue.screen.line(&format!("  {statement};")));
                dialogue.agrees(&format!("Run them on {}?", topology.primary.address), true)?
            }
        };
        match is_agreed {
            true => Ok(rt::block_on(monitor_account::create(topology, examiner, login))??),
            false => Ok(monitor_account::postponed(topology, login)),
        }
    }
}

async fn log_in(address: &Address, account: &Credentials) -> Result<(), VisitError> {
    Visit::begin(address, account).await?.end().await;
    Ok(())
}

/// An account that the command line names.
fn given(
    topology: &Topology,
    name: &str,
    password: Option<&str>,
    found: &Result<Vec<ServerAccount>, VisitError>,
) -> anyhow::Result<AppAccount> {
    if let Some(password) = password {
        let login = Credentials { username: name.to_owned(), password: password.to_owned() };
        rt::block_on(accounts::try_everywhere(topology, &login))??;
        return Ok(AppAccount::with_password(name, password));
    }
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            bail!("give the password of '{name}' with --app-password, since its hash cannot be read: {error}")
        }
    };
    match found.iter().find(|account| account.username == name).map(|account| &account.storable) {
        Some(Storable::Hash(hash)) => Ok(AppAccount::with_hash(name, hash)),
        Some(Storable::Nothing(why)) => bail!("give the password of '{name}' with --app-password: {why}"),
        None => bail!(
            "there is no account '{name}' on {}: create it, or name another one",
            topology.primary.address
        ),
    }
}

/// Lets the user choose among the accounts of the servers.
fn choose(
    dialogue: Dialogue,
    topology: &Topology,
    examiner: &Credentials,
    found: &[ServerAccount],
) -> anyhow::Result<Vec<AppAccount>> {
    dialogue.screen.heading("Accounts");
    for (number, account) in (1..).zip(found) {
        let what = match &account.storable {
            Storable::Hash(_) => "password needed, or its hash is used".to_owned(),
            Storable::Nothing(why) => format!("password needed: {why}"),
        };
        dialogue.screen.line(&format!("  {number:>3}  {}  ({what})", account.username));
    }
    let question = "Accounts that will connect through Narrows, as numbers";
    let chosen = dialogue.ask(question, "1", |answer| numbers(answer, found.len()))?;
    let chosen = chosen.into_iter().filter_map(|number| found.get(number - 1));
    chosen
        .map(|account| {
            let is_known = account.username == examiner.username;
            match is_known {
                true => Ok(AppAccount::with_password(&examiner.username, &examiner.password)),
                false => with_password(dialogue, topology, Some(account), &account.username),
            }
        })
        .collect()
}

/// Asks for the password of an account until it works. An empty one means the hash, if that can be stored.
fn with_password(
    dialogue: Dialogue,
    topology: &Topology,
    account: Option<&ServerAccount>,
    proposed: &str,
) -> anyhow::Result<AppAccount> {
    let hash = account.and_then(|account| match &account.storable {
        Storable::Hash(hash) => Some(hash),
        Storable::Nothing(_) => None,
    });
    loop {
        let username = match account {
            Some(account) => account.username.clone(),
            None => dialogue.ask("Account that will connect through Narrows", proposed, not_empty)?,
        };
        let or_hash = if hash.is_some() { " (empty: use its hash)" } else { "" };
        let password = dialogue.password(&format!("Password of '{username}'{or_hash}"))?;
        if let Some(hash) = hash.filter(|_| password.is_empty()) {
            return Ok(AppAccount::with_hash(&username, hash));
        }
        let login = Credentials { username, password };
        match rt::block_on(accounts::try_everywhere(topology, &login))? {
            Ok(()) => return Ok(AppAccount::with_password(&login.username, &login.password)),
            Err(error) => dialogue.screen.refusal(&error.to_string()),
        }
    }
}

fn not_empty(answer: &str) -> Result<String, &'static str> {
    if answer.is_empty() { Err("an answer is needed") } else { Ok(answer.to_owned()) }
}

/// Numbers from 1 to `most`, separated by commas or blanks.
fn numbers(answer: &str, most: usize) -> Result<Vec<usize>, String> {
    let wrong = || format!("expected numbers from 1 to {most}, for example 1,{most}");
    let mut numbers = Vec::new();
    for word in answer.split([',', ' ']).filter(|word| !word.is_empty()) {
        let number = word.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(wrong)?;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    if numbers.is_empty() { Err(wrong()) } else { Ok(numbers) }
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_are_read_and_checked() {
        assert_eq!(numbers("1, 3,1", 3), Ok(vec![1, 3]));
        assert!(["", "0", "4", "one", "1,4"].iter().all(|answer| numbers(answer, 3).is_err()));
    }
}

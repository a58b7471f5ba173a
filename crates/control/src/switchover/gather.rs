//! Asks the servers of a pair for what a plan needs. Nothing is changed.

use std::rc::Rc;
use std::time::Duration;

use narrows_proxy::backend::Table;
use narrows_proxy::rt::{JoinHandle, spawn_local};

use super::SwitchoverOrder;
use super::account::{Trial, try_login};
use super::dialect::Dialect;
use super::facts::{Facts, only};
use super::link::{Link, LinkError};
use super::plan::{Members, PairMember};

/// Asks all of them at the same time.
pub async fn gather(
    order: &SwitchoverOrder,
    (old, new): (&Rc<Link>, &Rc<Link>),
    others: &[Rc<Link>],
) -> Members {
    let ask = |link: &Rc<Link>| {
        let link = Rc::clone(link);
        spawn_local(async move { member(&link).await })
    };
    let (asked_old, asked_new) = (ask(old), ask(new));
    let asked: Vec<JoinHandle<PairMember>> = others.iter().map(ask).collect();
    let lost = |link: &Rc<Link>| PairMember {
        address: link.address.clone(),
        facts: Err("the check has ended".to_owned()),
    };
    let old = asked_old.await.unwrap_or_else(|_| lost(old));
    let found_login = found_login(new).await;
    let link = new;
    let new = asked_new.await.unwrap_or_else(|_| lost(new));
    let mut others = Vec::with_capacity(asked.len());
    for other in asked {
        others.extend(other.await);
    }
    let login = order.wish.login.as_ref().or(found_login.as_ref());
    let trial = trial(order, (&new, link), login).await;
    Members { old, new, others, found_login, trial }
}

/// Whether the account of replication can log in to the new primary.
async fn trial(
    order: &SwitchoverOrder,
    (new, link): (&PairMember, &Rc<Link>),
    login: Option<&(String, String)>,
) -> Trial {
    let (Some((user, password)), Ok(facts)) = (login, &new.facts) else {
        return Trial::Unknown("its password is known to the old primary alone".to_owned());
    };
    try_login(&order.new, link, &order.access, (user, password), facts.dialect).await
}

async fn member(link: &Link) -> PairMember {
    let facts = facts(link).await.map_err(|error| error.text);
    PairMember { address: link.address.clone(), facts }
}

async fn facts(link: &Link) -> Result<Facts, LinkError> {
    let version = only(&link.ask("SELECT VERSION()", ASK_TIME).await?);
    let dialect = Dialect::of(&version);
    let grants = link.ask("SHOW GRANTS", ASK_TIME).await?;
    let variables = link.ask(&dialect.facts(), ASK_TIME).await?;
    // Without the privilege the status cannot be read; the grants say which one is missing.
    let status = match link.ask(dialect.replica_status(), ASK_TIME).await {
        Err(error) if error.is_certain && !dialect.missing_privileges(&rows(&grants)).is_empty() => {
            Table::default()
        }
        status => status?,
    };
    Ok(Facts::read(&version, &variables, &status, &grants))
}

fn rows(grants: &Table) -> Vec<String> {
    grants.rows.iter().filter_map(|row| row.first().cloned().flatten()).collect()
}

/// The account with which a replica of MySQL logs in, if the monitor's account may read it there.
async fn found_login(link: &Rc<Link>) -> Option<(String, String)> {
    let question = "SELECT User_name, User_password FROM mysql.slave_master_info WHERE User_name <> ''";
    let answer = link.ask(question, ASK_TIME).await.ok()?;
    let row = answer.rows.first()?;
    Some((row.first()?.clone()?, row.get(1)?.clone().unwrap_or_default()))
}

/// How long a server may take to answer a question.
const ASK_TIME: Duration = Duration::from_secs(3);

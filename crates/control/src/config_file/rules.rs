//! Likely mistakes in query rules: rules that never match, settings of them that do nothing, ways that lead nowhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use narrows_proxy::rules::{
    Activity, conditions_never_met, flags_to_choose, share_of, why_nothing_is_replaced,
};
use narrows_proxy::snapshot::{FastRoutingRow, RULE_KEYS, RuleRow};

use super::finding::{
    NO_LOG, Of, RULES, RULES_ON_ALL, RULES_ON_SERVERS, RULES_ON_USERS, RULES_ON_VARIABLES, Search,
};
use crate::config::diagnostic::Problem;

/// What rules are compared with.
pub(super) struct Surroundings<'a> {
    /// The hostgroups with servers; `None`: there are no servers at all, which is reported once.
    pub hostgroups: Option<&'a HashSet<i32>>,
    /// The accounts that clients may use; `None`: there are none at all, which is reported once.
    pub accounts: Option<HashSet<&'a str>>,
    /// Whether digests are computed.
    pub has_digests: bool,
    /// Whether clients can connect over Unix sockets.
    pub has_sockets: bool,
    /// The ports for clients.
    pub ports: &'a HashSet<u16>,
    /// Whether there is a query log.
    pub has_log: bool,
}

/// Examines the rules, which may be in any order.
pub(super) fn examine(rows: &[&RuleRow], around: &Surroundings<'_>, search: &mut Search) {
    if !search.is_for(RULES_ON_ALL) {
        return;
    }
    // Rules of a dry run are evaluated together with those in force, but not the other way round.
    for purpose in [Activity::InForce, Activity::DryRun] {
        let is_asked = |row: &RuleRow| row.active == purpose || row.active == Activity::InForce;
        let asked: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| (index, *row))
            .filter(|(_, row)| is_asked(row))
            .collect();
        let chains: HashSet<u32> = asked.iter().map(|(_, row)| row.flag_in).collect();
        let begun = reached_chains(asked.iter().map(|(_, row)| *row));
        for (index, row) in asked.iter().filter(|(_, row)| row.active == purpose) {
            examine_rule(*index, row, around, [&chains, &begun], search);
        }
        shadowed(asked, purpose, search);
    }
}

/// Examines one rule. `chains`: the `flagIN` of the rules that are evaluated together with it; `begun`: the chains that
/// statements can be in.
fn examine_rule(
    index: usize,
    row: &RuleRow,
    around: &Surroundings<'_>,
    [chains, begun]: [&HashSet<u32>; 2],
    search: &mut Search,
) {
    let rule_id = row.rule_id;
    let name = || format!("rule {rule_id}");
    let place = (Of::Rules, index, "attributes");
    search.add_keys_not_read(RULES, place, name, (RULE_KEYS, &row.attributes));
    without_server(index, row, around, search);
    without_chain(index, row, chains, search);
    never_met(index, row, around, search);
    idle_settings(index, row, around, search);
    if !begun.contains(&row.flag_in) {
        let flag = row.flag_in;
        search.add(RULES, (Of::Rules, index, "flagIN"), || Problem::ChainNotReached { rule_id, flag });
    }
}

/// The chains that statements can be in.
fn reached_chains<'r>(rules: impl Iterator<Item = &'r RuleRow>) -> HashSet<u32> {
    let mut reached = HashSet::from([0]);
    for row in rules {
        reached.extend([row.flag_out, row.next_query_flag_in, row.mirror_flag_out].into_iter().flatten());
        reached.extend(flags_to_choose(&row.attributes));
    }
    reached
}

/// Flags that a rule sets but that no rule has as `flagIN`; `chains`: the `flagIN` of the rules that are evaluated with it.
fn without_chain(index: usize, row: &RuleRow, chains: &HashSet<u32>, search: &mut Search) {
    if !search.is_for(RULES) {
        return;
    }
    let rule_id = row.rule_id;
    let chosen = flags_to_choose(&row.attributes);
    let column = if chosen.is_empty() { "flagOUT" } else { "attributes" };
    let flags = if chosen.is_empty() { row.flag_out.into_iter().collect() } else { chosen };
    for flag in flags.into_iter().filter(|flag| !chains.contains(flag)) {
        let name = if column == "flagOUT" { "flagOUT" } else { "one of flagOUTs" };
        search.add(RULES, (Of::Rules, index, column), || Problem::NoSuchChain { rule_id, name, flag });
    }
}

/// Conditions that no client can meet.
fn never_met(index: usize, row: &RuleRow, around: &Surroundings<'_>, search: &mut Search) {
    let rule_id = row.rule_id;
    if search.is_for(RULES_ON_VARIABLES) {
        for (column, text, why) in conditions_never_met(row, around.has_sockets) {
            let text = text.to_owned();
            search.add(RULES_ON_VARIABLES, (Of::Rules, index, column), || Problem::NeverMet {
                rule_id,
                column,
                text,
                why,
            });
        }
    }
    if let Some(port) = row.proxy_port.filter(|port| !around.ports.contains(port)) {
        search.add(RULES_ON_VARIABLES, (Of::Rules, index, "proxy_port"), || Problem::NeverMet {
            rule_id,
            column: "proxy_port",
            text: port.to_string(),
            why: "no address of mysql-interfaces has this port",
        });
    }
    let unknown = |name: &&str| around.accounts.as_ref().is_some_and(|accounts| !accounts.contains(name));
    if let Some(username) = row.username.as_deref().filter(|name| !name.is_empty()).filter(unknown) {
        search.add(RULES_ON_USERS, (Of::Rules, index, "username"), || Problem::NeverMet {
            rule_id,
            column: "username",
            text: username.to_owned(),
            why: "mysql_users has no such active account",
        });
    }
}

/// Settings of a rule that do nothing without another one.
fn idle_settings(index: usize, row: &RuleRow, around: &Surroundings<'_>, search: &mut Search) {
    let rule_id = row.rule_id;
    let place = |column| (Of::Rules, index, column);
    let setting = |column: &'static str| move || format!("rule {rule_id}: {column}");
    if !around.has_digests && (row.match_digest.is_some() || row.digest.is_some()) {
        let column = if row.match_digest.is_some() { "match_digest" } else { "digest" };
        search.add(RULES_ON_VARIABLES, place(column), || Problem::NoDigests { rule_id });
    }
    if search.is_for(RULES)
        && let Some(why) = why_nothing_is_replaced(row)
    {
        search.add(RULES, place("replace_pattern"), || Problem::ReplacesNothing { rule_id, why });
    }
    if row.negate_match_pattern && row.match_digest.is_none() && row.match_pattern.is_none() {
        let column = "negate_match_pattern";
        let why = "the rule has neither match_digest nor match_pattern";
        search.add_idle(RULES, place(column), setting(column), why);
    }
    if row.log == Some(true) && !around.has_log {
        search.add_idle(RULES_ON_VARIABLES, place("log"), setting("log"), NO_LOG);
    }
}

/// Hostgroups that a rule names and that have no server.
fn without_server(index: usize, row: &RuleRow, around: &Surroundings<'_>, search: &mut Search) {
    let Some(hostgroups) = around.hostgroups else { return };
    let rule_id = row.rule_id;
    for (column, what, hostgroup) in [
        ("destination_hostgroup", "destination", row.destination_hostgroup),
        ("mirror_hostgroup", "mirror", row.mirror_hostgroup),
    ] {
        if let Some(hostgroup) = hostgroup.map(|hostgroup| hostgroup.0)
            && !hostgroups.contains(&hostgroup)
        {
            search.add(RULES_ON_SERVERS, (Of::Rules, index, column), || Problem::RuleWithoutServer {
                rule_id,
                what,
                hostgroup,
            });
        }
    }
}

/// Rules of that kind after one that every statement of their chain matches and leaves the chain by.
fn shadowed(mut asked: Vec<(usize, &RuleRow)>, purpose: Activity, search: &mut Search) {
    if !search.is_for(RULES) {
        return;
    }
    asked.sort_by_key(|(_, row)| row.rule_id);
    let mut ends: HashMap<u32, i64> = HashMap::new();
    for (index, row) in asked {
        let rule_id = row.rule_id;
        if let Some(earlier) = ends.get(&row.flag_in).copied() {
            if row.active != purpose {
                continue;
            }
            search.add(RULES, (Of::Rules, index, "rule_id"), || Problem::Shadowed { rule_id, earlier });
        } else if takes_everything(row) {
            ends.insert(row.flag_in, rule_id);
        }
    }
}

/// Whether a rule has no condition, and no later rule of its chain is evaluated after it.
fn takes_everything(row: &RuleRow) -> bool {
    let texts = [&row.username, &row.schemaname, &row.client_addr, &row.proxy_addr];
    let is_any = texts.into_iter().flatten().all(String::is_empty)
        && row.proxy_port.is_none()
        && share_of(&row.attributes).is_none();
    let expressions = [&row.digest, &row.match_digest, &row.match_pattern];
    let chosen = flags_to_choose(&row.attributes);
    let leaves = match chosen.is_empty() {
        true => row.flag_out.is_some_and(|flag| flag != row.flag_in),
        false => !chosen.contains(&row.flag_in),
    };
    is_any && expressions.into_iter().all(Option::is_none) && (row.apply || leaves)
}

/// Examines rows by user and schema. Each hostgroup and each chain is reported once, because there may be as many rows as
/// there are accounts and schemas.
pub(super) fn examine_fast_routing(
    rows: &[&FastRoutingRow],
    rules: &[&RuleRow],
    hostgroups: Option<&HashSet<i32>>,
    search: &mut Search,
) {
    if !search.is_for(RULES_ON_SERVERS) {
        return;
    }
    let begun = reached_chains(rules.iter().copied().filter(|row| row.active.is_asked()));
    let mut without: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
    let mut beside: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let hostgroup = row.destination_hostgroup.0;
        if hostgroups.is_some_and(|hostgroups| !hostgroups.contains(&hostgroup)) {
            without.entry(hostgroup).or_insert((index, 0)).1 += 1;
        }
        if !begun.contains(&row.flag_in) {
            beside.entry(row.flag_in).or_insert((index, 0)).1 += 1;
        }
    }
    for (hostgroup, (index, count)) in without {
        let Some(row) = rows.get(index) else { continue };
        let (username, schemaname) = (row.username.clone(), row.schemaname.clone());
        search.add(RULES_ON_SERVERS, (Of::FastRouting, index, "destination_hostgroup"), || {
            Problem::FastRoutingWithoutServer { username, schemaname, rows: count, hostgroup }
        });
    }
    for (flag, (index, count)) in beside {
        let rows = if count == 1 { "row" } else { "rows" };
        let name = || format!("mysql_query_rules_fast_routing ({count} {rows} with flagIN {flag})");
        search.add_idle(
            RULES,
            (Of::FastRouting, index, "flagIN"),
            name,
            "no active rule leads to that chain",
        );
    }
}

//! Query rules: from a statement and who sent it to a [`Verdict`].

use regex::bytes::{Regex, RegexBuilder};

use crate::snapshot::{HostgroupId, RuleRow};

/// Active rules in order of their ids.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    needs_digest: bool,
}

/// One rule, ready to be asked.
#[derive(Debug)]
struct Rule {
    row: RuleRow,
    digest: Option<u64>,
    match_digest: Option<Regex>,
    match_pattern: Option<Regex>,
}

/// Why a rule is not usable.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// An expression does not compile.
    #[error("{column}: {source}")]
    Expression {
        /// Which.
        column: &'static str,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// `digest` is not a hexadecimal number.
    #[error("digest: {0:?} is not of the form 0x0123456789ABCDEF")]
    Digest(String),
}

/// What a statement is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who sent it.
    pub username: &'a str,
    /// In which schema.
    pub schemaname: &'a [u8],
    /// From where.
    pub client_addr: &'a str,
    /// To which of our addresses.
    pub proxy_addr: &'a str,
    /// To which of our ports.
    pub proxy_port: u16,
    /// Its text.
    pub statement: &'a [u8],
    /// Its digest text and hash; `None` where digests are off.
    pub digest: Option<(&'a [u8], u64)>,
}

/// What the rules say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Where to run the statement; `None`: the user's default hostgroup.
    pub destination_hostgroup: Option<HostgroupId>,
    /// Answer error 1148 with this text.
    pub error_msg: Option<&'a str>,
    /// Answer OK with this text.
    pub ok_msg: Option<&'a str>,
}

impl RuleSet {
    /// Compiles the active ones of `rows`.
    ///
    /// # Errors
    /// The first rule, in order of ids, that is not usable.
    pub fn compile(rows: &[RuleRow]) -> Result<RuleSet, (i64, RuleError)> {
        let mut rows: Vec<&RuleRow> = rows.iter().filter(|row| row.active).collect();
        rows.sort_by_key(|row| row.rule_id);
        let compile = |row: &RuleRow| Rule::compile(row).map_err(|error| (row.rule_id, error));
        let rules = rows.into_iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let needs_digest = rules.iter().any(|rule| rule.digest.is_some() || rule.match_digest.is_some());
        Ok(RuleSet { rules, needs_digest })
    }

    /// Whether any rule looks at digests.
    pub fn needs_digest(&self) -> bool {
        self.needs_digest
    }

    /// Goes through the rules once; a rule that changes the flag is followed by the rules behind it.
    pub fn apply(&self, question: &Question<'_>) -> Verdict<'_> {
        let mut verdict = Verdict::default();
        let mut flag = 0;
        for rule in &self.rules {
            if rule.row.flag_in != flag || !rule.matches(question) {
                continue;
            }
            let row = &rule.row;
            verdict.destination_hostgroup = row.destination_hostgroup.or(verdict.destination_hostgroup);
            verdict.error_msg = row.error_msg.as_deref().or(verdict.error_msg);
            verdict.ok_msg = row.ok_msg.as_deref().or(verdict.ok_msg);
            if row.apply {
                break;
            }
            flag = row.flag_out.unwrap_or(flag);
        }
        verdict
    }
}

impl Rule {
    fn compile(row: &RuleRow) -> Result<Rule, RuleError> {
        let caseless = row.re_modifiers.to_ascii_uppercase().contains("CASELESS");
        let expression = |column, pattern: &Option<String>| {
            let build = |pattern: &String| {
                let built = RegexBuilder::new(pattern).case_insensitive(caseless).unicode(false).build();
                built.map_err(|source| RuleError::Expression { column, source: Box::new(source) })
            };
            pattern.as_ref().map(build).transpose()
        };
        let digest = |text: &String| {
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
            u64::from_str_radix(digits, 16).map_err(|_| RuleError::Digest(text.clone()))
        };
        Ok(Rule {
            digest: row.digest.as_ref().map(digest).transpose()?,
            match_digest: expression("match_digest", &row.match_digest)?,
            match_pattern: expression("match_pattern", &row.match_pattern)?,
            row: row.clone(),
        })
    }

    fn matches(&self, question: &Question<'_>) -> bool {
        let equals = |wanted: &Option<String>, found: &[u8]| {
            wanted.as_ref().is_none_or(|wanted| wanted.is_empty() || wanted.as_bytes() == found)
        };
        let address = |wanted: &String| match wanted.split_once('%') {
            Some((prefix, _)) => question.client_addr.starts_with(prefix),
            None => question.client_addr == wanted,
        };
        let negated = self.row.negate_match_pattern;
        equals(&self.row.username, question.username.as_bytes())
            && equals(&self.row.schemaname, question.schemaname)
            && self.row.client_addr.as_ref().is_none_or(address)
            && equals(&self.row.proxy_addr, question.proxy_addr.as_bytes())
            && self.row.proxy_port.is_none_or(|port| port == question.proxy_port)
            && question.digest.is_none_or(|(text, hash)| {
                self.digest.is_none_or(|wanted| wanted == hash)
                    && self.match_digest.as_ref().is_none_or(|regex| regex.is_match(text) != negated)
            })
            && self.match_pattern.as_ref().is_none_or(|regex| regex.is_match(question.statement) != negated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(statement: &'static str) -> Question<'static> {
        Question {
            username: "app",
            schemaname: b"shop",
            client_addr: "10.1.2.3",
            proxy_addr: "127.0.0.1",
            proxy_port: 6033,
            statement: statement.as_bytes(),
            digest: Some((statement.as_bytes(), 0xAB)),
        }
    }

    fn rule(rule_id: i64, destination: i32) -> RuleRow {
        RuleRow {
            rule_id,
            active: true,
            apply: true,
            re_modifiers: "CASELESS".to_owned(),
            destination_hostgroup: Some(HostgroupId(destination)),
            ..RuleRow::default()
        }
    }

    fn destination(rules: &[RuleRow], statement: &'static str) -> Option<i32> {
        let set = RuleSet::compile(rules).unwrap();
        set.apply(&question(statement)).destination_hostgroup.map(|group| group.0)
    }

    #[test]
    fn the_classic_split_in_order_of_ids() {
        let mut lock = rule(1, 0);
        lock.match_digest = Some("^SELECT.*FOR UPDATE".to_owned());
        let mut read = rule(2, 1);
        read.match_digest = Some("^SELECT".to_owned());
        let rules = [read, lock];
        assert_eq!(destination(&rules, "select * from t"), Some(1));
        assert_eq!(destination(&rules, "SELECT * FROM t FOR UPDATE"), Some(0));
        assert_eq!(destination(&rules, "INSERT INTO t VALUES (?)"), None);
    }

    #[test]
    fn every_condition_must_hold() {
        let mut only = rule(1, 7);
        only.username = Some("app".to_owned());
        only.schemaname = Some("shop".to_owned());
        only.client_addr = Some("10.1.%".to_owned());
        only.proxy_port = Some(6033);
        only.digest = Some("0xAB".to_owned());
        assert_eq!(destination(std::slice::from_ref(&only), "SELECT 1"), Some(7));
        only.schemaname = Some("Shop".to_owned());
        assert_eq!(destination(&[only], "SELECT 1"), None);
    }

    #[test]
    fn a_flag_leads_to_the_rules_behind() {
        let mut first = rule(1, 1);
        (first.apply, first.flag_out) = (false, Some(5));
        let mut before = rule(2, 2);
        before.apply = false;
        let mut chained = rule(3, 3);
        chained.flag_in = 5;
        assert_eq!(destination(&[first, before, chained], "SELECT 1"), Some(3));
    }

    #[test]
    fn negation_inverts_the_expressions() {
        let mut not = rule(1, 4);
        not.match_pattern = Some("^SELECT".to_owned());
        not.negate_match_pattern = true;
        assert_eq!(destination(std::slice::from_ref(&not), "SELECT 1"), None);
        assert_eq!(destination(&[not], "DELETE FROM t"), Some(4));
    }

    #[test]
    fn an_expression_that_does_not_compile_names_its_rule() {
        let mut bad = rule(9, 0);
        bad.match_digest = Some("(".to_owned());
        let (rule_id, error) = RuleSet::compile(&[bad]).unwrap_err();
        assert_eq!(rule_id, 9);
        assert!(error.to_string().starts_with("match_digest: "), "{error}");
    }
}

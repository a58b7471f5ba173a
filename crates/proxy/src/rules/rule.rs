//! One rule, compiled: its conditions and its actions.

use narrows_sql::digest_hash;
use serde_json::Value;

use super::RuleRow;
use super::address::{ClientAddress, Meant, is_address};
use super::expression::{Expression, ExpressionError};
use super::rewrite::Replacement;
use crate::rows::{CausalReads, JsonColumn, shown, transaction_replay};

/// Why a rule's conditions on addresses hold for no client: the column, its text, and what is expected. `has_sockets`:
/// whether clients can connect over Unix sockets.
pub fn conditions_never_met(row: &RuleRow, has_sockets: bool) -> Vec<(&'static str, &str, &'static str)> {
    let client = row.client_addr.as_deref().and_then(|text| {
        let why = match ClientAddress::of_cell(&row.client_addr)?.meant() {
            Meant::Addresses => return None,
            Meant::Sockets if has_sockets => return None,
            Meant::Sockets => "clients of Unix sockets are called localhost, and mysql-interfaces has no socket",
            Meant::Nobody => {
                "expected an IP address in its usual form, the beginning of one and `%`, or a network such as 10.0.0.0/8"
            }
        };
        Some(("client_addr", text, why))
    });
    let proxy = row.proxy_addr.as_deref().filter(|text| !text.is_empty() && !is_address(text));
    let proxy = proxy.map(|text| ("proxy_addr", text, "expected an IP address in its usual form"));
    client.into_iter().chain(proxy).collect()
}

/// An active rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) row: RuleRow,
    pub(super) digest: Option<u64>,
    pub(super) match_digest: Option<Expression>,
    pub(super) match_pattern: Option<Expression>,
    pub(super) replacement: Option<Replacement>,
    /// Whether every match is replaced (`GLOBAL`).
    pub(super) replaces_all: bool,
    /// `attributes.flagOUTs`: flags to choose from, each with the sum of its weight and those before it.
    pub(super) flags_out: Vec<(u32, u32)>,
    /// `attributes.causal_reads`.
    pub(super) causal_reads: Option<CausalReads>,
    /// `attributes.transaction_replay`.
    pub(super) transaction_replay: Option<bool>,
}

/// Literals of which a text must contain one for a rule's expressions to match; none if they may match any text.
#[derive(Debug, Default)]
pub(super) struct Literals {
    pub(super) in_digest: Vec<Vec<u8>>,
    pub(super) in_statement: Vec<Vec<u8>>,
}

/// Why a rule cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// An expression does not compile.
    #[error("{column}: {source}")]
    Expression {
        /// The column of the expression.
        column: &'static str,
        /// What is wrong with it.
        source: ExpressionError,
    },
    /// `digest` is not a hexadecimal number.
    #[error("digest: {0:?} is not of the form 0x0123456789ABCDEF")]
    Digest(String),
}

impl Rule {
    /// Compiles a row.
    pub(super) fn compile(row: &RuleRow) -> Result<(Rule, Literals), RuleError> {
        let modifiers = row.re_modifiers.to_ascii_uppercase();
        let has = |modifier: &str| modifiers.split(',').any(|one| one.trim() == modifier);
        let expression = |column, pattern: &Option<String>| {
            let parse = |pattern: &String| {
                Expression::parse(pattern, has("CASELESS"))
                    .map_err(|source| RuleError::Expression { column, source })
            };
            pattern.as_ref().map(parse).transpose()
        };
        let (match_digest, in_digest) = expression("match_digest", &row.match_digest)?.unzip();
        let (match_pattern, in_statement) = expression("match_pattern", &row.match_pattern)?.unzip();
        let rule = Rule {
            digest: row.digest.as_deref().map(parse_digest).transpose()?,
            match_digest,
            match_pattern,
            replacement: row.replace_pattern.as_deref().and_then(Replacement::parse),
            replaces_all: has("GLOBAL"),
            flags_out: flags_out(&row.attributes),
            causal_reads: CausalReads::of_attributes(&row.attributes),
            transaction_replay: transaction_replay(&row.attributes),
            row: row.clone(),
        };
        let literals = Literals {
            in_digest: in_digest.unwrap_or_default(),
            in_statement: in_statement.unwrap_or_default(),
        };
        Ok((rule, literals))
    }

    /// Whether the rule checks digests.
    pub(super) fn asks_digest(&self) -> bool {
        self.digest.is_some() || self.match_digest.is_some()
    }

    /// Whether `match_pattern` need only be run for statements that contain one of its literals.
    pub(super) fn is_screened(&self) -> bool {
        !self.row.negate_match_pattern && self.match_pattern.as_ref().is_some_and(|pattern| pattern.screened)
    }

    /// The flag to continue with; `None`: unchanged.
    pub(super) fn flag_out(&self) -> Option<u32> {
        let Some((_, sum)) = self.flags_out.last() else { return self.row.flag_out };
        let drawn = rand::random_range(0..*sum);
        self.flags_out.iter().find(|(_, sum)| drawn < *sum).map(|(flag, _)| *flag)
    }
}

/// Parses `0x` and hex digits.
pub(super) fn parse_digest(text: &str) -> Result<u64, RuleError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| RuleError::Digest(text.to_owned()))
}

/// A statement's digest: its text and the hash of the text.
pub fn digest_of(text: &[u8]) -> (&[u8], u64) {
    (text, digest_hash(text))
}

/// Parses `{"flagOUTs": [{"id": 1, "weight": 2}, ..]}`. Anything else chooses no flag, as in ProxySQL.
fn flags_out(attributes: &JsonColumn) -> Vec<(u32, u32)> {
    attributes.get("flagOUTs").map(|listed| choices(listed, |_| {})).unwrap_or_default()
}

/// The parts of `flagOUTs` that are not read.
pub(crate) fn flaws_of_flags_out(listed: &Value) -> Vec<String> {
    let mut flaws = Vec::new();
    if choices(listed, |flaw| flaws.push(flaw)).is_empty() {
        flaws.push("has no flag to choose: the column flagOUT counts instead".to_owned());
    }
    flaws
}

/// The flags that `flagOUTs` of a rule's attributes can choose.
pub fn flags_to_choose(attributes: &JsonColumn) -> Vec<u32> {
    flags_out(attributes).into_iter().map(|(flag, _)| flag).collect()
}

/// The listed flags, each with the sum of its weight and those before it; `flaw` receives what is not read.
fn choices(listed: &Value, mut flaw: impl FnMut(String)) -> Vec<(u32, u32)> {
    let Some(listed) = listed.as_array() else {
        flaw(format!("is {}: expected an array of objects with `id` and `weight`", shown(listed)));
        return Vec::new();
    };
    if listed.len() > MOST_FLAGS {
        flaw(format!("has {} flags: only the first {MOST_FLAGS} of them are read", listed.len()));
    }
    let (mut sum, mut choices) = (0u32, Vec::new());
    for choice in listed.iter().take(MOST_FLAGS) {
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let Some(flag) = choice.get("id").and_then(number) else {
            flaw(format!(
                "has {}: expected an `id` that is an integer from 0; it is never chosen",
                shown(choice)
            ));
            continue;
        };
        let weight = match choice.get("weight") {
            None => 1,
            Some(weight) => number(weight).unwrap_or_else(|| {
                flaw(format!(
                    "has {}: expected a `weight` that is an integer from 0; 1 is taken",
                    shown(choice)
                ));
                1
            }),
        };
        if weight > MOST_WEIGHT {
            flaw(format!("has {}: {MOST_WEIGHT} is taken, the largest `weight`", shown(choice)));
        }
        if weight > 0 {
            sum += weight.min(MOST_WEIGHT);
            choices.push((flag, sum));
        }
    }
    choices
}

/// The limit keeps the sum of weights in range: 1,000 of these are below 2^32.
const MOST_WEIGHT: u32 = 1_000_000;
const MOST_FLAGS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_drawn_by_weight() {
        let attributes = r#"{"flagOUTs":[{"id":7,"weight":1},{"id":8,"weight":3},{"id":9,"weight":0}]}"#;
        assert_eq!(flags_out(&attributes.into()), [(7, 1), (8, 4)]);
        let (rule, _) =
            Rule::compile(&RuleRow { attributes: attributes.into(), ..RuleRow::default() }).unwrap();
        let mut drawn = [0; 2];
        for _ in 0..4_000 {
            drawn[usize::from(rule.flag_out() == Some(8))] += 1;
        }
        assert!(drawn[0] > 600 && drawn[1] > 2_600, "{drawn:?}");
        assert!([r#"{"flagOUTs":5}"#, "flagOUTs"].iter().all(|json| flags_out(&(*json).into()).is_empty()));
    }

    #[test]
    fn flags_that_are_not_read_are_told() {
        let flaws = |listed: &str| flaws_of_flags_out(&serde_json::from_str(listed).unwrap());
        for listed in [r#"[{"id":7,"weight":1}]"#, r#"[{"id":7},{"id":8,"weight":0}]"#] {
            assert_eq!(flaws(listed), Vec::<String>::new(), "{listed}");
        }
        for (listed, expected) in [
            (r#"{"id":7}"#, "is {\"id\":7}: expected an array of objects with `id` and `weight`"),
            (r#"[{"weight":1},{"id":1}]"#, "has {\"weight\":1}: expected an `id`"),
            (r#"[{"id":"1"},{"id":1}]"#, "has {\"id\":\"1\"}: expected an `id`"),
            (r#"[5,{"id":1}]"#, "has 5: expected an `id`"),
            (r#"[{"id":1,"weight":"2"}]"#, "has {\"id\":1,\"weight\":\"2\"}: expected a `weight`"),
            (r#"[{"id":1,"weight":1000001}]"#, "has {\"id\":1,\"weight\":1000001}: 1000000 is taken"),
            ("[]", "has no flag to choose: the column flagOUT counts instead"),
        ] {
            assert!(flaws(listed)[0].starts_with(expected), "{listed}: {:?}", flaws(listed));
        }
        assert_eq!(flaws("5").len(), 2);
        let many = format!("[{}]", vec![r#"{"id":1}"#; MOST_FLAGS + 1].join(","));
        assert_eq!(flaws(&many), ["has 1001 flags: only the first 1000 of them are read"]);
    }

    #[test]
    fn an_empty_address_is_no_condition() {
        let row = RuleRow { client_addr: Some(String::new()), ..RuleRow::default() };
        assert!(conditions_never_met(&row, false).is_empty());
    }

    #[test]
    fn conditions_that_hold_for_nobody_are_told() {
        let columns = |client: &str, proxy: &str, has_sockets| {
            let row = RuleRow {
                client_addr: Some(client.to_owned()),
                proxy_addr: Some(proxy.to_owned()),
                ..RuleRow::default()
            };
            let found = conditions_never_met(&row, has_sockets);
            found.into_iter().map(|(column, ..)| column).collect::<Vec<_>>()
        };
        assert_eq!(columns("10.0.0.%", "127.0.0.1", false), Vec::<&str>::new());
        assert_eq!(columns("localhost", "", true), Vec::<&str>::new());
        assert_eq!(columns("localhost", "", false), ["client_addr"]);
        assert_eq!(columns("10.0.0.0/99", "proxy.example", true), ["client_addr", "proxy_addr"]);
        assert_eq!(columns("", "127.0.0.1:6033", true), ["proxy_addr"]);
    }
}

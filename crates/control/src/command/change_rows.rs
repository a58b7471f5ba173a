//! Changes of the configuration as rows of an answer.

use crate::versions::RowChange;

/// One row for each column that differs: table, key, change, column, value before, value after.
pub(super) fn lines(change: &RowChange) -> Vec<Vec<Option<String>>> {
    let start =
        || vec![Some(change.table.to_owned()), Some(change.key.clone()), Some(change.kind.name().to_owned())];
    if change.columns.is_empty() {
        return vec![[start(), vec![None, None, None]].concat()];
    }
    let line = |(name, before, after): &(&str, Option<String>, Option<String>)| {
        [start(), vec![Some((*name).to_owned()), before.clone(), after.clone()]].concat()
    };
    change.columns.iter().map(line).collect()
}

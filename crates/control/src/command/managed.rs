//! SHOW NARROWS MANAGED: who may change what.

use super::verb::{Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::store::SectionOwner;

pub const VERBS: &[Verb] = &[Verb {
    pattern: "SHOW NARROWS MANAGED",
    who: Who::Admin,
    run: |parts, _| Some(managed(parts)),
    doc: "Who owns each section of the configuration, and whether what runs is what the owner says.",
}];

fn managed(parts: &mut Parts<'_>) -> Reply {
    let columns = ["section", "module", "tables", "owner", "state"];
    let row = |section: SectionOwner| {
        let tables = match section.module.prefix() {
            Some(prefix) => format!("global_variables ({prefix}%)"),
            None => section.module.tables().join(", "),
        };
        let owner = section.owner.map(|file| file.display().to_string()).unwrap_or_default();
        vec![
            section.section.to_owned(),
            section.module.name().to_owned(),
            tables,
            owner,
            match section.is_in_force {
                None => "administrators change it".to_owned(),
                Some(Ok(true)) => "in force".to_owned(),
                Some(Ok(false)) => "the file has changed, and was not applied".to_owned(),
                Some(Err(why)) => why,
            },
        ]
    };
    Reply::rows(columns, parts.store.section_owners().into_iter().map(row).collect())
}

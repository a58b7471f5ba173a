//! What the configuration file owns, as a value.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::config::managed::{MANAGED_NAMES, ManagedName};
use crate::schema::{MODULES, Module};
use crate::versions::ConfigDocument;

/// What the configuration file owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    modules: Vec<Module>,
    file: PathBuf,
}

impl Ownership {
    /// The file owns the sections.
    pub(super) fn new(sections: &[&'static ManagedName], file: &Path) -> Ownership {
        let owned = |module: &Module| sections.iter().any(|section| *section == name_of(*module));
        // Administrators may be elsewhere when they read the path.
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Ownership { modules: MODULES.into_iter().filter(owned).collect(), file }
    }

    /// The modules, in the order of [`MODULES`].
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Whether it owns a module.
    pub fn owns(&self, module: Module) -> bool {
        self.modules.contains(&module)
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The names of its sections, for people.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.modules.iter().map(|module| name_of(*module).name).collect();
        names.join(", ")
    }

    /// The module with that table, given without its database, if it is owned. Variables are rows of a table that no module
    /// has alone.
    pub fn of_table(&self, table: &str) -> Option<Module> {
        let has = |module: &&Module| {
            module.prefix().is_none() && module.tables().iter().any(|own| own.eq_ignore_ascii_case(table))
        };
        self.modules.iter().find(has).copied()
    }

    /// Why `what`, which is of the module, does not change, and what to do instead.
    pub fn refusal(&self, what: &str, module: Module) -> String {
        let (section, file) = (name_of(module).name, self.file.display());
        format!(
            "{what} is not changed: the configuration file {file} owns the section {section} (managed); change the file, and \
             then run: narrows apply {file}"
        )
    }

    /// It as JSON, for the next process.
    pub(super) fn to_json(&self) -> Json {
        let names: Vec<&str> = self.modules.iter().map(|module| name_of(*module).name).collect();
        json!({ "sections": names, "file": self.file })
    }

    /// Reads what [`Ownership::to_json`] wrote; `None`: it is not there.
    pub(super) fn from_json(written: &Json) -> Option<Ownership> {
        let names = written["sections"].as_array()?.iter().filter_map(Json::as_str);
        let sections: Vec<&'static ManagedName> = names.filter_map(ManagedName::find).collect();
        Some(Ownership::new(&sections, Path::new(written["file"].as_str()?)))
    }
}

/// The name that the key `managed` has for a module.
pub(super) fn name_of(module: Module) -> &'static ManagedName {
    let section = match module {
        Module::MysqlServers => "mysql_servers",
        Module::MysqlUsers => "mysql_users",
        Module::MysqlQueryRules => "mysql_query_rules",
        Module::MysqlVariables => "mysql_variables",
        Module::AdminVariables => "admin_variables",
        Module::MysqlFirewall => "mysql_firewall_whitelist_users",
        Module::Scheduler => "scheduler",
        Module::Restapi => "restapi",
        Module::ProxysqlServers => "proxysql_servers",
    };
    MANAGED_NAMES.iter().find(|managed| managed.section == section).expect("every module has a name there")
}

/// These modules of a document.
pub(super) fn part(modules: &[Module], document: &ConfigDocument) -> ConfigDocument {
    let mut part = ConfigDocument::default();
    modules.iter().for_each(|module| part.take_module(*module, document));
    part
}

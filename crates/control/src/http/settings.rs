//! The settings that the control thread replaces when variables change.

use crate::admin::settings::AdminSettings;

/// The settings that follow the variables.
#[derive(Debug)]
pub struct HttpSettings {
    /// The accounts of administrators, with the keys and certificates.
    pub admin: AdminSettings,
    /// Whether clients must use TLS (`admin-restapi_tls`).
    pub tls: bool,
}

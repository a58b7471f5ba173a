//! Where the HTTP interface listens: for the runtime, and for `narrows check`.

use crate::config::diagnostic::Problem;
use crate::variables::Values;

/// The addresses to listen on; none if it is off.
///
/// # Errors
/// If others of the same process have the port, whatever their addresses are: MySQL clients come first.
pub fn http_interfaces(variables: &Values) -> Result<Vec<String>, Problem> {
    if variables.text("admin-restapi_enabled") != "true" {
        return Ok(Vec::new());
    }
    let (addresses, port) = (variables.text("admin-restapi_address"), variables.text(PORT));
    let has_port = |name: &&str| {
        let others = variables.text(name);
        others.split(';').any(|other| other.trim().rsplit_once(':').is_some_and(|(_, known)| known == port))
    };
    if let Some(name) = ["mysql-interfaces", "admin-mysql_ifaces"].into_iter().find(has_port) {
        return Err(Problem::HttpPortTaken { port, name });
    }
    let mut interfaces: Vec<String> = Vec::new();
    for address in addresses.split(';').map(str::trim).filter(|address| !address.is_empty()) {
        let interface =
            if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        if !interfaces.contains(&interface) {
            interfaces.push(interface);
        }
    }
    Ok(interfaces)
}

/// The variable with the port.
pub const PORT: &str = "admin-restapi_port";

//! `admin-ssl_keylog_file`: the session keys of TLS, for decrypting captured traffic.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::{KeyLog, NoKeyLog};

/// The log named by the variable; relative paths are relative to the data folder.
pub(super) fn open(datadir: &Path, name: &str, remarks: &mut Vec<String>) -> Arc<dyn KeyLog> {
    if name.is_empty() {
        return Arc::new(NoKeyLog);
    }
    let path = datadir.join(name);
    match File::options().create(true).append(true).mode(0o600).open(&path) {
        Ok(file) => {
            remarks.push(format!(
                "{}: the keys of all TLS connections are written to it (admin-ssl_keylog_file)",
                path.display()
            ));
            Arc::new(KeyLogFile(Mutex::new(file)))
        }
        Err(error) => {
            remarks.push(format!("{}: {error}; TLS keys are not logged", path.display()));
            Arc::new(NoKeyLog)
        }
    }
}

#[derive(Debug)]
struct KeyLogFile(Mutex<File>);

impl KeyLog for KeyLogFile {
    /// Writes one line in the format of NSS.
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // Lines that cannot be written are lost: the log is only for debugging.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

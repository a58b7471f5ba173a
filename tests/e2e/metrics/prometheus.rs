//! A real Prometheus that scrapes a Narrows.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use narrows_testkit::{Process, TempFolder, free_port, wait_until};
use serde_json::Value;

/// A running Prometheus.
pub struct Prometheus {
    port: u16,
    _process: Process,
    _folder: TempFolder,
}

impl Prometheus {
    /// Starts one that scrapes the HTTP interface at `port` every second.
    pub fn start(port: u16) -> Prometheus {
        let folder = TempFolder::new("prometheus");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs:\n\
             - job_name: narrows\n  static_configs:\n  - targets: ['127.0.0.1:{port}']\n    labels: {{node_name: here}}\n"
        );
        fs::write(folder.file("prometheus.yml"), config).expect("a file");
        let own_port = free_port();
        let log = fs::File::create(folder.file("log")).expect("a file");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", folder.file("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.file("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{own_port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = Process::spawn(command).expect("Prometheus is installed (scripts/setup.sh metrics)");
        let prometheus = Prometheus { port: own_port, _process: process, _folder: folder };
        wait_until("Prometheus serves", || TcpStream::connect(("127.0.0.1", own_port)).is_ok());
        prometheus
    }

    /// The time series of an expression: labels and value.
    ///
    /// # Errors
    /// Prometheus' own.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let encoded: String = expression
            .bytes()
            .map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a limit");
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: prometheus\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let body: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        match body["data"]["result"].as_array() {
            Some(found) if body["status"] == "success" => Ok(found.clone()),
            _ => Err(body.to_string()),
        }
    }
}

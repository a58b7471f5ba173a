//! Metrics of the process, under the names that Prometheus' own libraries use.

use std::time::Duration;

use narrows_proxy::clock;
use narrows_proxy::rt::{most_descriptors, processor_time};
use narrows_proxy::stats::MemoryFigures;

use super::page::MetricKind::{Counter, Gauge};
use super::page::Page;

/// Writes them. `uptime` is since the start of this process.
pub fn write(page: &mut Page, memory: &MemoryFigures, uptime: Duration) {
    let help = "Time of processors that the process has used.";
    page.single("process_cpu_seconds_total", Counter, help, processor_time().as_secs_f64());
    page.single("process_resident_memory_bytes", Gauge, "Memory of the process.", memory.resident);
    page.single("process_virtual_memory_bytes", Gauge, "Address space of the process.", memory.virtual_size);
    let started = clock::now().saturating_sub(uptime);
    let help = "When the process started, in seconds since 1970.";
    page.single("process_start_time_seconds", Gauge, help, started.as_secs());
    page.single("process_max_fds", Gauge, "The limit of open files.", most_descriptors());
    // The directory itself is open while it is read.
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let open = open.count().saturating_sub(1);
        page.single("process_open_fds", Gauge, "Open files.", open);
        page.single("proxysql_fds_in_use", Gauge, "Open files.", open);
    }
}

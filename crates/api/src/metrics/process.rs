//! The `process_*` metrics, under the names that Prometheus recommends: processor time, memory, open files and threads of this
//! process. They are read from `/proc/self` at each scrape, and are omitted on systems without it.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks per second in `/proc`. Linux fixes it at 100 in its interface to programs, whatever the kernel uses itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the metrics of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// Read once: the kernel's time of boot moves with corrections of the clock.
    start_time_seconds: Option<f64>,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        let booted = fs::read_to_string("/proc/stat").ok().and_then(|stat| boot_time_seconds(&stat));
        let started = read_stat().map(|stat| stat.started_after_boot_seconds);
        Self { start_time_seconds: booted.zip(started).map(|(booted, started)| booted + started) }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            value.map_or(Ok(()), |value| encode(&mut encoder, name, help, &ConstGauge::new(value)))
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        gauge(
            "process_resident_memory_bytes",
            "Resident memory of this process in bytes.",
            status_bytes(&status, "VmRSS"),
        )?;
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory of this process in bytes.",
            status_bytes(&status, "VmSize"),
        )?;
        gauge("process_threads", "Threads of this process.", status_field(&status, "Threads"))?;
        gauge("process_open_fds", "Open file descriptors of this process.", count_open_files())?;
        gauge("process_max_fds", "Limit of open file descriptors of this process.", open_files_max(&limits))?;
        gauge(
            "process_start_time_seconds",
            "Start of this process, in seconds since the Unix epoch.",
            self.start_time_seconds,
        )?;
        let Some(stat) = read_stat() else { return Ok(()) };
        let cpu = ConstCounter::new(stat.cpu_seconds);
        let help = "Processor time of this process in seconds, user and system.";
        encode(&mut encoder, "process_cpu_seconds", help, &cpu)
    }
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// The fields of `/proc/self/stat` that the metrics need.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    started_after_boot_seconds: f64,
}

fn read_stat() -> Option<Stat> {
    parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses `/proc/self/stat`. The second field, the program's name in parentheses, may contain spaces and parentheses.
fn parse_stat(stat: &str) -> Option<Stat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The manual counts fields from 1; the first one here is the third.
    let seconds = |number: usize| Some(fields.get(number - 3)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some(Stat { cpu_seconds: seconds(14)? + seconds(15)?, started_after_boot_seconds: seconds(22)? })
}

/// Returns the time of boot from `/proc/stat`.
fn boot_time_seconds(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Returns a number of `/proc/self/status`, in its own unit.
fn status_field(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Returns a size of `/proc/self/status`, which is in KiB.
fn status_bytes(status: &str, name: &str) -> Option<f64> {
    status_field(status, name).map(|kib| kib * 1_024.0)
}

/// Returns the soft limit of open files from `/proc/self/limits`. None if it is unlimited.
fn open_files_max(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Counts the open files. Since Linux 6.2 the size of the directory is their number; listing it takes longer the more there
/// are.
#[expect(clippy::cast_precision_loss, reason = "no process has 2^53 open files")]
fn count_open_files() -> Option<f64> {
    let directory = "/proc/self/fd";
    match fs::metadata(directory).ok()?.len() {
        // One of the listed files is the directory itself.
        0 => Some(fs::read_dir(directory).ok()?.count().saturating_sub(1) as f64),
        count => Some(count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 8 0 12345 1000 200 18446744073709551615";
        let expected = Stat { cpu_seconds: 3.0, started_after_boot_seconds: 123.45 };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("42 (a) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let status = "Name:\tposthaste\nVmSize:\t  2048 kB\nVmRSS:\t    12 kB\nThreads:\t9\n";
        assert_eq!(status_bytes(status, "VmRSS"), Some(12_288.0));
        assert_eq!(status_field(status, "Threads"), Some(9.0));
        assert_eq!(status_field(status, "Vm"), None, "a prefix is no name");
        assert_eq!(boot_time_seconds("cpu 1 2\nbtime 1769860800\nprocesses 5\n"), Some(1_769_860_800.0));
    }

    #[test]
    fn the_soft_limit_of_open_files_is_read_unless_it_is_unlimited() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     4096     files\n";
        assert_eq!(open_files_max(limits), Some(1_024.0));
        assert_eq!(open_files_max("Max open files  unlimited  unlimited  files\n"), None);
    }
}

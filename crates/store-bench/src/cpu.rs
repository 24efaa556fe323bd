//! Processor time of processes, which is more reliable than elapsed time on a shared machine. Linux only; `None` on
//! other systems.

use std::fs;
use std::time::Duration;

/// Length of a clock tick in /proc: USER_HZ is 100 on all common Linux systems.
const TICK: Duration = Duration::from_millis(10);

/// The parent and the processor time of a process.
struct ProcessStat {
    parent: u32,
    cpu: Duration,
}

fn read_stat(id: u32) -> Option<ProcessStat> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The process name, in parentheses, may contain any character. The fields after it start with field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?;
    Some(ProcessStat { parent: fields.get(1)?.parse().ok()?, cpu: TICK * ticks })
}

/// Returns the processor time of a process.
pub(crate) fn process_time(id: u32) -> Option<Duration> {
    read_stat(id).map(|process| process.cpu)
}

/// Returns the processor time of the direct children of a process.
pub(crate) fn children_time(parent: u32) -> Option<Duration> {
    let ids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(
        ids.filter_map(read_stat).filter(|process| process.parent == parent).map(|process| process.cpu).sum(),
    )
}

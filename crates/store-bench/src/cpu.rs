//! Processor time, which says more than the clock on a machine that others use too. Linux only; elsewhere unknown.

use std::fs;
use std::time::Duration;

/// Ticks of /proc are hundredths of a second on every Linux that matters.
const TICK: Duration = Duration::from_millis(10);

struct Process {
    parent: u32,
    cpu: Duration,
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold anything; what follows are numbers, the first of them field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?;
    Some(Process { parent: fields.get(1)?.parse().ok()?, cpu: TICK * ticks })
}

pub(crate) fn of_process(id: u32) -> Option<Duration> {
    process(id).map(|process| process.cpu)
}

pub(crate) fn of_children(parent: u32) -> Option<Duration> {
    let ids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(ids.filter_map(process).filter(|process| process.parent == parent).map(|process| process.cpu).sum())
}

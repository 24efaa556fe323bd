//! Processor time and memory of processes, from /proc. Linux only.
//!
//! Processor time is more reliable than elapsed time on a shared machine.

use std::fs;
use std::time::Duration;

/// Length of a clock tick in /proc: USER_HZ is 100 on all common Linux systems.
const TICK: Duration = Duration::from_millis(10);

/// The parent and the processor time of a process.
struct ProcessStat {
    parent: u32,
    /// Time of the process itself.
    own: Duration,
    /// Time of its children that have ended.
    ended_children: Duration,
}

fn read_stat(id: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

fn parse_stat(stat: &str) -> Option<ProcessStat> {
    // The process name, in parentheses, may contain any character. The fields after it start with field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let time = |first: usize| -> Option<Duration> {
        Some(TICK * (fields.get(first)?.parse::<u32>().ok()? + fields.get(first + 1)?.parse::<u32>().ok()?))
    };
    Some(ProcessStat { parent: fields.get(1)?.parse().ok()?, own: time(11)?, ended_children: time(13)? })
}

/// Returns the processor time of a process.
pub(crate) fn process_time(id: u32) -> Option<Duration> {
    read_stat(id).map(|process| process.own)
}

/// Returns the processor time of a process and of its direct children, also of those that have ended.
pub(crate) fn family_time(parent: u32) -> Option<Duration> {
    let root = read_stat(parent)?;
    let ids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children = ids.filter_map(read_stat).filter(|process| process.parent == parent);
    Some(root.own + root.ended_children + children.map(|process| process.own).sum::<Duration>())
}

/// Returns the processor time of each thread of a process that has not ended, with the thread's name.
pub(crate) fn thread_times(id: u32) -> Vec<(String, Duration)> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten();
    let time_of = |thread: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        let name = stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
        Some((name, parse_stat(&stat)?.own))
    };
    threads.filter_map(time_of).collect()
}

/// Returns the largest resident memory of a process so far, in bytes.
pub(crate) fn peak_memory_bytes(id: u32) -> Option<u64> {
    parse_peak_memory(&fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

fn parse_peak_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_may_contain_parentheses_and_spaces() {
        let stat = "17 (a) b (c)) S 3 17 17 0 -1 4194560 1 2 3 4 250 50 7 3 20 0 1 0 100 1 1";
        let stat = parse_stat(stat).unwrap();
        assert_eq!(stat.parent, 3);
        assert_eq!(stat.own, Duration::from_secs(3));
        assert_eq!(stat.ended_children, Duration::from_millis(100));
    }

    #[test]
    fn peak_memory_is_in_bytes() {
        assert_eq!(parse_peak_memory("VmPeak:\t  9 kB\nVmHWM:\t   64 kB\nVmRSS: 3 kB\n"), Some(65_536));
        assert_eq!(parse_peak_memory("Name: x\n"), None);
    }

    #[test]
    fn this_process_has_a_time_and_a_size() {
        let id = std::process::id();
        // In this order: the process goes on, so a later time is never smaller.
        let own = process_time(id).unwrap();
        assert!(family_time(id).unwrap() >= own);
        assert!(peak_memory_bytes(id) > Some(1 << 20));
        assert!(!thread_times(id).is_empty());
    }
}

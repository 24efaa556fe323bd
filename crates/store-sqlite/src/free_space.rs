//! The free space that new events leave on the disk.
//!
//! The write-ahead log grows with every commit, and a checkpoint needs space too: the database must grow by the pages that
//! only the log has. A log that filled the disk could never be emptied. New events are therefore refused while a
//! checkpoint can still succeed and the results of older events still find room.

use std::path::Path;

use posthaste_store::StoreError;
use rusqlite::Connection;

use crate::error::CallError;

const MIB: u64 = 1 << 20;
/// Free space for the results of events that are stored already.
const RESERVE: u64 = 16 * MIB;

/// Fails if the disk has less free space than the next checkpoint and [`RESERVE`] need.
pub(crate) fn check_reserve(db: &Connection, path: &Path) -> Result<(), CallError> {
    let Some(free) = free_bytes(path) else {
        return Ok(());
    };
    let database_bytes: i64 = db
        .prepare_cached("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")?
        .query_row([], |row| row.get(0))?;
    let file_bytes = path.metadata().map_or(0, |file| file.len());
    let growth = database_bytes.unsigned_abs().saturating_sub(file_bytes);
    Ok(compare_free(path, free, growth)?)
}

fn compare_free(path: &Path, free: u64, growth: u64) -> Result<(), StoreError> {
    let needed = RESERVE + growth;
    if free >= needed {
        return Ok(());
    }
    let reason = format!(
        "the disk is almost full: {} MiB are free on the file system of {}, and Posthaste needs {} MiB to accept new \
         events; free some space",
        free / MIB,
        path.display(),
        needed.div_ceil(MIB)
    );
    Err(StoreError::Unavailable { reason })
}

/// Returns the free space on a file's file system. `None` if the system does not report it, as some in-memory and network
/// file systems do not.
#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok().filter(|system| system.f_blocks > 0)?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_events_leave_space_for_a_checkpoint_and_for_results() {
        let path = Path::new("/var/lib/outbox.db");
        assert_eq!(compare_free(path, 16 * MIB, 0), Ok(()));
        assert_eq!(compare_free(path, 116 * MIB, 100 * MIB), Ok(()));
        for (free, growth) in [(0, 0), (16 * MIB - 1, 0), (115 * MIB, 100 * MIB)] {
            let error = compare_free(path, free, growth).unwrap_err();
            assert!(error.is_transient() && error.to_string().contains("free some space"), "{error}");
        }
    }
}

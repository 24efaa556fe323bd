//! What a SQLite file stands on: who can read it, and how much room is left.

use std::path::Path;

use super::finding::{Finding, Verdict};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// With less room than this, or than this share of the file system, it is time to make some.
const FREE_CAREFUL: u64 = GIB;
const FREE_CAREFUL_PERCENT: u64 = 5;
/// Nothing can be counted on to be written.
const FREE_BROKEN: u64 = 16 * MIB;

pub(super) fn examine(path: &Path) -> Vec<Finding> {
    readable(path).into_iter().chain(room(path)).collect()
}

/// Those of the owner's group may have been let in on purpose.
fn readable(path: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = path.metadata().ok()?.permissions().mode() & 0o777;
    let file = path.display();
    (mode & 0o004 != 0).then(|| {
        let text = format!(
            "everyone on this host may read {file} (mode {mode:04o}), with payloads and the signing secret in it: \
             `chmod o= {file}*`"
        );
        Finding::new("permissions", Verdict::Careful, text)
    })
}

/// None where there is no such directory yet.
fn room(path: &Path) -> Option<Finding> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
    Some(judged(path, bytes(system.f_bavail), bytes(system.f_blocks)))
}

fn judged(path: &Path, free: u64, total: u64) -> Finding {
    let verdict = if free < FREE_BROKEN {
        Verdict::Broken
    } else if free < FREE_CAREFUL || free < total / 100 * FREE_CAREFUL_PERCENT {
        Verdict::Careful
    } else {
        return Finding::new("disk", Verdict::Good, format!("{} of {} are free", size(free), size(total)));
    };
    let text = format!(
        "{} of {} are free on the file system of {}: make room, because once it is full nothing is accepted and no \
         result is written",
        size(free),
        size(total),
        path.display()
    );
    Finding::new("disk", verdict, text)
}

fn size(bytes: u64) -> String {
    if bytes < 10 * GIB { format!("{} MiB", bytes / MIB) } else { format!("{} GiB", bytes / GIB) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fills_up_is_told_before_it_is_full() {
        let verdict = |free, total| judged(Path::new("posthaste.db"), free, total).verdict;
        assert_eq!(verdict(500 * GIB, 1_000 * GIB), Verdict::Good);
        assert_eq!(verdict(2 * GIB, 20 * GIB), Verdict::Good);
        assert_eq!(verdict(49 * GIB, 1_000 * GIB), Verdict::Careful, "under 5 %");
        assert_eq!(verdict(GIB - 1, 2 * GIB), Verdict::Careful, "under 1 GiB");
        assert_eq!(verdict(FREE_BROKEN - 1, GIB), Verdict::Broken);
        assert_eq!(verdict(0, GIB), Verdict::Broken);
        let told = judged(Path::new("posthaste.db"), 0, 20 * GIB).text;
        assert!(told.starts_with("0 MiB of 20 GiB are free") && told.contains("posthaste.db"), "{told}");
    }

    #[test]
    fn a_file_system_is_asked_for_its_room() {
        let directory = tempfile::tempdir().unwrap();
        let found = room(&directory.path().join("posthaste.db")).expect("there is a file system");
        assert!(found.text.contains("iB are free"), "{}", found.text);
        assert!(room(&directory.path().join("missing/posthaste.db")).is_none());
    }

    #[test]
    fn a_file_that_others_can_read_is_told_and_one_that_its_group_can_is_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, is_told) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(readable(file.path()).is_some(), is_told, "{mode:o}");
        }
        assert!(readable(Path::new("/no/such/file")).is_none());
    }
}

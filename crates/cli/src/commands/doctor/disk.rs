//! What a SQLite file stands on: who can read it, and how much room is left.

use std::path::Path;

use super::finding::{Finding, Verdict};
use crate::terminal::quoted;

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
    let mode = |path: &Path| Some(path.metadata().ok()?.permissions().mode() & 0o777);
    let modes: Vec<u32> = path.canonicalize().ok()?.ancestors().map(mode).collect::<Option<_>>()?;
    let (file, directories) = modes.split_first()?;
    is_open(*file, directories).then(|| open(path, *file))
}

fn open(path: &Path, mode: u32) -> Finding {
    let text = format!(
        "everyone on this host may read {} (mode {mode:04o}), with payloads and the signing secret in it: `chmod o= {}*`",
        path.display(),
        quoted(&path.to_string_lossy())
    );
    Finding::new("permissions", Verdict::Careful, text)
}

/// Whoever may not pass every directory on the way does not get to the file.
fn is_open(file: u32, directories: &[u32]) -> bool {
    file & 0o004 != 0 && directories.iter().all(|directory| directory & 0o001 != 0)
}

/// None where there is no such directory yet, or where its file system does not count, as some in memory and on the
/// network do not.
fn room(path: &Path) -> Option<Finding> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = rustix::fs::statvfs(directory).ok()?;
    if system.f_blocks == 0 {
        return None;
    }
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
        for (mode, is_told) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
            assert_eq!(is_open(mode, &[0o755, 0o711, 0o755]), is_told, "{mode:o}");
        }
        assert!(!is_open(0o644, &[0o755, 0o700, 0o755]), "nobody else gets there");
        assert!(!is_open(0o644, &[0o750, 0o755]));
        assert!(readable(Path::new("/no/such/file")).is_none());
    }

    #[test]
    fn what_to_do_about_a_file_can_be_copied_whatever_its_name_is() {
        let told = |path: &str| open(Path::new(path), 0o644).text;
        let plain = told("/srv/posthaste.db");
        assert!(plain.contains("(mode 0644)") && plain.ends_with("`chmod o= /srv/posthaste.db*`"), "{plain}");
        let spaced = told("/srv/my events.db");
        assert!(spaced.ends_with("`chmod o= '/srv/my events.db'*`"), "{spaced}");
    }

    #[test]
    fn a_file_in_a_private_directory_is_nobody_elses() {
        use std::os::unix::fs::PermissionsExt as _;
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("posthaste.db");
        std::fs::write(&file, "").unwrap();
        set(&file, 0o644);
        set(directory.path(), 0o700);
        assert!(readable(&file).is_none());
    }
}

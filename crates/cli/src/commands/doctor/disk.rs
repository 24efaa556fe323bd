//! Checks of a SQLite file: its permissions, and the free space on its file system.

use std::path::Path;

use posthaste_api::{Finding, Verdict};

use crate::terminal::shell_quote;

pub(super) const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Free space, in bytes, below which the check warns.
const FREE_CAREFUL: u64 = GIB;
/// Free share of the file system, in percent, below which the check warns.
const FREE_CAREFUL_PERCENT: u64 = 5;
/// Free space, in bytes, below which the check reports an error: the next write may fail.
const FREE_BROKEN: u64 = 16 * MIB;

pub(super) fn check(path: &Path) -> Vec<Finding> {
    check_permissions(path).into_iter().chain(check_free_space(path)).collect()
}

/// Returns a warning if every user of this host can read the file, otherwise None. Access by the owner's group may be
/// intended, so it is no reason to warn.
fn check_permissions(path: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| Some(path.metadata().ok()?.permissions().mode() & 0o777);
    let modes: Vec<u32> = path.canonicalize().ok()?.ancestors().map(mode).collect::<Option<_>>()?;
    let (file, directories) = modes.split_first()?;
    is_world_readable(*file, directories).then(|| world_readable(path, *file))
}

fn world_readable(path: &Path, mode: u32) -> Finding {
    let text = format!(
        "every user of this host can read {} (mode {mode:04o}), which holds payloads and the signing secret: run \
         `chmod o= {}*`",
        path.display(),
        shell_quote(&path.to_string_lossy())
    );
    Finding::new("permissions", Verdict::Careful, text)
}

/// Returns whether other users may read the file and enter every directory on its path. The arguments are their modes.
fn is_world_readable(file: u32, directories: &[u32]) -> bool {
    file & 0o004 != 0 && directories.iter().all(|directory| directory & 0o001 != 0)
}

/// Checks the free space. Returns None if the directory does not exist yet, or if its file system reports no size, as
/// some in-memory and network file systems do.
fn check_free_space(path: &Path) -> Option<Finding> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = rustix::fs::statvfs(directory).ok()?;
    if system.f_blocks == 0 {
        return None;
    }
    let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
    Some(free_space(path, bytes(system.f_bavail), bytes(system.f_blocks)))
}

fn free_space(path: &Path, free: u64, total: u64) -> Finding {
    let verdict = if free < FREE_BROKEN {
        Verdict::Broken
    } else if free < FREE_CAREFUL || free < total / 100 * FREE_CAREFUL_PERCENT {
        Verdict::Careful
    } else {
        return Finding::new("disk", Verdict::Ok, format!("{} of {} are free", size(free), size(total)));
    };
    let text = format!(
        "{} of {} are free on the file system of {}: free some space, because a full disk stops new events and the \
         recording of results",
        size(free),
        size(total),
        path.display()
    );
    Finding::new("disk", verdict, text)
}

/// Formats a size in MiB, or in GiB from 10 GiB.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 10 * GIB { format!("{} MiB", bytes / MIB) } else { format!("{} GiB", bytes / GIB) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_reported_before_it_is_full() {
        let verdict = |free, total| free_space(Path::new("posthaste.db"), free, total).verdict;
        assert_eq!(verdict(500 * GIB, 1_000 * GIB), Verdict::Ok);
        assert_eq!(verdict(2 * GIB, 20 * GIB), Verdict::Ok);
        assert_eq!(verdict(49 * GIB, 1_000 * GIB), Verdict::Careful, "under 5 %");
        assert_eq!(verdict(GIB - 1, 2 * GIB), Verdict::Careful, "under 1 GiB");
        assert_eq!(verdict(FREE_BROKEN - 1, GIB), Verdict::Broken);
        assert_eq!(verdict(0, GIB), Verdict::Broken);
        let text = free_space(Path::new("posthaste.db"), 0, 20 * GIB).text;
        assert!(text.starts_with("0 MiB of 20 GiB are free") && text.contains("posthaste.db"), "{text}");
    }

    #[test]
    fn free_space_is_read_from_the_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let finding = check_free_space(&directory.path().join("posthaste.db"))
            .expect("the temporary directory is on a file system");
        assert!(finding.text.contains("iB are free"), "{}", finding.text);
        assert!(check_free_space(&directory.path().join("missing/posthaste.db")).is_none());
    }

    #[test]
    fn a_world_readable_file_is_reported_and_a_group_readable_file_is_not() {
        for (mode, reported) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
            assert_eq!(is_world_readable(mode, &[0o755, 0o711, 0o755]), reported, "{mode:o}");
        }
        assert!(!is_world_readable(0o644, &[0o755, 0o700, 0o755]), "other users cannot enter the directory");
        assert!(!is_world_readable(0o644, &[0o750, 0o755]));
        assert!(check_permissions(Path::new("/no/such/file")).is_none());
    }

    #[test]
    fn the_chmod_command_is_quoted_for_the_shell() {
        let text = |path: &str| world_readable(Path::new(path), 0o644).text;
        let plain = text("/srv/posthaste.db");
        assert!(plain.contains("(mode 0644)") && plain.ends_with("`chmod o= /srv/posthaste.db*`"), "{plain}");
        let spaced = text("/srv/my events.db");
        assert!(spaced.ends_with("`chmod o= '/srv/my events.db'*`"), "{spaced}");
    }

    #[test]
    fn a_readable_file_in_a_private_directory_is_not_reported() {
        use std::os::unix::fs::PermissionsExt as _;
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("posthaste.db");
        std::fs::write(&file, "").unwrap();
        set(&file, 0o644);
        set(directory.path(), 0o700);
        assert!(check_permissions(&file).is_none());
    }
}

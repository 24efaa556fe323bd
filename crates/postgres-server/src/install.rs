//! Finds the PostgreSQL installation of this machine.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where Debian installs the programs of each version, outside of PATH.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";

/// The directory that contains the programs of one version.
#[derive(Debug, Clone)]
pub(crate) struct Install {
    programs: PathBuf,
}

impl Install {
    /// Finds the newest version of Debian's packages, or else the version on PATH.
    pub(crate) fn find() -> Option<Self> {
        newest_version(Path::new(DEBIAN_VERSIONS)).or_else(version_on_path).map(|programs| Self { programs })
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }
}

fn newest_version(versions: &Path) -> Option<PathBuf> {
    fs::read_dir(versions)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, programs)| is_complete(programs))
        .max()
        .map(|(_, programs)| programs)
}

fn version_on_path() -> Option<PathBuf> {
    // The program on PATH may be a link into the directory that contains the other programs.
    let initdb = env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join("initdb"))
        .find(|initdb| initdb.is_file())?;
    let programs = initdb.canonicalize().ok()?.parent()?.to_owned();
    is_complete(&programs).then_some(programs)
}

fn is_complete(programs: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl", "psql"].iter().all(|name| programs.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_is_found() {
        let versions = tempfile::tempdir().unwrap();
        for (version, programs) in [("9", 4), ("15", 4), ("16", 3), ("notes", 4)] {
            let bin = versions.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            for name in ["initdb", "postgres", "pg_ctl", "psql"].iter().take(programs) {
                fs::write(bin.join(name), "").unwrap();
            }
        }
        assert_eq!(newest_version(versions.path()), Some(versions.path().join("15/bin")));
    }

    #[test]
    fn no_version_is_found_without_packages() {
        let versions = tempfile::tempdir().unwrap();
        assert_eq!(newest_version(&versions.path().join("absent")), None);
    }
}

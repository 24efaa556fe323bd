//! Ends a server together with the process that started it, however that ends.
//!
//! A shell waits for the end of a pipe that only our process holds open. The kernel closes it also for a process that
//! was killed; then the shell stops the server and removes its directory.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::command::{Account, CommandError, not_run};

/// `$1` is the server's directory, `$2` is pg_ctl. Nobody needs the data again, so the stop may be immediate. A server
/// that is just starting has no pid file yet; it stops by itself once its directory is gone.
const SCRIPT: &str = r#"
while read -r _; do :; done
[ -f "$1/data/postmaster.pid" ] && "$2" stop -D "$1/data" -m immediate -w -t 30 >/dev/null
rm -rf "$1"
"#;

#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
}

impl Supervisor {
    /// Watches over a directory from before its server starts.
    pub(crate) fn watch(account: &Account, directory: &Path) -> Result<Self, CommandError> {
        let shell = account
            .command(Path::new("sh"))
            .args(["-c", SCRIPT, "posthaste-postgres-server"])
            .arg(directory)
            .arg(account.install().program("pg_ctl"))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Out of the reach of Ctrl-C and of whoever ends our process group: it has work to do then.
            .process_group(0)
            .spawn()
            .map_err(|reason| not_run("sh", reason))?;
        Ok(Self { shell })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Closes the pipe first. A wait that fails has nobody to wait for.
        let _ = self.shell.wait();
    }
}

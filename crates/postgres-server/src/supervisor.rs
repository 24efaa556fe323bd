//! Stops a server when the process that started it ends, however it ends.
//!
//! A shell reads from a pipe whose other end only this process holds. The kernel closes the pipe even if the process is
//! killed. The shell then stops the server and removes its directory.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::command::{CommandError, CommandRunner, not_run};

/// `$1` is the server's directory, `$2` is pg_ctl. The data is not needed again, so the stop may be immediate. A server
/// that is starting may have no pid file yet; it exits when it finds its directory removed.
const SCRIPT: &str = r#"
while read -r _; do :; done
[ -f "$1/data/postmaster.pid" ] && "$2" stop -D "$1/data" -m immediate -w -t 30 >/dev/null
rm -rf "$1"
"#;

/// The shell that supervises a server. Dropping it stops the server and waits for that.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
}

impl Supervisor {
    /// Starts supervising a directory. Must be called before the server starts.
    pub(crate) fn start(runner: &CommandRunner, directory: &Path) -> Result<Self, CommandError> {
        let shell = runner
            .command(Path::new("sh"))
            .args(["-c", SCRIPT, "posthaste-postgres-server"])
            .arg(directory)
            .arg(runner.install().program("pg_ctl"))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A process group of its own, so that signals to ours, such as Ctrl-C, do not end the shell.
            .process_group(0)
            .spawn()
            .map_err(|reason| not_run("sh", reason))?;
        Ok(Self { shell })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // `wait` closes the pipe first. If it fails, there is no shell to wait for.
        let _ = self.shell.wait();
    }
}

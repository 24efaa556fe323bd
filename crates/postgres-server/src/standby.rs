//! A second server that follows a first, for tests of a failover.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{CommandError, run};
use crate::server::{PostgresServer, StartError};

impl PostgresServer {
    /// A physical standby of this server on a port of its own. It streams, answers reads, and keeps its place by a
    /// replication slot, so that it may lag behind without being left behind.
    pub fn standby(&self) -> Result<Self, StartError> {
        static STANDBYS: AtomicU64 = AtomicU64::new(0);
        let slot = format!("standby_{}", STANDBYS.fetch_add(1, Ordering::Relaxed));
        let port = self.port().to_string();
        Self::start_on(&[], |account, data| {
            let mut backup = account.postgres_command("pg_basebackup");
            backup.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", "fast", "--no-sync"]);
            backup.args(["-R", "-C", "-S", &slot, "-D"]).arg(data);
            run("pg_basebackup", &mut backup)?;
            Ok(())
        })
    }

    /// Makes a standby a server that takes writes, and returns once it does.
    pub fn promote(&self) -> Result<(), CommandError> {
        run("pg_ctl", self.pg_ctl("promote").args(["-w", "-t", "60"])).map(drop)
    }
}

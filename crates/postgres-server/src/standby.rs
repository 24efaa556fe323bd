//! Standby servers for failover tests.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{CommandError, run};
use crate::server::{PostgresServer, StartError};

impl PostgresServer {
    /// Starts a physical standby of this server. The standby streams from the server and accepts reads. A replication
    /// slot keeps the WAL that it has not received, so it can always catch up.
    pub fn start_standby(&self) -> Result<Self, StartError> {
        static STANDBYS: AtomicU64 = AtomicU64::new(0);
        let slot = format!("standby_{}", STANDBYS.fetch_add(1, Ordering::Relaxed));
        let port = self.port().to_string();
        Self::start_with_data(&[], |runner, data| {
            let mut backup = runner.postgres_command("pg_basebackup");
            backup.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", "fast", "--no-sync"]);
            backup.args(["-R", "-C", "-S", &slot, "-D"]).arg(data);
            run("pg_basebackup", &mut backup)?;
            Ok(())
        })
    }

    /// Promotes a standby, and returns once it accepts writes.
    pub fn promote(&self) -> Result<(), CommandError> {
        run("pg_ctl", self.pg_ctl("promote").args(["-w", "-t", "60"])).map(drop)
    }
}

//! Opens the connections of the pools, with pinned settings where no pooler is in between.
//!
//! A pooler refuses the options of a startup packet, or ignores them. Either shows when a connection is opened, before it
//! is used. From then on each transaction sets its settings for itself, on all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};

use super::settings::{Timeouts, check_session, startup_options};
use crate::error::may_refuse_startup_options;
use crate::tls;

/// What a pooler between this process and the server has been found to break. All pools share it.
#[derive(Default)]
pub(crate) struct PoolerTraits {
    /// Settings of a connection do not hold for its statements.
    needs_local_settings: AtomicBool,
    /// Prepared statements are missing from the server session of a later transaction.
    loses_statements: AtomicBool,
}

impl PoolerTraits {
    /// Records that a prepared statement was missing. A pooler that switches server sessions keeps no setting, either.
    pub(super) fn record_lost_statement(&self) {
        self.loses_statements.store(true, Ordering::Relaxed);
        self.needs_local_settings.store(true, Ordering::Relaxed);
    }

    fn record_lost_settings(&self) {
        if !self.needs_local_settings.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "PostgreSQL is behind a pooler that keeps no settings of a connection; each transaction sets them"
            );
        }
    }

    pub(super) fn needs_local_settings(&self) -> bool {
        self.needs_local_settings.load(Ordering::Relaxed)
    }

    pub(super) fn loses_statements(&self) -> bool {
        self.loses_statements.load(Ordering::Relaxed)
    }
}

/// Opens the connections of a pool.
pub(super) struct Connector {
    pub(super) tls: tls::Connector,
    pub(super) pooler: Arc<PoolerTraits>,
    pub(super) timeouts: Timeouts,
}

impl Connect for Connector {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        Box::pin(async move {
            if !self.pooler.needs_local_settings() {
                match self.connect_pinned(&config).await {
                    Ok(Some(connected)) => return Ok(connected),
                    Ok(None) => {}
                    Err(error) if may_refuse_startup_options(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            let connected = self.open(&config).await?;
            self.pooler.record_lost_settings();
            Ok(connected)
        })
    }
}

impl Connector {
    /// Opens a connection with pinned settings. Returns none if the settings do not hold.
    async fn connect_pinned(&self, config: &Config) -> Result<Option<(Client, JoinHandle<()>)>, Error> {
        let mut pinned = config.clone();
        pinned.options(startup_options(config.get_options(), self.timeouts));
        let (client, task) = self.open(&pinned).await?;
        let rows = client.simple_query(&check_session(self.timeouts)).await?;
        let is_pinned =
            rows.iter().any(|row| matches!(row, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")));
        Ok(is_pinned.then_some((client, task)))
    }

    /// Opens a connection, and spawns the task that drives it.
    async fn open(&self, config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, connection) = config.connect(self.tls.clone()).await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL has ended");
            }
        });
        Ok((client, task))
    }
}

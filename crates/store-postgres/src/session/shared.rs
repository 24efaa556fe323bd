//! A connection of its own for reads of payloads, which is opened at the first one.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::StoreError;
use tokio::sync::Mutex;
use tokio_postgres::Row;

use super::{Params, SESSION_TIMEOUT, Session, SessionPool, Sql};
use crate::error::{store_error, unavailable};

/// Upper bound of reading a piece of a payload, from its request to its last byte: the smallest piece arrives in time at
/// 70 bytes a second. The worker renews the lease meanwhile.
pub(super) const PAYLOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// One connection for many calls. A call is sent at once, without waiting for the answers to earlier ones.
pub(crate) struct SharedSession {
    /// Opens the connection, one at a time.
    pool: SessionPool,
    current: Mutex<Option<Arc<Session>>>,
}

impl SharedSession {
    pub(super) fn new(pool: SessionPool) -> Self {
        Self { pool, current: Mutex::new(None) }
    }

    /// Runs a statement that reads, within [`PAYLOAD_TIMEOUT`]. Closes the connection if it fails, and with it the other
    /// calls on it.
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds a wait for the network; nothing is scheduled by it"
    )]
    pub(crate) async fn query(&self, sql: &Sql, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let not_in_time = |limit| unavailable(format!("PostgreSQL did not respond within {limit:?}"));
        let session = tokio::time::timeout(SESSION_TIMEOUT, self.session()).await;
        let session = session.unwrap_or_else(|_| Err(not_in_time(SESSION_TIMEOUT)))?;
        let result = match tokio::time::timeout(PAYLOAD_TIMEOUT, session.query(sql, params)).await {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(error)) => {
                session.record_error(&error);
                Err(store_error(&error))
            }
            Err(_) => Err(not_in_time(PAYLOAD_TIMEOUT)),
        };
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &session)) {
            *current = None;
        }
        result
    }

    /// Returns the open connection, or opens one.
    async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let mut current = self.current.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.client().is_closed()) {
            return Ok(Arc::clone(session));
        }
        // Frees its place in the pool, unless other calls still wait for it.
        *current = None;
        let session = Arc::new(self.pool.take().await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }
}

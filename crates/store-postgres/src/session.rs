//! Connection pools by purpose, and transactions that take one round trip.
//!
//! A connection has the settings of `settings` from its start, so a single statement is a transaction of its own. Several
//! statements are sent at once, with BEGIN and COMMIT around them: they take one round trip, and a client that disconnects
//! cannot leave the transaction open.
//!
//! A transaction pooler may give the server session to another client after each transaction. Behind one, settings are
//! local to a transaction, and once a prepared statement turns out to be missing, statements are no longer prepared.

mod connect;
mod settings;
mod shared;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::join3;
use posthaste_store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use connect::{Connector, PoolerTraits};
pub(crate) use settings::{
    BEGIN, BEGIN_ENQUEUE, BEGIN_ENQUEUE_SHORT_LOCK_WAIT, BEGIN_SHORT_LOCK_WAIT, Begin, asynchronous_commit,
    durable_commit, lock_timeout, short_lock_timeout,
};
use settings::{BEGIN_SNAPSHOT, PAYLOAD_TIMEOUTS, TIMEOUTS, Timeouts};
pub(crate) use shared::SharedSession;

use crate::config::PostgresConfig;
use crate::error::{is_statement_missing, pool_error, store_error, unavailable};
use crate::schema::{SchemaName, SqlText, Statements};

/// Upper bound of a call of the store, from taking a session to the result.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Upper bound of the wait for a pooled session, and of opening one.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A statement with the types of its parameters. The text is written for the schema `app`; a session sends it for the
/// configured one.
pub(crate) struct Sql {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

/// The parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One pool per purpose, so that calls of one purpose never wait for sessions of another.
pub(crate) struct SessionPools {
    /// Claims, settles, releases and retention.
    pub(crate) dispatch: SessionPool,
    /// Lease renewals.
    pub(crate) heartbeat: SessionPool,
    /// Enqueues.
    pub(crate) produce: SessionPool,
    /// Operators' calls, notices and background work.
    pub(crate) operate: SessionPool,
    /// Checks of whether writes are possible. They may hang, and must not keep other calls waiting.
    pub(crate) checks: SessionPool,
    /// Reads of large payloads. It is a single connection: over a slow link, a statement of another pool then waits for a
    /// piece of one payload at most.
    pub(crate) payloads: SharedSession,
    /// Calls of dispatch, heartbeat and produce that failed.
    write_failures: Arc<AtomicUsize>,
    /// The statements for the configured schema, which all pools share.
    pub(crate) statements: Arc<Statements>,
}

impl SessionPools {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let pooler = Arc::new(PoolerTraits::default());
        let write_failures = Arc::new(AtomicUsize::new(0));
        let statements = Arc::new(Statements::new(config.schema.clone()));
        let new_pool = |connections, timeouts, failures| {
            SessionPool::new(config, connections, timeouts, &pooler, &statements, failures)
        };
        let pool = |connections| new_pool(connections, TIMEOUTS, None);
        let writing = |connections| new_pool(connections, TIMEOUTS, Some(Arc::clone(&write_failures)));
        let payloads = SharedSession::new(new_pool(1, PAYLOAD_TIMEOUTS, None));
        Self {
            dispatch: writing(4),
            heartbeat: writing(2),
            produce: writing(4),
            operate: pool(4),
            checks: pool(1),
            payloads,
            write_failures,
            statements,
        }
    }

    /// Returns how many calls of workers and producers have failed since the start.
    pub(crate) fn write_failures(&self) -> usize {
        self.write_failures.load(Ordering::SeqCst)
    }
}

/// A bounded pool of sessions.
#[derive(Clone)]
pub(crate) struct SessionPool {
    pool: Pool,
    pooler: Arc<PoolerTraits>,
    statements: Arc<Statements>,
    /// Counts the calls that failed.
    failures: Option<Arc<AtomicUsize>>,
}

impl SessionPool {
    fn new(
        config: &PostgresConfig,
        connections: usize,
        timeouts: Timeouts,
        pooler: &Arc<PoolerTraits>,
        statements: &Arc<Statements>,
        failures: Option<Arc<AtomicUsize>>,
    ) -> Self {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let connector = Connector { tls: config.tls.clone(), pooler: Arc::clone(pooler), timeouts };
        let manager = Manager::from_connect(config.driver.clone(), connector, recycling);
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(SESSION_TIMEOUT))
            .create_timeout(Some(SESSION_TIMEOUT))
            .build()
            .expect("the builder has the runtime that timeouts need");
        Self { pool, pooler: Arc::clone(pooler), statements: Arc::clone(statements), failures }
    }

    /// Takes a session from the pool, or opens one.
    async fn take(&self) -> Result<Session, StoreError> {
        let client = self.pool.get().await.map_err(|error| pool_error(&error))?;
        Ok(Session {
            client: Some(client),
            pooler: Arc::clone(&self.pooler),
            statements: Arc::clone(&self.statements),
        })
    }

    /// Runs `work` on a session, within [`CALL_TIMEOUT`]. Closes the session if the work fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds a wait for the network; nothing is scheduled by it"
    )]
    pub(crate) async fn with<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        W: AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    {
        let call = async {
            let session = self.take().await?;
            session.run(work).await
        };
        let result = match tokio::time::timeout(CALL_TIMEOUT, call).await {
            Ok(result) => result,
            Err(_) => Err(unavailable(format!("PostgreSQL did not respond within {CALL_TIMEOUT:?}"))),
        };
        if let (Err(_), Some(failures)) = (&result, &self.failures) {
            failures.fetch_add(1, Ordering::SeqCst);
        }
        result
    }
}

/// A connection taken from a pool. Dropping it closes the connection; only successful work returns it to the pool.
pub(crate) struct Session {
    client: Option<Object>,
    pooler: Arc<PoolerTraits>,
    statements: Arc<Statements>,
}

/// A statement that can be sent without another round trip.
pub(crate) enum PreparedSql {
    /// Prepared on the server.
    Named(Statement),
    /// Sent with its text, because of a transaction pooler.
    Unnamed { text: SqlText, types: &'static [Type] },
}

impl Session {
    async fn run<T, W>(mut self, work: W) -> Result<T, StoreError>
    where
        W: AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    {
        let result = work(&self).await;
        match &result {
            // Returns the session to the pool. After an error the session must not return: it may be inside a
            // transaction, or at a server that no longer accepts writes.
            Ok(_) => drop(self.client.take()),
            Err(error) => self.record_error(error),
        }
        result.map_err(|error| store_error(&error))
    }

    /// Notes what an error tells about a pooler.
    fn record_error(&self, error: &tokio_postgres::Error) {
        if error.code().is_some_and(is_statement_missing) {
            self.pooler.record_lost_statement();
        }
    }

    pub(crate) fn client(&self) -> &Object {
        self.client.as_ref().expect("the client is taken only when the work has ended")
    }

    /// Returns the schema that the statements of this session use.
    pub(crate) fn schema(&self) -> &SchemaName {
        self.statements.schema()
    }

    /// Prepares a statement, or returns it as text if a transaction pooler has been detected.
    pub(crate) async fn prepare(&self, sql: &Sql) -> Result<PreparedSql, tokio_postgres::Error> {
        let (text, types) = (self.statements.text(sql.text), sql.types);
        if self.pooler.loses_statements() {
            return Ok(PreparedSql::Unnamed { text, types });
        }
        Ok(PreparedSql::Named(self.client().prepare_typed_cached(&text, types).await?))
    }

    /// Runs a statement. It is sent at the first poll, so statements that are polled in order share a round trip.
    pub(crate) async fn send(
        &self,
        statement: &PreparedSql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match statement {
            PreparedSql::Named(statement) => self.client().query(statement, params).await,
            PreparedSql::Unnamed { text, types } => {
                let typed: Vec<_> = params.iter().copied().zip(types.iter().cloned()).collect();
                self.client().query_typed(text, &typed).await
            }
        }
    }

    /// Runs one statement, in the current transaction or, without one, on its own.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.send(&statement, params).await
    }

    /// Begins a transaction that the caller commits or rolls back. A session that is dropped before is closed, and
    /// PostgreSQL rolls back.
    pub(crate) async fn begin(&self, begin: &Begin) -> Result<(), tokio_postgres::Error> {
        let text = if self.pooler.needs_local_settings() { begin.local } else { begin.pinned };
        self.client().batch_execute(text).await
    }

    /// Runs one statement in a transaction of its own, in one round trip. Where the connection has the settings, that
    /// needs neither BEGIN nor COMMIT.
    pub(crate) async fn transact(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.pipeline(self.send(&statement, params)).await
    }

    /// Runs the statements of `work` with the settings of [`BEGIN`], each in a transaction of its own or all in one.
    /// Statements that `work` sends at its first poll share one round trip.
    pub(crate) async fn pipeline<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        if self.pooler.needs_local_settings() { self.transaction(work).await } else { work.await }
    }

    /// Runs one statement in a transaction that starts with `begin`, in one round trip.
    pub(crate) async fn transact_with(
        &self,
        begin: &Begin,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.run_between(begin, self.send(&statement, params)).await
    }

    /// Runs `work` in a transaction that starts with [`BEGIN`]. Statements that `work` sends at its first poll share
    /// one round trip. If a statement fails, PostgreSQL rolls back at the COMMIT.
    pub(crate) async fn transaction<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.run_between(&BEGIN, work).await
    }

    /// Runs `work` in a read-only transaction whose statements share one snapshot. Statements that `work` sends at its
    /// first poll share one round trip.
    pub(crate) async fn snapshot<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.run_between(&BEGIN_SNAPSHOT, work).await
    }

    /// Sends `begin`, then `work`, then COMMIT, without waiting in between.
    async fn run_between<T>(
        &self,
        begin: &Begin,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let (begun, result, committed) =
            join3(self.begin(begin), work, self.client().batch_execute("COMMIT")).await;
        begun?;
        let result = result?;
        committed?;
        Ok(result)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

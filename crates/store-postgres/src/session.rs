//! Connection pools by purpose, and transactions that take one round trip.
//!
//! A transaction is sent at once, with its BEGIN and COMMIT: it takes one round trip, and a client that disconnects
//! cannot leave it open. Transactions pin their plans: on a small or fresh table the planner would choose sequential
//! scans, and a prepared statement would keep them when the table has grown.
//!
//! A transaction pooler may give the server session to another client after each transaction. Settings are therefore
//! local to a transaction, and once a prepared statement turns out to be missing, statements are no longer prepared.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::join3;
use posthaste_store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use crate::config::PostgresConfig;
use crate::error::{is_statement_missing, pool_error, store_error, unavailable};
use crate::schema::{SchemaName, SqlText, Statements};

/// Upper bound of a call of the store, from taking a session to the result.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Upper bound of the wait for a pooled session, and of opening one.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of a pinned transaction, local to it. One statement sets all of them, because each statement has a
/// cost.
///
/// The timeout of a statement is longer than [`CALL_TIMEOUT`]. It ends a COMMIT that waits for a synchronous standby with
/// a success, although the standby has not confirmed; by then the caller has given the call up as failed.
macro_rules! plan_settings {
    ($lock_timeout:literal) => {
        concat!(
            "SELECT set_config('statement_timeout', '20s', true), set_config('lock_timeout', '",
            $lock_timeout,
            "', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
        )
    };
}

/// An expression that makes the commit of its transaction durable: PostgreSQL then acknowledges the commit after it has
/// flushed it to disk, here and on synchronous standbys. A stronger setting stays.
macro_rules! durable_commit {
    () => {
        "CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            THEN set_config('synchronous_commit', 'on', true) END"
    };
}

pub(crate) use durable_commit;

/// Begins a transaction whose commit is durable, whose lock waits are bounded, and whose plans use indexes.
macro_rules! begin {
    ($lock_timeout:literal) => {
        concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; ",
            plan_settings!($lock_timeout),
            ", ",
            durable_commit!()
        )
    };
}

/// Begins a pinned transaction: its settings force index plans, a durable commit and bounded lock waits.
pub(crate) const BEGIN: &str = begin!("5s");
/// Begins a pinned transaction that has its id before its first statement reads a destination: the removal of unused
/// destinations waits for such transactions.
pub(crate) const BEGIN_ENQUEUE: &str = concat!(begin!("5s"), ", pg_current_xact_id()");
/// Like [`BEGIN_ENQUEUE`], but soon gives up on a row lock. Transactions of producers may hold such a lock for any length
/// of time.
pub(crate) const BEGIN_ENQUEUE_SHORT_LOCK_WAIT: &str = concat!(begin!("250ms"), ", pg_current_xact_id()");

/// Begins a pinned, read-only transaction whose statements share one snapshot.
const BEGIN_SNAPSHOT: &str =
    concat!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ", plan_settings!("5s"));

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
    /// Calls of dispatch, heartbeat and produce that failed.
    write_failures: Arc<AtomicUsize>,
    /// The statements for the configured schema, which all pools share.
    pub(crate) statements: Arc<Statements>,
}

impl SessionPools {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let is_pooled = Arc::new(AtomicBool::new(false));
        let write_failures = Arc::new(AtomicUsize::new(0));
        let statements = Arc::new(Statements::new(config.schema.clone()));
        let pool = |connections| SessionPool::new(config, connections, &is_pooled, &statements, None);
        let writing = |connections| {
            let failures = Some(Arc::clone(&write_failures));
            SessionPool::new(config, connections, &is_pooled, &statements, failures)
        };
        Self {
            dispatch: writing(4),
            heartbeat: writing(2),
            produce: writing(4),
            operate: pool(4),
            checks: pool(1),
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
    /// Whether a transaction pooler has been detected. Statements are then not prepared.
    is_pooled: Arc<AtomicBool>,
    statements: Arc<Statements>,
    /// Counts the calls that failed.
    failures: Option<Arc<AtomicUsize>>,
}

impl SessionPool {
    fn new(
        config: &PostgresConfig,
        connections: usize,
        is_pooled: &Arc<AtomicBool>,
        statements: &Arc<Statements>,
        failures: Option<Arc<AtomicUsize>>,
    ) -> Self {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config.driver.clone(), config.tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(SESSION_TIMEOUT))
            .create_timeout(Some(SESSION_TIMEOUT))
            .build()
            .expect("the builder has the runtime that timeouts need");
        Self { pool, is_pooled: Arc::clone(is_pooled), statements: Arc::clone(statements), failures }
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
            let client = self.pool.get().await.map_err(|error| pool_error(&error))?;
            let session = Session {
                client: Some(client),
                is_pooled: Arc::clone(&self.is_pooled),
                statements: Arc::clone(&self.statements),
            };
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
    is_pooled: Arc<AtomicBool>,
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
            Err(error) if error.code().is_some_and(is_statement_missing) => {
                self.is_pooled.store(true, Ordering::Relaxed);
            }
            Err(_) => {}
        }
        result.map_err(|error| store_error(&error))
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
        if self.is_pooled.load(Ordering::Relaxed) {
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

    /// Runs one statement in a transaction that starts with [`BEGIN`], in one round trip.
    pub(crate) async fn transact(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.transact_with(BEGIN, sql, params).await
    }

    /// Runs one statement in a transaction that starts with `begin`, in one round trip.
    pub(crate) async fn transact_with(
        &self,
        begin: &str,
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
        self.run_between(BEGIN, work).await
    }

    /// Runs `work` in a read-only transaction whose statements share one snapshot. Statements that `work` sends at its
    /// first poll share one round trip.
    pub(crate) async fn snapshot<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.run_between(BEGIN_SNAPSHOT, work).await
    }

    /// Sends `begin`, then `work`, then COMMIT, without waiting in between.
    async fn run_between<T>(
        &self,
        begin: &str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let (begun, result, committed) =
            join3(self.client().batch_execute(begin), work, self.client().batch_execute("COMMIT")).await;
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

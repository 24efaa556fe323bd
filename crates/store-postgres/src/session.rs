//! Connections by purpose, and statements in transactions that cost one round trip.
//!
//! A transaction is sent in one go, begin and commit with it, so that it takes one round trip and cannot be left open
//! by a client that goes away. Worker statements pin their plans: on a small or fresh table the planner would read
//! whole tables, and a prepared statement would keep doing so when they have grown.
//!
//! Behind a transaction pooler a session is somebody else's the next moment. Nothing is therefore set for longer than
//! a transaction, and when a prepared statement turns out not to be there, statements are no longer prepared.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::join3;
use posthaste_store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use crate::config::PostgresConfig;
use crate::error::{is_pooled, no_session, refusal, unavailable};

/// Every call of the store returns within this.
const CALL_WITHIN: Duration = Duration::from_secs(15);
const SESSION_WITHIN: Duration = Duration::from_secs(10);

/// What a pinned transaction sets, for itself alone. One statement, because each has its price.
macro_rules! pins {
    ($lock_timeout:literal) => {
        concat!(
            "SELECT set_config('statement_timeout', '12s', true), set_config('lock_timeout', '",
            $lock_timeout,
            "', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
        )
    };
}

/// Begins a transaction whose commits are durable, whose waiting is bounded, and which walks indexes.
macro_rules! begin {
    ($lock_timeout:literal) => {
        concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; ",
            pins!($lock_timeout),
            ", CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
            THEN set_config('synchronous_commit', 'on', true) END"
        )
    };
}

pub(crate) const BEGIN: &str = begin!("5s");
/// For what a caller's own transaction may hold for as long as it likes.
pub(crate) const BEGIN_IMPATIENTLY: &str = begin!("250ms");

/// The same for reading several things as of one moment.
const BEGIN_SNAPSHOT: &str = concat!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ", pins!("5s"));

/// One statement, with the types of its parameters.
pub(crate) struct Sql {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One pool per purpose, so that none waits behind another.
pub(crate) struct Sessions {
    pub(crate) dispatch: Source,
    pub(crate) heartbeat: Source,
    pub(crate) produce: Source,
    pub(crate) operate: Source,
}

impl Sessions {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let unprepared = Arc::new(AtomicBool::new(false));
        let source = |connections| Source::new(config, connections, &unprepared);
        Self { dispatch: source(4), heartbeat: source(2), produce: source(4), operate: source(4) }
    }
}

#[derive(Clone)]
pub(crate) struct Source {
    pool: Pool,
    unprepared: Arc<AtomicBool>,
}

impl Source {
    fn new(config: &PostgresConfig, connections: usize, unprepared: &Arc<AtomicBool>) -> Self {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config.connect.clone(), config.tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(SESSION_WITHIN))
            .create_timeout(Some(SESSION_WITHIN))
            .build()
            .expect("a runtime is given for the timeouts");
        Self { pool, unprepared: Arc::clone(unprepared) }
    }

    /// Runs `work` on a session of its own, within bounds. A session whose work did not go well is closed.
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds a wait for the network; nothing is scheduled by it"
    )]
    pub(crate) async fn with<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        W: AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    {
        let call = async {
            let client = self.pool.get().await.map_err(|error| no_session(&error))?;
            let session = Session { client: Some(client), unprepared: Arc::clone(&self.unprepared) };
            session.run(work).await
        };
        match tokio::time::timeout(CALL_WITHIN, call).await {
            Ok(answer) => answer,
            Err(_) => Err(unavailable(format!("PostgreSQL did not answer within {CALL_WITHIN:?}"))),
        }
    }
}

pub(crate) struct Session {
    client: Option<Object>,
    unprepared: Arc<AtomicBool>,
}

/// A statement, ready to be sent without waiting.
pub(crate) enum Ready<'a> {
    Named(Statement),
    Unnamed(&'a Sql),
}

impl Session {
    async fn run<T, W>(mut self, work: W) -> Result<T, StoreError>
    where
        W: AsyncFnOnce(&Session) -> Result<T, tokio_postgres::Error>,
    {
        let answer = work(&self).await;
        match &answer {
            // Only a session whose work went well goes back to the pool: after an error it may be in the middle of a
            // transaction, or at a server that is no longer the right one.
            Ok(_) => drop(self.client.take()),
            Err(error) if error.code().is_some_and(is_pooled) => {
                self.unprepared.store(true, Ordering::Relaxed);
            }
            Err(_) => {}
        }
        answer.map_err(|error| refusal(&error))
    }

    pub(crate) fn client(&self) -> &Object {
        self.client.as_ref().expect("a session is emptied only when its work is over")
    }

    pub(crate) async fn prepare<'a>(&self, sql: &'a Sql) -> Result<Ready<'a>, tokio_postgres::Error> {
        if self.unprepared.load(Ordering::Relaxed) {
            return Ok(Ready::Unnamed(sql));
        }
        Ok(Ready::Named(self.client().prepare_typed_cached(sql.text, sql.types).await?))
    }

    /// Sends at the first poll, so that several that are polled in order share a round trip.
    pub(crate) async fn send(
        &self,
        statement: &Ready<'_>,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match statement {
            Ready::Named(statement) => self.client().query(statement, params).await,
            Ready::Unnamed(sql) => {
                let typed: Vec<_> = params.iter().copied().zip(sql.types.iter().cloned()).collect();
                self.client().query_typed(sql.text, &typed).await
            }
        }
    }

    /// One statement outside a transaction of its own making.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.send(&statement, params).await
    }

    /// One statement in a pinned transaction, in one round trip.
    pub(crate) async fn transact(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.transact_in(BEGIN, sql, params).await
    }

    /// The same in a transaction that begins so.
    pub(crate) async fn transact_in(
        &self,
        begin: &str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.enclosed(begin, self.send(&statement, params)).await
    }

    /// What `work` sends at its first poll, in a pinned transaction, in one round trip. Where `work` fails, the
    /// commit is a rollback.
    pub(crate) async fn transaction<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.enclosed(BEGIN, work).await
    }

    /// What `work` sends at its first poll, reading, all as of one moment.
    pub(crate) async fn snapshot<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.enclosed(BEGIN_SNAPSHOT, work).await
    }

    async fn enclosed<T>(
        &self,
        begin: &str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let (begun, answer, committed) =
            join3(self.client().batch_execute(begin), work, self.client().batch_execute("COMMIT")).await;
        begun?;
        let answer = answer?;
        committed?;
        Ok(answer)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

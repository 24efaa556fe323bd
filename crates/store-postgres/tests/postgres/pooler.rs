//! The store behind a transaction pooler, which gives a server session to another client after each transaction.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use posthaste_postgres_server::{Database, PostgresServer, free_ports};
use posthaste_store::{LeaseRef, Retention, SettleResult, Store, StoreError};
use posthaste_store_postgres::{PostgresStore, migrate};
use tempfile::TempDir;

use crate::durability::RECORD_COMMITS;
use crate::fixture::*;

/// Runs the pooler and kills it when stdin closes, which happens however the test process ends.
const SCRIPT: &str = r#"
"$@" & pooler=$!
while read -r _; do :; done
kill $pooler
wait
"#;

/// Returns pgbouncer's path: Debian installs it in a directory that PATH may not include.
fn program() -> &'static str {
    let debian = "/usr/sbin/pgbouncer";
    if std::path::Path::new(debian).is_file() { debian } else { "pgbouncer" }
}

/// A running pgbouncer.
struct Pooler {
    shell: Child,
    port: u16,
    _directory: TempDir,
}

impl Pooler {
    /// Starts pgbouncer in front of the shared server, in transaction mode and without support for prepared statements. It
    /// refuses connections with options.
    async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts pgbouncer with further settings.
    async fn start_with(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_ports().next().expect("a port is free");
        let users = directory.path().join("users");
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let version = Command::new(program()).arg("--version").output();
        let version = version.expect("pgbouncer is missing: run `apt-get install pgbouncer`").stdout;
        let version = String::from_utf8_lossy(&version);
        // Before 1.21, pgbouncer has neither the support nor the setting.
        let supports_statements = !version.contains(" 1.1") && !version.contains(" 1.20");
        let config = directory.path().join("pgbouncer.ini");
        let mut file = std::fs::File::create(&config).unwrap();
        write!(
            file,
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 8\n\
             max_client_conn = 200\n{}{settings}",
            PostgresServer::shared().port(),
            users.display(),
            if supports_statements { "max_prepared_statements = 0\n" } else { "" }
        )
        .unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "pooler", program(), "--quiet"]);
        if directory.path().metadata().unwrap().uid() == 0 {
            let owned = Command::new("chown").args(["-R", "postgres:"]).arg(directory.path()).status();
            assert!(owned.is_ok_and(|owned| owned.success()), "root becomes postgres, which must exist");
            command.args(["--user", "postgres"]);
        }
        let shell = command.arg(&config).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(TIMEOUT, "the pooler accepts connections", async || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self { shell, port, _directory: directory }
    }

    fn url(&self, database: &Database) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.port, database.name)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // `wait` closes stdin first, which ends the script.
        let _ = self.shell.wait();
    }
}

/// Repeats a call until it succeeds. Failures that a pooler causes must be transient.
async fn retry<T>(what: &str, mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let mut result = None;
    wait_until(TIMEOUT, what, async || {
        match call().await {
            Ok(it) => result = Some(it),
            Err(error) => assert!(error.is_transient(), "{what}: {error:?}"),
        }
        result.is_some()
    })
    .await;
    result.expect("the loop ends with a result")
}

#[tokio::test]
async fn every_operation_works_through_a_transaction_pooler() {
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    // Many calls at once, so that server sessions pass between clients.
    let enqueue_concurrently = || {
        join_all((0..20).map(|_| {
            retry("an enqueue", async || {
                store.overview().await?;
                store.enqueue(request(vec![spec()])).await
            })
        }))
    };
    let responses = enqueue_concurrently().await;
    assert_eq!(responses.len(), 20);

    let request = claim_by("worker-a");
    let leases = retry("a claim", async || store.claim(&request).await).await.leases;
    assert!(leases.len() >= 20, "{} leases", leases.len());
    let held: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
    assert_eq!(retry("a heartbeat", async || store.renew(&held, LEASE).await).await, []);
    store.release(&held[..1]).await.unwrap();
    let again = claim(&store).await;
    assert_eq!(again.len(), 1);
    let dead = settlement(&again[0], 410);
    let mut batch: Vec<_> = leases[1..].iter().map(|lease| settlement(lease, 200)).collect();
    batch.push(dead);
    let results = retry("a settle", async || store.settle(&worker("worker-a"), &batch).await).await;
    assert!(results.iter().all(|result| result.is_written()), "{results:?}");
    let event_id = &again[0].event_id;
    assert_eq!(store.event(event_id).await.unwrap().history.len(), 1);
    store.requeue(event_id, "operator".into()).await.unwrap();
    let requeued = claim_one(&store).await;
    assert_eq!(settle(&store, &[requeued], 200).await, [SettleResult::Applied]);
    store
        .maintain(&Retention {
            keep_for: Some(DAY),
            keep_dead_letters_for: None,
            keep_unused_destinations_for: None,
            rows_max: 10,
        })
        .await
        .unwrap();
    assert_eq!(store.overview().await.unwrap().failed, 0);
}

#[tokio::test]
async fn once_the_pooler_is_detected_no_call_fails() {
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    // Concurrent enqueues share a session, concurrent overviews do not.
    let enqueue_concurrently = || {
        join_all((0..20).map(|_| async {
            store.overview().await?;
            store.enqueue(request(vec![spec()])).await.map(drop)
        }))
    };
    // A call that fails says that the pooler is detected. A background task may have failed instead, so that no call does.
    let mut rounds = 0;
    wait_until(TIMEOUT, "a failure because of the pooler, or 30 rounds without one", async || {
        let names_pooler = |error: &StoreError| error.to_string().contains("transaction pooler");
        rounds += 1;
        enqueue_concurrently().await.iter().any(|result| result.as_ref().is_err_and(names_pooler))
            || rounds == 30
    })
    .await;
    for _ in 0..10 {
        for result in enqueue_concurrently().await {
            result.unwrap();
        }
        settle(&store, &claim(&store).await, 200).await;
    }
}

#[tokio::test]
async fn commits_are_durable_behind_poolers_that_refuse_or_ignore_options() {
    for settings in ["", "ignore_startup_parameters = options\n"] {
        let pooler = Pooler::start_with(settings).await;
        let (server, database) =
            (PostgresServer::shared(), PostgresServer::shared().create_database("pooled"));
        migrate(&config(&database.url)).await.unwrap();
        query_text(server, &database.name, RECORD_COMMITS);
        let set = format!("ALTER DATABASE \"{}\" SET synchronous_commit = off", database.name);
        query_text(server, "postgres", &set);
        let store = PostgresStore::connect(config(&pooler.url(&database)));
        for _ in 0..5 {
            join_all((0..20).map(|_| {
                retry("an enqueue", async || {
                    store.overview().await?;
                    store.enqueue(request(vec![spec()])).await
                })
            }))
            .await;
        }
        let claimed = claim_by("worker-a");
        let leases = retry("a claim", async || store.claim(&claimed).await).await.leases;
        let batch: Vec<_> = leases.iter().map(|lease| settlement(lease, 200)).collect();
        retry("a settle", async || store.settle(&worker("worker-a"), &batch).await).await;
        let sql = "SELECT DISTINCT of, setting FROM commits ORDER BY 1";
        let commits = query_text(server, &database.name, sql);
        assert_eq!(commits, "webhook_attempts|on\nwebhook_events|on", "{settings}");
    }
}

#[tokio::test]
async fn without_notifications_claims_find_events_that_others_enqueue() {
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    for round in 0..5 {
        let call = format!("SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => 'round-{round}')");
        query_text(PostgresServer::shared(), &database.name, &call);
        let request = claim_by("worker-a");
        let leases = retry("a claim", async || store.claim(&request).await).await.leases;
        assert_eq!(event_ids(&leases), [format!("round-{round}")]);
        retry("a settle", async || store.settle(&worker("worker-a"), &[settlement(&leases[0], 200)]).await)
            .await;
    }
}

/// The log output of the test's thread, on which its whole runtime runs.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no holder of this lock panics").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn missing_notifications_behind_a_pooler_are_logged() {
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    wait_until(2 * TIMEOUT, "a warning that names the pooler", async || {
        let _ = store.overview().await;
        String::from_utf8_lossy(&log.0.lock().expect("no holder of this lock panics"))
            .contains("transaction pooler")
    })
    .await;
}

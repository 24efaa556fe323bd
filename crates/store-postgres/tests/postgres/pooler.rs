//! Behind a transaction pooler, where a session is somebody else's the next moment.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use posthaste_postgres_server::{Database, PostgresServer, free_ports};
use posthaste_store::{HeldLease, Retention, Settled, Store, StoreError};
use posthaste_store_postgres::{PostgresStore, migrate};
use tempfile::TempDir;

use crate::fixture::*;

/// Ends the pooler together with us, however we end: then the pipe is closed.
const SCRIPT: &str = r#"
"$@" & pooler=$!
while read -r _; do :; done
kill $pooler
wait
"#;

/// Debian keeps it where not everybody's PATH leads.
fn program() -> &'static str {
    let debian = "/usr/sbin/pgbouncer";
    if std::path::Path::new(debian).is_file() { debian } else { "pgbouncer" }
}

struct Pooler {
    shell: Child,
    port: u16,
    _directory: TempDir,
}

impl Pooler {
    /// In transaction mode, before the tests' own server, and without help for prepared statements.
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_ports().next().expect("a port is free");
        let users = directory.path().join("users");
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let version = Command::new(program()).arg("--version").output();
        let version = version.expect("pgbouncer is missing: run `apt-get install pgbouncer`").stdout;
        let version = String::from_utf8_lossy(&version);
        // Older ones have no such help, and no name for it.
        let knows_statements = !version.contains(" 1.1") && !version.contains(" 1.20");
        let config = directory.path().join("pgbouncer.ini");
        let mut file = std::fs::File::create(&config).unwrap();
        write!(
            file,
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 8\n\
             max_client_conn = 200\n{}",
            PostgresServer::shared().port(),
            users.display(),
            if knows_statements { "max_prepared_statements = 0\n" } else { "" }
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
        until(SOON, "the pooler accepts connections", async || {
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
        // Closes the pipe first.
        let _ = self.shell.wait();
    }
}

/// Asks until it succeeds: what a pooler gets in the way of is transient.
async fn eventually<T>(what: &str, mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let mut answer = None;
    until(SOON, what, async || {
        match call().await {
            Ok(it) => answer = Some(it),
            Err(error) => assert!(error.is_transient(), "{what}: {error:?}"),
        }
        answer.is_some()
    })
    .await;
    answer.expect("it was waited for")
}

#[tokio::test]
async fn the_whole_life_of_events_goes_through_a_transaction_pooler() {
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    // Many at once, so that sessions do change hands.
    let crowd = || {
        join_all((0..20).map(|_| {
            eventually("an enqueue", async || {
                let mut answers = store.enqueue(&[request(vec![spec()])]).await?;
                answers.remove(0)
            })
        }))
    };
    let receipts = crowd().await;
    assert_eq!(receipts.len(), 20);

    let request = claim_by("worker-a");
    let leases = eventually("a claim", async || store.claim(&request).await).await.leases;
    assert!(leases.len() >= 20, "{} leases", leases.len());
    let held: Vec<HeldLease> = leases.iter().map(HeldLease::from).collect();
    assert_eq!(eventually("a heartbeat", async || store.renew(&held, LEASE).await).await, []);
    store.release(&held[..1]).await.unwrap();
    let again = claim(&store).await;
    assert_eq!(again.len(), 1);
    let dead = settlement(&again[0], 410);
    let mut batch: Vec<_> = leases[1..].iter().map(|lease| settlement(lease, 200)).collect();
    batch.push(dead);
    let settled = eventually("a settle", async || store.settle(&worker("worker-a"), &batch).await).await;
    assert!(settled.iter().all(|settled| settled.is_written()), "{settled:?}");
    let event_id = &again[0].event_id;
    assert_eq!(store.event(event_id).await.unwrap().history.len(), 1);
    store.requeue(event_id, "operator").await.unwrap();
    let requeued = claim_one(&store).await;
    assert_eq!(settle(&store, &[requeued], 200).await, [Settled::Applied]);
    store.maintain(&Retention { keep: Some(DAY), rows_max: 10 }).await.unwrap();
    assert_eq!(store.overview().await.unwrap().failed, 0);
}

#[tokio::test]
async fn after_the_first_surprise_no_call_behind_a_pooler_fails() {
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    let crowd =
        || join_all((0..20).map(|_| async { store.enqueue(&[request(vec![spec()])]).await.map(drop) }));
    // Until it has been found out.
    until(SOON, "nobody of a crowd fails", async || crowd().await.iter().all(Result::is_ok)).await;
    for _ in 0..10 {
        for answer in crowd().await {
            answer.unwrap();
        }
        settle(&store, &claim(&store).await, 200).await;
    }
}

#[tokio::test]
async fn without_notifications_polling_finds_what_others_enqueue() {
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    for round in 0..5 {
        let call = format!("SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => 'round-{round}')");
        say(PostgresServer::shared(), &database.name, &call);
        let request = claim_by("worker-a");
        let leases = eventually("a claim", async || store.claim(&request).await).await.leases;
        assert_eq!(ids(&leases), [format!("round-{round}")]);
        eventually("a settle", async || {
            store.settle(&worker("worker-a"), &[settlement(&leases[0], 200)]).await
        })
        .await;
    }
}

/// What is logged on this thread, and so by everything on its runtime.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody has panicked with it").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn that_no_notifications_arrive_behind_a_pooler_is_said() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let pooler = Pooler::start().await;
    let database = PostgresServer::shared().create_database("pooled");
    let url = pooler.url(&database);
    migrate(&config(&url)).await.unwrap();
    let store = PostgresStore::connect(config(&url));
    until(2 * SOON, "a warning that names the pooler", async || {
        let _ = store.overview().await;
        String::from_utf8_lossy(&log.0.lock().expect("nobody has panicked with it"))
            .contains("transaction pooler")
    })
    .await;
}

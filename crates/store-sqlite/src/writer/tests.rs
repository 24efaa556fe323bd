//! Groups are made by holding the thread up in a first command until the others have come.

use std::future::Future;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use posthaste_domain::Timestamp;
use rand::SeedableRng as _;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::connect;

struct StoppedClock;

impl StoreClock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1)
    }
}

struct Bench {
    writer: Arc<Writer>,
    waker: Waker,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Bench {
    /// A writer on a file with a table of numbers, one of which may stand for another that comes later.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("numbers.db");
        let db = connect::writer(&path, Duration::from_secs(5)).unwrap();
        db.execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE numbers (n INTEGER PRIMARY KEY,
                                   other INTEGER REFERENCES numbers (n) DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
        let waker = Waker::default();
        let session = Session {
            db,
            path: path.clone(),
            clock: Arc::new(StoppedClock),
            random: StdRng::seed_from_u64(1),
            waker: waker.clone(),
            rotation: Rotation::default(),
            failing: Arc::default(),
        };
        Self { writer: Arc::new(Writer::start(session).unwrap()), waker, path, _directory: directory }
    }

    fn call<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl FnMut(&mut Writing<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> JoinHandle<Result<T, StoreError>> {
        let writer = Arc::clone(&self.writer);
        tokio::spawn(async move { writer.call(kind, work).await })
    }

    fn insert(&self, number: i64) -> JoinHandle<Result<(), StoreError>> {
        self.call(Kind::Other, move |writing| {
            writing.db.execute("INSERT INTO numbers (n) VALUES (?1)", [number])?;
            Ok(())
        })
    }

    /// Keeps the thread busy until the sender is used, so that what comes meanwhile becomes one group.
    async fn hold_up(&self) -> Sender<()> {
        let (go_on, wait) = channel();
        let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
        drop(self.call(Kind::Other, move |_| {
            begun.send(()).unwrap();
            wait.recv().unwrap();
            Ok(())
        }));
        has_begun.recv().await.unwrap();
        go_on
    }

    fn numbers(&self) -> Vec<i64> {
        numbers(&self.path)
    }
}

fn numbers(path: &Path) -> Vec<i64> {
    let db = Connection::open(path).unwrap();
    let mut numbers = db.prepare("SELECT n FROM numbers ORDER BY n").unwrap();
    numbers.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Lets every call that was made so far come to the queue.
async fn all_have_come() {
    for _ in 0..10 {
        yield_now().await;
    }
}

async fn answered<T>(
    call: impl Future<Output = Result<Result<T, StoreError>, tokio::task::JoinError>>,
) -> Result<T, StoreError> {
    call.await.unwrap()
}

#[tokio::test]
async fn a_command_that_panics_or_that_sqlite_fails_takes_nobody_with_it() {
    let bench = Bench::new();
    let go_on = bench.hold_up().await;
    let first = bench.insert(1);
    let panics = bench.call::<()>(Kind::Other, |writing| {
        writing.db.execute("INSERT INTO numbers (n) VALUES (10)", [])?;
        panic!("out of order");
    });
    let second = bench.insert(2);
    let fails = bench.call(Kind::Other, |writing| {
        writing.db.execute("INSERT INTO numbers (n) VALUES (20)", [])?;
        writing.db.execute("INSERT INTO numbers (n) VALUES (20)", [])?;
        Ok(())
    });
    let third = bench.insert(3);
    all_have_come().await;
    go_on.send(()).unwrap();

    for call in [first, second, third] {
        assert_eq!(answered(call).await, Ok(()));
    }
    let error = answered(panics).await.unwrap_err();
    assert!(error.to_string().contains("out of order"), "{error}");
    let error = answered(fails).await.unwrap_err();
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    assert_eq!(bench.numbers(), [1, 2, 3], "nothing of the two that failed is left");
    assert_eq!(answered(bench.insert(4)).await, Ok(()), "the thread goes on");
}

#[tokio::test]
async fn a_commit_that_fails_is_told_to_all_and_changes_nothing() {
    let bench = Bench::new();
    let mut wakeups = bench.waker.subscribe();
    let go_on = bench.hold_up().await;
    let neighbour = bench.insert(1);
    let points_nowhere = bench.call(Kind::MakesDue, |writing| {
        writing.db.execute("INSERT INTO numbers (n, other) VALUES (2, 99)", [])?;
        Ok(())
    });
    all_have_come().await;
    go_on.send(()).unwrap();

    for call in [neighbour, points_nowhere] {
        let error = answered(call).await.unwrap_err();
        assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
    }
    assert_eq!(bench.numbers(), [0_i64; 0]);
    let mut woken = std::pin::pin!(wakeups.woken());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(woken.as_mut().poll(&mut context).is_pending(), "nothing was made due");
}

#[tokio::test]
async fn a_refusal_fails_nobody_else_and_is_not_tried_again() {
    let bench = Bench::new();
    let go_on = bench.hold_up().await;
    let neighbour = bench.insert(1);
    let mut runs = 0;
    let refused = bench.call::<()>(Kind::Other, move |_| {
        runs += 1;
        Err(StoreError::DestinationNotFound { id: runs }.into())
    });
    all_have_come().await;
    go_on.send(()).unwrap();
    assert_eq!(answered(neighbour).await, Ok(()));
    assert_eq!(answered(refused).await, Err(StoreError::DestinationNotFound { id: 1 }));
    assert_eq!(bench.numbers(), [1]);
}

#[tokio::test]
async fn renewals_go_first_within_a_group() {
    let bench = Bench::new();
    let go_on = bench.hold_up().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let noting = |name: &'static str, kind| {
        let order = Arc::clone(&order);
        bench.call(kind, move |_| {
            order.lock().unwrap().push(name);
            Ok(())
        })
    };
    let calls = [
        noting("claim", Kind::Other),
        noting("renewal", Kind::Renewal),
        noting("enqueue", Kind::MakesDue),
        noting("second renewal", Kind::Renewal),
    ];
    all_have_come().await;
    go_on.send(()).unwrap();
    for call in calls {
        answered(call).await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["renewal", "second renewal", "claim", "enqueue"]);
}

#[tokio::test]
async fn a_command_whose_caller_has_gone_is_not_run() {
    let bench = Bench::new();
    let go_on = bench.hold_up().await;
    let gone = bench.insert(1);
    let stays = bench.insert(2);
    all_have_come().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    go_on.send(()).unwrap();
    assert_eq!(answered(stays).await, Ok(()));
    assert_eq!(bench.numbers(), [2]);
}

#[tokio::test]
async fn a_commit_that_made_something_due_wakes_whoever_waits() {
    let bench = Bench::new();
    let mut wakeups = bench.waker.subscribe();
    answered(bench.call(Kind::MakesDue, |_| Ok(()))).await.unwrap();
    wakeups.woken().await;
}

#[tokio::test]
async fn the_thread_and_its_connection_end_with_the_last_handle() {
    let bench = Bench::new();
    answered(bench.insert(1)).await.unwrap();
    let log = bench.path.with_extension("db-wal");
    assert!(log.exists());
    let Bench { writer, _directory, .. } = bench;
    drop(Arc::into_inner(writer).expect("no call is under way"));
    assert!(!log.exists(), "whoever closes the file last takes the log with it");
}

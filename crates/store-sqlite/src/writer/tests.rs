//! Tests of the writer thread. A first command blocks the thread until the others are queued, so that they form a group.

use std::future::Future;
use std::path::{Path, PathBuf};
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

struct Fixture {
    writer: Arc<Writer>,
    waker: Waker,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Fixture {
    /// Starts a writer on a file with a table of numbers. `other` references a number, and is checked at the commit.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("numbers.db");
        let db = connect::open_writer(&path, Duration::from_secs(5)).unwrap();
        db.execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE numbers (n INTEGER PRIMARY KEY,
                                   other INTEGER REFERENCES numbers (n) DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
        let waker = Waker::default();
        let thread = WriterThread {
            checkpointer: Checkpointer::start(path.clone()).unwrap(),
            db,
            file: Arc::new(DatabaseFile::identify(path.clone()).unwrap()),
            clock: Arc::new(StoppedClock),
            random: StdRng::seed_from_u64(1),
            waker: waker.clone(),
            rotation: ClaimRotation::default(),
            clock_repair: ClockRepair::default(),
            foreign_commits: ForeignCommits::new(Arc::default()),
            has_due_events: false,
            failing: Arc::default(),
        };
        Self { writer: Arc::new(Writer::start(thread).unwrap()), waker, path, _directory: directory }
    }

    fn call<T: Send + 'static>(
        &self,
        kind: CommandKind,
        work: impl FnMut(&mut WriteContext<'_>) -> Result<T, CallError> + Send + 'static,
    ) -> JoinHandle<Result<T, StoreError>> {
        let writer = Arc::clone(&self.writer);
        tokio::spawn(async move { writer.call(kind, work).await })
    }

    fn insert(&self, number: i64) -> JoinHandle<Result<(), StoreError>> {
        self.call(CommandKind::Other, move |context| {
            context.db.execute("INSERT INTO numbers (n) VALUES (?1)", [number])?;
            Ok(())
        })
    }

    /// Blocks the thread until the returned sender is used. Calls made meanwhile form one group.
    async fn block_thread(&self) -> Sender<()> {
        let (unblock, wait) = channel();
        let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
        drop(self.call(CommandKind::Other, move |_| {
            begun.send(()).unwrap();
            wait.recv().unwrap();
            Ok(())
        }));
        has_begun.recv().await.unwrap();
        unblock
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

/// Yields until every call made so far is queued.
async fn all_calls_queued() {
    for _ in 0..10 {
        yield_now().await;
    }
}

async fn result_of<T>(
    call: impl Future<Output = Result<Result<T, StoreError>, tokio::task::JoinError>>,
) -> Result<T, StoreError> {
    call.await.unwrap()
}

#[tokio::test]
async fn a_command_that_panics_or_fails_does_not_affect_its_group() {
    let fixture = Fixture::new();
    let unblock = fixture.block_thread().await;
    let first = fixture.insert(1);
    let panics = fixture.call::<()>(CommandKind::Other, |context| {
        context.db.execute("INSERT INTO numbers (n) VALUES (10)", [])?;
        panic!("out of order");
    });
    let second = fixture.insert(2);
    let fails = fixture.call(CommandKind::Other, |context| {
        context.db.execute("INSERT INTO numbers (n) VALUES (20)", [])?;
        context.db.execute("INSERT INTO numbers (n) VALUES (20)", [])?;
        Ok(())
    });
    let third = fixture.insert(3);
    all_calls_queued().await;
    unblock.send(()).unwrap();

    for call in [first, second, third] {
        assert_eq!(result_of(call).await, Ok(()));
    }
    let error = result_of(panics).await.unwrap_err();
    assert!(error.to_string().contains("out of order"), "{error}");
    let error = result_of(fails).await.unwrap_err();
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    assert_eq!(fixture.numbers(), [1, 2, 3], "the two failed commands leave no row");
    assert_eq!(result_of(fixture.insert(4)).await, Ok(()), "the thread keeps running");
}

#[tokio::test]
async fn a_failed_commit_fails_every_call_of_its_group_and_writes_nothing() {
    let fixture = Fixture::new();
    let mut wakeups = fixture.waker.subscribe();
    let unblock = fixture.block_thread().await;
    let other_call = fixture.insert(1);
    let dangling_reference = fixture.call(CommandKind::MakesDue, |context| {
        context.db.execute("INSERT INTO numbers (n, other) VALUES (2, 99)", [])?;
        Ok(())
    });
    all_calls_queued().await;
    unblock.send(()).unwrap();

    for call in [other_call, dangling_reference] {
        let error = result_of(call).await.unwrap_err();
        assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
    }
    assert_eq!(fixture.numbers(), [0_i64; 0]);
    let mut woken = std::pin::pin!(wakeups.wait());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(woken.as_mut().poll(&mut context).is_pending(), "a failed commit wakes no subscriber");
}

#[tokio::test]
async fn a_commit_to_a_file_that_was_deleted_meanwhile_is_not_acknowledged() {
    let fixture = Fixture::new();
    let path = fixture.path.clone();
    let delete_file = fixture.call(CommandKind::Other, move |context| {
        context.db.execute("INSERT INTO numbers (n) VALUES (1)", [])?;
        std::fs::remove_file(&path).unwrap();
        Ok(())
    });
    let error = result_of(delete_file).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("was deleted"), "{error}");
    let mut runs = 0;
    let next = fixture.call(CommandKind::Other, move |_| {
        runs += 1;
        Ok(runs)
    });
    assert_eq!(result_of(next).await, Err(error), "the next command is refused before it runs");
}

#[tokio::test]
async fn a_refused_command_runs_once_and_does_not_affect_its_group() {
    let fixture = Fixture::new();
    let unblock = fixture.block_thread().await;
    let other_call = fixture.insert(1);
    let mut runs = 0;
    let refused = fixture.call::<()>(CommandKind::Other, move |_| {
        runs += 1;
        Err(StoreError::DestinationNotFound { id: runs }.into())
    });
    all_calls_queued().await;
    unblock.send(()).unwrap();
    assert_eq!(result_of(other_call).await, Ok(()));
    assert_eq!(result_of(refused).await, Err(StoreError::DestinationNotFound { id: 1 }));
    assert_eq!(fixture.numbers(), [1]);
}

#[tokio::test]
async fn renewals_run_first_within_a_group() {
    let fixture = Fixture::new();
    let unblock = fixture.block_thread().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let record_order = |name: &'static str, kind| {
        let order = Arc::clone(&order);
        fixture.call(kind, move |_| {
            order.lock().unwrap().push(name);
            Ok(())
        })
    };
    let calls = [
        record_order("claim", CommandKind::Other),
        record_order("renewal", CommandKind::Renewal),
        record_order("enqueue", CommandKind::MakesDue),
        record_order("second renewal", CommandKind::Renewal),
    ];
    all_calls_queued().await;
    unblock.send(()).unwrap();
    for call in calls {
        result_of(call).await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["renewal", "second renewal", "claim", "enqueue"]);
}

#[tokio::test]
async fn a_command_whose_caller_was_dropped_is_not_run() {
    let fixture = Fixture::new();
    let unblock = fixture.block_thread().await;
    let dropped = fixture.insert(1);
    let awaited = fixture.insert(2);
    all_calls_queued().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    unblock.send(()).unwrap();
    assert_eq!(result_of(awaited).await, Ok(()));
    assert_eq!(fixture.numbers(), [2]);
}

#[tokio::test]
async fn the_work_of_a_dropped_caller_is_freed_while_the_thread_is_busy() {
    let fixture = Fixture::new();
    let unblock = fixture.block_thread().await;
    let payload = Arc::new(vec![b'x'; 64]);
    let held = Arc::clone(&payload);
    let dropped = fixture.call(CommandKind::Enqueue { events: 1 }, move |_| Ok(held.len()));
    all_calls_queued().await;
    assert_eq!(Arc::strong_count(&payload), 2, "the call is queued");
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&payload), 1, "the call is withdrawn");
    unblock.send(()).unwrap();
}

/// A command of which only the kind matters.
struct KindOnly(CommandKind);

impl Command for KindOnly {
    fn kind(&self) -> CommandKind {
        self.0
    }

    fn take_work(&mut self) -> bool {
        true
    }

    fn run(&mut self, _: &mut WriteContext<'_>) -> rusqlite::Result<()> {
        Ok(())
    }

    fn respond(self: Box<Self>, _: Result<(), StoreError>) {}
}

#[test]
fn a_group_takes_enqueues_in_order_up_to_its_number_of_events_and_every_other_command() {
    let enqueue = |events| CommandKind::Enqueue { events };
    let queued = [enqueue(600), enqueue(600), enqueue(1), CommandKind::Other, CommandKind::Renewal];
    let queued = queued.map(|kind| Box::new(KindOnly(kind)) as Box<dyn Command>);
    let (group, rest) = split_group(queued.into());
    let kinds = |commands: &Group| commands.iter().map(|command| command.kind()).collect::<Vec<_>>();
    assert_eq!(kinds(&group), [enqueue(600), enqueue(600), CommandKind::Other, CommandKind::Renewal]);
    assert_eq!(kinds(&rest), [enqueue(1)]);
}

#[tokio::test]
async fn a_commit_that_makes_events_due_wakes_subscribers() {
    let fixture = Fixture::new();
    let mut wakeups = fixture.waker.subscribe();
    result_of(fixture.call(CommandKind::MakesDue, |_| Ok(()))).await.unwrap();
    wakeups.wait().await;
}

#[tokio::test]
async fn dropping_the_writer_ends_its_thread_and_connection() {
    let fixture = Fixture::new();
    result_of(fixture.insert(1)).await.unwrap();
    let wal = fixture.path.with_extension("db-wal");
    assert!(wal.exists());
    let Fixture { writer, _directory, .. } = fixture;
    drop(Arc::into_inner(writer).expect("no call is in progress"));
    assert!(!wal.exists(), "closing the last connection removes the write-ahead wal");
}

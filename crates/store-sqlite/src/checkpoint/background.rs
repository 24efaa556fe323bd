//! The thread that runs checkpoints beside the writer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::requests::Requests;
use super::{Checkpoint, LogState};
use crate::connect;

/// Uncopied pages from which the thread runs a checkpoint: 16 MiB. A page that changes often is then copied once for many
/// commits.
const BACKGROUND_PAGES: i64 = 4_096;
/// Pages of the log from which the writer pauses for the copy of a short rest: 32 MiB.
const RESTART_PAGES: i64 = 8_192;
/// Length of a short rest: 2 MiB.
const SHORT_REST_PAGES: i64 = 512;
/// Pages of the log from which the writer copies any rest: 56 MiB. Only a reader that keeps an old snapshot makes the log
/// longer.
const LOG_PAGES_MAX: i64 = 14_336;
/// Checkpoints in a row: each copies what the writer has added during the one before it.
const ROUNDS: usize = 3;
/// How long the writer pauses at most. A short rest is copied in this time. SQLite flushes the database file only when all of
/// the log is copied, so the flush of all that was copied before follows; it may take seconds on a slow disk, and runs
/// beside the next commits.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Which thread should copy the log.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    RunInBackground,
    /// The thread copies a short rest, and the writer adds nothing meanwhile.
    RunWhileWriterPauses,
    RunInWriter,
}

const fn next_step(log: LogState) -> Step {
    let rest = log.pages - log.copied;
    let can_restart = log.pages >= RESTART_PAGES && rest <= SHORT_REST_PAGES && rest > 0;
    if log.pages >= LOG_PAGES_MAX && rest > 0 {
        Step::RunInWriter
    } else if can_restart {
        Step::RunWhileWriterPauses
    } else if rest >= BACKGROUND_PAGES {
        Step::RunInBackground
    } else {
        Step::Wait
    }
}

/// Handle to the thread that runs checkpoints. Dropping it waits until the thread has closed its connection.
pub(crate) struct Checkpointer {
    requests: Arc<Requests>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: PathBuf) -> std::io::Result<Self> {
        let requests = Arc::new(Requests::default());
        let thread = thread::Builder::new().name("posthaste-checkpoint".to_owned()).spawn({
            let requests = Arc::clone(&requests);
            move || run(&path, &requests)
        })?;
        Ok(Self { requests, thread: Some(thread) })
    }

    /// Starts a checkpoint if the log is long enough. The writer calls it after each commit. An error is left to the next
    /// commit, which meets it as well.
    pub(crate) fn after_commit(&self, db: &Connection) {
        let Ok(log) = LogState::after(db, Checkpoint::None) else { return };
        match next_step(log) {
            Step::Wait => {}
            Step::RunInBackground => {
                self.requests.add();
            }
            // A checkpoint that runs already may be flushing the file. The writer does not wait for that.
            Step::RunWhileWriterPauses => {
                if self.requests.add() {
                    self.requests.wait(PAUSE_MAX);
                }
            }
            Step::RunInWriter => log_result(LogState::after(db, Checkpoint::Passive)),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.requests.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Opens a connection at the first request, because most stores that are opened never need a checkpoint.
fn run(path: &Path, requests: &Requests) {
    let mut opened = None;
    requests.run(|| {
        let db = match opened.take() {
            Some(db) => Ok(db),
            None => connect::open_checkpointer(path),
        };
        match db {
            Ok(db) => {
                log_result(copy_log(&db));
                opened = Some(db);
            }
            Err(error) => tracing::debug!(%error, "no connection for checkpoints"),
        }
    });
}

/// Copies the log until all of it is copied or [`ROUNDS`] have not been enough.
fn copy_log(db: &Connection) -> rusqlite::Result<LogState> {
    let mut log = LogState::after(db, Checkpoint::Passive)?;
    for _ in 1..ROUNDS {
        if log.is_copied() {
            break;
        }
        log = LogState::after(db, Checkpoint::Passive)?;
    }
    Ok(log)
}

fn log_result(checkpoint: rusqlite::Result<LogState>) {
    match checkpoint {
        Ok(LogState { pages, copied }) => tracing::debug!(pages, copied, "checkpoint"),
        Err(error) => tracing::debug!(%error, "no checkpoint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_pauses_for_a_short_rest_and_copies_only_that_of_a_long_log() {
        let step = |pages, copied| next_step(LogState { pages, copied });
        assert_eq!(step(0, 0), Step::Wait);
        assert_eq!(step(4_095, 0), Step::Wait);
        assert_eq!(step(4_096, 0), Step::RunInBackground);
        assert_eq!(step(8_000, 7_900), Step::Wait);
        assert_eq!(step(8_192, 8_192), Step::Wait, "the next commit starts the log again");
        assert_eq!(step(8_192, 8_000), Step::RunWhileWriterPauses);
        assert_eq!(step(9_000, 4_000), Step::RunInBackground);
        assert_eq!(step(14_336, 4_000), Step::RunInWriter);
    }

    #[test]
    fn a_checkpoint_of_another_connection_lets_the_log_start_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let db = connect::open_writer(&path, Duration::from_secs(60)).unwrap();
        db.execute_batch("CREATE TABLE blobs (b)").unwrap();
        let insert = |bytes: i64| db.execute("INSERT INTO blobs VALUES (zeroblob(?1))", [bytes]).unwrap();
        insert(20 << 20);
        let checkpointer = Checkpointer::start(path.clone()).unwrap();
        let before = LogState::after(&db, Checkpoint::None).unwrap();
        assert!(
            before.pages > BACKGROUND_PAGES && before.copied == 0,
            "{before:?}: no commit checkpoints by itself"
        );
        checkpointer.after_commit(&db);
        drop(checkpointer);
        assert!(LogState::after(&db, Checkpoint::None).unwrap().is_copied());
        insert(1);
        let after = LogState::after(&db, Checkpoint::None).unwrap();
        assert!(after.pages < 10, "{after:?}");
    }

    #[test]
    fn the_writer_leaves_a_short_rest_and_its_flush_to_the_thread() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let db = connect::open_writer(&path, Duration::from_secs(60)).unwrap();
        db.execute_batch("CREATE TABLE blobs (b)").unwrap();
        let insert = |bytes: i64| db.execute("INSERT INTO blobs VALUES (zeroblob(?1))", [bytes]).unwrap();
        let reader = connect::open_reader(&path, Duration::ZERO).unwrap();
        insert(36 << 20);
        // The reader keeps the last commit from being copied, so that a short rest is left.
        let snapshot = reader.unchecked_transaction().unwrap();
        snapshot.query_row("SELECT count(*) FROM blobs", [], |_| Ok(())).unwrap();
        insert(1);
        let log = LogState::after(&db, Checkpoint::Passive).unwrap();
        assert_eq!(next_step(log), Step::RunWhileWriterPauses, "{log:?}");
        snapshot.finish().unwrap();
        // Without a thread that serves them, requests stay open.
        let requests = Arc::new(Requests::default());
        let unserved = Checkpointer { requests, thread: None };
        unserved.after_commit(&db);
        assert_eq!(LogState::after(&db, Checkpoint::None).unwrap(), log, "the writer copied nothing");
        Checkpointer::start(path.clone()).unwrap().after_commit(&db);
        assert!(LogState::after(&db, Checkpoint::None).unwrap().is_copied());
    }
}

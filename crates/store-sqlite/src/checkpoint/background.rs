//! The thread that runs checkpoints beside the writer.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::{Checkpoint, LogState};
use crate::connect;

/// Uncopied pages from which the thread runs a checkpoint: 16 MiB. A page that changes often is then copied once for many
/// commits.
const BACKGROUND_PAGES: i64 = 4_096;
/// Pages of the log from which the writer copies a short rest: 32 MiB.
const RESTART_PAGES: i64 = 8_192;
/// Length of a short rest: 2 MiB.
const SHORT_REST_PAGES: i64 = 512;
/// Pages of the log from which the writer copies any rest: 56 MiB. Only a reader that keeps an old snapshot makes the log
/// longer.
const LOG_PAGES_MAX: i64 = 14_336;
/// Checkpoints in a row: each copies what the writer has added during the one before it.
const ROUNDS: usize = 3;

/// Which thread should copy the log.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    RunInBackground,
    RunInWriter,
}

const fn next_step(log: LogState) -> Step {
    let rest = log.pages - log.copied;
    let can_restart = log.pages >= RESTART_PAGES && rest <= SHORT_REST_PAGES && rest > 0;
    if can_restart || (log.pages >= LOG_PAGES_MAX && rest > 0) {
        Step::RunInWriter
    } else if rest >= BACKGROUND_PAGES {
        Step::RunInBackground
    } else {
        Step::Wait
    }
}

/// Handle to the thread that runs checkpoints. Dropping it waits until the thread has closed its connection.
pub(crate) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: PathBuf) -> std::io::Result<Self> {
        let (requests, received) = sync_channel(1);
        let thread = thread::Builder::new().name("posthaste-checkpoint".to_owned());
        let thread = thread.spawn(move || run(&path, &received))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Starts a checkpoint if the log is long enough. The writer calls it after each commit. An error is left to the next
    /// commit, which meets it as well.
    pub(crate) fn after_commit(&self, db: &Connection) {
        let Ok(log) = LogState::after(db, Checkpoint::None) else { return };
        match next_step(log) {
            Step::Wait => {}
            Step::RunInBackground => {
                // The channel is full if the thread is about to run a checkpoint anyway.
                let _ = self.requests.as_ref().map(|requests| requests.try_send(()));
            }
            Step::RunInWriter => log_result(LogState::after(db, Checkpoint::Passive)),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Opens a connection at the first request, because most stores that are opened never need a checkpoint.
fn run(path: &Path, requests: &Receiver<()>) {
    let mut opened = None;
    while requests.recv().is_ok() {
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
    }
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
    use std::time::Duration;

    #[test]
    fn the_writer_copies_only_a_short_rest_or_that_of_a_long_log() {
        let step = |pages, copied| next_step(LogState { pages, copied });
        assert_eq!(step(0, 0), Step::Wait);
        assert_eq!(step(4_095, 0), Step::Wait);
        assert_eq!(step(4_096, 0), Step::RunInBackground);
        assert_eq!(step(8_000, 7_900), Step::Wait);
        assert_eq!(step(8_192, 8_192), Step::Wait, "the next commit starts the log again");
        assert_eq!(step(8_192, 8_000), Step::RunInWriter);
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
}

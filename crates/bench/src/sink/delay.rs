//! Delays of responses with a precision of about 0.1 ms. Tokio's timer rounds up to milliseconds.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::clock::now;

/// How long the thread sleeps without a delay to wait for.
const IDLE: Duration = Duration::from_secs(3600);

/// A thread that ends delays.
#[derive(Clone)]
pub(crate) struct DelayThread {
    starts: mpsc::Sender<(Instant, oneshot::Sender<()>)>,
}

impl DelayThread {
    pub(crate) fn start() -> Self {
        let (starts, started) = mpsc::channel();
        thread::spawn(move || end_delays(&started));
        Self { starts }
    }

    /// Waits for a delay.
    pub(crate) async fn wait(&self, delay: Duration) {
        let (sender, ended) = oneshot::channel();
        self.starts.send((now() + delay, sender)).expect("the thread runs as long as the process");
        // The thread drops no sender before its delay has ended.
        let _ = ended.await;
    }
}

/// Ends each delay at its deadline.
fn end_delays(started: &mpsc::Receiver<(Instant, oneshot::Sender<()>)>) {
    // The number keeps delays with equal deadlines apart.
    let mut delays: BTreeMap<(Instant, u64), oneshot::Sender<()>> = BTreeMap::new();
    let mut number = 0;
    loop {
        let next = delays.first_key_value().map(|((deadline, _), _)| *deadline);
        let timeout = next.map_or(IDLE, |deadline| deadline.saturating_duration_since(now()));
        match started.recv_timeout(timeout) {
            Ok((deadline, sender)) => {
                number += 1;
                delays.insert((deadline, number), sender);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let due = now();
        while let Some(first) = delays.first_entry()
            && first.key().0 <= due
        {
            let _ = first.remove().send(());
        }
    }
}

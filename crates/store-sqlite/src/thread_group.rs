//! Joining threads with a timeout.
//!
//! A member thread drops everything it owns before it drops its membership. A connection that it held is therefore
//! closed once [`ThreadGroup::join`] has returned true.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long [`ThreadGroup::join`] waits. A thread that is still busy then finishes its work and exits later.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Threads whose exit is awaited together.
pub(crate) struct ThreadGroup {
    /// Cloned for each new member; `None` once [`join`](Self::join) has been called.
    membership: Mutex<Option<Membership>>,
    /// Disconnects when the last membership is dropped.
    all_exited: Mutex<Receiver<Infallible>>,
}

/// Held by a thread while it runs; the thread drops it last.
#[derive(Clone)]
pub(crate) struct Membership(
    #[expect(dead_code, reason = "dropping the sender disconnects the receiver")] Sender<Infallible>,
);

impl ThreadGroup {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel();
        Self { membership: Mutex::new(Some(Membership(sender))), all_exited: Mutex::new(receiver) }
    }

    /// Returns a membership for a new thread, or `None` once [`join`](Self::join) has been called.
    pub(crate) fn add_member(&self) -> Option<Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the members to exit and returns whether all did within [`JOIN_TIMEOUT`]. The caller must already
    /// have signalled them to exit.
    pub(crate) fn join(&self) -> bool {
        drop(self.membership.lock().unwrap_or_else(PoisonError::into_inner).take());
        let all_exited = self.all_exited.lock().unwrap_or_else(PoisonError::into_inner);
        match all_exited.recv_timeout(JOIN_TIMEOUT) {
            Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Ok(never) => match never {},
        }
    }
}

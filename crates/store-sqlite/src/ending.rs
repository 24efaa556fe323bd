//! Waiting for threads to end, within bounds.
//!
//! What a thread owns is gone before the thread is: a connection that it held is closed when it has been waited for.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whoever closes a store is not held up for longer than this; a thread that is still busy then ends by itself.
pub(crate) const JOIN_MAX: Duration = Duration::from_secs(5);

/// The threads of one kind.
pub(crate) struct Ending {
    /// For threads to come; none once they are waited for.
    pass: Mutex<Option<Pass>>,
    gone: Mutex<Receiver<Infallible>>,
}

/// A thread keeps it to its end, and lets go of it last.
#[derive(Clone)]
pub(crate) struct Pass(#[expect(dead_code, reason = "its being dropped is what tells")] Sender<Infallible>);

impl Ending {
    pub(crate) fn new() -> Self {
        let (pass, gone) = channel();
        Self { pass: Mutex::new(Some(Pass(pass))), gone: Mutex::new(gone) }
    }

    /// For another thread; none where they are already waited for.
    pub(crate) fn pass(&self) -> Option<Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether all of them have ended within the bound. They must have been told to.
    pub(crate) fn wait(&self) -> bool {
        drop(self.pass.lock().unwrap_or_else(PoisonError::into_inner).take());
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        match gone.recv_timeout(JOIN_MAX) {
            Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Ok(never) => match never {},
        }
    }
}

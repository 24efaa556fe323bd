//! Requests of the writer to the thread that runs checkpoints, and the writer's short wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests for checkpoints. At most one is open at a time.
#[derive(Default)]
pub(super) struct Requests {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    request: Request,
    is_closed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Request {
    #[default]
    None,
    Open,
    Running,
}

impl Requests {
    /// Asks for a checkpoint. Returns false if one is open or runs already.
    pub(super) fn add(&self) -> bool {
        let mut state = self.state();
        let is_new = state.request == Request::None;
        if is_new {
            state.request = Request::Open;
            self.changed.notify_all();
        }
        is_new
    }

    /// Waits until no checkpoint is open or runs, but not longer than this. Returns whether it has ended.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let is_busy = |state: &mut State| state.request != Request::None;
        let waited = self.changed.wait_timeout_while(self.state(), at_most, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Ends the loop of [`run`](Self::run) after the checkpoint that is open or runs.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Runs a checkpoint for each request, until the requests are closed.
    pub(super) fn run(&self, mut checkpoint: impl FnMut()) {
        loop {
            let is_idle = |state: &mut State| state.request == Request::None && !state.is_closed;
            let mut state =
                self.changed.wait_while(self.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
            if state.request == Request::None {
                return;
            }
            state.request = Request::Running;
            drop(state);
            checkpoint();
            self.state().request = Request::None;
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_checkpoint_that_takes_long_delays_its_caller_only_briefly() {
        let requests = &Requests::default();
        let (end, ended) = channel();
        thread::scope(|scope| {
            scope.spawn(move || requests.run(|| ended.recv().unwrap()));
            assert!(requests.add());
            assert!(!requests.wait(Duration::from_millis(5)), "the disk is slow");
            assert!(!requests.add(), "the checkpoint still runs");
            end.send(()).unwrap();
            assert!(requests.wait(Duration::from_secs(60)));
            assert!(requests.add(), "the next one can be requested");
            end.send(()).unwrap();
            requests.close();
        });
    }

    #[test]
    fn an_open_request_is_served_before_the_end() {
        let requests = Requests::default();
        requests.add();
        requests.close();
        let mut checkpoints = 0;
        requests.run(|| checkpoints += 1);
        assert_eq!(checkpoints, 1);
    }
}

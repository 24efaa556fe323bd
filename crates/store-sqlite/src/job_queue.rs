//! A queue of jobs from async tasks to the threads that own database connections.
//!
//! Pushing a job never blocks; callers acquire a semaphore permit first, which bounds the length of the queue. A closed
//! queue accepts no more jobs, and its threads exit once it is empty.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A first-in, first-out queue that threads block on.
pub(crate) struct JobQueue<J> {
    state: Mutex<QueueState<J>>,
    changed: Condvar,
}

struct QueueState<J> {
    jobs: VecDeque<J>,
    /// Number of threads waiting for a job.
    idle_threads: usize,
    closed: bool,
}

/// Result of pushing a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// An idle thread takes the job at once.
    ThreadAvailable,
    /// The job waits until a thread finishes another job.
    AllThreadsBusy,
    /// The queue is closed and the job was dropped.
    Closed,
}

impl<J> JobQueue<J> {
    pub(crate) fn new() -> Self {
        let state = QueueState { jobs: VecDeque::new(), idle_threads: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Appends a job and wakes a thread; drops the job if the queue is closed.
    pub(crate) fn push(&self, job: J) -> PushResult {
        let mut state = self.lock();
        if state.closed {
            return PushResult::Closed;
        }
        state.jobs.push_back(job);
        self.changed.notify_one();
        if state.idle_threads >= state.jobs.len() {
            PushResult::ThreadAvailable
        } else {
            PushResult::AllThreadsBusy
        }
    }

    /// Stops accepting jobs. Jobs that are already queued are still taken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Blocks until a job is queued and takes it. Returns `None` once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<J> {
        self.wait_for_job().jobs.pop_front()
    }

    /// Blocks until a job is queued, or for at most `timeout`, and takes all queued jobs. Returns no jobs after the timeout or a
    /// [`nudge`](Self::nudge), and `None` once the queue is closed and empty.
    pub(crate) fn take_all_within(&self, timeout: Option<Duration>) -> Option<Vec<J>> {
        let mut state = self.lock();
        if state.jobs.is_empty() && !state.closed {
            state.idle_threads += 1;
            state = match timeout {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    self.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle_threads -= 1;
        }
        let is_ended = state.jobs.is_empty() && state.closed;
        (!is_ended).then(|| state.jobs.drain(..).collect())
    }

    /// Wakes a thread that waits without a timeout, so that it looks whether it needs one.
    pub(crate) fn nudge(&self) {
        self.changed.notify_all();
    }

    /// Takes all queued jobs without waiting for one.
    pub(crate) fn drain(&self) -> Vec<J> {
        self.lock().jobs.drain(..).collect()
    }

    fn wait_for_job(&self) -> MutexGuard<'_, QueueState<J>> {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.closed {
            state.idle_threads += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_threads -= 1;
        }
        state
    }

    /// Locks the queue. Ignores poisoning, because no code that runs under the lock can panic.
    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_taken_in_the_order_they_were_pushed() {
        let queue = JobQueue::new();
        for job in 1..=4 {
            assert_eq!(queue.push(job), PushResult::AllThreadsBusy, "no thread is waiting");
        }
        assert_eq!(queue.take(), Some(1));
        assert_eq!(queue.take_all_within(None), Some(vec![2, 3, 4]));
    }

    #[test]
    fn a_closed_queue_is_emptied_before_it_ends() {
        let queue = JobQueue::new();
        queue.push("last");
        queue.close();
        assert_eq!(queue.push("too late"), PushResult::Closed);
        assert_eq!(queue.take(), Some("last"));
        assert_eq!(queue.take(), None);
        assert_eq!(queue.take_all_within(None), None);
    }

    #[test]
    fn a_thread_that_waits_with_a_timeout_goes_on_without_a_job() {
        let queue: JobQueue<()> = JobQueue::new();
        assert_eq!(queue.take_all_within(Some(Duration::from_millis(1))), Some(vec![]));
    }
}

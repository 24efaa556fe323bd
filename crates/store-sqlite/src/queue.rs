//! Jobs on their way from tasks to the threads that own connections.
//!
//! Putting a job in never blocks; how many may wait is bounded by the permits that callers take first. A closed queue
//! takes no more, and its threads leave when it is empty.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Queue<J> {
    waiting: Mutex<Waiting<J>>,
    bell: Condvar,
}

struct Waiting<J> {
    jobs: VecDeque<J>,
    /// Threads that wait for a job.
    idle: usize,
    closed: bool,
}

/// What became of a job that was put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// A thread is there to take it at once.
    Taken,
    Waiting,
    /// The queue is closed.
    Refused,
}

impl<J> Queue<J> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { jobs: VecDeque::new(), idle: 0, closed: false };
        Self { waiting: Mutex::new(waiting), bell: Condvar::new() }
    }

    /// Drops the job where the queue is closed.
    pub(crate) fn put(&self, job: J) -> Put {
        let mut waiting = self.lock();
        if waiting.closed {
            return Put::Refused;
        }
        waiting.jobs.push_back(job);
        self.bell.notify_one();
        if waiting.idle >= waiting.jobs.len() { Put::Taken } else { Put::Waiting }
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_all();
    }

    /// Waits for a job; none once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<J> {
        self.wait_for_a_job().jobs.pop_front()
    }

    /// Waits for a job and takes all that have come; none once the queue is closed and empty.
    pub(crate) fn take_all(&self) -> Option<Vec<J>> {
        let jobs: Vec<J> = self.wait_for_a_job().jobs.drain(..).collect();
        (!jobs.is_empty()).then_some(jobs)
    }

    fn wait_for_a_job(&self) -> MutexGuard<'_, Waiting<J>> {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() && !waiting.closed {
            waiting.idle += 1;
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
        waiting
    }

    /// Nothing that could panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_out_in_the_order_they_went_in() {
        let queue = Queue::new();
        for job in 1..=4 {
            assert_eq!(queue.put(job), Put::Waiting, "nobody waits for it");
        }
        assert_eq!(queue.take(), Some(1));
        assert_eq!(queue.take_all(), Some(vec![2, 3, 4]));
    }

    #[test]
    fn a_closed_queue_is_emptied_before_it_ends() {
        let queue = Queue::new();
        queue.put("last");
        queue.close();
        assert_eq!(queue.put("too late"), Put::Refused);
        assert_eq!(queue.take(), Some("last"));
        assert_eq!(queue.take(), None);
        assert_eq!(queue.take_all(), None);
    }
}

//! Wake-ups: a store signals to claiming workers that an event may be due.
//!
//! A counter and a [`Notify`], not a watch channel: a watch channel wakes its waiters in random order, and the
//! simulation must replay exactly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The state that a waker shares with its subscriptions.
#[derive(Debug, Default)]
struct Signal {
    /// Number of wake-ups so far.
    count: AtomicU64,
    waiters: Notify,
}

/// The sending side of wake-ups. The adapter calls it after every commit that may have made an event due.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Signal>);

impl Waker {
    /// Wakes every subscription.
    pub fn wake(&self) {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        self.0.waiters.notify_waiters();
    }

    /// Subscribes to the wake-ups from now on.
    pub fn subscribe(&self) -> Wakeups {
        Wakeups { signal: Arc::clone(&self.0), seen_count: self.0.count.load(Ordering::SeqCst) }
    }
}

/// The receiving side of wake-ups, held by a worker. It keeps a wake-up that arrives while the worker is not waiting,
/// and merges several wake-ups into one.
#[derive(Debug, Clone)]
pub struct Wakeups {
    signal: Arc<Signal>,
    seen_count: u64,
}

impl Wakeups {
    /// Resolves when a wake-up has arrived since the last call.
    pub async fn wait(&mut self) {
        loop {
            // Register before reading the counter, so that no wake-up is missed in between.
            let notified = self.signal.waiters.notified();
            let count = self.signal.count.load(Ordering::SeqCst);
            if count != self.seen_count {
                self.seen_count = count;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker as TaskWaker};

    use super::*;

    #[test]
    fn wakeups_without_a_waiter_are_kept_as_one() {
        let waker = Waker::default();
        let mut wakeups = waker.subscribe();
        waker.wake();
        waker.wake();
        let mut context = Context::from_waker(TaskWaker::noop());
        assert!(pin!(wakeups.wait()).poll(&mut context).is_ready());
        assert!(pin!(wakeups.wait()).poll(&mut context).is_pending());
    }

    #[test]
    fn subscription_ignores_earlier_wakeups_and_wakes_its_waiter() {
        let waker = Waker::default();
        waker.wake();
        let mut wakeups = waker.subscribe();
        let mut context = Context::from_waker(TaskWaker::noop());
        let mut wait = pin!(wakeups.wait());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        waker.wake();
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
}

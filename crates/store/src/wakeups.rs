//! "Something may be due": from whoever stores an event to whoever claims.
//!
//! Built on a counter and a queue of waiters rather than on a watch channel, whose waiters wake in random order:
//! the simulation has to replay exactly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Bell {
    rings: AtomicU64,
    waiting: Notify,
}

/// The adapter's end: rung after every commit that made something due.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Bell>);

impl Waker {
    pub fn wake(&self) {
        self.0.rings.fetch_add(1, Ordering::SeqCst);
        self.0.waiting.notify_waiters();
    }

    pub fn subscribe(&self) -> Wakeups {
        Wakeups { bell: Arc::clone(&self.0), heard: self.0.rings.load(Ordering::SeqCst) }
    }
}

/// The worker's end. Remembers a wake-up that came while nobody waited; many become one.
#[derive(Debug, Clone)]
pub struct Wakeups {
    bell: Arc<Bell>,
    heard: u64,
}

impl Wakeups {
    pub async fn woken(&mut self) {
        loop {
            // Waiting begins before the counter is read, so that no ring falls between the two.
            let ring = self.bell.waiting.notified();
            let rings = self.bell.rings.load(Ordering::SeqCst);
            if rings != self.heard {
                self.heard = rings;
                return;
            }
            ring.await;
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
    fn a_wake_up_that_came_while_nobody_waited_is_remembered_once() {
        let waker = Waker::default();
        let mut wakeups = waker.subscribe();
        waker.wake();
        waker.wake();
        let mut context = Context::from_waker(TaskWaker::noop());
        assert!(pin!(wakeups.woken()).poll(&mut context).is_ready());
        assert!(pin!(wakeups.woken()).poll(&mut context).is_pending());
    }

    #[test]
    fn a_waiter_is_woken_and_an_earlier_ring_is_not_heard() {
        let waker = Waker::default();
        waker.wake();
        let mut wakeups = waker.subscribe();
        let mut context = Context::from_waker(TaskWaker::noop());
        let mut woken = pin!(wakeups.woken());
        assert!(woken.as_mut().poll(&mut context).is_pending());
        waker.wake();
        assert!(woken.as_mut().poll(&mut context).is_ready());
    }
}

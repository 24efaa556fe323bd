//! "Something may be due": from whoever stores an event to whoever claims.

use tokio::sync::watch;

/// The adapter's end: rung after every commit that made something due.
#[derive(Debug, Clone)]
pub struct Waker(watch::Sender<()>);

impl Waker {
    pub fn wake(&self) {
        self.0.send_replace(());
    }

    pub fn subscribe(&self) -> Wakeups {
        Wakeups(self.0.subscribe())
    }
}

impl Default for Waker {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

/// The worker's end. Remembers a wake-up that came while nobody waited; many become one.
#[derive(Debug, Clone)]
pub struct Wakeups(watch::Receiver<()>);

impl Wakeups {
    /// Resolves when woken; never, once the store is gone.
    pub async fn woken(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

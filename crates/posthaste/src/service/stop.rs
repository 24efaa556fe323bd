//! When to stop: at the first signal in good order, at the second at once.

use tokio::sync::watch;

/// Told to everything that has to end. Cheap to clone.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Whoever holds it decides.
pub struct Stopper(watch::Sender<bool>);

pub fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns when it is time to stop, also when nobody is left to say so.
    pub async fn stopped(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

/// Returns at the next SIGTERM or SIGINT.
#[cfg(unix)]
pub async fn signalled() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}

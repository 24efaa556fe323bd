//! When to stop: at the first signal in good order, at the second at once.

use tokio::sync::watch;

/// Told to everything that has to end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

/// Whoever holds it decides.
pub(crate) struct Stopper(watch::Sender<bool>);

pub(crate) fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns when it is time to stop, also when nobody is left to say so.
    pub(crate) async fn stopped(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// SIGTERM and SIGINT, from the moment on at which this is made: none that comes later ends the process by itself, and
/// none is missed while another is handled.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

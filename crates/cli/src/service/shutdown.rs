//! Shutdown: the signals of the operating system, and the notification of tasks that have to end.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A task's handle that resolves when the process shuts down. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ShutdownSignal(watch::Receiver<bool>);

/// Starts the shutdown for every [`ShutdownSignal`] of its channel. Dropping it does the same.
pub(crate) struct ShutdownTrigger(watch::Sender<bool>);

/// Creates a trigger and the signal that it controls.
pub(crate) fn shutdown_channel() -> (ShutdownTrigger, ShutdownSignal) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), ShutdownSignal(receiver))
}

impl ShutdownTrigger {
    /// Starts the shutdown.
    pub(crate) fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl ShutdownSignal {
    /// Waits for the shutdown. Returns at once if it has started.
    pub(crate) async fn wait(&mut self) {
        let _ = self.0.wait_for(|started| *started).await;
    }
}

/// The handlers of SIGTERM, SIGINT and SIGHUP, which all stop the process. From their registration on, these signals no
/// longer kill the process, and one that arrives while another is handled is not lost.
pub(crate) struct ProcessSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl ProcessSignals {
    /// Installs the signal handlers.
    pub(crate) fn register() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

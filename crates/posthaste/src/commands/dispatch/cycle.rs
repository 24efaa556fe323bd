//! One cycle that can be told to stop.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Posthaste;
use posthaste::domain::CycleReport;
use posthaste::engine::{Drained, Engine, OnceError, Ports, Runtimes, Settings, TokioClock};
use posthaste::service::chance::OsChance;
use tokio::runtime::{Builder, Runtime};

pub(super) struct OneCycle {
    settings: Settings,
    ports: Ports,
    heartbeat: HeartbeatRuntime,
}

/// A thread for heartbeats alone: no busy sender keeps it from its timers.
struct HeartbeatRuntime(Option<Runtime>);

impl OneCycle {
    pub(super) fn of(posthaste: Posthaste) -> anyhow::Result<Self> {
        let (store, settings) = (Arc::clone(posthaste.store()), posthaste.settings().clone());
        let mut sender = None;
        let _ = posthaste.sending_through(|through| Arc::clone(sender.insert(through)));
        let ports = Ports {
            store,
            sender: sender.expect("an instance has a sender"),
            clock: Arc::new(TokioClock::start()),
            chance: Arc::new(OsChance::new()?),
            observer: Arc::new(()),
        };
        Ok(Self { settings, ports, heartbeat: HeartbeatRuntime::start()? })
    }

    /// Delivers what is due now, and reports. Told to stop, it lets what is in flight finish within the deadline, and
    /// gives back what has not.
    pub(super) async fn run_until(
        self,
        stop: impl Future<Output = ()>,
        deadline: Duration,
    ) -> Result<(CycleReport, Drained), OnceError> {
        let runtime = self.heartbeat.0.as_ref().expect("it runs until it is dropped");
        let runtimes = Runtimes { heartbeat: runtime.handle().clone(), ..Runtimes::current() };
        Engine::once_until(self.settings, self.ports, &runtimes, stop, deadline).await
    }
}

impl HeartbeatRuntime {
    fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("posthaste-heartbeat").enable_all();
        Ok(Self(Some(builder.build()?)))
    }
}

/// A runtime may not be waited for where its owner is dropped.
impl Drop for HeartbeatRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

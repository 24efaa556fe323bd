//! A tokio runtime with one thread of its own, for timers and requests that no other task may delay.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// A tokio runtime with one thread. Dropping it cancels its tasks without waiting for them.
pub struct DedicatedRuntime(Option<Runtime>);

impl DedicatedRuntime {
    /// Starts the runtime and its thread, which gets this name.
    pub fn start(thread_name: &str) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name(thread_name).enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    pub fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the runtime is taken only on drop").handle()
    }
}

/// Tokio panics when a runtime is dropped inside another one, unless it shuts down in the background.
impl Drop for DedicatedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_run_on_the_named_thread_and_are_cancelled_when_the_runtime_is_dropped() {
        let runtime = DedicatedRuntime::start("posthaste-apart").unwrap();
        let name = runtime.handle().spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.unwrap().as_deref(), Some("posthaste-apart"));
        let endless = runtime.handle().spawn(std::future::pending::<()>());
        drop(runtime);
        assert!(endless.await.unwrap_err().is_cancelled());
    }
}

//! A runtime of one thread, for what must not wait behind anything else.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

pub struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    pub fn start(thread: &str) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name(thread).enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    pub fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it runs until it is dropped").handle()
    }
}

/// A runtime may not be waited for where its owner is dropped.
impl Drop for OwnRuntime {
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
    async fn work_runs_on_the_thread_and_nobody_waits_for_it_at_the_end() {
        let runtime = OwnRuntime::start("posthaste-apart").unwrap();
        let name = runtime.handle().spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.unwrap().as_deref(), Some("posthaste-apart"));
        let endless = runtime.handle().spawn(std::future::pending::<()>());
        drop(runtime);
        assert!(endless.await.unwrap_err().is_cancelled());
    }
}

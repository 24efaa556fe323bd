//! A real engine with a receiver that answers as a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ClaimId, Lease, Outcome, Roll, WorkerId};
use posthaste_engine::{Chance, Engine, Ports, Runtimes, Sender, Settings, TokioClock};

use super::Stage;

/// The middle of every jitter window, and claims by number.
#[derive(Default)]
struct Middle(AtomicU64);

impl Chance for Middle {
    fn roll(&self) -> Roll {
        Roll(1 << 63)
    }

    fn claim_id(&self) -> ClaimId {
        let number = (1_u128 << 64) | u128::from(self.0.fetch_add(1, Ordering::SeqCst));
        ClaimId::random(number.to_be_bytes())
    }
}

/// Answers every request with one status, or not at all.
struct Receiver(Option<u16>);

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, _: &Lease, _: Duration) -> Outcome {
        match self.0 {
            Some(status) => Outcome::response(status, None, b""),
            None => std::future::pending().await,
        }
    }
}

impl Stage {
    /// A worker of this process, watched by its metrics.
    pub(crate) fn worker(&self, answers: Option<u16>) -> Engine {
        let ports = Ports {
            store: Arc::clone(&self.store),
            sender: Arc::new(Receiver(answers)),
            clock: Arc::new(TokioClock::start()),
            chance: Arc::new(Middle::default()),
            observer: Arc::clone(&self.metrics) as _,
        };
        let settings = Settings::new(WorkerId::new("worker-b").unwrap());
        let engine = Engine::start(settings, ports, &Runtimes::current()).unwrap();
        self.metrics.watch(engine.pulse());
        engine
    }
}

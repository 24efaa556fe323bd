//! A real engine, with a receiver whose responses the test chooses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ClaimId, Lease, Outcome, RandomDraw, Timestamp, WorkerId};
use posthaste_engine::{
    Engine, LocalShortage, Ports, RandomSource, Runtimes, Sender, Settings, SharedProfiles, TokioClock,
};

use super::TestApi;

/// Deterministic randomness: the middle of every jitter range, and numbered claim ids.
#[derive(Default)]
struct FixedRandom(AtomicU64);

impl RandomSource for FixedRandom {
    fn draw(&self) -> RandomDraw {
        RandomDraw(1 << 63)
    }

    fn new_claim_id(&self) -> ClaimId {
        let number = (1_u128 << 64) | u128::from(self.0.fetch_add(1, Ordering::SeqCst));
        ClaimId::random(number.to_be_bytes())
    }
}

/// Responds to every request with one status, or never.
struct Receiver(Option<u16>);

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, _: &Lease, _: Timestamp, _: Duration) -> Result<Outcome, LocalShortage> {
        match self.0 {
            Some(status) => Ok(Outcome::response(status, None, b"")),
            None => std::future::pending().await,
        }
    }
}

impl TestApi {
    /// Starts a worker that the API's metrics watch. `status` is what the receiver responds with.
    pub(crate) fn start_worker(&self, status: Option<u16>) -> Engine {
        let ports = Ports {
            store: Arc::clone(&self.store),
            sender: Arc::new(Receiver(status)),
            clock: Arc::new(TokioClock::start()),
            random: Arc::new(FixedRandom::default()),
            observer: Arc::clone(&self.metrics) as _,
            reloaded_keys: None,
            profiles: SharedProfiles::default(),
        };
        let settings = Settings::new(WorkerId::new("worker-b").unwrap());
        let engine = Engine::start(settings, ports, &Runtimes::current()).unwrap();
        self.metrics.watch_worker(engine.health());
        engine
    }
}

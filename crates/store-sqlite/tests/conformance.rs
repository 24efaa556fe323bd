//! The SQLite store against the list of cases that every store must pass, and beside the model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::Timestamp;
use posthaste_store::Store;
use posthaste_store_comparison::Comparison;
use posthaste_store_conformance::{Harness, conformance_suite};
use posthaste_store_memory::ManualClock;
use posthaste_store_sqlite::{Options, SqliteStore};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// A file of its own per case, and two stores on it as two processes would have them.
struct SqliteHarness {
    store: SqliteStore,
    second: SqliteStore,
    clock: Arc<ManualClock>,
    _directory: tempfile::TempDir,
}

impl SqliteHarness {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("the test may write temporary files");
        let path = directory.path().join("outbox.db");
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let open = |seed| {
            let random = StdRng::seed_from_u64(seed);
            SqliteStore::open(&path, clock.clone(), random, Options::default())
                .expect("a new file can be opened")
        };
        Self { store: open(1), second: open(2), clock, _directory: directory }
    }
}

#[async_trait]
impl Harness for SqliteHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        Arc::new(self.second.clone())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn step_back(&self, by: Duration) {
        self.clock.step_back(by);
    }
}

conformance_suite!(SqliteHarness::new());

#[test]
fn the_sqlite_store_does_what_the_model_does() {
    Comparison::new(2_000).run(async || SqliteHarness::new());
}

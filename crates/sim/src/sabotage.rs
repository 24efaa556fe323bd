//! Where a test plants a bug.

use std::sync::Arc;

use posthaste_engine::Sender;
use posthaste_store::Store;
use posthaste_store_memory::MemoryStore;

/// Swaps in a store or an engine with one known bug. What an engine does wrong is what its ports see it do, so a
/// bug of an engine is a layer between it and them.
pub trait Sabotage: Send + Sync + 'static {
    /// The store that everyone shares.
    fn store(&self, memory: MemoryStore) -> Arc<dyn Store> {
        Arc::new(memory)
    }

    /// The ports of one engine.
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> (Arc<dyn Store>, Arc<dyn Sender>) {
        (store, sender)
    }
}

/// No bug that we know of.
pub struct Honest;

impl Sabotage for Honest {}

//! The hook through which a test plants a bug.

use std::sync::Arc;

use posthaste_domain::RetryPolicySpec;
use posthaste_engine::{Clock, Sender, Settings};
use posthaste_store::Store;
use posthaste_store_memory::MemoryStore;

use crate::scenario::RetryRules;

/// Replaces the store or the engine by one with a known bug. A bug of an engine is a layer between the engine and its
/// ports: it makes the engine's calls look as the buggy engine's would.
pub trait PlantedBug: Send + Sync + 'static {
    /// Returns the store that all processes share.
    fn store(&self, memory: MemoryStore) -> Arc<dyn Store> {
        Arc::new(memory)
    }

    /// Returns the settings of the policy that the engines use. The checker applies the rules of the scenario.
    fn policy(&self, rules: &RetryRules) -> RetryPolicySpec {
        rules.spec()
    }

    /// Returns the settings that one engine gets.
    fn settings(&self, settings: Settings) -> Settings {
        settings
    }

    /// Returns the store and the sender that one engine gets.
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> (Arc<dyn Store>, Arc<dyn Sender>) {
        (store, sender)
    }

    /// Returns the sender that one engine gets, on a host with this clock.
    fn sender(&self, sender: Arc<dyn Sender>, _host: Arc<dyn Clock>) -> Arc<dyn Sender> {
        sender
    }
}

/// No planted bug.
pub struct NoBug;

impl PlantedBug for NoBug {}

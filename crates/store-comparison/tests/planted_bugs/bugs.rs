//! Stores with one bug each. Each wraps the memory store and changes its state around a call, so that it behaves like a
//! store without the rule in question.

use std::time::Duration;

use posthaste_domain::{ClaimId, EventKey, LeaseToken, WorkerId};
use posthaste_store_memory::{GrantedLease, MemoryStore};

/// Defines a store with a bug: its name, the type of its extra state, and the methods that it changes.
macro_rules! store_bug {
    ($(#[$doc:meta])* $name:ident $(with_state $memory:ty)?; $($method:item)*) => {
        $(#[$doc])*
        pub(crate) fn $name(memory: MemoryStore) -> Arc<dyn Store> {
            struct Bug {
                memory: MemoryStore,
                $(state: $memory,)?
            }

            #[async_trait]
            impl StoreLayer for Bug {
                fn inner(&self) -> &dyn Store {
                    &self.memory
                }
                $($method)*
            }

            Arc::new(LayeredStore(Bug { memory, $(state: <$memory>::default(),)? }))
        }
    };
}

/// Defines a store of which one resource has a fault, such as its messages: the name, the accessor, and the faulty resource.
macro_rules! resource_bug {
    ($name:ident, $accessor:ident: $resource:ident, $faulty:ident, $fault:expr) => {
        pub(crate) fn $name(memory: MemoryStore) -> Arc<dyn Store> {
            struct Bug {
                memory: MemoryStore,
                faulty: $faulty,
            }

            impl StoreLayer for Bug {
                fn inner(&self) -> &dyn Store {
                    &self.memory
                }

                fn $accessor(&self) -> &dyn $resource {
                    &self.faulty
                }
            }

            let faulty = $faulty { memory: memory.clone(), fault: $fault };
            Arc::new(LayeredStore(Bug { memory, faulty }))
        }
    };
}

pub(crate) mod activity;
pub(crate) mod bulk;
pub(crate) mod claim;
pub(crate) mod destination;
pub(crate) mod records;
pub(crate) mod registry;
mod registry_faults;
pub(crate) mod settle;

/// Leases a row under a token, regardless of its present lease.
pub(crate) fn forge_lease(memory: &MemoryStore, key: EventKey, token: LeaseToken, owner: &WorkerId) {
    memory.with_state(|state| {
        if let Some(row) = state.row_mut(key) {
            let until = row.lease.as_ref().map_or(row.updated_at, |lease| lease.until);
            let duration = row.lease.as_ref().map_or(Duration::ZERO, |lease| lease.duration);
            let claim = row.lease.as_ref().map_or(ClaimId::random([0; 16]), |lease| lease.claim);
            row.lease = Some(GrantedLease { claim, token, owner: owner.clone(), until, duration });
        }
    });
}

//! Stores that are wrong in one way: the memory store with its state bent around a call, so that it does what a store
//! without the rule would.

use posthaste_domain::{ClaimId, EventKey, LeaseToken, WorkerId};
use posthaste_store_memory::{GrantedLease, MemoryStore};

/// A store bug: its name, what it has to remember, and the methods that it changes.
macro_rules! store_bug {
    ($(#[$doc:meta])* $name:ident $(remembers $memory:ty)?; $($method:item)*) => {
        $(#[$doc])*
        pub(crate) fn $name(memory: MemoryStore) -> Arc<dyn Store> {
            struct Bug {
                memory: MemoryStore,
                $(remembered: $memory,)?
            }

            #[async_trait]
            impl Layer for Bug {
                fn inner(&self) -> &dyn Store {
                    &self.memory
                }
                $($method)*
            }

            Arc::new(Layered(Bug { memory, $(remembered: <$memory>::default(),)? }))
        }
    };
}

pub(crate) mod claim;
pub(crate) mod keep;
pub(crate) mod settle;

/// Makes the row look as if it were leased under this token.
pub(crate) fn forge(memory: &MemoryStore, key: EventKey, token: LeaseToken, owner: &WorkerId) {
    memory.with_state(|state| {
        if let Some(row) = state.row_mut(key) {
            let until = row.lease.as_ref().map_or(row.updated_at, |lease| lease.until);
            let claim = row.lease.as_ref().map_or(ClaimId::random([0; 16]), |lease| lease.claim);
            row.lease = Some(GrantedLease { claim, token, owner: owner.clone(), until });
        }
    });
}

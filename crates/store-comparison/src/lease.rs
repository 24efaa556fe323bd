//! Extending leases and giving them back: any that were ever granted, held or lost.

use std::time::Duration;

use posthaste_store::{HeldLease, Store as _};

use crate::difference::{Agreed, Difference, same};
use crate::operation::{Granted, Handle};
use crate::pair::{Both, Pair};

impl Pair<'_> {
    pub(crate) async fn renew(
        &mut self,
        handle: Handle,
        leases: &[Granted],
        lease: Duration,
    ) -> Agreed<String> {
        let held = self.held(leases);
        let store = self.store(handle).renew(&held.store, lease).await;
        let store = store.map_err(|error| Difference::failed("renew", &error))?;
        let mut model = self.model.renew(&held.model, lease).await.expect("the model is always up");
        let mut lost = Vec::new();
        for held in &store {
            lost.push(HeldLease {
                key: self.names.keys.model_of(&held.key)?,
                token: self.names.tokens.model_of(&held.token)?,
            });
        }
        lost.sort();
        model.sort();
        self.tally.count("renewals", held.model.len() - model.len());
        self.tally.count("lost renewals", model.len());
        same("what could not be renewed", &model, &lost)?;
        Ok(format!("{} of {} lost", lost.len(), held.model.len()))
    }

    pub(crate) async fn release(&mut self, handle: Handle, leases: &[Granted]) -> Agreed<String> {
        let held = self.held(leases);
        let store = self.store(handle).release(&held.store).await;
        store.map_err(|error| Difference::failed("release", &error))?;
        self.model.release(&held.model).await.expect("the model is always up");
        Ok(String::new())
    }

    /// Each once.
    fn held(&self, leases: &[Granted]) -> Both<Vec<HeldLease>> {
        let mut held = Both { store: Vec::new(), model: Vec::new() };
        for lease in leases.iter().filter_map(|granted| self.granted(*granted)) {
            let model = HeldLease::from(&lease.model);
            if !held.model.contains(&model) {
                held.store.push(HeldLease::from(&lease.store));
                held.model.push(model);
            }
        }
        held
    }
}

//! Renewals, releases and reads of payloads under any lease ever granted, held or lost.

use std::time::Duration;

use posthaste_store::{LeaseRef, Store as _};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{Handle, LeaseChoice};
use crate::sequence_run::{Counterparts, SequenceRun};

impl SequenceRun<'_> {
    pub(crate) async fn renew(
        &mut self,
        handle: Handle,
        leases: &[LeaseChoice],
        lease: Duration,
    ) -> ComparisonResult<String> {
        let held = self.lease_refs(leases);
        let store = self.store(handle).renew(&held.store, lease).await;
        let store = store.map_err(|error| Difference::failed("renew", &error))?;
        let mut model = self.model.renew(&held.model, lease).await.expect("the model is always up");
        let mut lost = Vec::new();
        for held in &store {
            lost.push(LeaseRef {
                key: self.ids.keys.model_of(&held.key)?,
                token: self.ids.tokens.model_of(&held.token)?,
            });
        }
        lost.sort();
        model.sort();
        self.tally.add("renewals", held.model.len() - model.len());
        self.tally.add("lost renewals", model.len());
        compare("the lost leases of a renewal", &model, &lost)?;
        Ok(format!("{} of {} lost", lost.len(), held.model.len()))
    }

    pub(crate) async fn release(
        &mut self,
        handle: Handle,
        leases: &[LeaseChoice],
    ) -> ComparisonResult<String> {
        let held = self.lease_refs(leases);
        let store = self.store(handle).release(&held.store).await;
        store.map_err(|error| Difference::failed("release", &error))?;
        self.model.release(&held.model).await.expect("the model is always up");
        Ok(String::new())
    }

    pub(crate) async fn read_payload(
        &mut self,
        handle: Handle,
        lease: LeaseChoice,
    ) -> ComparisonResult<String> {
        let Some(lease) = self.lease(lease) else { return Ok(String::new()) };
        let held = Counterparts { store: LeaseRef::from(&lease.store), model: LeaseRef::from(&lease.model) };
        let store = self.store(handle).read_payload(held.store).await;
        let store = store.map_err(|error| Difference::failed("read_payload", &error))?;
        let model = self.model.read_payload(held.model).await.expect("the model is always up");
        let what = if model.is_some() { "payloads read" } else { "payloads of lost leases" };
        self.tally.add(what, 1);
        compare("the payload of a lease", &model, &store)?;
        Ok(format!("{:?} bytes", store.map(|payload| payload.len())))
    }

    /// Returns references to the chosen leases, without duplicates.
    fn lease_refs(&self, leases: &[LeaseChoice]) -> Counterparts<Vec<LeaseRef>> {
        let mut held = Counterparts { store: Vec::new(), model: Vec::new() };
        for lease in leases.iter().filter_map(|choice| self.lease(*choice)) {
            let model = LeaseRef::from(&lease.model);
            if !held.model.contains(&model) {
                held.store.push(LeaseRef::from(&lease.store));
                held.model.push(model);
            }
        }
        held
    }
}

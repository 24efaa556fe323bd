//! The one-to-one mapping between the store's ids and the model's.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use posthaste_domain::{
    ApplicationId, BulkId, DestinationId, EventId, EventKey, LeaseToken, MessageId, OperationId,
};

use crate::difference::{ComparisonResult, Difference};
use crate::sequence_run::Counterparts;

/// The mapping of one kind of id.
#[derive(Debug)]
pub(crate) struct IdMap<T> {
    kind: &'static str,
    model_of: BTreeMap<T, T>,
    store_of: BTreeMap<T, T>,
}

impl<T: Ord + Clone + Debug> IdMap<T> {
    const fn new(kind: &'static str) -> Self {
        Self { kind, model_of: BTreeMap::new(), store_of: BTreeMap::new() }
    }

    /// Checks that two ids belong together; maps them to each other if neither is mapped yet.
    pub(crate) fn pair(&mut self, store: &T, model: &T) -> ComparisonResult {
        match (self.model_of.get(store), self.store_of.get(model)) {
            (None, None) => {
                self.model_of.insert(store.clone(), model.clone());
                self.store_of.insert(model.clone(), store.clone());
                Ok(())
            }
            (Some(mapped), _) if mapped == model => Ok(()),
            (Some(other), _) => Err(Difference::new(format!(
                "{}: the store's {store:?} should belong to the model's {model:?}, but belongs to {other:?}",
                self.kind
            ))),
            (None, Some(other)) => Err(Difference::new(format!(
                "{}: the store's {store:?} is new, but should be {other:?} as before",
                self.kind
            ))),
        }
    }

    /// Returns the model's id for an id of the store, which must have been paired before.
    pub(crate) fn model_of(&self, store: &T) -> ComparisonResult<T> {
        let unknown =
            || Difference::new(format!("{}: the store's {store:?} is unknown to the model", self.kind));
        self.model_of.get(store).cloned().ok_or_else(unknown)
    }

    /// Returns all pairs of ids in the order of the model's.
    pub(crate) fn pairs(&self) -> Vec<Counterparts<T>> {
        let pairs = self.store_of.iter();
        pairs.map(|(model, store)| Counterparts { store: store.clone(), model: model.clone() }).collect()
    }

    /// Returns the store's id for an id of the model, if it has been paired.
    pub(crate) fn store_of(&self, model: &T) -> Option<&T> {
        self.store_of.get(model)
    }
}

/// The mappings of every kind of id that a store generates.
#[derive(Debug)]
pub(crate) struct IdMaps {
    pub(crate) events: IdMap<EventId>,
    pub(crate) keys: IdMap<EventKey>,
    pub(crate) messages: IdMap<MessageId>,
    pub(crate) destinations: IdMap<DestinationId>,
    pub(crate) tokens: IdMap<LeaseToken>,
    pub(crate) applications: IdMap<ApplicationId>,
    pub(crate) operations: IdMap<OperationId>,
    pub(crate) bulk_operations: IdMap<BulkId>,
    /// The model's text for each text of the store that names a resource, in errors and in fields of events.
    pub(crate) names: BTreeMap<String, String>,
}

impl IdMaps {
    pub(crate) const fn new() -> Self {
        Self {
            events: IdMap::new("event id"),
            keys: IdMap::new("event key"),
            messages: IdMap::new("message id"),
            destinations: IdMap::new("destination id"),
            tokens: IdMap::new("lease token"),
            applications: IdMap::new("application id"),
            operations: IdMap::new("operation id"),
            bulk_operations: IdMap::new("bulk operation id"),
            names: BTreeMap::new(),
        }
    }

    /// Records how the two stores name a resource.
    pub(crate) fn pair_names(&mut self, named: &Counterparts<impl Display>) {
        self.names.insert(named.store.to_string(), named.model.to_string());
    }

    /// Returns the model's text for a text of the store.
    pub(crate) fn name_to_model(&self, store: &str) -> String {
        self.names.get(store).cloned().unwrap_or_else(|| store.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_paired_with_exactly_one_other() {
        let mut map = IdMap::new("id");
        map.pair(&7, &1).unwrap();
        map.pair(&7, &1).unwrap();
        assert!(map.pair(&7, &2).is_err(), "the store uses one id for two things");
        assert!(map.pair(&8, &1).is_err(), "the store uses two ids for one thing");
        map.pair(&8, &2).unwrap();
        assert_eq!((map.model_of(&8).unwrap(), map.store_of(&1)), (2, Some(&7)));
        assert!(map.model_of(&9).is_err());
    }
}

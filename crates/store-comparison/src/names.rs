//! What the store calls this, the model calls that.

use std::collections::BTreeMap;
use std::fmt::Debug;

use posthaste_domain::{DestinationId, EventId, EventKey, LeaseToken, MessageId};

use crate::difference::{Agreed, Difference};

/// Ids of one kind, one to one.
#[derive(Debug)]
pub(crate) struct Pairs<T> {
    what: &'static str,
    model_of: BTreeMap<T, T>,
    store_of: BTreeMap<T, T>,
}

impl<T: Ord + Clone + Debug> Pairs<T> {
    const fn of(what: &'static str) -> Self {
        Self { what, model_of: BTreeMap::new(), store_of: BTreeMap::new() }
    }

    /// These two name one thing: as they did before, or from now on if neither has named anything yet.
    pub(crate) fn meet(&mut self, store: &T, model: &T) -> Agreed {
        match (self.model_of.get(store), self.store_of.get(model)) {
            (None, None) => {
                self.model_of.insert(store.clone(), model.clone());
                self.store_of.insert(model.clone(), store.clone());
                Ok(())
            }
            (Some(known), _) if known == model => Ok(()),
            (Some(other), _) => Err(Difference::new(format!(
                "{}: the store's {store:?} should be the model's {model:?}, but is its {other:?}",
                self.what
            ))),
            (None, Some(other)) => Err(Difference::new(format!(
                "{}: the store's {store:?} is new, where it should be {other:?} again",
                self.what
            ))),
        }
    }

    pub(crate) fn model_of(&self, store: &T) -> Agreed<T> {
        let unknown = || Difference::new(format!("{}: the store's {store:?} was never heard of", self.what));
        self.model_of.get(store).cloned().ok_or_else(unknown)
    }

    pub(crate) fn store_of(&self, model: &T) -> Option<&T> {
        self.store_of.get(model)
    }
}

/// Every kind of id that a store makes.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) events: Pairs<EventId>,
    pub(crate) keys: Pairs<EventKey>,
    pub(crate) messages: Pairs<MessageId>,
    pub(crate) destinations: Pairs<DestinationId>,
    pub(crate) tokens: Pairs<LeaseToken>,
}

impl Names {
    pub(crate) const fn new() -> Self {
        Self {
            events: Pairs::of("event id"),
            keys: Pairs::of("event key"),
            messages: Pairs::of("message id"),
            destinations: Pairs::of("destination id"),
            tokens: Pairs::of("lease token"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_stays_a_pair_and_nothing_is_in_two() {
        let mut pairs = Pairs::of("id");
        pairs.meet(&7, &1).unwrap();
        pairs.meet(&7, &1).unwrap();
        assert!(pairs.meet(&7, &2).is_err(), "the store has one name for two things");
        assert!(pairs.meet(&8, &1).is_err(), "the store has two names for one thing");
        pairs.meet(&8, &2).unwrap();
        assert_eq!((pairs.model_of(&8).unwrap(), pairs.store_of(&1)), (2, Some(&7)));
        assert!(pairs.model_of(&9).is_err());
    }
}

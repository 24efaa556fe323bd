//! Moments of two clocks.
//!
//! How far the clocks are apart is found anew after every step, from when the oldest event was created: a store that
//! cannot move its clock forward has its moments moved back instead.

use std::time::Duration;

use posthaste_domain::Timestamp;

use crate::lengths::TOLERANCE;

/// The store's span of time as the model would tell it.
pub(crate) fn near(store: Duration, model: Duration) -> Duration {
    if store.abs_diff(model) <= TOLERANCE { model } else { store }
}

#[derive(Debug, Default)]
pub(crate) struct Moments {
    /// Microseconds by which the store is ahead; unknown until something was stored.
    ahead_micros: Option<i64>,
}

impl Moments {
    /// These two are one moment.
    pub(crate) fn align(&mut self, store: Timestamp, model: Timestamp) {
        self.ahead_micros = Some(store.as_micros() - model.as_micros());
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.ahead_micros = None;
    }

    pub(crate) const fn are_aligned(&self) -> bool {
        self.ahead_micros.is_some()
    }

    /// The store's moment as the model would tell it: the model's own where they are near enough.
    pub(crate) fn as_model(&self, store: Timestamp, model: Timestamp) -> Timestamp {
        let Some(ahead) = self.ahead_micros else { return model };
        let told = Timestamp::from_micros(store.as_micros() - ahead);
        if told.since(model) + model.since(told) <= TOLERANCE { model } else { told }
    }

    /// The same for what may not be there: a moment that only the store has is told.
    pub(crate) fn as_model_if_any(
        &self,
        store: Option<Timestamp>,
        model: Option<Timestamp>,
    ) -> Option<Timestamp> {
        store.map(|store| self.as_model(store, model.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_the_same_and_what_is_not_is_told_on_the_models_clock() {
        let mut moments = Moments::default();
        let (store, model) = (Timestamp::from_secs(5_000), Timestamp::from_secs(1_000));
        moments.align(store, model);
        let later = |seconds| moments.as_model(store.after(Duration::from_secs(seconds)), model);
        assert_eq!((later(0), later(20)), (model, model));
        assert_eq!(later(21), model.after(Duration::from_secs(21)));
        assert_eq!(moments.as_model_if_any(None, Some(model)), None);
        assert_ne!(moments.as_model_if_any(Some(store), None), None);
    }
}

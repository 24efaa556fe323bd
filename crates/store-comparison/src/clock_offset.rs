//! Conversion of the store's timestamps to the model's clock.
//!
//! The offset between the clocks is measured again after every step, from the creation of the oldest event. A harness that
//! cannot advance its store's clock moves the stored timestamps back instead, which changes the offset.

use std::time::Duration;

use posthaste_domain::Timestamp;

use crate::durations::TOLERANCE;

/// Returns the model's duration if the store's is equal within the tolerance, and the store's otherwise.
pub(crate) fn snap_to_model(store: Duration, model: Duration) -> Duration {
    if store.abs_diff(model) <= TOLERANCE { model } else { store }
}

/// Returns the model's duration if both have one and they are equal within the tolerance, and the store's otherwise.
pub(crate) fn optional_to_model(store: Option<Duration>, model: Option<Duration>) -> Option<Duration> {
    store.map(|store| model.map_or(store, |model| snap_to_model(store, model)))
}

/// The difference between the store's clock and the model's.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset {
    /// Microseconds by which the store is ahead; `None` while no event is stored.
    ahead_micros: Option<i64>,
}

impl ClockOffset {
    /// Sets the offset from one event's timestamps in the store and in the model.
    pub(crate) fn align(&mut self, store: Timestamp, model: Timestamp) {
        self.ahead_micros = Some(store.as_micros() - model.as_micros());
    }

    /// Forgets the offset.
    pub(crate) fn reset(&mut self) {
        self.ahead_micros = None;
    }

    pub(crate) const fn is_known(&self) -> bool {
        self.ahead_micros.is_some()
    }

    /// Converts a timestamp of the store to the model's clock. Returns the model's own timestamp if the two are equal
    /// within the tolerance.
    pub(crate) fn to_model(&self, store: Timestamp, model: Timestamp) -> Timestamp {
        let Some(ahead) = self.ahead_micros else { return model };
        let converted = Timestamp::from_micros(store.as_micros() - ahead);
        if converted.since(model) + model.since(converted) <= TOLERANCE { model } else { converted }
    }

    /// Converts a time on the model's clock to the store's, if the offset is known.
    pub(crate) fn to_store(&self, model: Timestamp) -> Option<Timestamp> {
        self.ahead_micros.map(|ahead| Timestamp::from_micros(model.as_micros() + ahead))
    }

    /// Converts an optional timestamp. One that only the store has is kept, so that the comparison shows it.
    pub(crate) fn optional_to_model(
        &self,
        store: Option<Timestamp>,
        model: Option<Timestamp>,
    ) -> Option<Timestamp> {
        store.map(|store| self.to_model(store, model.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_within_the_tolerance_are_equal_and_others_are_on_the_models_clock() {
        let mut clock_offset = ClockOffset::default();
        let (store, model) = (Timestamp::from_secs(5_000), Timestamp::from_secs(1_000));
        clock_offset.align(store, model);
        let later = |seconds| clock_offset.to_model(store.after(Duration::from_secs(seconds)), model);
        assert_eq!((later(0), later(20)), (model, model));
        assert_eq!(later(21), model.after(Duration::from_secs(21)));
        assert_eq!(clock_offset.optional_to_model(None, Some(model)), None);
        assert_ne!(clock_offset.optional_to_model(Some(store), None), None);
    }
}

//! Runs of consecutive keys, which one statement reads or writes as a range.
//!
//! Events that are enqueued together get consecutive keys, and claims take the oldest events of all destinations, so the
//! keys of a batch form few runs. A statement over a range takes a third of the time of a statement per event. Keys
//! that are not consecutive are runs of one.

use posthaste_domain::EventKey;

/// Returns the first and the last key of each run, in ascending order. Sorts `keys` and removes repetitions.
pub(crate) fn key_runs(keys: Vec<EventKey>) -> Vec<(i64, i64)> {
    id_runs(keys.into_iter().map(|key| key.0).collect())
}

/// Returns the first and the last id of each run, in ascending order. Sorts `ids` and removes repetitions.
pub(crate) fn id_runs(mut ids: Vec<i64>) -> Vec<(i64, i64)> {
    ids.sort_unstable();
    ids.dedup();
    ids.chunk_by(|id, next| id + 1 == *next).filter_map(|run| Some((*run.first()?, *run.last()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_keys_are_one_run_whatever_their_order() {
        let runs = |keys: &[i64]| key_runs(keys.iter().copied().map(EventKey).collect());
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[7]), [(7, 7)]);
        assert_eq!(runs(&[9, 3, 2, 8, 4, 3, 6]), [(2, 4), (6, 6), (8, 9)]);
    }
}

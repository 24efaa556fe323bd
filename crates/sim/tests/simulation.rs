//! The simulation itself: it replays, it is calm when it should be, and it is not when it should not.

use std::collections::BTreeSet;

use posthaste_sim::{Counts, Fault, Scenario, Tally, run};

#[test]
fn no_property_is_violated_whatever_happens() {
    let mut faults = Tally::default();
    let mut counts = Counts::default();
    for seed in 1..=40 {
        let report = run(seed, Scenario::of(seed));
        if let Some(violation) = report.violation {
            panic!("seed {seed} broke {violation}\n  again: make sim SEED={seed}");
        }
        assert_eq!(report.delivered + report.failed, report.events, "seed {seed} left events behind");
        counts.add(&report.counts);
        faults.add(&report.faults);
    }
    for fault in Fault::ALL {
        assert!(faults.of(*fault) > 0, "{} never fired", fault.name());
    }
    let Counts { stale_writes, replayed_settles, replayed_claims, takeovers, abandoned, released, .. } =
        counts;
    for tried in [stale_writes, replayed_settles, replayed_claims, takeovers, abandoned, released] {
        assert!(tried > 0, "the simulation is too tame: {counts:?}");
    }
    assert!(counts.circuits_reported > 0 && counts.removed > 0, "{counts:?}");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [7, 8, 9] {
        assert_eq!(run(seed, Scenario::of(seed)), run(seed, Scenario::of(seed)));
    }
}

#[test]
fn different_seeds_are_different_worlds() {
    let digests: BTreeSet<u64> = (1..=5).map(|seed| run(seed, Scenario::of(seed)).digest).collect();
    assert_eq!(digests.len(), 5);
}

#[test]
fn with_no_fault_every_event_is_one_request() {
    for seed in 1..=5 {
        let report = run(seed, Scenario::calm(seed));
        assert_eq!(report.violation, None, "seed {seed}");
        assert_eq!(report.requests, report.events, "seed {seed}");
        assert_eq!(report.delivered, report.events, "seed {seed}");
        assert_eq!(report.counts.stale_writes, 0, "seed {seed}");
        let faults: Vec<_> = Fault::ALL.iter().filter(|fault| report.faults.of(**fault) > 0).collect();
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
    }
}

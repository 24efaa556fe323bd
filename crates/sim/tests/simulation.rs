//! Runs of the simulation: no property is violated, runs are deterministic, and faults occur exactly when enabled.

use std::collections::BTreeSet;

use posthaste_sim::{Fault, FaultCounts, HandledCounts, Scenario, run};

#[test]
fn no_property_is_violated_under_faults() {
    let mut faults = FaultCounts::default();
    let mut counts = HandledCounts::default();
    for seed in 1..=40 {
        let report = run(seed, Scenario::from_seed(seed));
        if let Some(violation) = report.violation {
            panic!("seed {seed} violated {violation}\n  reproduce: make sim SEED={seed}");
        }
        assert_eq!(report.delivered + report.failed, report.events, "seed {seed} left events pending");
        counts.add(&report.counts);
        faults.add(&report.faults);
    }
    for fault in Fault::ALL {
        assert!(faults.of(*fault) > 0, "{} never occurred", fault.name());
    }
    let HandledCounts {
        stale_writes,
        replayed_settles,
        replayed_claims,
        takeovers,
        abandoned,
        expired,
        released,
        enqueued_with_lease,
        ..
    } = counts;
    for count in [stale_writes, replayed_settles, replayed_claims, takeovers, abandoned, expired, released] {
        assert!(count > 0, "the simulation did not exercise everything: {counts:?}");
    }
    assert!(enqueued_with_lease > 0, "{counts:?}");
    assert!(counts.circuits_reported > 0 && counts.removed > 0, "{counts:?}");
    assert!(counts.discarded > 0 && counts.dead_letters_removed > 0, "{counts:?}");
    assert!(counts.destinations_removed > 0, "{counts:?}");
    assert!(counts.bulk_operations > 0 && counts.changed_in_bulk > 0, "{counts:?}");
    assert!(counts.repeated_reports > 0 && counts.complete_reporters > 0, "{counts:?}");
    for (count, name) in counts.registry.named() {
        assert!(count > 0, "the simulation did not exercise everything: no {name}");
    }
}

#[test]
fn runs_of_one_seed_are_identical() {
    for seed in [7, 8, 9] {
        assert_eq!(run(seed, Scenario::from_seed(seed)), run(seed, Scenario::from_seed(seed)));
    }
}

#[test]
fn runs_of_different_seeds_differ() {
    let digests: BTreeSet<u64> = (1..=5).map(|seed| run(seed, Scenario::from_seed(seed)).digest).collect();
    assert_eq!(digests.len(), 5);
}

#[test]
fn without_faults_every_event_needs_one_request() {
    for seed in 1..=5 {
        let report = run(seed, Scenario::without_faults(seed));
        assert_eq!(report.violation, None, "seed {seed}");
        assert_eq!(report.requests, report.events, "seed {seed}");
        assert_eq!(report.delivered, report.events, "seed {seed}");
        assert_eq!(report.counts.stale_writes, 0, "seed {seed}");
        let faults: Vec<_> = Fault::ALL.iter().filter(|fault| report.faults.of(**fault) > 0).collect();
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
    }
}

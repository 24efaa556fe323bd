//! Runs of the crowd simulation: whatever a crowd of receivers does, prompt receivers get their events at once.

use posthaste_sim::{CrowdScenario, NoBug, run_crowd};

#[test]
fn no_crowd_delays_prompt_receivers_and_every_destination_gets_its_turn() {
    for seed in 1..=24 {
        let scenario = CrowdScenario::from_seed(seed);
        let report = run_crowd(seed, &scenario, &NoBug);
        println!("seed {seed}: {:?} {report:?}", scenario.crowd);
        if let Some(violation) = report.violation {
            panic!("seed {seed} violated {violation}\n  {scenario:?}");
        }
    }
}

#[test]
fn new_destinations_of_a_host_that_answers_are_reached_at_the_pace_of_its_answers() {
    for seed in 1..=8 {
        let scenario = CrowdScenario::of_new_destinations(seed);
        let report = run_crowd(seed, &scenario, &NoBug);
        println!("seed {seed}: {:?} {report:?}", scenario.crowd);
        if let Some(violation) = report.violation {
            panic!("seed {seed} violated {violation}\n  {scenario:?}");
        }
    }
}

#[test]
fn prompt_hosts_that_all_hang_at_the_same_moment_leave_slots_to_those_that_answer() {
    for seed in 1..=24 {
        let scenario = CrowdScenario::of_stalled_hosts(seed);
        let report = run_crowd(seed, &scenario, &NoBug);
        println!("seed {seed}: {:?} {report:?}", scenario.crowd);
        if let Some(violation) = report.violation {
            panic!("seed {seed} violated {violation}\n  {scenario:?}");
        }
    }
}

#[test]
fn crowd_simulations_of_one_seed_are_identical() {
    for seed in [1, 2] {
        let scenario = CrowdScenario::from_seed(seed);
        assert_eq!(run_crowd(seed, &scenario, &NoBug), run_crowd(seed, &scenario, &NoBug));
    }
}

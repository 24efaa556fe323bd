//! Tests that the simulation can fail: it finds the one known bug of each of these stores and engines.

mod activity_bugs;
mod engine_bugs;
mod policy_bugs;
mod registry_bugs;
mod store_bugs;
mod window_bugs;

use std::sync::Arc;

use posthaste_sim::{CrowdScenario, PlantedBug, Scenario, run_crowd, run_with_bug};

/// Number of seeds within which every bug must be found.
const SEEDS: u64 = 30;
/// The same for a bug that shows only in a rare moment: if an event expires in flight, or an operator resumes a destination while
/// its circuit is open.
const SEEDS_OF_A_RARE_BUG: u64 = 120;

/// Runs seeds until one finds the bug. Panics if none does, or if another property than these was violated.
fn assert_caught(bug: impl PlantedBug, properties: &[&str]) {
    assert_caught_within(SEEDS, bug, properties);
}

fn assert_caught_within(seeds: u64, bug: impl PlantedBug, properties: &[&str]) {
    let bug = Arc::new(bug);
    let found = (1..=seeds).find_map(|seed| {
        let report = run_with_bug(seed, Scenario::from_seed(seed), Arc::clone(&bug) as Arc<dyn PlantedBug>);
        report.violation.map(|violation| (seed, violation))
    });
    let Some((seed, violation)) = found else { panic!("{seeds} seeds did not find the bug") };
    println!("seed {seed}: {violation}");
    assert!(
        properties.contains(&violation.property),
        "found, but as a violation of another property: {violation}"
    );
}

/// Runs seeds of the crowd simulation until one finds the bug. Panics if none does.
fn assert_caught_in_a_crowd(bug: &dyn PlantedBug) {
    assert_caught_in_a_crowd_of(CrowdScenario::from_seed, bug);
}

/// Runs seeds of one kind of crowd until one finds the bug. Panics if none does.
fn assert_caught_in_a_crowd_of(scenario: fn(u64) -> CrowdScenario, bug: &dyn PlantedBug) {
    let found = (1..=SEEDS).find_map(|seed| {
        let report = run_crowd(seed, &scenario(seed), bug);
        report.violation.map(|violation| (seed, violation))
    });
    let Some((seed, violation)) = found else { panic!("{SEEDS} crowds did not find the bug") };
    println!("seed {seed}: {violation}");
    assert_eq!(violation.property, "P15", "{violation}");
}

#[test]
fn settle_without_a_token_check_is_caught() {
    assert_caught(store_bugs::SettleIgnoresToken, &["P5"]);
}

#[test]
fn renew_without_a_token_check_is_caught() {
    assert_caught(store_bugs::RenewIgnoresToken, &["P5"]);
}

#[test]
fn attempts_counted_at_claim_are_caught() {
    assert_caught(store_bugs::ClaimCountsAttempts, &["P10"]);
}

#[test]
fn settle_that_applies_a_replay_again_is_caught() {
    assert_caught(store_bugs::SettleAppliesReplays, &["P8", "P5"]);
}

#[test]
fn settle_that_calls_a_replay_stale_is_caught() {
    assert_caught(store_bugs::SettleForgetsReplays, &["P8"]);
}

#[test]
fn claim_that_ignores_live_leases_is_caught() {
    assert_caught(store_bugs::ClaimStealsLeases, &["P7"]);
}

#[test]
fn claim_that_grants_a_token_twice_is_caught() {
    assert_caught(store_bugs::TokensRepeat, &["P6"]);
}

#[test]
fn enqueue_acknowledged_before_it_is_stored_is_caught() {
    assert_caught(store_bugs::EnqueueAcknowledgesTooSoon, &["P1"]);
}

#[test]
fn leases_of_new_events_that_are_not_returned_are_caught() {
    assert_caught(store_bugs::EnqueueHidesLeases, &["P7"]);
}

#[test]
fn leases_on_new_events_of_paused_destinations_are_caught() {
    assert_caught(store_bugs::EnqueueIgnoresPauses, &["pause"]);
}

#[test]
fn leases_on_new_events_that_the_engine_forgets_are_caught() {
    assert_caught(engine_bugs::NewLeasesAreForgotten, &["heartbeat", "drain"]);
}

#[test]
fn retries_without_backoff_are_caught() {
    assert_caught(store_bugs::RetriesAtOnce, &["P14"]);
}

#[test]
fn retries_that_are_never_claimed_are_caught() {
    assert_caught(store_bugs::RetriesAreForgotten, &["P2", "P11"]);
}

#[test]
fn claims_of_more_bytes_than_requested_are_caught() {
    assert_caught(store_bugs::BytesAreUnlimited, &["P16"]);
}

#[test]
fn claims_that_return_large_payloads_are_caught() {
    assert_caught(store_bugs::PayloadsComeWithLeases, &["P16"]);
}

#[test]
fn events_sent_without_their_payload_are_caught() {
    assert_caught(engine_bugs::SendsWithoutPayload, &["P3"]);
}

#[test]
fn payloads_that_cannot_be_read_and_count_as_attempts_are_caught() {
    assert_caught(engine_bugs::UnreadPayloadIsAnAttempt, &["P19"]);
}

#[test]
fn leases_that_are_not_renewed_while_their_payloads_are_read_are_caught() {
    assert_caught(engine_bugs::UnreadLeasesAreNotRenewed, &["heartbeat"]);
}

#[test]
fn cancel_without_a_notice_is_caught() {
    assert_caught(store_bugs::CancelIsSilent, &["P13"]);
}

#[test]
fn settle_fenced_by_the_owners_name_alone_is_caught() {
    assert_caught(store_bugs::SettleChecksOwnerOnly, &["P5"]);
}

#[test]
fn dead_letter_before_the_last_attempt_is_caught() {
    assert_caught(engine_bugs::NotFoundIsFinal, &["P10"]);
}

#[test]
fn delays_below_the_floor_of_the_contract_are_caught() {
    assert_caught(policy_bugs::FloorIsUndercut, &["P14"]);
}

#[test]
fn delays_above_the_cap_are_caught() {
    assert_caught(policy_bugs::CapIsExceeded, &["P14"]);
}

#[test]
fn retries_without_jitter_are_caught() {
    assert_caught(policy_bugs::RetriesAreNotSpread, &["P14"]);
}

#[test]
fn gone_that_ends_an_event_although_it_is_not_final_is_caught() {
    assert_caught(policy_bugs::GoneIsAlwaysFinal, &["P10"]);
}

#[test]
fn retry_after_that_delays_an_exact_schedule_is_caught() {
    assert_caught(policy_bugs::RetryAfterIsAlwaysHonoured, &["P14"]);
}

#[test]
fn circuit_that_opens_without_a_circuit_breaker_is_caught() {
    assert_caught(policy_bugs::CircuitsAlwaysOpen, &["circuit"]);
}

#[test]
fn pauses_that_are_forgotten_are_caught() {
    assert_caught(store_bugs::PausesAreForgotten, &["pause"]);
}

#[test]
fn lost_leases_that_are_never_counted_are_caught() {
    assert_caught(store_bugs::LostLeasesAreNotCounted, &["P8", "P10"]);
}

#[test]
fn discard_that_removes_other_events_is_caught() {
    assert_caught(store_bugs::DiscardTakesOtherEvents, &["P1"]);
}

#[test]
fn discard_without_an_audit_row_is_caught() {
    assert_caught(store_bugs::DiscardIsNotAudited, &["P13"]);
}

#[test]
fn cancel_that_does_nothing_is_caught() {
    assert_caught(store_bugs::CancelDoesNothing, &["P12"]);
}

#[test]
fn release_that_does_nothing_is_caught() {
    assert_caught(store_bugs::ReleaseDoesNothing, &["P8"]);
}

#[test]
fn retention_of_undelivered_events_is_caught() {
    assert_caught(store_bugs::RetentionTakesFailedEvents, &["P1"]);
}

#[test]
fn heartbeat_given_up_after_one_error_is_caught() {
    assert_caught(engine_bugs::HeartbeatGivesUpAfterOneError, &["heartbeat"]);
}

#[test]
fn publisher_that_skips_notices_is_caught() {
    assert_caught(engine_bugs::PublisherSkipsNotices, &["P13"]);
}

#[test]
fn releases_that_never_reach_the_store_are_caught() {
    assert_caught(engine_bugs::ReleasesNothing, &["drain", "heartbeat"]);
}

#[test]
fn more_payload_bytes_than_the_limit_are_caught() {
    assert_caught(engine_bugs::BytesInFlightAreIgnored, &["slots"]);
}

#[test]
fn heartbeat_stopped_before_the_settle_is_caught() {
    assert_caught(engine_bugs::HeartbeatStopsBeforeSettle, &["heartbeat"]);
}

#[test]
fn no_heartbeat_at_all_is_caught() {
    assert_caught(engine_bugs::NoHeartbeat, &["heartbeat"]);
}

#[test]
fn notice_published_before_the_commit_is_caught() {
    assert_caught(engine_bugs::NoticeBeforeCommit, &["P13"]);
}

#[test]
fn timeout_taken_for_success_is_caught() {
    assert_caught(engine_bugs::TimeoutIsSuccess, &["P3"]);
}

#[test]
fn shortage_charged_to_the_receiver_is_caught() {
    assert_caught(engine_bugs::ShortageIsAnAttempt, &["P19"]);
}

#[test]
fn refused_results_that_are_dropped_are_caught() {
    assert_caught(engine_bugs::RefusedResultsAreDropped, &["P19", "heartbeat"]);
}

#[test]
fn claim_without_a_trial_write_is_caught() {
    assert_caught(engine_bugs::NoTrialWrite, &["P19"]);
}

#[test]
fn refused_results_that_lose_their_lease_are_caught() {
    assert_caught(engine_bugs::RefusedResultsLoseTheirLease, &["heartbeat"]);
}

#[test]
fn hidden_second_request_is_caught() {
    assert_caught(engine_bugs::HiddenResend, &["P9"]);
}

#[test]
fn requests_dated_by_the_hosts_clock_are_caught() {
    assert_caught(engine_bugs::RequestsCarryTheHostsTime, &["date"]);
}

#[test]
fn events_that_never_expire_are_caught() {
    assert_caught(engine_bugs::ExpiresNothing, &["P18"]);
}

#[test]
fn expiry_that_ignores_a_requeue_is_caught() {
    assert_caught(store_bugs::ExpiryIgnoresRequeues, &["P18"]);
}

#[test]
fn expiry_of_events_in_flight_is_caught() {
    assert_caught_within(SEEDS_OF_A_RARE_BUG, store_bugs::ExpiryIgnoresLeases, &["P18"]);
}

#[test]
fn claim_that_ignores_operators_pauses_is_caught() {
    assert_caught(store_bugs::OperatorPausesAreForgotten, &["pause"]);
}

#[test]
fn engine_that_closes_circuits_for_a_probe_is_caught() {
    assert_caught_within(SEEDS_OF_A_RARE_BUG, engine_bugs::ProbesCloseCircuits, &["probe"]);
}

#[test]
fn engine_that_ignores_resumes_is_caught() {
    assert_caught_within(SEEDS_OF_A_RARE_BUG, engine_bugs::ResumesAreIgnored, &["resume"]);
}

#[test]
fn repeated_requeue_that_is_refused_is_caught() {
    // The repetition is refused, or reopens an event that has failed again since the first requeue.
    assert_caught(store_bugs::RequeueForgetsKeys, &["repetition", "P12"]);
}

#[test]
fn leases_and_delays_that_a_clock_step_lengthens_are_caught() {
    assert_caught(store_bugs::ClockStepsDelayEvents, &["P2"]);
}

#[test]
fn pauses_that_a_clock_step_lengthens_are_caught() {
    assert_caught(store_bugs::ClockStepsLengthenPauses, &["P2", "P11"]);
}

#[test]
fn leases_that_a_clock_step_ends_are_caught() {
    assert_caught(store_bugs::ClockStepsEndLeases, &["P7", "heartbeat"]);
}

#[test]
fn late_results_that_are_missing_from_the_history_are_caught() {
    assert_caught(store_bugs::LateResultsAreForgotten, &["P13"]);
}

#[test]
fn removal_of_used_destinations_is_caught() {
    assert_caught(store_bugs::RetentionTakesUsedDestinations, &["destination"]);
}

#[test]
fn publications_that_are_repeated_as_new_messages_are_caught() {
    assert_caught(registry_bugs::PublishForgetsAnswers, &["fan-out"]);
}

#[test]
fn messages_for_endpoints_on_other_channels_are_caught() {
    assert_caught(registry_bugs::PublishIgnoresChannels, &["fan-out"]);
}

#[test]
fn messages_that_miss_a_new_endpoint_are_caught() {
    assert_caught(registry_bugs::PublishMissesTheNewestEndpoint, &["fan-out"]);
}

#[test]
fn claims_for_disabled_endpoints_are_caught() {
    assert_caught(registry_bugs::ClaimIgnoresDisabledEndpoints, &["held"]);
}

#[test]
fn events_that_are_lost_when_their_endpoint_is_disabled_are_caught() {
    assert_caught(registry_bugs::DisablingCancelsEvents, &["held"]);
}

#[test]
fn events_that_are_held_after_their_endpoint_is_enabled_are_caught() {
    assert_caught(registry_bugs::EnablingLeavesEventsHeld, &["P11", "P2"]);
}

#[test]
fn requests_without_a_signature_of_the_old_key_are_caught() {
    assert_caught(registry_bugs::OnlyTheNewestKeySigns, &["rotation"]);
}

#[test]
fn requests_with_a_signature_of_a_retired_key_are_caught() {
    assert_caught(registry_bugs::RetiredKeysSign, &["rotation"]);
}

#[test]
fn workers_that_ignore_rotations_are_caught() {
    assert_caught(registry_bugs::RotationsAreIgnored, &["rotation"]);
}

#[test]
fn claims_that_ignore_the_order_of_a_line_are_caught() {
    assert_caught(registry_bugs::ClaimIgnoresLines, &["fifo"]);
}

#[test]
fn events_that_overtake_a_retry_of_their_line_are_caught() {
    // The rows that it hides from a claim also miss the repair of their times after a clock step.
    assert_caught(registry_bugs::RetriesLoseTheirPosition, &["fifo", "P2"]);
}

#[test]
fn throttles_of_single_workers_are_caught() {
    assert_caught(registry_bugs::ThrottlesArePerWorker, &["throttle"]);
}

#[test]
fn windows_that_are_fixed_are_caught() {
    assert_caught_in_a_crowd(&window_bugs::WindowsAreFixed);
}

#[test]
fn windows_that_never_shrink_are_caught() {
    assert_caught_in_a_crowd(&window_bugs::WindowsNeverShrink);
}

#[test]
fn slots_that_are_not_kept_for_prompt_receivers_are_caught() {
    assert_caught_in_a_crowd(&window_bugs::NoSlotIsKeptForPromptReceivers);
}

#[test]
fn requests_that_never_count_as_slow_are_caught() {
    assert_caught_in_a_crowd_of(CrowdScenario::of_stalled_hosts, &window_bugs::RequestsNeverCountAsSlow);
}

#[test]
fn slots_that_leak_are_caught() {
    assert_caught_in_a_crowd(&window_bugs::SlotsLeak);
}

#[test]
fn a_bulk_operation_that_ignores_a_stop_is_caught() {
    assert_caught(registry_bugs::BulkIgnoresStop, &["bulk"]);
}

#[test]
fn a_bulk_operation_that_starts_over_is_caught() {
    assert_caught(registry_bugs::BulkStartsOver, &["bulk"]);
}

#[test]
fn reports_that_are_counted_twice_are_caught() {
    assert_caught(activity_bugs::ReportsAreCountedAgain, &["activity"]);
}

#[test]
fn reports_that_are_lost_after_an_unanswered_call_are_caught() {
    assert_caught(activity_bugs::UnansweredReportsAreForgotten, &["activity"]);
}

//! Tests that the comparison finds bugs: each of these stores has one bug, and each is caught.

mod bugs;
#[path = "../harness/mod.rs"]
mod harness;

use std::sync::Arc;

use posthaste_store::Store;
use posthaste_store_comparison::Comparison;
use posthaste_store_memory::MemoryStore;

use harness::MemoryHarness;

/// Number of sequences within which every bug must be found.
const SEQUENCES: u32 = 1_000;
/// The same for a bug that needs a rare sequence.
const RARE_SEQUENCES: u32 = 4_000;

/// Asserts that the comparison fails within so many sequences, and that its report contains `expected`.
fn assert_caught(sequences: u32, bug: impl Fn(MemoryStore) -> Arc<dyn Store>, expected: &str) {
    let found = Comparison::new(sequences).check(async || MemoryHarness::new(|memory, _| bug(memory)));
    let Err(divergence) = found else { panic!("{sequences} sequences did not find the bug") };
    println!("{divergence}");
    assert!(divergence.to_string().contains(expected), "caught for another reason: {divergence}");
}

macro_rules! bugs {
    ($($test:ident: $file:ident::$bug:ident, $expected:literal;)+) => {
        $(#[test]
        fn $test() {
            assert_caught(SEQUENCES, bugs::$file::$bug, $expected);
        })+
    };
}

/// A claim must abandon an event, and be repeated.
#[test]
fn claim_that_names_an_abandoned_event_twice_is_caught() {
    assert_caught(RARE_SEQUENCES, bugs::claim::claim_names_abandoned_twice, "the abandoned events");
}

bugs! {
    settle_without_a_token_check_is_caught: settle::settle_ignores_token, "the settlement of";
    settle_that_calls_a_replay_stale_is_caught: settle::settle_forgets_replays, "store: Stale";
    settle_that_applies_a_replay_again_is_caught: settle::settle_applies_replays, "store: Applied";
    a_late_result_that_is_forgotten_is_caught: settle::late_results_are_forgotten, "the history of";
    a_late_result_that_is_called_a_replay_is_caught: settle::late_results_are_replayed, "store: Replayed";
    a_late_result_shown_as_applied_is_caught: settle::late_results_count, "the history of";
    retries_without_backoff_are_caught: settle::retries_at_once, "next_attempt_at";
    an_attempt_dated_by_its_settlement_is_caught: settle::settle_ignores_when_it_ended, "last_attempted_at";
    failing_since_of_the_last_failure_is_caught: settle::failing_since_is_overwritten, "failing_since";
    a_shorter_pause_that_replaces_a_longer_is_caught: settle::pauses_are_replaced, "receiver_pause";
    claim_that_ignores_pauses_is_caught: claim::claim_ignores_pauses, "its destination is paused";
    an_enqueue_that_leases_in_a_pause_is_caught: claim::enqueue_leases_paused_destinations, "its destination is paused";
    an_enqueue_that_forgets_its_leases_is_caught: claim::enqueue_forgets_its_leases, "lease_";
    claim_that_ignores_live_leases_is_caught: claim::claim_steals_leases, "the abandoned events";
    claim_beyond_the_retries_is_caught: claim::claim_ignores_retries_max, "beyond the limit of retries";
    claim_beyond_the_slots_is_caught: claim::claim_ignores_free_slots, "beyond the slots of its destination";
    claim_beyond_the_slots_of_a_host_is_caught: claim::claim_ignores_host_slots, "beyond the slots of its host";
    claim_beyond_the_slots_of_a_pace_is_caught: claim::claim_ignores_the_pace_of_hosts, "beyond the slots of its host";
    claim_beyond_the_limit_is_caught: claim::claim_ignores_limit, "beyond the limit";
    claim_beyond_the_bytes_is_caught: claim::claim_ignores_bytes, "bytes were granted";
    a_repeated_claim_beyond_the_bytes_is_caught: claim::repeated_claim_ignores_bytes, "the repeated claim released leases";
    claim_of_too_large_an_event_is_caught: claim::claim_ignores_the_size_of_events, "bytes were granted";
    a_destination_that_is_kept_back_and_not_named_is_caught: claim::claim_names_one_destination_that_it_kept_back, "is not named";
    claim_that_leaves_a_claimable_event_is_caught: claim::claim_leaves_one, "though it was claimable";
    claim_that_abandons_too_late_is_caught: claim::claim_abandons_late, "had lost too many leases";
    a_repeated_claim_that_grants_new_leases_is_caught: claim::claim_forgets_its_id, "the number of leases";
    a_repeated_claim_that_extends_no_lease_is_caught: claim::repeated_claim_extends_nothing, "lease_until";
    a_token_granted_twice_is_caught: claim::tokens_repeat, "lease token: the store's";
    a_lease_with_another_payload_size_is_caught: claim::payloads_have_no_size, "payload";
    a_payload_read_under_a_lost_lease_is_caught: claim::payloads_are_read_after_the_lease, "the payload of a lease";
    a_lease_with_another_payload_is_caught: claim::payloads_are_text, "payload";
    renew_without_a_token_check_is_caught: settle::renew_ignores_token, "the lost leases of a renewal";
    release_that_counts_a_lost_lease_is_caught: settle::release_counts_a_loss, "lost_leases";
    requeue_that_keeps_attempts_is_caught: records::requeue_keeps_attempts, "attempts";
    an_event_without_its_producer_is_caught: records::producers_are_forgotten, "stored_by";
    cancel_without_a_notice_is_caught: records::cancel_is_silent, "a notice is missing";
    an_action_without_audit_is_caught: records::cancel_is_not_audited, "the audit of";
    a_discard_that_frees_the_id_is_caught: records::discard_frees_the_id, "the error";
    an_audit_without_the_reason_is_caught: records::cancel_forgets_why, "the audit of";
    an_expiry_that_ignores_requeues_is_caught: records::expiry_ignores_requeues, "the expired events";
    an_expiry_that_forgets_the_error_is_caught: records::expiry_forgets_the_error, "last_error";
    retention_that_takes_failed_events_is_caught: records::retention_takes_failed_events, "is missing";
    retention_by_creation_time_is_caught: records::retention_counts_from_arrival, "is missing";
    retention_that_keeps_notices_is_caught: records::notices_are_kept, "the page of notices";
    retention_that_keeps_attempts_is_caught: records::attempts_are_kept, "the history of";
    an_overview_that_miscounts_is_caught: records::overview_counts_leased_as_ready, "pending_ready";
    an_overview_without_cancelled_events_is_caught: records::overview_counts_no_cancelled_events, "cancelled: 0";
    a_page_that_repeats_a_row_is_caught: records::pages_overlap, "the page of dead letters";
    a_circuit_report_that_never_expires_is_caught: records::circuits_never_expire, "circuit";
    resume_that_keeps_reported_circuits_is_caught: destination::resume_keeps_circuits, "circuit";
    a_resume_that_claims_do_not_list_is_caught: destination::resumes_are_not_listed, "the resumed destinations";
    a_pause_that_ends_that_of_the_receiver_is_caught: destination::pause_replaces_the_receivers, "receiver_pause";
    a_pause_without_audit_is_caught: destination::pauses_are_not_audited, "audit";
    an_overview_without_held_events_is_caught: destination::held_events_are_not_counted, "the overview differs";
    an_idempotency_key_that_never_expires_is_caught: records::keys_never_expire, "replayed";
    a_refused_request_that_stores_events_is_caught: records::refused_requests_are_stored_in_part, "is unknown to the model";
    a_page_that_skips_a_notice_is_caught: records::notices_skip_one, "a notice is missing";
    a_fan_out_that_skips_an_endpoint_is_caught: registry::fan_out_skips_one, "is missing";
    a_fan_out_to_a_disabled_endpoint_is_caught: registry::fan_out_reaches_disabled, "publications differs";
    a_line_that_grants_two_is_caught: registry::claim_ignores_lines, "it is not the head of its line";
    a_throttle_that_is_not_spent_is_caught: registry::throttles_are_not_spent, "beyond the throttle of its endpoint";
    an_application_throttle_that_is_not_spent_is_caught: registry::application_throttles_are_not_spent, "beyond the throttle of its application";
    a_rotation_that_drops_the_old_key_is_caught: registry::rotation_drops_the_old_key, "rotations differs";
    a_delete_that_keeps_events_is_caught: registry::delete_keeps_events, "status: Pending";
    a_page_that_skips_a_message_is_caught: registry::pages_skip_one, "the page of a list";
    a_bulk_count_that_ignores_times_is_caught: bulk::count_ignores_times, "the number of dead letters";
    a_repeated_bulk_request_that_starts_twice_is_caught: bulk::requests_are_forgotten, "bulk operation id";
    a_bulk_step_that_takes_later_failures_is_caught: bulk::steps_take_later_failures, "steps of bulk operations differs";
    a_bulk_step_that_begins_again_is_caught: bulk::cursors_are_forgotten, "steps of bulk operations differs";
    a_bulk_step_beyond_the_rate_is_caught: bulk::steps_ignore_the_rate, "steps of bulk operations differs";
    a_bulk_operation_that_cannot_be_stopped_is_caught: bulk::stops_are_forgotten, "state: Stopped";
    a_bulk_step_without_audit_is_caught: bulk::actions_are_not_audited, "the audit of";
    a_report_that_is_counted_twice_is_caught: activity::repetitions_count, "the history of";
    a_report_that_no_minute_has_is_caught: activity::minutes_are_left_out, "the history of 6h";
    a_bucket_with_its_first_sample_is_caught: activity::first_sample_stays, "pending";
    a_bucket_with_the_last_durations_is_caught: activity::latency_is_replaced, "the history of";
    a_stopped_worker_that_is_listed_is_caught: activity::stopped_workers_stay, "the list of workers";
    a_store_that_panics_is_caught: settle::release_panics, "a lease that was not held";
}

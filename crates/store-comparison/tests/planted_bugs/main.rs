//! The comparison can fail: each of these stores is wrong in one way, and each is caught.

mod bugs;
#[path = "../harness/mod.rs"]
mod harness;

use std::sync::Arc;

use posthaste_store::Store;
use posthaste_store_comparison::Comparison;
use posthaste_store_memory::MemoryStore;

use harness::MemoryHarness;

/// No bug may hide from more sequences than this.
const SEQUENCES: u32 = 500;

/// The store is caught, and what is told says this.
fn caught(bug: impl Fn(MemoryStore) -> Arc<dyn Store>, expected: &str) {
    let found = Comparison::of(SEQUENCES).check(async || MemoryHarness::new(|memory, _| bug(memory)));
    let Err(divergence) = found else { panic!("{SEQUENCES} sequences did not notice") };
    println!("{divergence}");
    assert!(divergence.to_string().contains(expected), "caught for another reason: {divergence}");
}

macro_rules! bugs {
    ($($test:ident: $file:ident::$bug:ident, $expected:literal;)+) => {
        $(#[test]
        fn $test() {
            caught(bugs::$file::$bug, $expected);
        })+
    };
}

bugs! {
    settle_without_a_token_check_is_caught: settle::settle_ignores_token, "the settlement of";
    settle_that_calls_a_replay_stale_is_caught: settle::settle_forgets_replays, "store: Stale";
    settle_that_applies_a_replay_again_is_caught: settle::settle_applies_replays, "store: Applied";
    retries_without_backoff_are_caught: settle::retries_at_once, "next_attempt_at";
    an_attempt_dated_by_its_settlement_is_caught: settle::settle_ignores_when_it_ended, "last_attempted_at";
    ill_health_dated_by_the_last_failure_is_caught: settle::ill_health_begins_anew, "failing_since";
    a_shorter_pause_that_replaces_a_longer_is_caught: settle::pauses_are_replaced, "paused_until";
    claim_that_ignores_pauses_is_caught: claim::claim_ignores_pauses, "its destination is paused";
    claim_that_ignores_live_leases_is_caught: claim::claim_steals_leases, "what the claim abandoned";
    claim_beyond_the_retries_is_caught: claim::claim_ignores_retries_max, "beyond the retries";
    claim_beyond_the_slots_is_caught: claim::claim_ignores_free_slots, "beyond the free slots";
    claim_beyond_the_limit_is_caught: claim::claim_ignores_limit, "beyond the limit";
    claim_that_leaves_something_is_caught: claim::claim_leaves_one, "though it was claimable";
    claim_that_gives_up_too_late_is_caught: claim::claim_abandons_late, "had lost one lease too many";
    claim_that_names_what_it_gave_up_twice_is_caught: claim::claim_names_abandoned_twice, "what the claim abandoned";
    a_claim_asked_again_that_grants_anew_is_caught: claim::claim_forgets_its_id, "the number of leases";
    a_claim_asked_again_that_extends_nothing_is_caught: claim::claim_again_extends_nothing, "lease_until";
    a_token_granted_twice_is_caught: claim::tokens_repeat, "lease token: the store's";
    a_lease_with_another_payload_is_caught: claim::payloads_are_text, "payload";
    renew_without_a_token_check_is_caught: settle::renew_ignores_token, "what could not be renewed";
    release_that_counts_a_loss_is_caught: settle::release_counts_a_loss, "lost_leases";
    requeue_that_keeps_attempts_is_caught: keep::requeue_keeps_attempts, "attempts";
    cancel_without_a_notice_is_caught: keep::cancel_is_silent, "a notice is missing";
    an_action_without_audit_is_caught: keep::cancel_is_not_audited, "the audit of";
    an_audit_without_the_reason_is_caught: keep::cancel_forgets_why, "the audit of";
    retention_that_takes_failed_events_is_caught: keep::retention_takes_failed_events, "is missing";
    retention_by_age_of_arrival_is_caught: keep::retention_counts_from_arrival, "is missing";
    retention_that_forgets_no_notices_is_caught: keep::notices_are_kept, "the page of notices";
    retention_that_forgets_no_attempts_is_caught: keep::attempts_are_kept, "the history of";
    an_overview_that_miscounts_is_caught: keep::overview_counts_leased_as_ready, "pending_ready";
    a_page_that_repeats_a_row_is_caught: keep::pages_overlap, "the page of dead letters";
    a_circuit_report_that_never_expires_is_caught: keep::circuits_never_expire, "circuit";
    a_key_that_is_remembered_for_ever_is_caught: keep::keys_never_expire, "replayed";
    a_refused_request_that_leaves_something_is_caught: keep::refused_requests_are_stored_in_part, "was never heard of";
    a_follower_that_misses_a_notice_is_caught: keep::notices_skip_one, "a notice is missing";
    a_store_that_panics_is_caught: settle::panics_on_release, "a lease that was not held";
}

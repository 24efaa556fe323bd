//! The list of cases, and what it becomes: the public names of the cases here, one test for each in an adapter.
//!
//! A case that is missing from the list is dead code, and the compiler says so.

/// Expands to one `#[tokio::test]` per case, in a module per file. The expression makes a fresh
/// [`Harness`](crate::Harness) and may await. The adapter needs tokio's `macros` and `rt` among its
/// dev-dependencies. Its whole conformance test, once it has a harness:
///
/// ```text
/// posthaste_store_conformance::conformance_suite!(MyHarness::start().await);
/// ```
#[macro_export]
macro_rules! conformance_suite {
    (@list $into:ident $($with:tt)*) => {
        $crate::$into! { $($with)*
            enqueue {
                an_enqueued_event_is_pending_due_and_unattempted,
                every_field_of_an_event_comes_back,
                a_field_that_was_left_out_stays_empty,
                payload_bytes_come_back_exactly,
                a_generated_event_id_is_msg_and_32_hex_digits,
                receipts_come_in_the_order_of_the_events,
                a_taken_event_id_refuses_its_whole_request,
                an_event_id_twice_in_one_request_refuses_all_of_it,
                one_refused_request_does_not_fail_the_others_of_its_batch,
                two_requests_of_one_batch_cannot_share_an_event_id,
                concurrent_requests_for_one_event_id_make_one_event,
                a_request_of_a_thousand_events_is_stored_whole,
                an_empty_batch_has_no_answers,
                events_to_one_url_share_a_destination,
                an_event_is_there_for_every_handle_once_it_is_acknowledged,
                an_enqueue_wakes_whoever_waits,
            }
            idempotency {
                a_replay_is_answered_as_the_first_time,
                a_replay_is_seen_through_another_handle,
                a_replay_tells_of_the_first_time_even_after_delivery,
                a_key_covers_every_event_of_its_request,
                a_key_with_another_body_is_a_conflict,
                other_keys_and_no_keys_are_other_requests,
                a_key_is_remembered_until_its_time_is_over,
                a_key_is_free_again_when_its_time_is_over,
                a_refused_request_does_not_use_up_its_key,
                a_replay_is_recognised_before_its_event_ids_are_found_taken,
                a_key_is_recognised_within_one_batch,
                concurrent_first_uses_of_one_key_make_one_event,
                concurrent_uses_of_one_key_with_two_bodies_make_one_event,
            }
            claim {
                a_claim_grants_a_lease_and_counts_no_attempt,
                a_lease_lasts_as_long_as_the_claim_asks,
                overdue_tells_how_long_an_event_has_been_due,
                a_claim_takes_no_more_than_its_limit,
                a_claim_takes_no_more_retries_than_it_allows,
                a_claim_that_allows_no_retries_takes_first_attempts_only,
                a_claim_takes_no_more_of_a_destination_than_it_has_slots,
                free_slots_are_the_callers_own,
                a_named_destination_has_the_slots_that_it_is_given,
                retries_and_first_attempts_share_the_slots_of_their_destination,
                a_destination_without_slots_is_passed_over,
                a_saturated_destination_does_not_hide_another,
                an_event_is_not_claimed_before_it_is_due,
                a_leased_event_is_not_claimed_again,
                a_terminal_event_is_never_claimed,
                every_granted_lease_has_its_own_token,
                concurrent_claims_never_grant_an_event_twice,
            }
            claim_again {
                a_claim_asked_again_brings_the_same_leases,
                a_claim_asked_again_through_another_handle_brings_the_same_leases,
                a_claim_asked_again_carries_every_field_as_the_first_time,
                a_claim_asked_again_counts_nothing,
                a_claim_asked_again_extends_its_leases,
                a_claim_asked_again_brings_only_what_is_still_its_own,
                a_claim_asked_again_takes_nothing_else,
                a_claim_asked_again_brings_leases_of_a_destination_paused_meanwhile,
                a_claim_asked_again_claims_anew_when_nothing_is_left,
                a_claim_that_was_granted_nothing_claims_anew_when_asked_again,
                a_claim_asked_again_racing_a_settlement_revives_no_lease,
                a_claim_asked_twice_at_once_gives_no_event_two_tokens,
                a_lease_that_came_twice_settles_once,
                two_claims_with_two_ids_never_share_an_event,
            }
            takeover {
                expired_lease_is_claimable_by_another_worker,
                expired_lease_is_claimable_by_its_own_worker_under_a_new_token,
                a_lost_lease_is_counted_and_eats_no_attempt,
                an_expired_lease_is_granted_once_however_many_ask,
                an_event_is_abandoned_at_the_bound_and_not_before,
                an_abandoned_event_is_published_once_as_dead_lettered,
                a_claim_abandons_some_and_grants_others,
                the_late_outcome_of_an_abandoned_event_is_stale,
                an_outcome_ends_the_run_of_lost_leases,
                a_requeued_event_starts_without_lost_leases,
                a_claim_asked_again_after_its_leases_expired_brings_back_what_nobody_took,
                a_claim_asked_again_after_a_takeover_does_not_bring_what_another_took,
                a_claim_asked_again_racing_a_takeover_leaves_one_holder,
            }
            lease {
                s3_guarded_renewal_keeps_a_lease_beyond_its_first_expiry,
                s3_guarded_renewal_needs_ownership,
                a_renewal_extends_from_now_and_counts_nothing,
                a_renewed_lease_still_expires,
                an_expired_lease_that_nobody_took_can_be_renewed,
                a_lease_that_has_ended_cannot_be_renewed,
                a_renewal_reports_what_was_lost_and_extends_the_rest,
                a_renewal_racing_a_takeover_leaves_one_holder,
                a_released_event_is_claimable_at_once,
                a_release_is_neither_an_attempt_nor_a_loss,
                an_outcome_under_a_released_lease_is_stale,
                a_release_passes_over_leases_that_were_lost,
                there_may_be_nothing_to_renew_settle_or_release,
            }
            settle {
                s4_a1_delivery_ends_the_event_and_is_published,
                s4_s1_first_failure_is_due_again_in_30_seconds,
                s4_f1_fifth_failure_is_dead_lettered_and_published,
                a_retry_is_due_after_exactly_its_delay,
                the_last_allowed_attempt_exhausts_the_event,
                a_receiver_that_is_gone_ends_the_event_at_once,
                every_kind_of_outcome_is_recorded_as_it_was_observed,
                a_delivery_clears_the_error_of_earlier_attempts,
                history_is_oldest_first_and_names_lease_and_worker,
                an_attempt_is_dated_by_when_it_was_begun,
                a_large_batch_settles_every_event_by_itself,
            }
            fence {
                a_replayed_settlement_changes_nothing,
                a_settlement_twice_in_one_batch_is_applied_once,
                a_second_outcome_under_one_token_changes_nothing,
                a_replay_after_the_next_claim_is_still_a_replay,
                a_replay_after_a_requeue_changes_nothing,
                a_settlement_after_a_takeover_is_stale,
                a_settlement_under_an_older_token_of_the_same_worker_is_stale,
                a_stale_settlement_says_nothing_about_its_destination,
                an_expired_lease_that_nobody_took_still_settles,
                a_mixed_batch_is_answered_in_order,
                concurrent_replays_of_one_settlement_apply_it_once,
                a_settlement_racing_a_cancel_leaves_one_truth,
            }
            requeue {
                s2_fr004_ac1_requeue_moves_only_failed_to_pending,
                s2_fr004_ac2_requeue_resets_attempts_error_lease_and_due_time,
                s2_fr004_ac3_requeue_of_non_failed_is_a_conflict,
                an_unknown_event_cannot_be_requeued,
                a_requeue_keeps_payload_destination_and_history,
                a_requeue_is_audited_with_its_actor,
                the_first_attempt_after_a_requeue_is_manual_and_the_next_scheduled,
                history_is_oldest_first_across_requeues,
                a_requeued_event_has_all_its_attempts_again,
                a_requeued_event_is_no_retry_to_a_claim,
                a_cancelled_event_can_be_requeued_and_delivered,
                a_requeue_publishes_nothing,
                concurrent_requeues_of_one_event_apply_once,
                a_requeue_wakes_whoever_waits,
            }
            cancel {
                s2_fr005_ac2_cancel_ends_a_pending_event,
                s2_fr005_ac2_cancel_in_flight_clears_the_lease,
                s2_fr005_ac2_cancel_keeps_failed_as_failed,
                s2_fr005_ac2_cancel_reason_is_normalised,
                s2_fr005_ac3_cancel_of_delivered_is_a_conflict,
                an_unknown_event_cannot_be_cancelled,
                cancelling_a_pending_event_publishes_one_dead_letter,
                cancelling_a_failed_event_publishes_nothing,
                every_action_is_audited_oldest_first,
                every_cancel_is_audited_with_its_own_reason,
            }
            overview {
                an_empty_store_counts_nothing,
                s2_fr001_ac1_overview_counts_every_state,
                s2_fr001_ac2_oldest_pending_age_is_none_when_nothing_is_pending,
                s2_fr001_ac2_oldest_pending_age_is_that_of_the_oldest,
                s2_fr001_ac3_overview_follows_every_change_at_once,
            }
            page {
                s2_fr003_ac1_dead_letters_come_latest_change_first,
                s2_fr003_ac1_dead_letters_of_one_moment_come_by_id_descending,
                s2_fr003_ac2_a_page_holds_no_more_than_its_limit,
                s2_fr003_ac3_dead_letters_carry_what_an_operator_needs,
                dead_letter_pages_cover_every_event_once,
                dead_letter_pages_stay_stable_while_rows_change,
                events_of_every_state_come_newest_first,
                events_are_filtered_by_status_and_destination,
                event_pages_cover_every_match_once_while_others_arrive,
                an_empty_store_lists_nothing,
                an_unknown_event_is_not_found,
            }
            destination {
                a_new_destination_is_healthy,
                an_unknown_destination_is_not_found,
                a_paused_destination_is_passed_over_until_its_pause_ends,
                a_pause_hides_no_other_destination,
                a_pause_stands_whatever_became_of_its_event,
                the_longest_pause_stands,
                ill_health_is_dated_from_its_first_failure_to_the_next_answer,
                our_own_fault_says_nothing_of_a_destination,
                a_circuit_report_is_shown_until_it_expires,
                the_last_circuit_report_stands,
                a_report_on_an_unknown_destination_is_passed_over,
                an_open_circuit_is_each_workers_own_business,
            }
            notices {
                terminal_changes_are_published_in_commit_order,
                a_retry_is_not_published,
                a_notice_carries_the_references_of_its_event,
                a_page_holds_no_more_than_asked_and_the_next_goes_on,
                any_notice_can_be_resumed_from,
                without_a_cursor_there_is_only_the_end_of_the_log,
                a_follower_at_the_end_misses_nothing_that_comes_after,
                a_follower_misses_nothing_of_concurrent_commits,
            }
            vitals {
                a_store_that_works_tells_its_clock_and_that_its_schema_is_current,
            }
            secrets {
                the_first_secret_is_kept_and_given_to_all_who_come_later,
                of_many_first_secrets_one_is_kept,
            }
            maintain {
                old_delivered_events_are_removed_in_small_steps,
                failed_and_pending_events_are_kept_however_old,
                age_counts_from_delivery_and_not_from_arrival,
                without_a_limit_everything_is_kept,
                old_notices_are_forgotten_and_the_log_goes_on,
                a_key_is_remembered_even_when_its_event_is_gone,
                an_expired_key_is_forgotten_whatever_is_kept,
            }
        }
    };
    ($make_harness:expr) => {
        $crate::conformance_suite! { @list __conformance_tests ($make_harness) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (($make_harness:expr) $($file:ident { $($case:ident,)+ })+) => {
        $(mod $file {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                let harness = $make_harness;
                $crate::cases::$file::$case(&harness).await;
            })+
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($($file:ident { $($case:ident,)+ })+) => {
        /// Every case by name, for an adapter that wants one of them alone.
        pub mod cases {
            $(pub mod $file {
                pub use $crate::$file::{$($case),+};
            })+
        }
    };
}

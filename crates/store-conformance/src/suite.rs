//! The list of cases. It expands to the public module [`cases`](crate::cases) here and to one test per case in an
//! adapter.
//!
//! A case that is missing from the list is dead code, which the compiler reports.

/// Expands to one `#[tokio::test]` per case, in one module per file. The argument is an expression that creates a new
/// [`Harness`](crate::Harness) and may await. The adapter needs the features `macros` and `rt` of tokio among its
/// dev-dependencies. With a harness, the whole conformance test of an adapter is:
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
                every_field_of_an_event_is_stored,
                every_event_keeps_the_name_of_the_key_that_stored_it,
                omitted_fields_stay_empty,
                payload_bytes_are_stored_exactly,
                a_generated_event_id_is_msg_and_32_hex_digits,
                receipts_are_in_the_order_of_the_events,
                request_with_a_taken_event_id_is_refused_as_a_whole,
                request_with_a_repeated_event_id_is_refused_as_a_whole,
                a_refused_request_does_not_fail_concurrent_ones,
                concurrent_requests_cannot_share_an_event_id,
                concurrent_requests_for_one_event_id_make_one_event,
                a_request_of_a_thousand_events_is_stored_whole,
                a_request_without_events_has_no_receipts,
                events_to_one_url_share_a_destination,
                acknowledged_event_is_visible_through_every_handle,
                enqueue_wakes_waiting_workers,
            }
            enqueue_lease {
                an_event_stored_with_a_lease_has_it_at_once,
                a_lease_of_an_enqueue_has_what_a_claim_would_return,
                a_lease_of_an_enqueue_is_settled_like_that_of_a_claim,
                a_retry_after_a_lease_of_an_enqueue_is_claimed,
                a_lease_of_an_enqueue_can_be_renewed,
                a_released_lease_of_an_enqueue_counts_no_loss,
                an_expired_lease_of_an_enqueue_is_taken_over_and_counts_one_loss,
                an_enqueue_leases_no_event_of_a_paused_destination,
                an_enqueue_leases_no_event_of_a_later_time,
                a_replayed_enqueue_grants_no_lease,
                a_refused_enqueue_leaves_no_lease,
                a_repeated_claim_returns_no_lease_of_an_enqueue,
                leases_of_concurrent_enqueues_are_separate,
            }
            idempotency {
                replay_returns_the_first_response,
                replay_through_another_handle_returns_the_first_response,
                replay_after_delivery_returns_the_first_response,
                a_key_covers_every_event_of_its_request,
                a_key_with_another_body_is_a_conflict,
                requests_with_other_keys_or_no_key_are_not_replays,
                key_is_kept_until_it_expires,
                expired_key_can_be_used_again,
                a_refused_request_does_not_use_up_its_key,
                replay_with_an_event_id_is_not_an_event_id_conflict,
                a_key_is_recognised_among_concurrent_requests,
                concurrent_first_uses_of_one_key_make_one_event,
                concurrent_uses_of_one_key_with_two_bodies_make_one_event,
            }
            claim {
                a_claim_grants_a_lease_and_counts_no_attempt,
                lease_lasts_as_long_as_the_claim_requests,
                a_claim_returns_the_stores_time_whether_it_grants_a_lease_or_not,
                overdue_is_the_time_since_the_event_became_due,
                a_claim_takes_no_more_than_its_limit,
                a_claim_takes_no_more_retries_than_it_allows,
                a_claim_that_allows_no_retries_takes_first_attempts_only,
                claim_takes_no_more_events_of_a_destination_than_it_has_slots,
                leases_of_other_claims_use_no_slots_of_a_claim,
                destination_slots_override_the_limit_per_destination,
                destinations_of_one_host_share_its_slots,
                expired_leases_and_retries_use_slots_of_their_host,
                slow_hosts_leave_slots_to_prompt_ones,
                known_destinations_do_not_wait_behind_new_ones,
                known_destinations_leave_a_part_of_each_claim_to_others,
                retries_and_first_attempts_share_the_slots_of_their_destination,
                destination_without_slots_is_skipped,
                a_saturated_destination_does_not_hide_another,
                an_event_is_not_claimed_before_it_is_due,
                a_leased_event_is_not_claimed_again,
                a_terminal_event_is_never_claimed,
                every_granted_lease_has_its_own_token,
                concurrent_claims_never_grant_an_event_twice,
            }
            claim_bytes {
                a_claim_grants_one_event_and_others_within_its_bytes,
                a_claim_without_large_payloads_is_not_limited_by_bytes,
                large_events_of_one_destination_do_not_hide_small_ones_of_others,
                an_event_larger_than_each_may_be_keeps_back_only_its_destination,
                retried_requeued_released_and_lost_events_count_their_bytes,
                a_repeated_claim_releases_the_leases_that_do_not_fit,
            }
            payload {
                a_claim_returns_payloads_up_to_its_limit_and_the_sizes_of_others,
                a_large_payload_is_read_byte_for_byte_under_its_lease,
                many_payloads_are_read_at_the_same_time,
                repeated_claims_and_takeovers_leave_large_payloads_out,
                no_payload_is_read_under_a_lease_that_has_ended,
            }
            repeated_claim {
                repeated_claim_returns_the_same_leases,
                repeated_claim_through_another_handle_returns_the_same_leases,
                repeated_claim_returns_every_field_unchanged,
                repeated_claim_increments_no_counter,
                repeated_claim_extends_its_leases,
                repeated_claim_returns_only_leases_it_still_holds,
                repeated_claim_takes_no_other_event,
                repeated_claim_returns_leases_of_a_destination_paused_meanwhile,
                repeated_claim_without_leases_claims_again,
                repeated_claim_that_got_no_lease_claims_again,
                repeated_claim_racing_a_settlement_revives_no_lease,
                concurrent_calls_of_one_claim_give_no_event_two_tokens,
                lease_returned_twice_settles_once,
                two_claims_with_two_ids_never_share_an_event,
            }
            takeover {
                expired_lease_is_claimable_by_another_worker,
                expired_lease_is_claimable_by_its_own_worker_under_a_new_token,
                lost_lease_is_counted_and_consumes_no_attempt,
                concurrent_claims_take_over_an_expired_lease_once,
                event_is_abandoned_at_the_limit_and_not_before,
                an_abandoned_event_is_published_once_as_dead_lettered,
                a_claim_abandons_some_and_grants_others,
                late_settlement_of_an_abandoned_event_is_stale,
                settlement_resets_the_count_of_lost_leases,
                a_requeued_event_starts_without_lost_leases,
                repeated_claim_returns_expired_leases_that_were_not_taken_over,
                repeated_claim_does_not_return_leases_that_were_taken_over,
                repeated_claim_racing_a_takeover_leaves_one_owner,
            }
            lease {
                s3_guarded_renewal_keeps_a_lease_beyond_its_first_expiry,
                s3_guarded_renewal_needs_ownership,
                renewal_extends_from_now_and_increments_no_counter,
                a_renewed_lease_still_expires,
                expired_lease_that_was_not_taken_over_can_be_renewed,
                ended_lease_cannot_be_renewed,
                renewal_reports_lost_leases_and_extends_the_others,
                renewal_racing_a_takeover_leaves_one_owner,
                a_released_event_is_claimable_at_once,
                release_counts_neither_as_an_attempt_nor_as_a_lost_lease,
                settlement_under_a_released_lease_is_stale,
                release_ignores_lost_leases,
                empty_batches_are_accepted,
            }
            clock_step {
                first_attempts_are_due_after_the_clock_stepped_back,
                a_lease_from_before_the_clock_stepped_back_ends_a_full_lease_later,
                a_lease_that_is_renewed_after_the_clock_stepped_back_is_kept,
                a_retry_from_before_the_clock_stepped_back_is_due_after_its_own_delay,
                a_retry_that_is_released_after_the_clock_stepped_back_is_due,
                a_retry_scheduled_after_the_clock_stepped_back_is_due_after_its_delay,
                pauses_from_before_the_clock_stepped_back_end_after_their_own_length,
                a_pause_without_end_outlasts_a_clock_that_steps_back,
                a_resume_from_before_the_clock_stepped_back_closes_no_later_circuit,
                a_circuit_reported_before_the_clock_stepped_back_is_forgotten,
            }
            settle {
                s4_a1_delivery_ends_the_event_and_is_published,
                s4_s1_first_failure_is_due_again_in_30_seconds,
                s4_f1_fifth_failure_is_dead_lettered_and_published,
                a_retry_is_due_after_exactly_its_delay,
                the_last_allowed_attempt_exhausts_the_event,
                status_410_dead_letters_the_event_at_once,
                every_kind_of_outcome_is_recorded,
                a_delivery_clears_the_error_of_earlier_attempts,
                history_is_oldest_first_and_names_lease_and_worker,
                attempt_is_dated_by_its_start,
                every_settlement_of_a_large_batch_is_applied,
            }
            fence {
                a_replayed_settlement_changes_nothing,
                a_settlement_twice_in_one_batch_is_applied_once,
                a_second_outcome_under_one_token_changes_nothing,
                a_replay_after_the_next_claim_is_still_a_replay,
                a_replay_after_a_requeue_changes_nothing,
                a_settlement_after_a_takeover_is_stale,
                a_settlement_under_an_older_token_of_the_same_worker_is_stale,
                stale_settlement_does_not_change_its_destination,
                expired_lease_that_was_not_taken_over_can_be_settled,
                results_of_a_mixed_batch_are_in_order,
                concurrent_replays_of_one_settlement_apply_it_once,
                settlement_racing_a_cancel_has_one_winner,
            }
            late_result {
                a_late_result_is_recorded_with_its_outcome,
                a_late_result_twice_in_one_batch_is_recorded_once,
                concurrent_repetitions_of_a_late_result_record_it_once,
                late_results_do_not_change_how_a_delivered_event_is_shown,
                a_removed_event_gets_no_late_result,
                a_late_result_before_a_requeue_stays_in_the_history,
                late_results_of_many_events_are_recorded_in_one_call,
                late_results_are_removed_with_other_old_attempts,
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
                requeued_event_does_not_count_as_a_retry,
                a_cancelled_event_can_be_requeued_and_delivered,
                a_requeue_publishes_nothing,
                concurrent_requeues_of_one_event_apply_once,
                requeue_wakes_waiting_workers,
            }
            repeated_action {
                a_repeated_requeue_returns_the_first_response_and_changes_nothing,
                a_repeated_cancel_returns_the_first_response_and_changes_nothing,
                a_repeated_discard_returns_the_first_response,
                an_operation_key_with_another_event_or_action_is_a_conflict,
                a_refused_action_does_not_use_up_its_key,
                actions_without_a_key_are_never_repetitions,
                concurrent_repetitions_of_an_action_apply_once,
                an_operation_key_is_forgotten_with_its_event,
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
            discard {
                a_discarded_event_is_in_no_list_and_no_count,
                a_discard_is_audited_and_outlives_its_event,
                only_a_failed_event_can_be_discarded,
                a_discarded_event_cannot_be_requeued_cancelled_or_discarded_again,
                a_late_result_of_a_discarded_event_is_stale,
                notices_of_a_discarded_event_stay,
                a_repeated_enqueue_of_a_discarded_event_gets_the_first_response,
                the_id_of_a_discarded_event_stays_taken_until_retention_forgets_it,
            }
            overview {
                an_empty_store_counts_nothing,
                s2_fr001_ac1_overview_counts_every_state,
                s2_fr001_ac2_oldest_pending_age_is_none_when_nothing_is_pending,
                s2_fr001_ac2_oldest_pending_age_is_that_of_the_oldest,
                s2_fr001_ac3_overview_follows_every_change_at_once,
                cancelled_events_are_counted_among_the_failed_and_apart,
            }
            page {
                s2_fr003_ac1_dead_letters_are_sorted_by_latest_change,
                dead_letters_can_be_listed_by_kind_and_without_cancelled_ones,
                s2_fr003_ac1_dead_letters_of_the_same_time_are_sorted_by_id_descending,
                s2_fr003_ac2_a_page_holds_no_more_than_its_limit,
                s2_fr003_ac3_dead_letters_have_the_fields_an_operator_needs,
                dead_letter_pages_cover_every_event_once,
                dead_letter_pages_stay_stable_while_rows_change,
                events_of_every_state_are_listed_newest_first,
                events_are_filtered_by_status_and_destination,
                event_pages_cover_every_match_once_while_others_arrive,
                an_empty_store_lists_nothing,
                an_unknown_event_is_not_found,
            }
            probe {
                workers_learn_of_a_requested_probe_with_their_next_claims,
                a_probe_that_makes_no_sense_is_refused_and_changes_nothing,
            }
            replay {
                a_replay_sends_a_delivered_event_once_more_under_the_same_webhook_id,
                a_repeated_claim_of_a_replay_keeps_its_webhook_id,
                replays_of_a_replay_form_one_chain,
                a_replay_of_an_endpoints_event_sends_its_message_again,
                only_a_delivered_event_is_replayed,
                a_repeated_replay_returns_the_event_that_the_first_one_added,
                replays_at_the_same_time_add_an_event_each,
                a_replay_outlives_its_original,
                a_look_at_the_content_is_recorded_and_changes_nothing,
                the_content_of_an_endpoints_event_is_that_of_its_message,
            }
            search {
                events_are_found_by_their_type_application_kind_and_error,
                events_are_found_by_each_reference_however_many_others_there_are,
                a_search_for_few_events_continues_after_the_rows_that_it_has_examined,
                a_search_for_one_status_of_a_destination_is_complete,
                a_search_by_time_starts_near_it_and_ends_there,
                a_list_and_a_bulk_operation_select_the_same_dead_letters,
                a_search_for_few_dead_letters_continues_after_those_that_it_has_examined,
            }
            destination {
                a_new_destination_is_healthy,
                an_unknown_destination_is_not_found,
                paused_destination_is_skipped_until_its_pause_ends,
                paused_destination_does_not_hide_another,
                pause_applies_even_if_its_event_is_dead_lettered,
                longest_pause_applies,
                failing_since_is_the_first_failure_until_the_next_healthy_response,
                failure_on_our_side_does_not_change_a_destination,
                a_circuit_report_is_shown_until_it_expires,
                circuit_is_open_while_one_worker_reports_it,
                report_on_an_unknown_destination_is_ignored,
                open_circuit_of_one_worker_does_not_stop_another,
            }
            pause {
                operators_pause_holds_first_attempts_retries_and_expired_leases,
                events_in_flight_finish_during_a_pause,
                resume_releases_events_at_once_through_every_handle,
                pause_with_an_end_ends_by_itself,
                later_pause_replaces_an_earlier_one,
                pauses_by_operator_and_receiver_do_not_shorten_each_other,
                resume_ends_the_pause_of_the_receiver,
                resume_closes_reported_circuits_and_is_listed_by_claims,
                circuit_that_opened_before_the_resume_is_not_reported_again,
                pause_and_resume_are_audited,
                resume_wakes_waiting_workers,
            }
            destinations {
                destinations_are_listed_by_id_in_pages,
                destinations_are_listed_by_state_in_pages,
                destination_counts_its_pending_events_and_leases,
                destination_shows_its_last_error,
                pending_events_are_counted_up_to_a_limit,
                held_events_are_counted_in_the_overview,
            }
            expire {
                an_event_expires_at_its_time_and_not_before,
                an_event_held_by_a_pause_expires,
                an_event_held_by_an_operators_pause_expires,
                an_event_held_by_an_open_circuit_expires,
                an_event_with_a_future_retry_expires,
                an_event_in_flight_ends_by_its_own_result,
                an_event_with_an_expired_lease_expires,
                a_requeue_restarts_the_period,
                a_walk_continues_where_its_last_step_ended,
                two_walks_at_the_same_time_expire_each_event_once,
                expired_events_are_counted_and_published,
            }
            notices {
                terminal_states_are_published_in_commit_order,
                a_retry_is_not_published,
                a_notice_carries_the_references_of_its_event,
                a_notice_names_the_type_and_the_destination_of_its_event,
                notice_pages_respect_their_limit_and_continue,
                reading_can_resume_after_any_notice,
                query_without_a_cursor_returns_only_the_end_of_the_log,
                reading_beyond_the_end_of_the_log_returns_the_end_and_continues_there,
                subscriber_at_the_end_of_the_log_gets_every_later_notice,
                subscriber_misses_no_notice_of_concurrent_commits,
            }
            health {
                health_reports_the_clock_and_a_current_schema,
                check_of_writes_changes_nothing,
            }
            secrets {
                first_secret_is_kept_and_returned_to_later_callers,
                one_of_concurrent_first_secrets_is_kept,
                rotated_secret_is_valid_beside_the_old_one_until_the_grace_period_ends,
                a_later_rotation_leaves_the_end_of_an_earlier_grace_period,
                repeated_rotation_with_the_same_secret_changes_nothing,
                the_number_of_valid_secrets_is_bounded,
                concurrent_rotations_leave_one_secret_that_does_not_retire,
                maintenance_removes_retired_secrets_and_no_others,
            }
            maintain {
                old_delivered_events_are_removed_in_small_steps,
                failed_and_pending_events_are_kept_however_old,
                old_dead_letters_are_removed_in_small_steps,
                retention_of_dead_letters_counts_from_their_last_change,
                late_result_of_a_removed_dead_letter_is_stale,
                retention_counts_from_delivery_not_from_arrival,
                without_retention_everything_is_kept,
                old_notices_are_removed_and_the_log_continues,
                key_is_kept_after_its_event_is_removed,
                expired_key_is_removed_without_retention,
            }
            unused_destination {
                destinations_without_events_are_removed,
                a_removed_destination_is_created_again_under_another_id,
                a_paused_failing_or_reported_destination_is_kept,
                a_destination_that_an_operator_paused_is_kept_until_a_day_after_its_resume,
            }
            applications {
                an_application_has_the_fields_it_was_created_with,
                a_taken_uid_is_refused_or_returns_the_existing_application,
                an_application_is_found_by_id_and_uid_within_its_organisation,
                put_creates_an_application_and_replaces_it_afterwards,
                an_update_changes_and_clears_only_what_it_names,
                a_deleted_application_does_not_exist_and_its_uid_is_free,
                applications_are_listed_in_pages_both_ways,
            }
            event_types {
                an_event_type_has_the_settings_it_was_created_with,
                a_registered_name_is_taken_and_an_archived_one_is_revived,
                archived_event_types_are_listed_only_if_asked_for,
                put_registers_replaces_and_revives_an_event_type,
                an_update_of_an_event_type_clears_only_what_it_names,
                an_expunged_event_type_does_not_exist,
            }
            endpoints {
                an_endpoint_has_the_fields_it_was_created_with,
                an_endpoint_is_found_within_its_application_only,
                a_taken_uid_of_an_endpoint_is_refused,
                unregistered_event_types_are_refused,
                put_replaces_an_endpoint_but_not_its_keys,
                an_update_of_an_endpoint_clears_only_what_it_names,
                an_endpoint_and_a_url_are_two_destinations,
                endpoints_are_listed_newest_first_in_pages_both_ways,
                a_new_url_applies_to_pending_events,
                deleting_an_endpoint_cancels_its_pending_events,
                an_endpoint_counts_its_events_by_state,
            }
            fan_out {
                each_subscribed_endpoint_gets_one_event_and_no_other_any,
                a_message_reaches_each_of_a_thousand_endpoints,
                a_message_needs_a_channel_of_an_endpoint_that_has_some,
                a_message_without_a_subscriber_is_stored,
                events_of_a_message_share_its_wire_id_and_its_payload,
                every_field_of_a_message_is_stored,
                a_message_with_a_taken_uid_is_refused_as_a_whole,
                concurrent_messages_with_one_uid_make_one_message,
                a_message_may_bring_its_application_along,
                a_message_for_one_endpoint_passes_its_filters,
                a_publish_wakes_waiting_workers,
                events_of_a_message_end_each_on_its_own,
            }
            message_lists {
                messages_are_listed_newest_first_in_pages_both_ways,
                messages_are_filtered_by_type_channel_tag_and_time,
                content_is_returned_if_it_is_asked_for,
                expunging_a_message_removes_its_payload_and_cancels_its_events,
                messages_of_an_endpoint_come_with_their_events,
                an_expired_payload_is_removed_when_its_events_have_ended,
                an_old_message_is_removed_with_its_last_event,
            }
            attempt_lists {
                attempts_are_listed_by_message_and_by_endpoint_newest_first,
                attempts_are_listed_in_pages_both_ways,
                attempts_are_filtered,
                an_attempt_is_found_through_its_own_message_only,
            }
            resend {
                a_failed_event_is_reopened_with_all_its_attempts,
                a_delivered_or_pending_event_gets_an_extra_one,
                a_resend_passes_the_filters_of_an_endpoint,
                a_disabled_endpoint_or_an_expunged_message_is_refused,
                a_resend_wakes_waiting_workers,
            }
            activity {
                a_store_without_reports_has_no_history_and_no_workers,
                every_range_has_the_counts_of_a_report,
                latencies_of_all_processes_give_the_quantiles,
                concurrent_reports_of_several_processes_add_up,
                a_repeated_report_is_counted_once,
                points_are_in_time_order_and_exist_only_for_reported_times,
                a_point_has_the_last_number_of_pending_events_and_of_dead_letters,
                history_ends_with_the_longest_time_that_its_buckets_are_kept,
                workers_are_listed_with_their_last_report,
                two_processes_with_one_name_are_two_workers,
                a_worker_that_reports_no_more_is_listed_for_an_hour,
                a_worker_that_stops_is_not_listed_and_its_counts_stay,
                what_workers_know_of_a_destination_adds_up,
                what_a_silent_worker_knew_is_shown_for_a_minute,
                reports_of_the_future_are_repaired_when_the_clock_steps_back,
            }
            operations {
                recover_reopens_failed_events_of_its_period,
                replay_missing_adds_the_events_that_an_endpoint_never_got,
                an_operation_stays_within_its_rate_and_continues,
                a_step_examines_a_limited_number_of_rows,
                a_stopped_operation_does_no_more,
                an_operation_of_a_deleted_endpoint_is_stopped,
                an_operation_is_found_by_its_own_application_only,
            }
            bulk {
                a_requeue_makes_all_selected_dead_letters_pending,
                an_event_that_fails_again_is_left_alone,
                a_cancel_changes_the_kind_and_publishes_no_second_notice,
                a_discard_removes_the_events_and_keeps_their_ids,
                every_condition_of_a_filter_selects,
                an_operation_stays_within_its_rate_and_any_handle_continues_it,
                two_workers_change_each_event_once,
                a_step_examines_a_limited_number_of_dead_letters,
                a_stopped_operation_does_no_more,
                a_request_under_a_known_key_starts_nothing,
                operations_are_listed_by_state_and_removed_when_they_are_old,
            }
            answers {
                an_answer_is_kept_with_its_change_and_prevents_a_second_one,
                a_refused_call_keeps_no_answer,
                every_change_of_the_registry_can_keep_its_answer,
                an_answer_expires,
                concurrent_calls_under_one_key_make_one_change,
            }
            destination_keys {
                a_rotated_key_is_valid_beside_the_old_one_until_the_grace_period_ends,
                ten_old_keys_may_be_valid_and_no_more,
                a_lease_carries_the_version_of_its_profile,
                headers_are_replaced_only_if_they_are_those_that_the_caller_read,
                a_profile_names_the_application_of_its_endpoint,
                a_url_may_have_keys_of_its_own,
                sealed_values_are_listed_and_replaced_by_id,
                maintenance_removes_retired_keys_and_no_others,
            }
            disable {
                a_disabled_endpoint_holds_its_events_until_it_is_enabled,
                a_lease_outlasts_the_disabling_of_its_endpoint,
                status_410_disables_an_endpoint_with_a_notice,
                a_notice_names_a_disabled_endpoint_also_when_its_event_is_discarded,
                status_410_disables_no_url,
                an_endpoint_that_fails_for_days_is_disabled,
                a_success_ends_the_failing_period_of_an_endpoint,
                disabled_destinations_are_listed_by_state,
            }
            throttle {
                a_claim_grants_no_more_than_the_throttle_of_an_endpoint,
                a_throttle_of_one_is_shared_by_all_workers,
                a_throttle_delays_no_other_endpoint,
                the_throttle_of_an_application_covers_all_its_endpoints,
                a_repeated_claim_spends_no_throttle,
            }
            fifo {
                a_line_is_sent_one_at_a_time_in_order,
                a_retry_holds_the_events_behind_it,
                a_dead_lettered_head_lets_its_line_go_on,
                an_expired_lease_is_taken_over_before_the_line_goes_on,
                a_released_head_is_sent_before_the_events_behind_it,
                a_requeued_event_goes_back_to_its_position_in_the_line,
                a_line_delays_no_other_destination,
                concurrent_claims_grant_one_event_of_a_line,
            }
            deliver_at {
                an_event_is_not_claimed_before_its_time,
                a_message_is_not_claimed_before_its_time,
                an_event_expires_after_its_time_not_after_its_creation,
                a_cancelled_event_that_is_requeued_is_due_now,
            }
        }
    };
    ($make_harness:expr) => {
        $crate::conformance_suite! { @list __conformance_tests ($make_harness) }
    };
}

/// Expands the list of cases to tests.
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

/// Expands the list of cases to the module `cases`.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($($file:ident { $($case:ident,)+ })+) => {
        /// Every case by name, for an adapter that runs single cases.
        pub mod cases {
            $(pub mod $file {
                pub use $crate::$file::{$($case),+};
            })+
        }
    };
}

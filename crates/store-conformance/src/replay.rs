//! Replays of delivered events, and looks at the content of events.

use std::collections::BTreeSet;

use bytes::Bytes;
use posthaste_domain::{DeliveryStatus, EventId, NewEventSpec, Trigger};
use posthaste_store::{ActionRequest, EventContent, EventView, ManualAction, Retention, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn replay(store: &Handle, event_id: &EventId) -> EventView {
    store.replay(event_id, "ann".into()).await.expect("the event is delivered")
}

async fn content(store: &Handle, event_id: &EventId, bytes_max: usize) -> Result<EventContent, StoreError> {
    store.event_content(event_id, "ann", bytes_max).await
}

async fn actions(store: &Handle, event_id: &EventId) -> Vec<(ManualAction, String)> {
    let audit = detail(store, event_id).await.audit;
    audit.into_iter().map(|entry| (entry.action, entry.actor)).collect()
}

fn full_event() -> NewEventSpec {
    NewEventSpec {
        payload: Bytes::from_static(b"\0\xff bytes"),
        content_type: Some("application/octet-stream".to_owned()),
        payment_request_id: Some("pr-1".to_owned()),
        session_id: Some("se-1".to_owned()),
        webhook_id: Some("wh-1".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ..event_with_id("order-17")
    }
}

pub async fn a_replay_sends_a_delivered_event_once_more_under_the_same_webhook_id(harness: &dyn Harness) {
    let store = harness.store();
    let original = enqueue_delivered(&store, full_event()).await;
    let before = view(&store, &original).await;
    harness.advance(HOUR).await;
    let mut wakeups = store.wakeups();
    let added = replay(&store, &original).await;
    assert_woken(&mut wakeups).await;
    assert_eq!((&added.event_id, added.replay_of.as_ref()), (&id("order-17-r1"), Some(&original)));
    assert_eq!((added.status, added.attempts, added.max_attempts), (DeliveryStatus::Pending, 0, 1));
    assert_time_between(before.created_at, added.created_at, HOUR);
    assert_eq!(added, view(&store, &added.event_id).await);
    let references = |event: &EventView| {
        (event.payment_request_id.clone(), event.session_id.clone(), event.webhook_id.clone())
    };
    assert_eq!((references(&added), &added.event_type), (references(&before), &before.event_type));

    let lease = claim_one(&store).await;
    assert_eq!((&lease.event_id, &lease.wire_id), (&added.event_id, &original));
    assert_eq!((lease.trigger, lease.max_attempts), (Trigger::Manual, 1));
    assert_eq!(&lease.payload.expect_loaded()[..], b"\0\xff bytes");
    assert_eq!(lease.content_type, "application/octet-stream");
    assert_eq!(lease.traceparent, full_event().traceparent);
    apply(&store, &lease, status(500)).await;
    assert_eq!(view(&store, &added.event_id).await.status, DeliveryStatus::Failed, "it had one attempt");
    let after = view(&store, &original).await;
    assert_eq!((after.status, after.delivered_at), (DeliveryStatus::Delivered, before.delivered_at));
    let replayed = [(ManualAction::Replay, "ann".to_owned())];
    assert_eq!(actions(&store, &original).await, replayed);
    assert_eq!(actions(&store, &added.event_id).await, replayed);
}

pub async fn a_repeated_claim_of_a_replay_keeps_its_webhook_id(harness: &dyn Harness) {
    let store = harness.store();
    let original = enqueue_delivered(&store, full_event()).await;
    replay(&store, &original).await;
    let request = claim_by("worker");
    let lease = only_lease(&store, &request).await;
    assert_eq!(only_lease(&store, &request).await.wire_id, lease.wire_id);
    harness.advance(PAST_LEASE).await;
    assert_eq!(claim_one(&store).await.wire_id, original, "after a takeover");
}

pub async fn replays_of_a_replay_form_one_chain(harness: &dyn Harness) {
    let store = harness.store();
    let original = enqueue_delivered(&store, event_with_id("a")).await;
    for run in 1..4 {
        let last = if run == 1 { original.clone() } else { original.with_run(run - 1) };
        let added = replay(&store, &last).await;
        assert_eq!((added.event_id, added.replay_of), (original.with_run(run), Some(original.clone())));
        let lease = claim_one(&store).await;
        assert_eq!(lease.wire_id, original);
        apply(&store, &lease, success()).await;
    }
    // The longest id that a producer may choose.
    let long = "x".repeat(256);
    let original = enqueue_delivered(&store, event_with_id(&long)).await;
    let added = replay(&store, &original).await.event_id;
    assert_eq!(added.as_str().len(), 256);
    assert!(added.as_str().ends_with("x-r1"));
}

pub async fn a_replay_of_an_endpoints_event_sends_its_message_again(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    let original = event_of(&message, &endpoint);
    apply(&store, &claim_one(&store).await, success()).await;
    let added = replay(&store, &original).await;
    assert_eq!((&added.event_id, added.replay_of.as_ref()), (&original.with_run(1), Some(&original)));
    assert_eq!(added.app, Some(app.application.id));
    let lease = claim_one(&store).await;
    assert_eq!((&lease.wire_id, lease.max_attempts), (&EventId::from_message(message.id), 1));
    apply(&store, &lease, success()).await;
    set_disabled(&store, &app, &endpoint, true).await;
    let disabled = StoreError::EndpointDisabled { endpoint: endpoint.id.to_string() };
    assert_eq!(store.replay(&original, "ann".into()).await, Err(disabled));
    set_disabled(&store, &app, &endpoint, false).await;
    store.messages().expunge(app.scope(), &ref_to(&message), "ann").await.expect("it exists");
    let removed = StoreError::ContentRemoved { event_id: original.clone() };
    assert_eq!(store.replay(&original, "ann".into()).await, Err(removed.clone()));
    assert_eq!(content(&store, &original, 10).await, Err(removed));
    assert_eq!(actions(&store, &original).await.len(), 1, "what was refused is not recorded");
}

pub async fn only_a_delivered_event_is_replayed(harness: &dyn Harness) {
    let store = harness.store();
    let refused = async |event_id: &EventId, status| {
        let not_replayable = StoreError::NotReplayable { event_id: event_id.clone(), status };
        assert_eq!(store.replay(event_id, "ann".into()).await, Err(not_replayable));
    };
    let failed = enqueue_dead_lettered(&store, event()).await;
    refused(&failed, DeliveryStatus::Failed).await;
    refused(&enqueue(&store, event()).await, DeliveryStatus::Pending).await;
    let unknown = Err(StoreError::EventNotFound { event_id: id("unknown") });
    assert_eq!(store.replay(&id("unknown"), "ann".into()).await, unknown);
    store.discard(&failed, "bob".into(), None).await.expect("the event is failed");
    let discarded = store.replay(&failed, "ann".into()).await;
    assert!(matches!(discarded, Err(StoreError::EventDiscarded { .. })), "{discarded:?}");
}

pub async fn a_repeated_replay_returns_the_event_that_the_first_one_added(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let original = enqueue_delivered(&store, event()).await;
    let other = enqueue_delivered(&store, event()).await;
    let keyed = ActionRequest { actor: "ann", key: Some("k") };
    let first = store.replay(&original, keyed).await.expect("the event is delivered");
    assert_eq!(second.replay(&original, keyed).await.as_ref(), Ok(&first));
    apply(&store, &claim_one(&store).await, success()).await;
    let repeated = store.replay(&original, keyed).await.expect("this is a repetition");
    assert_eq!((&repeated.event_id, repeated.status), (&first.event_id, DeliveryStatus::Pending));
    assert_nothing_claimable(&store).await;
    let conflict = StoreError::IdempotencyConflict { key: "k".to_owned() };
    assert_eq!(store.replay(&other, keyed).await, Err(conflict.clone()));
    let failed = enqueue_dead_lettered(&store, event()).await;
    assert_eq!(store.requeue(&failed, keyed).await, Err(conflict));
}

pub async fn replays_at_the_same_time_add_an_event_each(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let direct = enqueue_delivered(&store, event()).await;
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let of_endpoint = event_of(&publish_one(&store, &app).await, &endpoint);
    apply(&store, &claim_one(&store).await, success()).await;
    for original in [direct, of_endpoint] {
        let replays = tokio::join!(
            replay(&store, &original),
            replay(&second, &original),
            replay(&store, &original),
            replay(&second, &original)
        );
        let added = <[EventView; 4]>::from(replays).map(|event| event.event_id);
        let runs: BTreeSet<EventId> = (1..=4).map(|run| original.with_run(run)).collect();
        assert_eq!(BTreeSet::from(added), runs);
        let leases = claim_all(&store).await;
        assert_eq!(leases.len(), 4);
        for lease in &leases {
            apply(&store, lease, success()).await;
        }
    }
}

pub async fn a_replay_outlives_its_original(harness: &dyn Harness) {
    let store = harness.store();
    let original = enqueue_delivered(&store, full_event()).await;
    harness.advance(HOUR).await;
    let added = replay(&store, &original).await.event_id;
    let keep_for = std::time::Duration::from_secs(30 * 60);
    let retention = Retention {
        keep_for: Some(keep_for),
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    for _ in 0..3 {
        store.maintain(&retention).await.expect("the store is up");
    }
    assert!(!is_stored(&store, &original).await, "the original is old");
    let lease = claim_one(&store).await;
    assert_eq!((&lease.event_id, &lease.wire_id), (&added, &original));
    assert_eq!(&lease.payload.expect_loaded()[..], b"\0\xff bytes");
}

pub async fn a_look_at_the_content_is_recorded_and_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_retrying(&store, full_event()).await;
    store.cancel(&event_id, "bob".into(), None).await.expect("it is pending");
    let before = view(&store, &event_id).await;
    let shown = content(&store, &event_id, 1_000).await.expect("the event exists");
    assert_eq!((&shown.payload[..], shown.payload_bytes), (&b"\0\xff bytes"[..], 8));
    assert_eq!((&shown.event, shown.content_type.as_str()), (&before, "application/octet-stream"));
    assert_eq!(shown.traceparent, full_event().traceparent);
    let cut = content(&store, &event_id, 2).await.expect("the event exists");
    assert_eq!((&cut.payload[..], cut.payload_bytes), (&b"\0\xff"[..], 8));
    assert_eq!(view(&store, &event_id).await, before, "a look is not the last action on an event");
    let look = (ManualAction::ViewContent, "ann".to_owned());
    let expected = [(ManualAction::Cancel, "bob".to_owned()), look.clone(), look];
    assert_eq!(actions(&store, &event_id).await, expected);
    assert_eq!(format!("{shown:?}"), "EventContent(order-17, 8 bytes)");
    let unknown = Err(StoreError::EventNotFound { event_id: id("unknown") });
    assert_eq!(content(&store, &id("unknown"), 10).await, unknown);
}

pub async fn the_content_of_an_endpoints_event_is_that_of_its_message(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    let shown = content(&store, &event_of(&message, &endpoint), 1_000).await.expect("it exists");
    assert_eq!(shown.payload, message_spec().payload);
    assert_eq!(shown.event.wire_id(), EventId::from_message(message.id));
}

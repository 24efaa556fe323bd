//! Disabled endpoints: their events are held, not lost, and go when the endpoint is enabled.

use posthaste_domain::{DeliveryStatus, DisableReason, NoticeEndpoint, NoticeKind};
use posthaste_store::{DestinationAction, DestinationState, PageRequest, SYSTEM_ACTOR};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

pub async fn a_disabled_endpoint_holds_its_events_until_it_is_enabled(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    set_disabled(&store, &app, &endpoint, true).await;
    assert_nothing_claimable(&store).await;
    let status = destination_status(&store, endpoint.destination()).await;
    assert_eq!((status.state(), status.is_held()), (DestinationState::Disabled, true));
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.pending, overview.held.count), (1, 1));
    assert_eq!(publish(&store, &app, message_spec()).await.event_count, 0, "it gets no new message");
    let mut wakeups = store.wakeups();
    assert_eq!(set_disabled(&store, &app, &endpoint, false).await.disabled, None);
    assert_woken(&mut wakeups).await;
    assert_eq!(claim_one(&store).await.event_id, event_of(&message, &endpoint));
    let audit = store.destination(endpoint.destination()).await.expect("it exists").audit;
    let actions: Vec<_> = audit.iter().map(|entry| (entry.action, entry.actor.as_str())).collect();
    assert_eq!(actions, [(DestinationAction::Disable, "ann"), (DestinationAction::Enable, "ann")]);
}

pub async fn a_lease_outlasts_the_disabling_of_its_endpoint(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    publish_one(&store, &app).await;
    let lease = claim_one(&store).await;
    set_disabled(&store, &app, &endpoint, true).await;
    apply(&store, &lease, success()).await;
    assert_eq!(view(&store, &lease.event_id).await.status, DeliveryStatus::Delivered);
}

pub async fn status_410_disables_an_endpoint_with_a_notice(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    publish_one(&store, &app).await;
    let lease = claim_one(&store).await;
    let other = publish_one(&store, &app).await;
    let start = end_of_log(&store).await;
    apply(&store, &lease, status(410)).await;
    let found = store.endpoints().find(endpoint.id).await.expect("it exists");
    assert_eq!(found.disabled.map(|disabled| disabled.reason), Some(DisableReason::Gone));
    let notices = published_after(&store, start).await;
    let kinds: Vec<_> = notices.iter().map(|it| (it.notice.kind, &it.notice.event_id)).collect();
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    assert_eq!(kinds[1], (NoticeKind::EndpointDisabled(DisableReason::Gone), &lease.event_id));
    assert_eq!(notices[1].notice.webhook_id, Some(endpoint.id.to_string()));
    let audit = store.destination(endpoint.destination()).await.expect("it exists").audit;
    assert_eq!((audit[0].action, audit[0].actor.as_str()), (DestinationAction::Disable, SYSTEM_ACTOR));
    assert_nothing_claimable(&store).await;
    assert_eq!(event_view(&store, &other, &endpoint).await.status, DeliveryStatus::Pending, "it is held");
}

pub async fn a_notice_names_a_disabled_endpoint_also_when_its_event_is_discarded(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    publish_one(&store, &app).await;
    let lease = claim_one(&store).await;
    let start = end_of_log(&store).await;
    apply(&store, &lease, status(410)).await;
    let endpoints = async || -> Vec<_> {
        published_after(&store, start).await.iter().map(|it| it.notice.endpoint).collect()
    };
    let disabled = NoticeEndpoint { id: endpoint.id, app: app.application.id };
    assert_eq!(endpoints().await, [None, Some(disabled)], "the dead letter's notice names none");
    store.discard(&lease.event_id, "ann".into(), None).await.expect("a failed event can be discarded");
    assert_eq!(endpoints().await, [None, Some(disabled)]);
}

pub async fn status_410_disables_no_url(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let destination = view(&store, &event_id).await.destination_id;
    assert_ne!(destination_status(&store, destination).await.state(), DestinationState::Disabled);
    assert_eq!(published_after(&store, start).await.len(), 1);
}

pub async fn an_endpoint_that_fails_for_days_is_disabled(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let fail = async || {
        publish_one(&store, &app).await;
        let lease = claim(&store, &claim_by("worker-a")).await.leases.pop().expect("an event is due");
        apply(&store, &lease, status(500)).await;
        store.endpoints().find(endpoint.id).await.expect("it exists").disabled.map(|it| it.reason)
    };
    assert_eq!(fail().await, None);
    harness.advance(DAY * 4).await;
    assert_eq!(fail().await, None, "four days are not enough");
    harness.advance(DAY + HOUR).await;
    assert_eq!(fail().await, Some(DisableReason::Failing));
    let enabled = set_disabled(&store, &app, &endpoint, false).await;
    assert_eq!(enabled.disabled, None);
    assert_eq!(destination_status(&store, endpoint.destination()).await.failing_since, None);
    assert_eq!(fail().await, None, "its failing period begins again");
}

pub async fn a_success_ends_the_failing_period_of_an_endpoint(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    for outcome in [status(500), success(), status(500)] {
        publish_one(&store, &app).await;
        harness.advance(DAY * 3).await;
        let lease = claim(&store, &claim_by("worker-a")).await.leases.pop().expect("an event is due");
        apply(&store, &lease, outcome).await;
    }
    assert_eq!(store.endpoints().find(endpoint.id).await.map(|it| it.disabled), Ok(None));
}

pub async fn disabled_destinations_are_listed_by_state(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let (disabled, _enabled) = (endpoint(&store, &app).await, endpoint(&store, &app).await);
    set_disabled(&store, &app, &disabled, true).await;
    let listed = async |state| -> Vec<_> {
        let page = store.destinations(Some(state), &PageRequest::default()).await.expect("the store is up");
        page.items.into_iter().map(|it| it.status.id).collect()
    };
    assert_eq!(listed(DestinationState::Disabled).await, [disabled.destination()]);
    assert_eq!(listed(DestinationState::Paused).await, []);
    let resumed = store.resume_destination(disabled.destination(), "ann").await.expect("it exists");
    assert_eq!(resumed.state(), DestinationState::Disabled, "a resume does not enable an endpoint");
}

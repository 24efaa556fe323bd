//! Query plans of publishing and of the other statements of the registry.

use std::time::Duration;

use posthaste_domain::{EndpointSpec, MessageRef, OrgId, Throttle};
use posthaste_store::{
    AppScope, AttemptFilter, AttemptsOf, ListRequest, MessageFilter, NewOperation, OperationKind, PastRange,
    Retention, Store,
};

use super::explain_server::{ExplainServer, assert_uses_indexes, scans_of};
use crate::fixture::*;
use crate::registry_fixture::*;

/// Publishes, sends, lists and resends messages, and runs maintenance.
async fn run_all_operations(store: &dyn Store) {
    let (org, app) = (OrgId::default_org(), app_ref());
    let scope = AppScope { org: &org, app: &app };
    let throttled = EndpointSpec { throttle_per_second: Some(50), ..EndpointSpec::default() };
    let any = add_endpoint(store, 1, EndpointSpec::default()).await;
    add_endpoint(store, 2, in_fifo_order()).await;
    add_endpoint(store, 3, throttled).await;
    let mut published = Vec::new();
    for _ in 0..5 {
        published.push(publish(store).await.unwrap().message);
    }
    let leases = claim(store).await;
    assert_eq!((leases.len(), destinations(&leases).len()), (11, 3), "one of the line, five of the others");
    let (delivered, failed) = leases.split_at(5);
    settle(store, delivered, 200).await;
    settle(store, failed, 410).await;
    let messages = store.messages();
    let list = ListRequest::default();
    let filter = MessageFilter::default();
    messages.list(scope, &filter, &list, false).await.unwrap();
    messages.of_endpoint(scope, &by_id(&any), &filter, &list, false).await.unwrap();
    let message = MessageRef::Id(published[0].id);
    assert!(!messages.destinations(scope, &message, &ListRequest::default()).await.unwrap().items.is_empty());
    for of in [AttemptsOf::Message(message.clone()), AttemptsOf::Endpoint(by_id(&any))] {
        messages.attempts(scope, &AttemptFilter::all(of), &ListRequest::default()).await.unwrap();
    }
    store.endpoints().stats(scope, &by_id(&any), None, None).await.unwrap();
    let enable = posthaste_domain::EndpointChange { is_disabled: Some(false), ..Default::default() };
    store.endpoints().update(scope, &by_id(&any), &enable, "operator").await.unwrap();
    messages.resend(scope, &message, &by_id(&any), "operator", None).await.unwrap();
    for kind in [OperationKind::Recover, OperationKind::ReplayMissing] {
        let range = PastRange::new(DAY, Duration::ZERO).unwrap();
        let (rate, endpoint) = (Throttle::new(100).unwrap(), by_id(&any));
        let new = NewOperation { kind, endpoint: &endpoint, range, rate, actor: "operator" };
        store.operations().start(scope, &new, None).await.unwrap();
    }
    store.operations().advance(100).await.unwrap();
    messages.expunge(scope, &message, "operator").await.unwrap();
    store.endpoints().delete(scope, &by_id(&any), "operator").await.unwrap();
    let keep = Some(DAY);
    let retention = Retention {
        keep_for: keep,
        keep_dead_letters_for: keep,
        keep_unused_destinations_for: keep,
        rows_max: 100,
    };
    store.maintain(&retention).await.unwrap();
}

#[tokio::test]
async fn publishing_and_the_registry_scan_no_large_table_sequentially() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    add_app(&store).await;
    let plans = explained.plans_during(run_all_operations(&store)).await;
    // Attempts of days without a partition are few, and have no index by time.
    let indexed = plans.iter().filter(|plan| !plan.text.contains("DELETE FROM app.webhook_attempts_default"));
    assert_uses_indexes(&indexed.flat_map(|plan| plan.scans.iter().cloned()).collect(), &[]);
    let matching = scans_of(&plans, &["FROM app.webhook_subscriptions s", "array_agg(m.id ORDER BY m.id)"]);
    assert_uses_indexes(&matching, &["webhook_subscriptions_match", "webhook_destinations_id"]);
    let head = scans_of(&plans, &["unnest(d.line_leases)", "q.is_fifo"]);
    assert_uses_indexes(&head, &["webhook_queue_line"]);
    let limited = scans_of(&plans, &["UPDATE app.webhook_queue", "r.key IS NULL"]);
    assert_uses_indexes(&limited, &["webhook_queue_destination_position", "webhook_queue_id"]);
    let attempts = scans_of(&plans, &["a.endpoint_id = $1"]);
    assert!(attempts.iter().any(|scan| scan.index.contains("endpoint_id")), "{attempts:?}");
}

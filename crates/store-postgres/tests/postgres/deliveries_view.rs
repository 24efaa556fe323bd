//! The view `app.webhook_deliveries`: deliveries with the operators' column names, and the reset of dead ones through
//! it.

use posthaste_domain::{DeliveryStatus, EventId};
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ManualAction, Overview, Store, StoreError};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::support::PostgresHarness;

fn reset_of(event_id: &EventId) -> String {
    format!("UPDATE app.webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE id = '{event_id}'")
}

async fn dead(store: &dyn Store, name: &str) -> EventId {
    enqueue_and_attempt(store, spec_with_id(name), 410).await
}

#[tokio::test]
async fn the_view_names_every_state_and_shows_a_next_retry_only_for_pending_events() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_and_attempt(&*store, spec_with_id("a-delivered"), 200).await;
    dead(&*store, "b-dead").await;
    enqueue_and_attempt(&*store, spec_with_id("c-retrying"), 500).await;
    let cancelled = enqueue(&*store, spec_with_id("d-cancelled")).await;
    store.cancel(&cancelled, "operator".into(), None).await.unwrap();
    enqueue(&*store, spec_with_id("e-leased")).await;
    claim_one(&*store).await;
    enqueue(&*store, spec_with_id("f-pending")).await;
    let sql = "SELECT id, status, attempt_count, next_retry_at IS NOT NULL, last_attempted_at IS NOT NULL,
                      error_detail IS NOT NULL, target_url = 'https://receiver.example/hook', created_at IS NOT NULL
               FROM app.webhook_deliveries ORDER BY id";
    let expected = [
        "a-delivered|delivered|1|f|t|f|t|t",
        "b-dead|dead|1|f|t|t|t|t",
        "c-retrying|failed|1|t|t|t|t|t",
        "d-cancelled|dead|0|f|f|t|t|t",
        "e-leased|pending|0|t|f|f|t|t",
        "f-pending|pending|0|t|f|f|t|t",
    ];
    let rows = query_text(PostgresServer::shared(), &harness.database.name, sql);
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn s4_reset_through_the_view_of_postgres_makes_a_dead_event_due_now() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let event_id = dead(&*store, "dead").await;
    let other = dead(&*store, "other").await;
    let second = harness.second_handle();
    for store in [&store, &second] {
        assert_eq!(event_ids(&claim(&**store).await), [""; 0]);
    }
    let mut wakeups = [store.wakeups(), second.wakeups()];
    let client = client(&harness.database.url).await;
    assert_eq!(client.execute(&reset_of(&event_id), &[]).await.unwrap(), 1);
    for wakeups in &mut wakeups {
        expect_soon("workers of both stores are woken", wakeups.wait()).await;
    }

    let detail = store.event(&event_id).await.unwrap();
    assert_eq!((detail.event.status, detail.event.attempts), (DeliveryStatus::Pending, 0));
    assert_eq!((detail.event.failure_kind, detail.event.last_error), (None, None));
    assert_eq!(detail.event.next_attempt_at, Some(detail.event.updated_at));
    assert_eq!(detail.history.len(), 1, "the earlier attempt stays on record");
    let audit = &detail.audit[..];
    assert!(
        matches!(audit, [one] if one.action == ManualAction::Requeue && one.actor == "sql:postgres"),
        "{audit:?}"
    );
    assert_eq!(detail.event.manual_last.as_ref(), audit.first());
    let overview = store.overview().await.unwrap();
    assert_eq!((overview.pending, overview.pending_ready, overview.retrying, overview.failed), (1, 1, 0, 1));

    let lease = claim_one(&*store).await;
    assert_eq!((&lease.event_id, lease.attempt()), (&event_id, 1));
    settle(&*store, &[lease], 200).await;
    let overview = store.overview().await.unwrap();
    let expected = Overview { delivered: 1, failed: 1, ..Overview::default() };
    assert_eq!(overview, expected);
    assert_eq!(store.event(&other).await.unwrap().event.status, DeliveryStatus::Failed);
}

#[tokio::test]
async fn reset_of_a_cancelled_event_of_postgres_is_no_longer_counted_as_cancelled() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let (event_id, other) = (dead(&*store, "cancelled").await, dead(&*store, "other").await);
    for event_id in [&event_id, &other] {
        store.cancel(event_id, "operator".into(), None).await.unwrap();
    }
    let client = client(&harness.database.url).await;
    assert_eq!(client.execute(&reset_of(&event_id), &[]).await.unwrap(), 1);
    let overview = store.overview().await.unwrap();
    assert_eq!((overview.pending, overview.failed, overview.cancelled), (1, 1, 1));
}

#[tokio::test]
async fn s4_reset_by_psql_needs_only_select_and_update_on_the_view() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let (server, database) = (PostgresServer::shared(), &harness.database.name);
    let role = format!("operator_of_{database}");
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA app TO {role};
         GRANT SELECT, UPDATE ON app.webhook_deliveries TO {role}"
    );
    query_text(server, database, &grants);
    let as_operator =
        |sql: &str| server.psql(database, &format!("\\connect - {role}\n\\set QUIET off\n{sql}"));
    let reset = "UPDATE app.webhook_deliveries SET attempt_count = 0, status = 'pending'";
    for (name, more) in [
        ("plain", ""),
        ("null", ", next_retry_at = NULL"),
        ("now", ", next_retry_at = now()"),
        ("clock", ", next_retry_at = clock_timestamp()"),
    ] {
        let event_id = dead(&*store, name).await;
        let output = as_operator(&format!("{reset}{more} WHERE id = '{name}'")).unwrap();
        assert_eq!(output, "UPDATE 1", "{name}");
        let detail = store.event(&event_id).await.unwrap();
        assert_eq!(detail.event.next_attempt_at, Some(detail.event.updated_at), "{name} is due now");
        assert_eq!(detail.audit[0].actor, format!("sql:{role}"));
        settle(&*store, &[claim_one(&*store).await], 200).await;
    }
    for refused in [
        "UPDATE app.webhook_failures SET attempts = 0",
        "DELETE FROM app.webhook_deliveries",
        "CREATE TEMP TABLE t (id text);
         CREATE TRIGGER x BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION app.webhook_requeue_delivery()",
    ] {
        let error = as_operator(refused).expect_err(refused).to_string();
        assert!(error.contains("permission denied"), "{refused}: {error}");
    }
    query_text(server, database, &format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[tokio::test]
async fn a_reset_that_is_rolled_back_changes_nothing() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let event_id = dead(&*store, "dead").await;
    let before = (store.event(&event_id).await.unwrap(), store.overview().await.unwrap());
    let sql = format!("BEGIN; {}; ROLLBACK;", reset_of(&event_id));
    query_text(PostgresServer::shared(), &harness.database.name, &sql);
    assert_eq!((store.event(&event_id).await.unwrap(), store.overview().await.unwrap()), before);
    assert_eq!(event_ids(&claim(&*store).await), [""; 0]);
}

#[tokio::test]
async fn many_dead_events_are_reset_in_one_statement() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, (0..20).map(|_| spec()).collect()).await;
    settle(&*store, &claim(&*store).await, 410).await;
    enqueue_and_attempt(&*store, spec(), 200).await;
    let client = client(&harness.database.url).await;
    let sql = "UPDATE app.webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE status = 'dead'";
    assert_eq!(client.execute(sql, &[]).await.unwrap(), 20);
    assert_eq!(claim(&*store).await.len(), 20);
    assert_eq!(store.overview().await.unwrap().failed, 0);
}

#[tokio::test]
async fn every_write_except_a_reset_fails_with_a_hint_and_changes_nothing() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    dead(&*store, "dead").await;
    enqueue_and_attempt(&*store, spec_with_id("delivered"), 200).await;
    enqueue_and_attempt(&*store, spec_with_id("retrying"), 500).await;
    enqueue(&*store, spec_with_id("pending")).await;
    let client = client(&harness.database.url).await;
    let state = async || {
        let sql = "SELECT string_agg(d::text, E'\\n' ORDER BY d.id) FROM app.webhook_deliveries d";
        client.query_one(sql, &[]).await.unwrap().get::<_, String>(0)
    };
    let before = (state().await, store.overview().await.unwrap().failed);
    let reset = "attempt_count = 0, status = 'pending'";
    let writes = [
        "INSERT INTO app.webhook_deliveries (id, target_url) VALUES ('new', 'https://receiver.example/')"
            .to_owned(),
        "DELETE FROM app.webhook_deliveries WHERE id = 'dead'".to_owned(),
        "UPDATE app.webhook_deliveries SET status = 'delivered' WHERE id = 'dead'".to_owned(),
        "UPDATE app.webhook_deliveries SET status = 'pending' WHERE id = 'dead'".to_owned(),
        "UPDATE app.webhook_deliveries SET attempt_count = 0 WHERE id = 'dead'".to_owned(),
        format!(
            "UPDATE app.webhook_deliveries SET {reset}, target_url = 'https://x.example/' WHERE id = 'dead'"
        ),
        format!("UPDATE app.webhook_deliveries SET {reset}, id = 'renamed' WHERE id = 'dead'"),
        format!(
            "UPDATE app.webhook_deliveries SET {reset}, next_retry_at = now() + interval '1 hour' WHERE id = 'dead'"
        ),
        format!("UPDATE app.webhook_deliveries SET {reset} WHERE id = 'delivered'"),
        format!("UPDATE app.webhook_deliveries SET {reset} WHERE id = 'retrying'"),
        format!("UPDATE app.webhook_deliveries SET {reset} WHERE id = 'pending'"),
        // One of the rows could be reset; the statement fails as a whole.
        format!("UPDATE app.webhook_deliveries SET {reset}"),
    ];
    for write in writes {
        let error = client.execute(&write, &[]).await.expect_err(&write);
        let db = error.as_db_error().unwrap_or_else(|| panic!("{write}: {error}"));
        assert_eq!(db.code().code(), "55000", "{write}: {db}");
        assert!(
            db.hint().is_some_and(|hint| hint.contains("reset") || hint.contains("UPDATE")),
            "{write}: {db:?}"
        );
        assert_eq!((state().await, store.overview().await.unwrap().failed), before, "{write}");
    }
    assert_eq!(client.execute(&reset_of(&EventId::new("unknown").unwrap()), &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn of_a_concurrent_reset_and_requeue_one_applies() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let client = client(&harness.database.url).await;
    for round in 0..20 {
        let event_id = dead(&*store, &format!("round-{round}")).await;
        let sql = reset_of(&event_id);
        let (reset, requeued) =
            tokio::join!(client.execute(&sql, &[]), store.requeue(&event_id, "operator".into()));
        let resets = match reset {
            Ok(resets) => resets,
            // The requeue committed before the reset read the event.
            Err(error) => {
                assert!(error.code().is_some_and(|state| state.code() == "55000"), "{error}");
                0
            }
        };
        match requeued {
            Ok(_) => assert_eq!(resets, 0, "round {round}"),
            Err(StoreError::NotRequeueable { .. }) => assert_eq!(resets, 1, "round {round}"),
            Err(error) => panic!("round {round}: {error}"),
        }
        assert_eq!(store.event(&event_id).await.unwrap().audit.len(), 1, "round {round}");
        let overview = store.overview().await.unwrap();
        assert_eq!((overview.pending, overview.failed), (1, 0), "round {round}");
        settle(&*store, &claim(&*store).await, 200).await;
    }
}

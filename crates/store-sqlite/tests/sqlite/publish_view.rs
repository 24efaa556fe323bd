//! The view `webhook_publish`: any SQL client publishes a message in its own transaction.

use std::process::Command;

use posthaste_domain::{EndpointSpec, EventId, EventTypeName, MessageId, MessageRef, OrgId, Uid};
use posthaste_store::{
    AppScope, Endpoint, ListRequest, MessageContent, MessageFilter, MessageView, Store as _,
};
use posthaste_store_sqlite::rusqlite::Error;
use posthaste_store_sqlite::{SqlProducerDefaults, SqliteStore};

use crate::registry_support::{add_app, add_endpoint, app};
use crate::support::{Fixture, attempt_all, claim, run};

const PUBLISH: &str =
    "INSERT INTO webhook_publish (app, event_type, payload) VALUES ('customer-1', 'invoice.paid', ?1)";

/// A store with an application of two endpoints: one gets all messages, the other those on the channel `eu`.
async fn fixture() -> (Fixture, Endpoint, Endpoint) {
    let fixture = Fixture::new();
    add_app(&fixture.store).await;
    let all = add_endpoint(&fixture.store, 1, EndpointSpec::default()).await;
    let channels = Some(vec!["eu".to_owned()]);
    let european =
        add_endpoint(&fixture.store, 2, EndpointSpec { channels, ..EndpointSpec::default() }).await;
    (fixture, all, european)
}

async fn messages(store: &SqliteStore) -> Vec<MessageView> {
    let (org, app) = (OrgId::default_org(), app());
    let scope = AppScope { org: &org, app: &app };
    let list = store.messages().list(scope, &MessageFilter::default(), &ListRequest::default(), true).await;
    list.unwrap().items
}

#[track_caller]
fn assert_refused(result: Result<usize, Error>, expected: &str) {
    let error = result.expect_err("the view refuses this").to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a_message_from_sql_reaches_the_endpoints_that_match() {
    let (fixture, all, european) = fixture().await;
    let db = fixture.sql();
    db.execute(PUBLISH, [r#"{"amount" : 1.0}"#]).unwrap();
    let sql = "INSERT INTO webhook_publish (app, event_type, payload, channels, tags, uid, max_attempts)
               VALUES ('customer-1', 'invoice.sent', '{}', '[\"us\",\"eu\"]', '[\"t\"]', 'order-17', 2)";
    db.execute(sql, []).unwrap();
    let published = messages(&fixture.store).await;
    let [second, first] = published.as_slice() else { panic!("{published:?}") };
    assert_eq!(first.content, MessageContent::Payload(br#"{"amount" : 1.0}"#.as_slice().into()));
    assert_eq!(second.event_type, EventTypeName::new("invoice.sent").unwrap());
    assert_eq!(second.uid.as_ref().map(Uid::as_str), Some("order-17"));
    assert_eq!(
        (first.id.as_uuid().get_version_num(), first.id.as_uuid().get_variant()),
        (7, uuid::Variant::RFC4122)
    );

    let leases = fixture.store.claim(&claim()).await.unwrap().leases;
    let mut granted: Vec<(EventId, EventId)> =
        leases.iter().map(|lease| (lease.event_id.clone(), lease.wire_id.clone())).collect();
    granted.sort();
    let of = |message: &MessageView, endpoint: &Endpoint| {
        (EventId::of_fan_out(message.id, endpoint.destination()), EventId::from_message(message.id))
    };
    let mut expected = [of(first, &all), of(second, &all), of(second, &european)];
    expected.sort();
    assert_eq!(granted, expected);
    assert!(
        leases
            .iter()
            .filter(|lease| lease.wire_id == of(second, &all).1)
            .all(|lease| lease.max_attempts == 2)
    );
    assert_eq!(fixture.store.overview().await.unwrap().pending, 3);
}

#[tokio::test]
async fn a_message_from_sql_exists_once_its_transaction_commits() {
    let (fixture, ..) = fixture().await;
    let mut db = fixture.sql();
    let transaction = db.transaction().unwrap();
    transaction.execute(PUBLISH, ["{}"]).unwrap();
    transaction.rollback().unwrap();
    assert_eq!(messages(&fixture.store).await, []);
    assert_eq!(fixture.store.overview().await.unwrap().pending, 0);

    let transaction = db.transaction().unwrap();
    transaction.execute(PUBLISH, ["{}"]).unwrap();
    let id: String = transaction
        .query_row(
            "SELECT 'msg_' || lower(hex(id)) FROM webhook_messages ORDER BY key DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    transaction.commit().unwrap();
    let (org, app) = (OrgId::default_org(), app());
    let named = MessageRef::Id(MessageId::parse(&id).unwrap());
    let found = fixture.store.messages().get(AppScope { org: &org, app: &app }, &named, false).await;
    assert_eq!(found.unwrap().id.to_string(), id);
}

#[tokio::test]
async fn a_message_that_breaks_a_rule_is_refused_and_leaves_nothing() {
    let (fixture, ..) = fixture().await;
    let db = fixture.sql();
    let columns = |columns: &str, values: &str| {
        let sql = format!(
            "INSERT INTO webhook_publish (app, event_type, payload{columns}) VALUES ('customer-1', 't', '{{}}'{values})"
        );
        db.execute(&sql, [])
    };
    let plain = |values: &str| {
        db.execute(&format!("INSERT INTO webhook_publish (app, event_type, payload) VALUES ({values})"), [])
    };
    assert_refused(plain("'unknown', 't', '{}'"), "no such application");
    assert_refused(plain("NULL, 't', '{}'"), "no such application");
    assert_refused(plain("'customer-1', NULL, '{}'"), "event_type must be");
    assert_refused(plain("'customer-1', 'a b', '{}'"), "event_type must be");
    assert_refused(plain("'customer-1', 'a' || char(0), '{}'"), "event_type must be");
    assert_refused(plain("'customer-1', 't', NULL"), "payload must be");
    assert_refused(plain("'customer-1', 't', '{'"), "not valid JSON");
    assert_refused(columns(", org", ", 'org_other'"), "no such application");
    assert_refused(columns(", uid", ", 'msg_1'"), "uid must be");
    assert_refused(columns(", channels", ", '[]'"), "channels must be");
    assert_refused(columns(", channels", ", 'eu'"), "channels must be");
    assert_refused(columns(", channels", ", '[\"a b\"]'"), "channels must be");
    assert_refused(columns(", channels", ", '[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\"]'"), "channels must be");
    assert_refused(columns(", tags", ", '[1]'"), "tags must be");
    assert_refused(columns(", deliver_at", ", 'tomorrow'"), "deliver_at must be");
    assert_refused(columns(", deliver_at", ", datetime('now', '+91 days')"), "at most 90 days");
    assert_refused(columns(", payload_retention_days", ", 4"), "payload_retention_days must be");
    assert_refused(columns(", max_attempts", ", 0"), "max_attempts must be");
    assert_refused(columns(", content_type", ", ' text'"), "content_type must be");
    assert_refused(columns(", session_id", ", 'caf\u{e9}'"), "session_id must be");
    assert_refused(columns(", endpoint", ", 'nowhere'"), "no such endpoint");
    assert_refused(columns(", message_id", ", x'00'"), "message_id must be");
    columns(", uid", ", 'order-17'").unwrap();
    assert_refused(columns(", uid", ", 'order-17'"), "uid is taken");
    let rows: i64 = db.query_row("SELECT count(*) FROM webhook_messages", [], |row| row.get(0)).unwrap();
    assert_eq!((rows, fixture.store.overview().await.unwrap().pending), (1, 1));
}

#[tokio::test]
async fn the_settings_of_the_service_apply_to_sql_producers() {
    let (fixture, ..) = fixture().await;
    let defaults = SqlProducerDefaults { max_attempts: 3, payload_bytes_max: 20 };
    fixture.store.set_sql_producer_defaults(defaults).await.unwrap();
    let db = fixture.sql();
    assert_refused(db.execute(PUBLISH, [format!("\"{}\"", "x".repeat(19))]), "payload_bytes_max");
    db.execute(PUBLISH, [format!("\"{}\"", "x".repeat(18))]).unwrap();
    assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases[0].max_attempts, 3);
}

#[tokio::test]
async fn a_deferred_message_waits_for_its_time() {
    let (fixture, ..) = fixture().await;
    let db = fixture.sql();
    for due in [
        "datetime('now', '+1 hour')",
        "strftime('%s', 'now') + 3600",
        "(strftime('%s', 'now') + 3600) * 1000",
    ] {
        let sql = format!(
            "INSERT INTO webhook_publish (app, event_type, payload, deliver_at) VALUES ('customer-1', 't', '{{}}', {due})"
        );
        db.execute(&sql, []).unwrap();
    }
    let delays: Vec<i64> = db
        .prepare("SELECT (deliver_at - created_at) / 1000000 FROM webhook_events")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(delays.len() == 3 && delays.iter().all(|delay| (3_590..=3_600).contains(delay)), "{delays:?}");
    assert_eq!(attempt_all(&fixture.store, 200).await, 0);
    assert_eq!(fixture.store.overview().await.unwrap().pending_ready, 0);
}

/// The clients that producers have: their SQLite is older than the one that is linked into Posthaste.
#[tokio::test]
async fn the_sqlite3_command_and_python_publish_messages() {
    let (fixture, all, _) = fixture().await;
    let published = run(Command::new("sqlite3").arg(&fixture.path).arg(
        "BEGIN;
         INSERT INTO webhook_publish (app, event_type, payload) VALUES ('customer-1', 'invoice.paid', '{\"by\": \"command\"}');
         SELECT 'msg_' || lower(hex(id)) FROM webhook_messages ORDER BY key DESC LIMIT 1;
         COMMIT;",
    ));
    let script = "import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
with db:
    db.execute('INSERT INTO webhook_publish (app, event_type, payload) VALUES (?, ?, ?)',
               ('customer-1', 'invoice.paid', json.dumps({'by': 'python'})))
    print(db.execute(\"SELECT 'msg_' || lower(hex(id)) FROM webhook_messages ORDER BY key DESC LIMIT 1\").fetchone()[0])";
    let by_python =
        run(Command::new("/usr/bin/python3").args(["-c", script, fixture.path.to_str().unwrap()]));
    let found = messages(&fixture.store).await;
    let ids: Vec<String> = found.iter().map(|message| message.id.to_string()).collect();
    assert_eq!(ids, [by_python, published]);
    let leases = fixture.store.claim(&claim()).await.unwrap().leases;
    let payloads: Vec<&[u8]> = leases.iter().map(|lease| lease.payload.expect_loaded().as_ref()).collect();
    assert_eq!(payloads, [br#"{"by": "command"}"#.as_slice(), br#"{"by": "python"}"#.as_slice()]);
    assert!(leases.iter().all(|lease| lease.destination_id == all.destination()));
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test never waits for this timeout unless it fails; it turns a missing fact into a failure"
)]
async fn a_commit_of_another_program_wakes_the_workers() {
    let (fixture, ..) = fixture().await;
    let mut wakeups = fixture.store.wakeups();
    // From its first transaction on, the writer knows what other connections have committed.
    fixture.store.check_writes().await.unwrap();
    fixture.sql().execute(PUBLISH, ["{}"]).unwrap();
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, wakeups.wait()).await.expect("the writer notices the commit");
    assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases.len(), 1);
}

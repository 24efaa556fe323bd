//! The view `webhook_enqueue`: any SQL client enqueues an event to a URL in its own transaction.

use std::process::Command;

use posthaste_domain::{DestinationUrl, EventId};
use posthaste_store::Store as _;
use posthaste_store_sqlite::rusqlite::{Connection, Error};

use crate::support::{Fixture, claim, enqueue, new_event, run, spec};

fn enqueue_to(db: &Connection, url: &str) -> Result<usize, Error> {
    let sql = "INSERT INTO webhook_enqueue (destination_url, event_type, payload) VALUES (?1, 'invoice.paid', '{}')";
    db.execute(sql, [url])
}

#[tokio::test]
async fn an_event_from_sql_is_delivered_like_one_of_the_service() {
    let fixture = Fixture::new();
    let url = "https://receiver.example/hook";
    let own = enqueue(&fixture.store, vec![new_event(spec(url))]).await;
    let sql = "INSERT INTO webhook_enqueue
                   (destination_url, event_type, payload, event_id, payment_request_id, webhook_id, session_id, traceparent,
                    content_type, max_attempts)
               VALUES (?1, 'invoice.paid', '{\"a\" : 1}', 'order-17', 'pr', 'wh', 'se', 'tp', 'application/x', 4)";
    fixture.sql().execute(sql, [url]).unwrap();
    let leases = fixture.store.claim(&claim()).await.unwrap().leases;
    let [first, second] = leases.as_slice() else { panic!("{leases:?}") };
    assert_eq!(first.event_id, own[0]);
    assert_eq!(second.destination_id, first.destination_id, "it is the same destination");
    assert_eq!((second.event_id.as_str(), &second.wire_id), ("order-17", &second.event_id));
    assert_eq!(second.payload.expect_loaded().as_ref(), br#"{"a" : 1}"#);
    assert_eq!((second.content_type.as_str(), second.traceparent.as_deref()), ("application/x", Some("tp")));
    assert_eq!((second.max_attempts, second.profile_version), (4, 0));
    let event = fixture.store.event(&second.event_id).await.unwrap().event;
    assert_eq!((event.payment_request_id.as_deref(), event.webhook_id.as_deref()), (Some("pr"), Some("wh")));
    assert_eq!((event.session_id.as_deref(), event.app), (Some("se"), None));
}

/// Every URL that the view accepts is in its normal form, and what it refuses is not, or is of a rare kind.
#[tokio::test]
async fn accepted_urls_are_in_their_normal_form() {
    let fixture = Fixture::new();
    let db = fixture.sql();
    let accepted = [
        "https://example.com/",
        "http://example.com:8080/a/b.c?d=e&f=%27",
        "https://1.2.3.4/",
        "https://example.com./x",
        "https://a_b-c.example/~user/'x'/%41?q=a/../b",
        "http://127.0.0.1:0/",
        "https://user.example/@me",
        "https://0x.example/",
        "https://xn--bcher-kva.example/",
    ];
    for url in accepted {
        enqueue_to(&db, url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(DestinationUrl::parse(url).map(|parsed| parsed.to_string()), Ok(url.to_owned()));
    }
    for (url, expected) in [
        ("", "absolute URL"),
        ("example.com", "must start with http"),
        ("ftp://example.com/", "must start with http"),
        ("HTTPS://example.com/", "in lower case"),
        ("https://example.com", "no path"),
        ("https://example.com?x", "no path"),
        ("https:///x", "usable host"),
        ("https://Example.com/", "lower case"),
        ("https://example.com:443/", "leave the port out"),
        ("http://example.com:80/", "leave the port out"),
        ("https://example.com:0443/", "not a number"),
        ("https://example.com:/", "not a number"),
        ("https://example.com:65536/", "not a number"),
        ("https://example.com/a b", "characters"),
        ("https://example.com/caf\u{e9}", "characters"),
        ("https://example.com/a\\b", "characters"),
        ("https://example.com/#top", "fragment"),
        ("https://user:secret@example.com/", "user name"),
        ("https://example.com/a/../b", "segment"),
        ("https://example.com/a/.", "segment"),
        ("https://example.com/%2E%2e/b", "segment"),
        ("https://example.com/?a='b'", "%27"),
        ("https://a..example/", "usable host"),
        ("https://.example/", "usable host"),
        ("https://1.2.3/", "neither a name nor an address"),
        ("https://1.2.3.256/", "neither a name nor an address"),
        ("https://01.2.3.4/", "neither a name nor an address"),
        ("https://1.2.3.4./", "neither a name nor an address"),
        ("https://example.0x1f/", "neither a name nor an address"),
        ("https://[::1]/", "usable host"),
        (&format!("https://example.com/{}", "x".repeat(2_048)), "2048"),
    ] {
        let error = enqueue_to(&db, url).expect_err(url).to_string();
        assert!(error.contains(expected), "{url}: {error}");
    }
    let rows: i64 = db.query_row("SELECT count(*) FROM webhook_destinations", [], |row| row.get(0)).unwrap();
    assert_eq!(usize::try_from(rows), Ok(accepted.len()));
}

#[tokio::test]
async fn an_event_that_breaks_a_rule_is_refused_and_leaves_nothing() {
    let fixture = Fixture::new();
    let db = fixture.sql();
    let insert = |columns: &str, values: &str| {
        let sql = format!(
            "INSERT INTO webhook_enqueue (destination_url, payload{columns})
             VALUES ('https://receiver.example/', '{{}}'{values})"
        );
        db.execute(&sql, [])
    };
    insert(", event_type, event_id", ", 't', 'taken'").unwrap();
    for (columns, values, expected) in [
        ("", "", "event_type is missing"),
        (", event_type", ", ' t'", "event_type must be"),
        (", event_type, event_id", ", 't', 'taken'", "event_id is taken"),
        (", event_type, event_id", ", 't', 'a.b'", "event_id must be"),
        (", event_type, max_attempts", ", 't', 1001", "max_attempts must be"),
        (", event_type, webhook_id", ", 't', ''", "webhook_id must be"),
        (", event_type, deliver_at", ", 't', 'soon'", "deliver_at must be"),
        (", event_type, deliver_at", ", 't', 1.5", "deliver_at must be"),
        (", event_type, deliver_at", ", 't', datetime('now', '+91 days')", "at most 90 days ahead"),
    ] {
        let error = insert(columns, values).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(fixture.store.overview().await.unwrap().pending, 1);
}

#[tokio::test]
async fn an_event_can_be_delivered_later_at_a_time_in_any_unit() {
    let fixture = Fixture::new();
    let db = fixture.sql();
    let enqueue = |event_id: &str, deliver_at: &str| {
        let sql = format!(
            "INSERT INTO webhook_enqueue (destination_url, event_type, payload, event_id, deliver_at)
             VALUES ('https://receiver.example/', 't', '{{}}', '{event_id}', {deliver_at})"
        );
        db.execute(&sql, []).unwrap_or_else(|error| panic!("{deliver_at}: {error}"));
        EventId::new(event_id).unwrap()
    };
    for (index, later) in [
        "datetime('now', '+1 hour')",
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour')",
        "strftime('%Y-%m-%dT%H:%M:%S', 'now', '+3 hours') || '+02:00'",
        "strftime('%s', 'now') + 3600",
        "(strftime('%s', 'now') + 3600) * 1000",
        "(strftime('%s', 'now') + 3600) * 1000000",
    ]
    .into_iter()
    .enumerate()
    {
        let event_id = enqueue(&format!("later-{index}"), later);
        let event = fixture.store.event(&event_id).await.unwrap().event;
        let delay = event.next_attempt_at.expect("it is pending").since(event.created_at);
        assert!((3_590..=3_600).contains(&delay.as_secs()), "{later}: {delay:?}");
        assert_eq!((event.claims, event.lease_owner), (0, None));
    }
    assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases, []);
    let past = [enqueue("past", "datetime('now', '-1 hour')"), enqueue("now", "NULL")];
    let leases = fixture.store.claim(&claim()).await.unwrap().leases;
    assert_eq!(leases.into_iter().map(|lease| lease.event_id).collect::<Vec<_>>(), past);
}

#[tokio::test]
async fn the_sqlite3_command_and_python_enqueue_events() {
    let fixture = Fixture::new();
    let insert = "INSERT INTO webhook_enqueue (destination_url, event_type, payload, event_id)
                  VALUES ('https://receiver.example/', 'invoice.paid', '{}', ";
    run(Command::new("sqlite3").arg(&fixture.path).arg(format!("{insert}'by-command')")));
    let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
with db:
    db.execute(sys.argv[2] + '?)', ('by-python',))";
    run(Command::new("/usr/bin/python3").args(["-c", script, fixture.path.to_str().unwrap(), insert]));
    let leases = fixture.store.claim(&claim()).await.unwrap().leases;
    let ids: Vec<EventId> = leases.into_iter().map(|lease| lease.event_id).collect();
    assert_eq!(ids, ["by-command", "by-python"].map(|id| EventId::new(id).unwrap()));
}

//! Calls of `app.enqueue_webhook` that are refused: each error has a SQLSTATE, names the rule and hints at the remedy.

use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::tokio_postgres::Client;

use crate::fixture::*;
use crate::support::PostgresHarness;

/// SQLSTATE, message and hint of a call that must be refused.
async fn refusal(client: &Client, arguments: &str) -> (String, String, String) {
    let call = format!("SELECT app.enqueue_webhook({arguments})");
    let error = client.query(&call, &[]).await.expect_err(arguments);
    let db = error.as_db_error().unwrap_or_else(|| panic!("{arguments}: {error}"));
    let hint = db.hint().unwrap_or_else(|| panic!("{arguments} is refused without a hint: {db}"));
    (db.code().code().to_owned(), db.message().to_owned(), hint.to_owned())
}

async fn assert_refused(client: &Client, arguments: &str, state: &str, rule: &str) {
    let (code, message, hint) = refusal(client, arguments).await;
    assert_eq!(code, state, "{arguments}: {message}");
    assert!(message.contains(rule), "{arguments}: {message}");
    assert!(hint.ends_with('.') || hint.ends_with('…'), "a hint is a sentence: {hint}");
}

#[tokio::test]
async fn an_invalid_url_is_refused_with_its_rule() {
    let harness = PostgresHarness::start().await;
    let client = client(&harness.database.url).await;
    let long = format!("https://receiver.example/{}", "a".repeat(2_048));
    let cases = [
        ("", "is missing"),
        ("/hook", "not an absolute URL"),
        ("receiver.example/hook", "not an absolute URL"),
        ("https:/receiver.example", "not an absolute URL"),
        ("ftp://receiver.example/", "scheme \"ftp\""),
        ("javascript://receiver.example/", "scheme \"javascript\""),
        ("https://user:hunter2@receiver.example/", "user name or password"),
        ("https://user@receiver.example/", "user name or password"),
        ("https://receiver.example/#top", "fragment"),
        ("https://receiver.example:65536/", "port 65536"),
        ("https://receiver.example:99999999999999999999/", "ports end at 65535"),
        ("https://receiver.example:http/", "no usable host"),
        ("https://receiver.example/a/../b", ". or .. segment"),
        ("https://receiver.example/a/%2E%2e/b", ". or .. segment"),
        ("https://receiver.example/.", ". or .. segment"),
        ("https://receiver.example/a b", "characters that a URL cannot have"),
        ("https://receiver.example/\u{7f}", "characters that a URL cannot have"),
        ("https://receiver.example/a\nb", "characters that a URL cannot have"),
        ("https://receiver.example/a\tb", "characters that a URL cannot have"),
        ("https://receiver.example/caf\u{e9}", "characters that a URL cannot have"),
        ("https://receiver.example/a\\b", "characters that a URL cannot have"),
        ("https:///hook", "no usable host"),
        ("https://:443/hook", "no usable host"),
        ("https://receiver..example/", "no usable host"),
        ("https://-receiver.example/", "no usable host"),
        ("https://1.2.3/", "neither a name nor an address"),
        ("https://256.0.0.1/", "neither a name nor an address"),
        ("https://0x7f.1/", "neither a name nor an address"),
        ("https://2130706433/", "neither a name nor an address"),
        ("https://[::g]/", "no usable host"),
        ("https://[1:2]/", "no address"),
        (&*long, "at most 2048"),
    ];
    for (url, rule) in cases {
        assert_refused(&client, &format!("E'{}', 'x', '1'", url.replace('\\', "\\\\")), "22023", rule).await;
    }
    assert_refused(&client, "NULL, 'x', '1'", "22023", "is missing").await;
    let (_, message, _) = refusal(&client, "'https://user:hunter2@receiver.example/', 'x', '1'").await;
    assert!(!message.contains("hunter2"), "an error never repeats a password: {message}");
    assert_eq!(event_ids(&claim(&*harness.store()).await), [""; 0]);
}

#[tokio::test]
async fn invalid_labels_ids_and_limits_are_refused_with_their_rule() {
    let harness = PostgresHarness::start().await;
    let client = client(&harness.database.url).await;
    let label = "1 to 256 printable ASCII characters";
    let cases = [
        ("NULL, '1'", "event_type is missing"),
        ("'', '1'", label),
        ("' x', '1'", label),
        ("E'x\\ny', '1'", label),
        ("'caf\u{e9}', '1'", label),
        ("repeat('x', 257), '1'", label),
        ("'x', NULL", "payload is missing"),
        ("'x', '1', content_type => NULL", "content_type is missing"),
        ("'x', '1', content_type => ''", label),
        ("'x', '1', webhook_id => ''", label),
        ("'x', '1', session_id => E'a\\tb'", label),
        ("'x', '1', payment_request_id => 'a '", label),
        ("'x', '1', traceparent => E'a\\r\\nX-Evil: 1'", label),
        ("'x', '1', max_attempts => 0", "1 to 1000, got 0"),
        ("'x', '1', max_attempts => 1001", "1 to 1000, got 1001"),
        (
            "'x', '1', deliver_at => now() + interval '91 days'",
            "deliver_at must be at most 90 days ahead, got 20",
        ),
        ("'x', '1', deliver_at => 'infinity'", "at most 90 days ahead, got infinity"),
        ("'x', '1', event_id => 'a.b'", "\"a.b\" is not usable"),
        ("'x', '1', event_id => ''", "is not usable"),
        ("'x', '1', event_id => 'a b'", "is not usable"),
        ("'x', '1', event_id => E'a\\nb'", "is not usable"),
        ("'x', '1', event_id => 'caf\u{e9}'", "is not usable"),
        ("'x', '1', event_id => repeat('x', 257)", "is not usable"),
    ];
    for (arguments, rule) in cases {
        assert_refused(&client, &format!("'{URL}', {arguments}"), "22023", rule).await;
    }
    let (_, _, hint) = refusal(&client, &format!("'{URL}', 'x', '1', event_id => 'a.b'")).await;
    assert!(hint.contains("full stop"), "{hint}");
    assert_eq!(event_ids(&claim(&*harness.store()).await), [""; 0]);
}

#[tokio::test]
async fn a_too_large_payload_and_a_taken_id_have_their_own_sqlstates() {
    let harness = PostgresHarness::start().await;
    let client = client(&harness.database.url).await;
    let call = |payload: &str, rest: &str| format!("'{URL}', 'x', {payload}::json{rest}");
    // Two bytes of the limit are its quotation marks.
    let most = call("('\"' || repeat('x', 1048574) || '\"')", ", event_id => 'most'");
    client.query(&format!("SELECT app.enqueue_webhook({most})"), &[]).await.expect("exactly the limit");
    let more = call("('\"' || repeat('x', 1048575) || '\"')", "");
    assert_refused(&client, &more, "54000", "1048577 bytes; at most 1048576").await;
    assert_refused(&client, &call("'1'", ", event_id => 'most'"), "23505", "\"most\" is taken").await;
    let broken = format!("SELECT app.enqueue_webhook('{URL}', 'x', '{{not json')");
    let error = client.query(&broken, &[]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code().to_owned()).as_deref(), Some("22P02"));
    assert_eq!(event_ids(&claim(&*harness.store()).await), ["most"]);
}

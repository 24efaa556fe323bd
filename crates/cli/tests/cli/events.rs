//! `posthaste events`, and lists of several pages.

use crate::command::run;
use crate::fake_api::{FakeApi, error, event};

#[test]
fn a_list_with_more_pages_prints_the_next_cursor() {
    let page = format!(r#"{{"events":[{}],"next_cursor":"c2"}}"#, event("msg_1", "pending", 0, ""));
    let api = FakeApi::responding(200, &page);
    let url = "https://shop.example/a?b=c";
    let list =
        ["events", "list", "--status", "pending", "--destination", url, "--limit", "1", "--server", &api.url];
    let output = run(&list);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.stdout.lines().count(), 2, "{}", output.stdout);
    assert!(
        output.stdout.lines().nth(1).unwrap().starts_with("msg_1     pending       0/6"),
        "{}",
        output.stdout
    );
    assert!(output.stderr.contains("--cursor 'c2'"), "{}", output.stderr);
    let line = "GET /v1/webhook-outbox/events?status=pending&destination=https%3A%2F%2Fshop.example%2Fa%3Fb%3Dc&limit=1";
    assert_eq!(api.request_lines(), [line]);
}

#[test]
fn events_of_one_endpoint_are_listed_by_its_id() {
    let api = FakeApi::responding(200, r#"{"events":[],"next_cursor":null}"#);
    let output = run(&["events", "list", "--endpoint", "ep_0000000000000011", "--server", &api.url]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{}", output.stderr);
    let line = "GET /v1/webhook-outbox/events?endpoint_id=ep_0000000000000011&limit=50";
    assert_eq!(api.request_lines(), [line]);
}

#[test]
fn retrying_events_are_listed_by_their_state() {
    let api = FakeApi::responding(200, r#"{"events":[],"next_cursor":null}"#);
    let output = run(&["events", "list", "--status", "retrying", "--server", &api.url]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{}", output.stderr);
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/events?status=retrying&limit=50"]);
}

#[test]
fn all_pages_are_one_table_or_one_json_response_each() {
    let first = format!(r#"{{"events":[{}],"next_cursor":"c/2"}}"#, event("msg_1", "pending", 0, ""));
    let last = format!(r#"{{"events":[{}],"next_cursor":null}}"#, event("msg_2", "delivered", 1, ""));
    let (one, two) = (first.clone(), last.clone());
    let api = FakeApi::start(move |request, _| {
        (200, if request.line.contains("cursor=c%2F2") { two.clone() } else { one.clone() })
    });
    let output = run(&["events", "list", "--all", "--json", "--server", &api.url]);
    output.assert_stdout(&format!("{first}\n{last}\n"));
    let output = run(&["events", "list", "--all", "--server", &api.url]);
    let ids: Vec<_> = output.stdout.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ids, ["EVENT", "msg_1", "msg_2"]);
    assert_eq!(output.stderr, "");
}

#[test]
fn an_empty_list_prints_no_table() {
    let api = FakeApi::responding(200, r#"{"events":[],"next_cursor":null}"#);
    let output = run(&["events", "list", "--server", &api.url]);
    output.assert_stdout("");
    assert_eq!(output.stderr, "No events match.\n");
}

#[test]
fn an_endless_list_is_an_error() {
    let api = FakeApi::responding(200, r#"{"events":[],"next_cursor":"c1"}"#);
    run(&["dlq", "list", "--all", "--server", &api.url]).assert_failure(1, &["does not end"]);
}

#[test]
fn the_explanation_of_an_event_comes_first() {
    let more = r#","explanation":"Retry 1 of 5 is due.","last_error":"HTTP 503","history":[{"attempt":1,"started_at":"2026-01-31T16:31:03Z","duration_ms":12,"http_status":503,"error_class":null,"excerpt":"busy","worker_id":"web-1"}],"audit":[]"#;
    let response = event("a/b", "pending", 1, more);
    let api = FakeApi::responding(200, &response);
    let output = run(&["events", "show", "a/b", "--server", &api.url]);
    assert!(output.stdout.starts_with("Retry 1 of 5 is due.\n\nevent id"), "{}", output.stdout);
    assert!(output.stdout.contains("\nATTEMPT") && output.stdout.contains("HTTP 503"), "{}", output.stdout);
    run(&["events", "show", "a/b", "--json", "--server", &api.url]).assert_stdout(&format!("{response}\n"));
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/events/a%2Fb"; 2]);
}

#[test]
fn a_bad_request_is_bad_usage_only_if_it_consists_of_arguments() {
    let refusal = error("invalid_request", "not an event id");
    let api = FakeApi::responding(400, &refusal);
    for arguments in [
        &["events", "show", "a.b"][..],
        &["events", "cancel", "a.b"],
        &["events", "list", "--destination", "nourl"],
        &["dlq", "list", "--cursor", "x"],
    ] {
        let output = run(&[arguments, &["--server", &api.url]].concat());
        output.assert_failure(2, &["posthaste: not an event id (invalid_request)\n"]);
    }
    let first = format!(r#"{{"events":[{}],"next_cursor":"c2"}}"#, event("msg_1", "pending", 0, ""));
    let api = FakeApi::start(move |request, _| match request.line.contains("cursor=") {
        true => (400, refusal.clone()),
        false => (200, first.clone()),
    });
    let output = run(&["events", "list", "--all", "--server", &api.url]);
    assert_eq!(output.code, Some(1), "the cursor came from the server: {}", output.stderr);
}

#[test]
fn a_missing_event_is_an_error_with_its_code() {
    let api = FakeApi::responding(404, &error("webhook_outbox_event_not_found", "there is no such event"));
    let output = run(&["events", "show", "msg_1", "--server", &api.url]);
    output.assert_failure(1, &["posthaste: there is no such event (webhook_outbox_event_not_found)\n"]);
}

#[test]
fn a_cancellation_sends_its_reason() {
    let response = r#"{"event_id":"msg_1","delivery_status":"failed","last_error":"x","updated_at":"2026-01-31T16:31:02Z"}"#;
    let api = FakeApi::responding(200, response);
    let output = run(&["events", "cancel", "msg_1", "--reason", "say \"no\"", "--server", &api.url]);
    output.assert_stdout("msg_1 is cancelled: failed\n");
    run(&["events", "cancel", "msg_1", "--json", "--server", &api.url])
        .assert_stdout(&format!("{response}\n"));
    let requests = api.requests();
    assert_eq!(requests[0].line, "POST /v1/webhook-outbox/events/msg_1/cancel");
    assert_eq!([&requests[0].body, &requests[1].body], [r#"{"reason":"say \"no\""}"#, ""]);
}

#[test]
fn conditions_are_sent_and_an_empty_page_that_is_not_the_last_is_passed_over() {
    let last = format!(r#"{{"events":[{}],"next_cursor":null}}"#, event("msg_1", "failed", 6, ""));
    let api = FakeApi::start(move |request, _| match request.line.contains("cursor=c1") {
        true => (200, last.clone()),
        false => {
            (200, r#"{"events":[],"next_cursor":"c1","searched_until":"2026-01-31T16:31:02Z"}"#.to_owned())
        }
    });
    let conditions = [
        "--app",
        "customer-17",
        "--type",
        "invoice.paid",
        "--kind",
        "gone",
        "--error",
        "http_5xx",
        "--since",
        "2026-01-31T11:29:00Z",
        "--payment-request-id",
        "pr_17",
        "--session-id",
        "se_1",
    ];
    let output = run(&[&["events", "list"], &conditions[..], &["--server", &api.url]].concat());
    assert!(output.stdout.contains("msg_1"), "{}", output.stderr);
    let query = "failure_kind=gone&payment_request_id=pr_17&session_id=se_1&app=customer-17&event_type=invoice.paid&\
                 error_class=http_5xx&since=2026-01-31T11%3A29%3A00Z&limit=50";
    let line = format!("GET /v1/webhook-outbox/events?{query}");
    assert_eq!(api.request_lines(), [line.clone(), format!("{line}&cursor=c1")]);
}

#[test]
fn the_content_of_an_event_is_printed_like_a_request() {
    let content = r#"{"event_id":"a","content_type":"text/plain","payload":"hello","payload_encoding":"utf8","payload_bytes":5,"truncated":false,"headers":{"webhook-id":"a"},"sensitive_headers":["authorization"]}"#;
    let api = FakeApi::responding(200, content);
    run(&["events", "content", "a", "--server", &api.url])
        .assert_stdout("webhook-id: a\nauthorization: (not shown)\n\nhello\n");
    run(&["events", "content", "a", "--json", "--server", &api.url]).assert_stdout(&format!("{content}\n"));
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/events/a/content"; 2]);
}

#[test]
fn a_replay_prints_the_id_of_the_new_event_and_may_wait_for_it() {
    let replayed = r#"{"event_id":"a-r1","replay_of":"a","delivery_status":"pending","created_at":"2026-01-31T16:31:02Z","held":null}"#;
    let delivered = event("a-r1", "delivered", 1, "");
    let api = FakeApi::start(move |request, _| match request.line.starts_with("POST") {
        true => (200, replayed.to_owned()),
        false => (200, delivered.clone()),
    });
    let output = run(&["events", "replay", "a", "--wait", "--server", &api.url]);
    output.assert_stdout("a-r1\n");
    assert!(output.stderr.contains("delivered after 1 attempt"), "{}", output.stderr);
    let lines = ["POST /v1/webhook-outbox/events/a/replay", "GET /v1/webhook-outbox/events/a-r1"];
    assert_eq!(api.request_lines(), lines);
}

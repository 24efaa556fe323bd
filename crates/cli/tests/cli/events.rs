//! `posthaste events`, and lists that go over several pages.

use crate::command::run;
use crate::fake_api::{FakeApi, error, event};

#[test]
fn a_list_says_how_to_see_more() {
    let page = format!(r#"{{"events":[{}],"next_cursor":"c2"}}"#, event("msg_1", "pending", 0, ""));
    let api = FakeApi::answering(200, &page);
    let url = "https://shop.example/a?b=c";
    let list =
        ["events", "list", "--status", "pending", "--destination", url, "--limit", "1", "--server", &api.url];
    let ran = run(&list);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    assert!(ran.stdout.lines().nth(1).unwrap().starts_with("msg_1     pending       0/6"), "{}", ran.stdout);
    assert!(ran.stderr.contains("--cursor 'c2'"), "{}", ran.stderr);
    let asked = "GET /v1/webhook-outbox/events?status=pending&destination=https%3A%2F%2Fshop.example%2Fa%3Fb%3Dc&limit=1";
    assert_eq!(api.lines(), [asked]);
}

#[test]
fn all_pages_are_listed_under_one_title_or_as_one_answer_each() {
    let first = format!(r#"{{"events":[{}],"next_cursor":"c/2"}}"#, event("msg_1", "pending", 0, ""));
    let last = format!(r#"{{"events":[{}],"next_cursor":null}}"#, event("msg_2", "delivered", 1, ""));
    let (one, two) = (first.clone(), last.clone());
    let api = FakeApi::start(move |asked, _| {
        (200, if asked.line.contains("cursor=c%2F2") { two.clone() } else { one.clone() })
    });
    let ran = run(&["events", "list", "--all", "--json", "--server", &api.url]);
    ran.printed(&format!("{first}\n{last}\n"));
    let ran = run(&["events", "list", "--all", "--server", &api.url]);
    let ids: Vec<_> = ran.stdout.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ids, ["EVENT", "msg_1", "msg_2"]);
    assert_eq!(ran.stderr, "");
}

#[test]
fn an_empty_list_prints_no_table() {
    let api = FakeApi::answering(200, r#"{"events":[],"next_cursor":null}"#);
    let ran = run(&["events", "list", "--server", &api.url]);
    ran.printed("");
    assert_eq!(ran.stderr, "There are no such events.\n");
}

#[test]
fn a_list_that_never_ends_is_an_error() {
    let api = FakeApi::answering(200, r#"{"events":[],"next_cursor":"c1"}"#);
    run(&["dlq", "list", "--all", "--server", &api.url]).refused(1, &["does not end"]);
}

#[test]
fn an_event_is_shown_with_its_explanation_first() {
    let more = r#","explanation":"Retry 1 of 5 is due.","last_error":"HTTP 503","history":[{"attempt":1,"started_at":"2026-01-31T16:31:03Z","duration_ms":12,"http_status":503,"error_class":null,"excerpt":"busy","worker_id":"web-1"}],"audit":[]"#;
    let answer = event("a/b", "pending", 1, more);
    let api = FakeApi::answering(200, &answer);
    let ran = run(&["events", "show", "a/b", "--server", &api.url]);
    assert!(ran.stdout.starts_with("Retry 1 of 5 is due.\n\nevent id"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nATTEMPT") && ran.stdout.contains("HTTP 503"), "{}", ran.stdout);
    run(&["events", "show", "a/b", "--json", "--server", &api.url]).printed(&format!("{answer}\n"));
    assert_eq!(api.lines(), ["GET /v1/webhook-outbox/events/a%2Fb"; 2]);
}

#[test]
fn only_what_the_person_gave_makes_a_bad_request_bad_usage() {
    let refusal = error("invalid_request", "that is no event id");
    let api = FakeApi::answering(400, &refusal);
    for arguments in [
        &["events", "show", "a.b"][..],
        &["events", "cancel", "a.b"],
        &["events", "list", "--destination", "nourl"],
        &["dlq", "list", "--cursor", "x"],
    ] {
        let ran = run(&[arguments, &["--server", &api.url]].concat());
        ran.refused(2, &["posthaste: that is no event id (invalid_request)\n"]);
    }
    let first = format!(r#"{{"events":[{}],"next_cursor":"c2"}}"#, event("msg_1", "pending", 0, ""));
    let api = FakeApi::start(move |asked, _| match asked.line.contains("cursor=") {
        true => (400, refusal.clone()),
        false => (200, first.clone()),
    });
    let ran = run(&["events", "list", "--all", "--server", &api.url]);
    assert_eq!(ran.code, Some(1), "the cursor was the server's: {}", ran.stderr);
}

#[test]
fn an_event_that_is_not_there_is_told_with_its_code() {
    let api = FakeApi::answering(404, &error("webhook_outbox_event_not_found", "there is no such event"));
    let ran = run(&["events", "show", "msg_1", "--server", &api.url]);
    ran.refused(1, &["posthaste: there is no such event (webhook_outbox_event_not_found)\n"]);
}

#[test]
fn a_cancellation_carries_its_reason() {
    let answer = r#"{"event_id":"msg_1","delivery_status":"failed","last_error":"x","updated_at":"2026-01-31T16:31:02Z"}"#;
    let api = FakeApi::answering(200, answer);
    let ran = run(&["events", "cancel", "msg_1", "--reason", "say \"no\"", "--server", &api.url]);
    ran.printed("msg_1 is cancelled: failed\n");
    run(&["events", "cancel", "msg_1", "--json", "--server", &api.url]).printed(&format!("{answer}\n"));
    let asked = api.asked();
    assert_eq!(asked[0].line, "POST /v1/webhook-outbox/events/msg_1/cancel");
    assert_eq!([&asked[0].body, &asked[1].body], [r#"{"reason":"say \"no\""}"#, ""]);
}

//! `posthaste send`: what reaches the API, and waiting for the end.

use crate::command::{directory, finish, posthaste, run, run_with_input};
use crate::fake_api::{FakeApi, error, event};

const ACCEPTED: &str =
    r#"{"event_id":"msg_1","delivery_status":"pending","created_at":"2026-01-31T16:31:02Z"}"#;
const SEND: [&str; 5] = ["send", "--url", "https://shop.example/hooks", "--type", "invoice.paid"];

fn send<'a>(api: &'a FakeApi, more: &[&'a str]) -> Vec<&'a str> {
    [&SEND, more, &["--server", &api.url]].concat()
}

/// Accepts an event, which then goes through these states.
fn accepting(states: &'static [(&'static str, u32, &'static str)]) -> FakeApi {
    FakeApi::start(move |asked, nth| match asked.line.as_str() {
        "POST /v1/webhook-outbox/events" => (202, ACCEPTED.to_owned()),
        _ => {
            let (status, attempts, more) = states[nth.min(states.len() - 1)];
            (200, event("msg_1", status, attempts, more))
        }
    })
}

#[test]
fn only_the_id_is_printed_and_the_payload_is_sent_as_it_was_written() {
    let api = FakeApi::answering(202, ACCEPTED);
    let ran = run(&send(&api, &["--data", r#" {"b": 1.50, "a":[1e3], "a":2} "#]));
    ran.printed("msg_1\n");
    assert_eq!(ran.stderr, "");
    let asked = api.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/webhook-outbox/events");
    let body = r#"{"destination_url":"https://shop.example/hooks","event_type":"invoice.paid","payload":{"b": 1.50, "a":[1e3], "a":2}}"#;
    assert_eq!((asked.body.as_str(), asked.header("content-type")), (body, Some("application/json")));
    assert_eq!(asked.header("idempotency-key"), None);
}

#[test]
fn every_option_reaches_the_api() {
    let api = FakeApi::answering(202, ACCEPTED);
    let options = [
        "--data=null",
        "--event-id=order-17",
        "--idempotency-key=k 1",
        "--payment-request-id=pr_1",
        "--session-id=s_1",
        "--webhook-id=w_1",
        "--max-attempts=3",
        "--json",
    ];
    run(&send(&api, &options)).printed(&format!("{ACCEPTED}\n"));
    let asked = api.asked().remove(0);
    let rest = r#""payload":null,"event_id":"order-17","payment_request_id":"pr_1","session_id":"s_1","webhook_id":"w_1","max_attempts":3}"#;
    assert!(asked.body.ends_with(rest), "{}", asked.body);
    assert_eq!(asked.header("idempotency-key"), Some("k 1"));
}

#[test]
fn a_payload_comes_from_a_file_or_from_standard_input() {
    let api = FakeApi::answering(202, ACCEPTED);
    let directory = directory("payload");
    std::fs::write(directory.join("payload.json"), "{\"from\": \"file\"}\n").unwrap();
    finish(posthaste(&send(&api, &["--file", "payload.json"])).current_dir(directory)).printed("msg_1\n");
    run_with_input(&send(&api, &["--file", "-"]), "[\"stdin\"]\n").printed("msg_1\n");
    let bodies: Vec<_> = api.asked().into_iter().map(|asked| asked.body).collect();
    assert!(bodies[0].ends_with(r#""payload":{"from": "file"}}"#), "{bodies:?}");
    assert!(bodies[1].ends_with(r#""payload":["stdin"]}"#), "{bodies:?}");
}

#[test]
fn a_payload_that_cannot_be_sent_is_bad_usage_and_nothing_is_asked() {
    let api = FakeApi::answering(202, ACCEPTED);
    run(&send(&api, &["--data", "{invoice: 17}"])).refused(2, &["--data is not JSON", "column"]);
    run(&send(&api, &["--file", "absent.json"])).refused(2, &["cannot open absent.json"]);
    run_with_input(&send(&api, &["--file", "-"]), "").refused(2, &["standard input"]);
    assert!(api.asked().is_empty());
}

#[test]
fn a_refusal_of_the_api_is_told_as_it_was_said() {
    let api = FakeApi::answering(400, &error("invalid_request", "destination_url is not an absolute URL"));
    let ran = run(&send(&api, &["--data", "{}"]));
    ran.refused(2, &["posthaste: destination_url is not an absolute URL (invalid_request)\n"]);
    let api =
        FakeApi::answering(409, &error("idempotency_key_conflict", "that key was used for another event"));
    run(&send(&api, &["--data", "{}", "--idempotency-key", "k"]))
        .refused(1, &["(idempotency_key_conflict)\n"]);
}

/// One more than the document of the API allows is refused before it is asked, and not one less.
#[test]
fn as_many_attempts_may_be_asked_for_as_the_api_accepts() {
    let document: serde_json::Value = serde_json::from_str(&run(&["openapi"]).stdout).unwrap();
    let event = &document["components"]["schemas"]["NewEvent"]["properties"]["max_attempts"];
    let most = event["maximum"].as_u64().unwrap();
    let api = FakeApi::answering(202, ACCEPTED);
    let ask_for = |attempts: u64| run(&send(&api, &["--data={}", &format!("--max-attempts={attempts}")]));
    ask_for(most).printed("msg_1\n");
    ask_for(1).printed("msg_1\n");
    for attempts in [0, most + 1] {
        ask_for(attempts).refused(2, &["--max-attempts", &attempts.to_string()]);
    }
    assert_eq!(api.asked().len(), 2);
}

#[test]
fn who_waits_is_told_by_the_exit_code_although_nobody_reads_the_id() {
    let api = accepting(&[("pending", 0, ""), ("failed", 1, "")]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = finish(posthaste(&send(&api, &["--data", "{}", "--wait"])).stdout(writer));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn waiting_ends_with_the_delivery() {
    let api = accepting(&[
        ("pending", 0, ""),
        ("pending", 1, r#","last_error":"HTTP 503: busy","next_attempt_at":"2026-01-31T16:31:02Z""#),
        ("delivered", 2, ""),
    ]);
    let ran = run(&send(&api, &["--data", "{}", "--wait"]));
    ran.printed("msg_1\n");
    let told = "pending, attempt 2 of 6 now, last error: HTTP 503: busy\ndelivered after 2 attempts\n";
    assert_eq!(ran.stderr, told);
}

#[test]
fn an_event_that_fails_exits_1_with_why_and_what_to_do() {
    let api =
        accepting(&[("pending", 0, ""), ("failed", 1, r#","last_error":"HTTP 410","failure_kind":"gone""#)]);
    let ran = run(&send(&api, &["--data", "{}", "--wait"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "msg_1\n"));
    assert!(ran.stderr.starts_with("failed after 1 attempt: HTTP 410. "), "{}", ran.stderr);
    assert!(ran.stderr.contains("`posthaste dlq requeue msg_1`"), "{}", ran.stderr);
}

#[test]
fn waiting_with_json_prints_the_event_as_it_ended_and_nothing_else() {
    let api = accepting(&[("pending", 0, ""), ("delivered", 1, "")]);
    let ran = run(&send(&api, &["--data", "{}", "--wait", "--json"]));
    ran.printed(&format!("{}\n", event("msg_1", "delivered", 1, "")));
}

#[test]
fn who_stops_waiting_is_told_that_the_event_goes_on() {
    let api = accepting(&[("pending", 0, "")]);
    let ran = run(&send(&api, &["--data", "{}", "--wait", "--timeout", "0.3"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "msg_1\n"));
    assert!(ran.stderr.contains("`posthaste events show msg_1`"), "{}", ran.stderr);
}

#[test]
fn a_server_that_is_restarted_meanwhile_is_waited_for() {
    let api = FakeApi::start(|asked, nth| match asked.line.as_str() {
        "POST /v1/webhook-outbox/events" => (202, ACCEPTED.to_owned()),
        _ if nth < 2 => (503, error("unavailable", "not yet")),
        _ => (200, event("msg_1", "delivered", 1, "")),
    });
    run(&send(&api, &["--data", "{}", "--wait"])).printed("msg_1\n");
}

#[test]
fn an_event_that_may_not_be_watched_was_still_accepted() {
    let api = FakeApi::start(|asked, _| match asked.line.as_str() {
        "POST /v1/webhook-outbox/events" => (202, ACCEPTED.to_owned()),
        _ => (403, error("forbidden", "the key may not read events")),
    });
    let ran = run(&send(&api, &["--data", "{}", "--wait"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "msg_1\n"));
    assert!(
        ran.stderr.contains("msg_1 was accepted, but cannot be watched: the key may not"),
        "{}",
        ran.stderr
    );
}

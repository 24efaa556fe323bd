//! `posthaste send`: its request to the API, and `--wait`.

use crate::command::{directory, posthaste, run, run_command, run_with_input};
use crate::fake_api::{FakeApi, error, event};

const ACCEPTED: &str =
    r#"{"event_id":"msg_1","delivery_status":"pending","created_at":"2026-01-31T16:31:02Z"}"#;
const SEND: [&str; 5] = ["send", "--url", "https://shop.example/hooks", "--type", "invoice.paid"];

/// Returns the arguments of `posthaste send`, followed by these.
fn send<'a>(api: &'a FakeApi, more: &[&'a str]) -> Vec<&'a str> {
    [&SEND, more, &["--server", &api.url]].concat()
}

/// Starts an API that accepts an event. Each request for the event returns the next of these states; the last one stays.
fn start_accepting(states: &'static [(&'static str, u32, &'static str)]) -> FakeApi {
    FakeApi::start(move |request, nth| match request.line.as_str() {
        "POST /v1/webhook-outbox/events" => (202, ACCEPTED.to_owned()),
        _ => {
            let (status, attempts, more) = states[nth.min(states.len() - 1)];
            (200, event("msg_1", status, attempts, more))
        }
    })
}

#[test]
fn only_the_id_is_printed_and_the_payload_is_sent_unchanged() {
    let api = FakeApi::responding(202, ACCEPTED);
    let output = run(&send(&api, &["--data", r#" {"b": 1.50, "a":[1e3], "a":2} "#]));
    output.assert_stdout("msg_1\n");
    assert_eq!(output.stderr, "");
    let request = api.requests().remove(0);
    assert_eq!(request.line, "POST /v1/webhook-outbox/events");
    let body = r#"{"destination_url":"https://shop.example/hooks","event_type":"invoice.paid","payload":{"b": 1.50, "a":[1e3], "a":2}}"#;
    assert_eq!((request.body.as_str(), request.header("content-type")), (body, Some("application/json")));
    assert_eq!(request.header("idempotency-key"), None);
}

#[test]
fn every_option_reaches_the_api() {
    let api = FakeApi::responding(202, ACCEPTED);
    let options = [
        "--data=null",
        "--event-id=order-17",
        "--idempotency-key=k 1",
        "--payment-request-id=pr_1",
        "--session-id=s_1",
        "--webhook-id=w_1",
        "--max-attempts=3",
        "--deliver-at=2026-01-31T11:00:00Z",
        "--json",
    ];
    run(&send(&api, &options)).assert_stdout(&format!("{ACCEPTED}\n"));
    let request = api.requests().remove(0);
    let rest = r#""payload":null,"event_id":"order-17","payment_request_id":"pr_1","session_id":"s_1","webhook_id":"w_1","max_attempts":3,"deliver_at":"2026-01-31T11:00:00Z"}"#;
    assert!(request.body.ends_with(rest), "{}", request.body);
    assert_eq!(request.header("idempotency-key"), Some("k 1"));
}

#[test]
fn a_payload_is_read_from_a_file_or_from_standard_input() {
    let api = FakeApi::responding(202, ACCEPTED);
    let directory = directory("payload");
    std::fs::write(directory.join("payload.json"), "{\"from\": \"file\"}\n").unwrap();
    run_command(posthaste(&send(&api, &["--file", "payload.json"])).current_dir(directory))
        .assert_stdout("msg_1\n");
    run_with_input(&send(&api, &["--file", "-"]), "[\"stdin\"]\n").assert_stdout("msg_1\n");
    let bodies: Vec<_> = api.requests().into_iter().map(|request| request.body).collect();
    assert!(bodies[0].ends_with(r#""payload":{"from": "file"}}"#), "{bodies:?}");
    assert!(bodies[1].ends_with(r#""payload":["stdin"]}"#), "{bodies:?}");
}

#[test]
fn an_invalid_payload_is_bad_usage_and_no_request_is_sent() {
    let api = FakeApi::responding(202, ACCEPTED);
    run(&send(&api, &["--data", "{invoice: 17}"])).assert_failure(2, &["--data is not JSON", "column"]);
    run(&send(&api, &["--file", "absent.json"])).assert_failure(2, &["cannot open absent.json"]);
    run_with_input(&send(&api, &["--file", "-"]), "").assert_failure(2, &["standard input"]);
    assert!(api.requests().is_empty());
}

#[test]
fn an_error_of_the_api_is_printed_with_its_code() {
    let api = FakeApi::responding(400, &error("invalid_request", "destination_url is not an absolute URL"));
    let output = run(&send(&api, &["--data", "{}"]));
    output.assert_failure(2, &["posthaste: destination_url is not an absolute URL (invalid_request)\n"]);
    let refused = "the body is invalid: deliver_at: must be an RFC 3339 time with an offset";
    let api = FakeApi::responding(400, &error("invalid_request", refused));
    run(&send(&api, &["--data", "{}", "--deliver-at", "tomorrow"])).assert_failure(2, &[refused]);
    let api =
        FakeApi::responding(409, &error("idempotency_key_conflict", "that key was used for another event"));
    run(&send(&api, &["--data", "{}", "--idempotency-key", "k"]))
        .assert_failure(1, &["(idempotency_key_conflict)\n"]);
}

/// The command accepts exactly the range of the OpenAPI document, and sends no request outside it.
#[test]
fn max_attempts_has_the_range_that_the_api_accepts() {
    let document: serde_json::Value = serde_json::from_str(&run(&["openapi"]).stdout).unwrap();
    let event = &document["components"]["schemas"]["NewEvent"]["properties"]["max_attempts"];
    let maximum = event["maximum"].as_u64().unwrap();
    let api = FakeApi::responding(202, ACCEPTED);
    let send_with = |attempts: u64| run(&send(&api, &["--data={}", &format!("--max-attempts={attempts}")]));
    send_with(maximum).assert_stdout("msg_1\n");
    send_with(1).assert_stdout("msg_1\n");
    for attempts in [0, maximum + 1] {
        send_with(attempts).assert_failure(2, &["--max-attempts", &attempts.to_string()]);
    }
    assert_eq!(api.requests().len(), 2);
}

#[test]
fn wait_sets_the_exit_code_even_if_standard_output_is_closed() {
    let api = start_accepting(&[("pending", 0, ""), ("failed", 1, "")]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = run_command(posthaste(&send(&api, &["--data", "{}", "--wait"])).stdout(writer));
    assert_eq!(output.code, Some(1), "{}", output.stderr);
}

#[test]
fn wait_ends_with_the_delivery() {
    let api = start_accepting(&[
        ("pending", 0, ""),
        ("pending", 1, r#","last_error":"HTTP 503: busy","next_attempt_at":"2026-01-31T16:31:02Z""#),
        ("delivered", 2, ""),
    ]);
    let output = run(&send(&api, &["--data", "{}", "--wait"]));
    output.assert_stdout("msg_1\n");
    let progress = "pending, attempt 2 of 6 now, last error: HTTP 503: busy\ndelivered after 2 attempts\n";
    assert_eq!(output.stderr, progress);
}

#[test]
fn wait_for_an_event_that_fails_exits_with_1_and_suggests_a_requeue() {
    let api = start_accepting(&[
        ("pending", 0, ""),
        ("failed", 1, r#","last_error":"HTTP 410","failure_kind":"gone""#),
    ]);
    let output = run(&send(&api, &["--data", "{}", "--wait"]));
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), "msg_1\n"));
    assert!(output.stderr.starts_with("failed after 1 attempt: HTTP 410. "), "{}", output.stderr);
    assert!(output.stderr.contains("`posthaste dlq requeue msg_1`"), "{}", output.stderr);
}

#[test]
fn wait_with_json_prints_only_the_event_in_its_final_state() {
    let api = start_accepting(&[("pending", 0, ""), ("delivered", 1, "")]);
    let output = run(&send(&api, &["--data", "{}", "--wait", "--json"]));
    output.assert_stdout(&format!("{}\n", event("msg_1", "delivered", 1, "")));
}

#[test]
fn wait_that_times_out_exits_with_1_and_names_the_command_to_continue() {
    let api = start_accepting(&[("pending", 0, "")]);
    let output = run(&send(&api, &["--data", "{}", "--wait", "--timeout", "0.3"]));
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), "msg_1\n"));
    assert!(output.stderr.contains("`posthaste events show msg_1`"), "{}", output.stderr);
}

#[test]
fn wait_survives_a_restart_of_the_server() {
    let api = FakeApi::start(|request, nth| match request.line.as_str() {
        "POST /v1/webhook-outbox/events" => (202, ACCEPTED.to_owned()),
        _ if nth < 2 => (503, error("unavailable", "not yet")),
        _ => (200, event("msg_1", "delivered", 1, "")),
    });
    run(&send(&api, &["--data", "{}", "--wait"])).assert_stdout("msg_1\n");
}

#[test]
fn wait_without_permission_to_read_reports_that_the_event_was_accepted() {
    let api = FakeApi::start(|request, _| match request.line.as_str() {
        "POST /v1/webhook-outbox/events" => (202, ACCEPTED.to_owned()),
        _ => (403, error("forbidden", "the key may not read events")),
    });
    let output = run(&send(&api, &["--data", "{}", "--wait"]));
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), "msg_1\n"));
    assert!(
        output.stderr.contains("msg_1 was accepted, but its state cannot be read: the key may not"),
        "{}",
        output.stderr
    );
}

//! `posthaste destinations`, and what the other commands say about held events.

use crate::command::run;
use crate::fake_api::{FakeApi, error};

const HELD: &str = r#"{"destination_id":"17","url":"https://shop.example/hooks","host":"shop.example","state":"circuit_open","since":"2026-01-31T16:31:03Z","reason":"the circuit breaker is open after repeated failures","next_probe_at":"2026-01-31T16:32:03Z","paused_until":null,"failing_since":null,"in_flight":0,"window":null,"pending_count":758,"pending_count_capped":false,"oldest_pending_age_seconds":3600,"last_error":"HTTP 503"}"#;

#[test]
fn list_filters_by_state_and_prints_the_next_cursor() {
    let page = format!(r#"{{"destinations":[{HELD}],"next_cursor":"c2"}}"#);
    let api = FakeApi::responding(200, &page);
    let output =
        run(&["destinations", "list", "--state", "circuit_open", "--limit", "1", "--server", &api.url]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let row = output.stdout.lines().nth(1).unwrap();
    for text in ["17", "circuit_open", "758", "https://shop.example/hooks", "HTTP 503"] {
        assert!(row.contains(text), "{text}: {row}");
    }
    assert!(
        output.stderr.contains("There are more destinations: add --all, or --cursor 'c2'"),
        "{}",
        output.stderr
    );
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/destinations?state=circuit_open&limit=1"]);
    run(&["destinations", "list", "--json", "--server", &api.url]).assert_stdout(&format!("{page}\n"));
}

#[test]
fn unknown_state_and_unknown_destination_are_errors() {
    let api = FakeApi::responding(404, &error("destination_not_found", "there is no destination 99"));
    run(&["destinations", "list", "--state", "sleeping"]).assert_failure(2, &["circuit_open"]);
    for command in ["show", "pause", "resume"] {
        let output = run(&["destinations", command, "99", "--server", &api.url]);
        output.assert_failure(1, &["posthaste: there is no destination 99 (destination_not_found)\n"]);
    }
}

#[test]
fn pause_sends_its_duration_and_reason_and_says_until_when() {
    let paused = HELD
        .replace("circuit_open", "paused")
        .replace(r#""paused_until":null"#, r#""paused_until":"2126-01-31T16:31:03Z""#);
    let api = FakeApi::responding(200, &paused);
    let pause =
        ["destinations", "pause", "17", "--seconds", "3600", "--reason", "new disks", "--server", &api.url];
    let output = run(&pause);
    assert!(output.stdout.starts_with("destination 17 is paused until 2126-01-31"), "{}", output.stdout);
    let request = api.requests().remove(0);
    assert_eq!(request.line, "POST /v1/webhook-outbox/destinations/17/pause");
    assert_eq!(request.body, r#"{"reason":"new disks","seconds":3600}"#);
    let api = FakeApi::responding(200, HELD);
    let output = run(&["destinations", "pause", "17", "--server", &api.url]);
    output.assert_stdout("destination 17 is paused until it is resumed\n");
}

#[test]
fn resume_says_that_events_are_sent_now() {
    let api = FakeApi::responding(200, &HELD.replace("circuit_open", "ok"));
    let output = run(&["destinations", "resume", "17", "--server", &api.url]);
    output.assert_stdout("destination 17 is resumed: its due events are sent now\n");
    assert_eq!(api.request_lines(), ["POST /v1/webhook-outbox/destinations/17/resume"]);
}

#[test]
fn requeue_of_a_held_event_says_why_and_names_the_command_that_sends_it() {
    let held = r#"{"event_id":"a","delivery_status":"pending","updated_at":"2026-01-31T16:31:03Z","held":{"destination_id":"17","state":"paused","since":null,"paused_until":null,"next_probe_at":null,"reason":"paused by ops"}}"#;
    let api = FakeApi::responding(200, held);
    let output = run(&["dlq", "requeue", "a", "--server", &api.url]);
    assert_eq!(output.stdout, "a is requeued: pending\n");
    let expected = "It is held: destination 17 is paused until it is resumed. `posthaste destinations resume 17` sends \
                    it now.\n";
    assert_eq!(output.stderr, expected);
}

#[test]
fn a_probe_says_whether_it_is_sent_and_fails_if_not() {
    let probed = r#"{"destination_id":"17","state":"circuit_open","probed":true,"reason":null}"#;
    let api = FakeApi::responding(200, probed);
    let output = run(&["destinations", "probe", "17", "--server", &api.url]);
    output.assert_stdout("destination 17 is probed: the next request decides whether its circuit closes\n");
    assert_eq!(api.request_lines(), ["POST /v1/webhook-outbox/destinations/17/probe"]);
    let refused = r#"{"destination_id":"17","state":"ok","probed":false,"reason":"no circuit is open"}"#;
    let api = FakeApi::responding(200, refused);
    let output = run(&["destinations", "probe", "17", "--server", &api.url]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(1), "destination 17 is not probed: no circuit is open\n")
    );
}

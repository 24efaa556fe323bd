//! `posthaste dlq`: lists, requeues, cancels and discards named events, or many of them in bulk.

use std::io;

use crate::command::{posthaste, posthaste_on_terminal, run, run_command};
use crate::fake_api::{FakeApi, ReceivedRequest, error, event};

fn requeued(id: &str) -> String {
    format!(r#"{{"event_id":"{id}","delivery_status":"pending","updated_at":"2026-01-31T16:31:02Z"}}"#)
}

fn discarded(id: &str) -> String {
    format!(r#"{{"event_id":"{id}","discarded_at":"2026-01-31T16:31:02Z"}}"#)
}

/// Starts an API with four dead letters on two pages, and a cancelled one. The event `gone` has already been requeued by another operator.
fn start_queue() -> FakeApi {
    FakeApi::start(|request, _| {
        let ReceivedRequest { line, .. } = request;
        let letters = |ids: [&str; 2]| ids.map(|id| event(id, "failed", 6, "")).join(",");
        let is_cancelled = line.contains("failure_kind=cancelled");
        let posted = line.strip_prefix("POST /v1/webhook-outbox/dlq/");
        if let Some(id) = posted.and_then(|rest| rest.strip_suffix("/discard")) {
            return match id {
                "gone" => (409, error("webhook_outbox_event_not_discardable", "it is not failed")),
                id => (200, discarded(id)),
            };
        }
        match posted.and_then(|rest| rest.strip_suffix("/requeue")) {
            Some("gone") => (409, error("webhook_outbox_event_not_requeueable", "it is not failed")),
            Some(id) => (200, requeued(id)),
            None if is_cancelled => {
                (200, format!(r#"{{"events":[{}],"next_cursor":null}}"#, event("withdrawn", "failed", 0, "")))
            }
            None if line.contains("cursor=") => {
                (200, format!(r#"{{"events":[{}],"next_cursor":null}}"#, letters(["c", "d"])))
            }
            None => (200, format!(r#"{{"events":[{}],"next_cursor":"p2"}}"#, letters(["a", "gone"]))),
        }
    })
}

/// Returns the requeue requests that the API has received, sorted.
fn requeue_requests(api: &FakeApi) -> Vec<String> {
    let mut posts: Vec<_> = api.request_lines().into_iter().filter(|line| line.starts_with("POST")).collect();
    posts.sort();
    posts
}

#[test]
fn dead_letters_are_listed_with_the_cause_of_their_failure() {
    let page = format!(
        r#"{{"events":[{}],"next_cursor":null}}"#,
        event("msg_1", "failed", 6, r#","failure_kind":"exhausted","last_error":"HTTP 503: busy""#)
    );
    let api = FakeApi::responding(200, &page);
    let output = run(&["dlq", "list", "--server", &api.url]);
    assert!(
        output.stdout.contains("exhausted") && output.stdout.contains("HTTP 503: busy"),
        "{}",
        output.stdout
    );
    run(&["dlq", "list", "--json", "--cursor", "x", "--server", &api.url])
        .assert_stdout(&format!("{page}\n"));
    assert_eq!(
        api.request_lines(),
        ["GET /v1/webhook-outbox/dlq?limit=50", "GET /v1/webhook-outbox/dlq?limit=50&cursor=x"]
    );
}

/// Starts an API with one dead letter, whose id has the length of generated ids.
fn start_with_dead_letter() -> FakeApi {
    let more = r#","failure_kind":"exhausted","last_error":"HTTP 503: busy""#;
    let letter = event("msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5", "failed", 6, more);
    FakeApi::responding(200, &format!(r#"{{"events":[{letter}],"next_cursor":null}}"#))
}

#[test]
fn a_narrow_terminal_shows_type_destination_and_error_and_names_what_it_hides() {
    let api = start_with_dead_letter();
    for list in ["dlq", "events"] {
        let arguments = [list, "list", "--server", &api.url];
        let shown = run_command(&mut posthaste_on_terminal(Some(80), &arguments)).stdout;
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 3, "{shown}");
        for title in ["TYPE", "DESTINATION", "LAST ERROR"] {
            assert!(lines[0].contains(title), "{title}: {shown}");
        }
        assert!(lines[1].contains("msg_0199a…b0c4d5") && lines[1].contains("HTTP 503:"), "{shown}");
        let (hidden, advice) =
            lines[2].strip_prefix("Too narrow to show whole ids, ").unwrap().split_once("; ").unwrap();
        assert!(hidden.contains("ATTEMPTS"), "{shown}");
        assert_eq!(advice, "--wide shows everything.");
        let wide = [&arguments[..], &["--wide", "--no-color"]].concat();
        let shown = run_command(&mut posthaste_on_terminal(Some(80), &wide)).stdout;
        assert!(shown.contains("ATTEMPTS") && !shown.contains('…') && !shown.contains("narrow"), "{shown}");
    }
}

#[test]
fn a_shortened_id_is_refused_with_the_way_to_the_whole_one() {
    let id = "msg_0199a…b0c4d5";
    for command in [["events", "show", id], ["events", "cancel", id], ["dlq", "requeue", id]] {
        let output = run(&command);
        assert_eq!(output.code, Some(2), "{command:?}");
        assert!(output.stderr.contains("--wide"), "{}", output.stderr);
    }
}

#[test]
fn a_pipe_and_a_terminal_of_unknown_width_get_every_column_and_no_note() {
    let api = start_with_dead_letter();
    let list = ["dlq", "list", "--server", &api.url];
    let piped = run(&list);
    assert_eq!((piped.code, piped.stderr.as_str()), (Some(0), ""));
    let shown = run_command(&mut posthaste_on_terminal(None, &[&list[..], &["--no-color"]].concat())).stdout;
    let titles = |shown: &str| shown.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((titles(&shown), shown.lines().count()), (titles(&piped.stdout), 2));
    assert!(
        piped.stdout.contains("DESTINATION") && piped.stdout.contains("FAILED (UTC)"),
        "{}",
        piped.stdout
    );
}

#[test]
fn a_refused_event_does_not_stop_the_other_named_events() {
    let api = start_queue();
    let output = run(&["dlq", "requeue", "a", "gone", "c", "--server", &api.url]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(1), "a is requeued: pending\nc is requeued: pending\n")
    );
    let error = "posthaste: gone: it is not failed (webhook_outbox_event_not_requeueable)\n";
    assert_eq!(output.stderr, error);
    run(&["dlq", "requeue", "a", "--json", "--server", &api.url])
        .assert_stdout(&format!("{}\n", requeued("a")));
}

#[test]
fn a_closed_standard_output_does_not_stop_requeueing() {
    let api = start_queue();
    let requeue = |ids: &[String], json: &[&str]| {
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let arguments = [&["dlq", "requeue", "--server", &api.url], json, &ids].concat();
        run_command(posthaste(&arguments).stdout(writer))
    };
    let mut ids: Vec<_> = (0..60).map(|number| format!("q{number}")).collect();
    for json in [&[][..], &["--json"]] {
        let output = requeue(&ids, json);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{json:?}");
    }
    assert_eq!(requeue_requests(&api).len(), 120);
    ids.insert(0, "gone".to_owned());
    let output = requeue(&ids, &[]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("gone: it is not failed"), "{}", output.stderr);
    assert_eq!(requeue_requests(&api).len(), 181);
}

#[test]
fn dead_letters_can_be_listed_by_kind() {
    let api = start_queue();
    let output = run(&["dlq", "list", "--kind", "cancelled", "--server", &api.url]);
    assert!(output.stdout.contains("withdrawn"), "{}", output.stdout);
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/dlq?failure_kind=cancelled&limit=50"]);
}

#[test]
fn named_events_are_discarded_with_a_reason() {
    let api = start_queue();
    let discard =
        ["dlq", "discard", "a", "gone", "c", "--reason", "paid by other means", "--server", &api.url];
    let output = run(&discard);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), "a is discarded\nc is discarded\n"));
    let error = "posthaste: gone: it is not failed (webhook_outbox_event_not_discardable)\n";
    assert_eq!(output.stderr, error);
    for request in api.requests() {
        assert_eq!(request.body, r#"{"reason":"paid by other means"}"#, "{}", request.line);
    }
    run(&["dlq", "discard", "a", "--json", "--server", &api.url])
        .assert_stdout(&format!("{}\n", discarded("a")));
}

#[test]
fn requeue_whose_response_is_lost_or_unavailable_is_repeated_under_its_key() {
    let api = FakeApi::start(|_, earlier| match earlier {
        // The server closes the connection without a response.
        0 => (0, String::new()),
        1 => (503, error("unavailable", "the store is unavailable")),
        _ => (200, requeued("a")),
    });
    run(&["dlq", "requeue", "a", "--server", &api.url]).assert_stdout("a is requeued: pending\n");
    let requests = api.requests();
    let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys[0].len() == 32 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn actions_on_different_events_have_different_keys() {
    for action in ["requeue", "discard"] {
        let api = start_queue();
        run(&["dlq", action, "a", "c", "--server", &api.url]);
        let requests = api.requests();
        assert_eq!(requests.len(), 2);
        let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
        assert!(keys[0].is_some() && keys[0] != keys[1], "{action}: {keys:?}");
    }
}

/// Starts an API with `matched` dead letters, on which a bulk operation is done when it is looked at for the second time.
fn start_bulk_api(matched: u64) -> FakeApi {
    FakeApi::start(move |request, earlier| {
        let ReceivedRequest { line, body, .. } = request;
        let operation = |state: &str, done: u64| {
            format!(
                r#"{{"operation_id":"bulk_01","action":"requeue","state":"{state}","filter":{{"destination":"https://a.example/","app":null,"until":"2026-01-31T16:31:02Z"}},"matched_count":{matched},"is_exact":true,"examined_count":{done},"done_count":{done},"rate_per_second":100,"reason":null,"actor":"ops","stopped_by":"ann","created_at":"2026-01-31T16:31:02Z","updated_at":"2026-01-31T16:31:02Z"}}"#
            )
        };
        match line.as_str() {
            "POST /v1/webhook-outbox/bulk" if body.contains(r#""dry_run":true"#) => {
                (200, format!(r#"{{"matched_count":{matched},"is_exact":true}}"#))
            }
            "POST /v1/webhook-outbox/bulk" => (202, operation("running", 0)),
            "POST /v1/webhook-outbox/bulk/bulk_01/stop" => (200, operation("stopped", 7)),
            "GET /v1/webhook-outbox/bulk/bulk_01" if earlier < 1 => (200, operation("running", 40)),
            "GET /v1/webhook-outbox/bulk/bulk_01" => (200, operation("finished", matched)),
            line if line.starts_with("GET /v1/webhook-outbox/bulk?") => {
                (200, format!(r#"{{"operations":[{}],"next_cursor":null}}"#, operation("running", 40)))
            }
            line => (404, error("not_found", line)),
        }
    })
}

#[test]
fn dead_letters_are_counted_requeued_and_followed_until_the_end() {
    let api = start_bulk_api(273);
    let output = run(&[
        "dlq",
        "requeue",
        "--destination",
        "https://a.example/",
        "--kind",
        "exhausted",
        "--error",
        "http_5xx",
        "--since",
        "2026-01-31T11:29:00Z",
        "--rate",
        "20",
        "--yes",
        "--server",
        &api.url,
    ]);
    output.assert_stdout("273 requeued\n");
    assert!(output.stderr.contains("posthaste dlq bulk stop bulk_01"), "{}", output.stderr);
    let requests = api.requests();
    let filter = concat!(
        r#""filter":{"destination":"https://a.example/","error_class":"http_5xx","failure_kind":"exhausted","#,
        r#""since":"2026-01-31T11:29:00Z"}"#
    );
    assert_eq!(requests[0].body, format!(r#"{{"action":"requeue","dry_run":true,{filter}}}"#));
    let started = format!(r#"{{"action":"requeue","dry_run":false,{filter},"rate_per_second":20}}"#);
    assert_eq!(requests[1].body, started);
    assert!(requests[1].header("idempotency-key").is_some(), "a repetition starts no second operation");
    assert_eq!(requests.len(), 4, "two looks at the progress");
}

#[test]
fn a_bulk_operation_without_a_terminal_requires_yes() {
    let api = start_bulk_api(4);
    for (action, arguments) in
        [("requeue", &["--all"][..]), ("cancel", &["--type", "x"]), ("discard", &["--kind", "cancelled"])]
    {
        let command = [&["dlq", action, "--server", &api.url], arguments].concat();
        run(&command).assert_failure(2, &["--yes", &format!("{action} 4 events")]);
    }
    assert!(api.requests().iter().all(|request| request.body.contains("\"dry_run\":true")));
}

#[test]
fn an_empty_selection_starts_nothing() {
    let api = start_bulk_api(0);
    let output = run(&["dlq", "discard", "--all", "--server", &api.url]);
    output.assert_stdout("");
    assert_eq!(output.stderr, "No dead letter is selected; --kind cancelled selects cancelled events.\n");
    assert_eq!(api.requests().len(), 1);
}

#[test]
fn ids_and_conditions_exclude_each_other_and_one_of_them_is_required() {
    let api = start_bulk_api(4);
    run(&["dlq", "requeue", "a", "--kind", "exhausted", "--server", &api.url])
        .assert_failure(2, &["without ids"]);
    run(&["dlq", "requeue", "--server", &api.url]).assert_failure(2, &["--destination"]);
    run(&["dlq", "cancel", "--server", &api.url]).assert_failure(2, &["--destination"]);
    run(&["dlq", "requeue", "--all", "--kind", "tired", "--server", &api.url])
        .assert_failure(2, &["exhausted, cancelled"]);
    run(&["dlq", "requeue", "--since", "yesterday", "--server", &api.url]).assert_failure(2, &["2h"]);
    assert_eq!(api.requests().len(), 0);
}

#[test]
fn an_operation_is_started_without_waiting_and_stopped() {
    let api = start_bulk_api(9);
    let output =
        run(&["dlq", "discard", "--all", "--yes", "--no-wait", "--reason", "old", "--server", &api.url]);
    output.assert_stdout("bulk_01 is running; `posthaste dlq bulk show bulk_01` shows its progress\n");
    assert!(api.requests()[1].body.contains(r#""reason":"old""#));
    let listed = run(&["dlq", "bulk", "list", "--running", "--server", &api.url]);
    for text in ["bulk_01", "requeue", "running", "40", "destination=https://a.example/", "ops"] {
        assert!(listed.stdout.contains(text), "{text}: {}", listed.stdout);
    }
    let stopped = run(&["dlq", "bulk", "stop", "bulk_01", "--server", &api.url]);
    assert!(stopped.stdout.contains("stopped"), "{}", stopped.stdout);
    let shown = run(&["dlq", "bulk", "show", "bulk_01", "--json", "--server", &api.url]);
    assert!(shown.stdout.starts_with(r#"{"operation_id":"bulk_01""#), "{}", shown.stdout);
}

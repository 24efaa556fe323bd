//! `posthaste dlq`: one by one, and all at once.

use std::io;

use crate::command::{finish, on_terminal, posthaste, run};
use crate::fake_api::{Asked, FakeApi, error, event};

fn requeued(id: &str) -> String {
    format!(r#"{{"event_id":"{id}","delivery_status":"pending","updated_at":"2026-01-31T16:31:02Z"}}"#)
}

/// Three dead letters on two pages; `gone` was requeued by somebody else.
fn queue() -> FakeApi {
    FakeApi::start(|asked, _| {
        let Asked { line, .. } = asked;
        let letters = |ids: [&str; 2]| ids.map(|id| event(id, "failed", 6, "")).join(",");
        match line.strip_prefix("POST /v1/webhook-outbox/dlq/").and_then(|rest| rest.strip_suffix("/requeue")) {
            Some("gone") => (409, error("webhook_outbox_event_not_requeueable", "it is not failed")),
            Some(id) => (200, requeued(id)),
            None if line.ends_with("overview") => (
                200,
                r#"{"pending_count":0,"pending_ready_count":0,"retrying_count":0,"failed_count":4,"delivered_count":0,"oldest_pending_age_seconds":null}"#.to_owned(),
            ),
            None if line.contains("cursor=") => (200, format!(r#"{{"events":[{}],"next_cursor":null}}"#, letters(["c", "d"]))),
            None => (200, format!(r#"{{"events":[{}],"next_cursor":"p2"}}"#, letters(["a", "gone"]))),
        }
    })
}

fn requeues(api: &FakeApi) -> Vec<String> {
    let mut posts: Vec<_> = api.lines().into_iter().filter(|line| line.starts_with("POST")).collect();
    posts.sort();
    posts
}

#[test]
fn dead_letters_are_listed_with_why_they_failed() {
    let page = format!(
        r#"{{"events":[{}],"next_cursor":null}}"#,
        event("msg_1", "failed", 6, r#","failure_kind":"exhausted","last_error":"HTTP 503: busy""#)
    );
    let api = FakeApi::answering(200, &page);
    let ran = run(&["dlq", "list", "--server", &api.url]);
    assert!(ran.stdout.contains("exhausted") && ran.stdout.contains("HTTP 503: busy"), "{}", ran.stdout);
    run(&["dlq", "list", "--json", "--cursor", "x", "--server", &api.url]).printed(&format!("{page}\n"));
    assert_eq!(
        api.lines(),
        ["GET /v1/webhook-outbox/dlq?limit=50", "GET /v1/webhook-outbox/dlq?limit=50&cursor=x"]
    );
}

/// One dead letter under an id as the server makes them.
fn dead_letter() -> FakeApi {
    let more = r#","failure_kind":"exhausted","last_error":"HTTP 503: busy""#;
    let letter = event("msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5", "failed", 6, more);
    FakeApi::answering(200, &format!(r#"{{"events":[{letter}],"next_cursor":null}}"#))
}

#[test]
fn a_narrow_terminal_shows_the_error_and_says_what_it_has_no_room_for() {
    let api = dead_letter();
    for list in ["dlq", "events"] {
        let shown = finish(&mut on_terminal(Some(80), &[list, "list", "--server", &api.url])).stdout;
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 3, "{shown}");
        assert!(lines[0].contains("LAST ERROR") && lines[1].contains("HTTP 503: busy"), "{shown}");
        let (missing, way_out) =
            lines[2].strip_prefix("Too narrow to show ").unwrap().split_once(": ").unwrap();
        assert!(missing.contains("DESTINATION") && missing.contains("TYPE"), "{shown}");
        assert_eq!(way_out, "--json has all.");
    }
}

#[test]
fn a_pipe_and_a_terminal_that_does_not_tell_its_width_get_every_column_and_no_note() {
    let api = dead_letter();
    let list = ["dlq", "list", "--server", &api.url];
    let piped = run(&list);
    assert_eq!((piped.code, piped.stderr.as_str()), (Some(0), ""));
    let shown = finish(&mut on_terminal(None, &[&list[..], &["--no-color"]].concat())).stdout;
    let titles = |shown: &str| shown.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((titles(&shown), shown.lines().count()), (titles(&piped.stdout), 2));
    assert!(
        piped.stdout.contains("DESTINATION") && piped.stdout.contains("FAILED (UTC)"),
        "{}",
        piped.stdout
    );
}

#[test]
fn named_events_are_requeued_and_a_refusal_stops_none_of_the_others() {
    let api = queue();
    let ran = run(&["dlq", "requeue", "a", "gone", "c", "--server", &api.url]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(1), "a is requeued: pending\nc is requeued: pending\n")
    );
    let told = "posthaste: gone: it is not failed (webhook_outbox_event_not_requeueable)\n";
    assert_eq!(ran.stderr, told);
    run(&["dlq", "requeue", "a", "--json", "--server", &api.url]).printed(&format!("{}\n", requeued("a")));
}

#[test]
fn all_are_requeued_although_nobody_reads_of_it() {
    let api = queue();
    let requeue = |ids: &[String], json: &[&str]| {
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let arguments = [&["dlq", "requeue", "--server", &api.url], json, &ids].concat();
        finish(posthaste(&arguments).stdout(writer))
    };
    let mut ids: Vec<_> = (0..60).map(|number| format!("q{number}")).collect();
    for json in [&[][..], &["--json"]] {
        let ran = requeue(&ids, json);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{json:?}");
    }
    assert_eq!(requeues(&api).len(), 120);
    ids.insert(0, "gone".to_owned());
    let ran = requeue(&ids, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("gone: it is not failed"), "{}", ran.stderr);
    assert_eq!(requeues(&api).len(), 181);
}

#[test]
fn all_are_requeued_page_by_page() {
    let api = queue();
    let ran = run(&["dlq", "requeue", "--all", "--yes", "--server", &api.url]);
    ran.printed("");
    assert_eq!(ran.stderr, "3 requeued, 1 had left the queue meanwhile.\n");
    let posts = ["a", "c", "d", "gone"].map(|id| format!("POST /v1/webhook-outbox/dlq/{id}/requeue"));
    assert_eq!(requeues(&api), posts);
}

#[test]
fn a_queue_that_never_ends_is_an_error_and_what_was_done_is_told() {
    let api = FakeApi::start(|asked, _| match asked.line.as_str() {
        line if line.starts_with("POST") => (200, requeued("a")),
        _ => (
            200,
            format!(
                r#"{{"events":[{}],"next_cursor":"c1","pending_count":0,"pending_ready_count":0,"retrying_count":0,"failed_count":1,"delivered_count":0}}"#,
                event("a", "failed", 6, "")
            ),
        ),
    });
    let ran = run(&["dlq", "requeue", "--all", "--yes", "--server", &api.url]);
    ran.refused(1, &["stopped after 2 events", "the server's list does not end"]);
}

#[test]
fn all_at_once_needs_a_yes_where_nobody_can_be_asked() {
    let api = queue();
    run(&["dlq", "requeue", "--all", "--server", &api.url]).refused(2, &["--yes", "4 events"]);
    assert_eq!(requeues(&api), [] as [&str; 0]);
}

#[test]
fn a_server_that_goes_away_ends_it_with_what_was_done() {
    let api = FakeApi::start(|asked, _| match asked.line.as_str() {
        line if line.starts_with("POST") => (503, error("unavailable", "the store does not answer")),
        _ => (
            200,
            format!(
                r#"{{"events":[{}],"pending_count":0,"pending_ready_count":0,"retrying_count":0,"failed_count":4,"delivered_count":0}}"#,
                event("a", "failed", 6, "")
            ),
        ),
    });
    let ran = run(&["dlq", "requeue", "--all", "--yes", "--server", &api.url]);
    ran.refused(1, &["stopped after 0 events", "the store does not answer (unavailable)"]);
}

//! `posthaste apps`, `endpoints`, `event-types` and `messages`: the requests that they send and what they print.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::child::{TIMEOUT, read_lines, wait_for_exit};
use crate::command::{directory, posthaste, run, run_with_input};
use crate::fake_api::FakeApi;

const APP: &str = r#"{"id":"app_0000000000000011","uid":"customer-17","name":"Customer 17","throttleRate":50,"rateLimit":50,"metadata":{"plan":"pro"},"createdAt":"2026-01-31T16:31:02Z","updatedAt":"2026-01-31T16:31:02Z"}"#;
const ENDPOINT: &str = r#"{"id":"ep_0000000000000012","uid":"billing","url":"https://shop.example/hooks","description":"Shop","disabled":true,"disabledReason":"gone","disabledAt":"2026-01-31T16:31:02Z","eventTypes":["invoice.paid"],"filterTypes":["invoice.paid"],"channels":null,"throttleRate":null,"rateLimit":null,"ordering":"fifo","metadata":{},"version":1,"createdAt":"2026-01-31T16:31:02Z","updatedAt":"2026-01-31T16:31:02Z"}"#;
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Returns the body of the only request with this line.
#[track_caller]
fn body_of(api: &FakeApi, line: &str) -> Value {
    let requests = api.requests();
    let mut found = requests.iter().filter(|request| request.line == line);
    let request = found.next().unwrap_or_else(|| panic!("{line} is not in {:?}", api.request_lines()));
    assert!(found.next().is_none(), "{line} was sent twice");
    serde_json::from_str(&request.body).unwrap()
}

#[test]
fn lists_are_tables_that_continue_at_the_iterator_and_json_is_unchanged() {
    let page = format!(
        r#"{{"data":[{APP}],"iterator":"app_0000000000000011","prevIterator":"-app_0000000000000011","done":false}}"#
    );
    let api = FakeApi::responding(200, &page);
    let output = run(&["apps", "list", "--limit", "1", "--server", &api.url]);
    let row = output.stdout.lines().nth(1).unwrap();
    for text in ["app_0000000000000011", "customer-17", "Customer 17", "50/s"] {
        assert!(row.contains(text), "{text}: {row}");
    }
    let more = "There are more applications: add --all, or --cursor 'app_0000000000000011'";
    assert!(output.stderr.contains(more), "{}", output.stderr);
    run(&["apps", "list", "--json", "--cursor", "app_01", "--server", &api.url])
        .assert_stdout(&format!("{page}\n"));
    assert_eq!(api.request_lines(), ["GET /api/v1/app?limit=1", "GET /api/v1/app?limit=50&iterator=app_01"]);
}

#[test]
fn the_last_page_has_an_iterator_and_still_ends_the_list() {
    let page = format!(
        r#"{{"data":[{ENDPOINT}],"iterator":"ep_0000000000000012","prevIterator":null,"done":true}}"#
    );
    let api = FakeApi::responding(200, &page);
    let output = run(&["endpoints", "list", "customer-17", "--all", "--server", &api.url]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    for text in ["disabled (gone)", "https://shop.example/hooks", "invoice.paid", "fifo"] {
        assert!(output.stdout.contains(text), "{text}: {}", output.stdout);
    }
    assert_eq!(api.request_lines(), ["GET /api/v1/app/customer-17/endpoint?limit=200"]);
}

#[test]
fn endpoints_have_the_state_that_operators_see_if_the_key_permits_it() {
    let enabled = |id: &str| {
        ENDPOINT.replace("0000000000000012", id).replace(r#""disabled":true,"disabledReason":"gone","#, "")
    };
    let page = format!(
        r#"{{"data":[{},{},{ENDPOINT}],"iterator":null,"prevIterator":null,"done":true}}"#,
        enabled("0000000000000011"),
        enabled("0000000000000010"),
    );
    let list = "GET /api/v1/app/customer-17/endpoint?limit=50";
    let destinations = page.clone();
    let api = FakeApi::start(move |request, _| match request.line.as_str() {
        "GET /v1/webhook-outbox/destinations/17" => (
            200,
            r#"{"destination_id":"17","url":"https://shop.example/hooks","state":"circuit_open"}"#.to_owned(),
        ),
        "GET /v1/webhook-outbox/destinations/16" => {
            (200, r#"{"destination_id":"16","url":"https://shop.example/hooks","state":"ok"}"#.to_owned())
        }
        _ => (200, destinations.clone()),
    });
    let shown = run(&["endpoints", "list", "customer-17", "--server", &api.url]).stdout;
    let states = ["circuit open", "ok", "disabled (gone)"];
    for (row, state) in shown.lines().skip(1).zip(states) {
        assert!(row.contains(&format!("  {state}  ")), "{state}: {row}");
    }
    let requested = ["17", "16"].map(|id| format!("GET /v1/webhook-outbox/destinations/{id}"));
    assert_eq!(api.request_lines(), [list, &requested[0], &requested[1]]);

    let api = FakeApi::start(move |request, _| match request.line.starts_with("GET /api/v1/") {
        true => (200, page.clone()),
        false => (403, r#"{"error":{"code":"forbidden","message":"not for producers"}}"#.to_owned()),
    });
    let output = run(&["endpoints", "list", "customer-17", "--server", &api.url]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert_eq!(output.stdout.matches("  enabled  ").count(), 2, "{}", output.stdout);
    assert_eq!(
        api.request_lines(),
        [list, &requested[0]],
        "one request learns that the key has no permission"
    );
}

#[test]
fn a_new_application_is_posted_under_a_key_of_its_own() {
    let api = FakeApi::responding(201, APP);
    let add =
        ["apps", "add", "Customer 17", "--uid", "customer-17", "--throttle", "50", "--metadata", "plan=pro"];
    run(&[&add[..], &["--server", &api.url]].concat()).assert_stdout("app_0000000000000011\n");
    let expected = json!({ "name": "Customer 17", "uid": "customer-17", "throttleRate": 50, "metadata": { "plan": "pro" } });
    assert_eq!(body_of(&api, "POST /api/v1/app"), expected);
    assert!(api.requests()[0].header("idempotency-key").is_some_and(|key| key.len() == 32));
}

#[test]
fn a_lost_answer_is_requested_again_under_the_same_key() {
    let api =
        FakeApi::start(|_, earlier| if earlier == 0 { (0, String::new()) } else { (201, APP.to_owned()) });
    run(&["apps", "add", "Customer 17", "--server", &api.url]).assert_stdout("app_0000000000000011\n");
    let keys: Vec<_> =
        api.requests().iter().map(|request| request.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0].is_some(), "{keys:?}");
}

#[test]
fn errors_of_the_registry_name_the_field_and_are_bad_usage() {
    let api = FakeApi::responding(
        422,
        r#"{"detail":[{"loc":["body","eventTypes"],"msg":"\"a\" is not registered","type":"value_error"}]}"#,
    );
    let add = [
        "endpoints",
        "add",
        "customer-17",
        "https://shop.example/hooks",
        "--type",
        "a",
        "--server",
        &api.url,
    ];
    run(&add).assert_failure(2, &["body.eventTypes: \"a\" is not registered (validation)"]);
    let api = FakeApi::responding(404, r#"{"code":"not_found","detail":"there is no application \"x\""}"#);
    let output = run(&["apps", "show", "x", "--server", &api.url]);
    output.assert_failure(1, &["posthaste: there is no application \"x\" (not_found)\n"]);
}

#[test]
fn secrets_and_headers_of_an_endpoint_come_from_files() {
    let files = directory("registry");
    let (secret, headers) = (files.join("secret"), files.join("headers"));
    fs::write(&secret, format!("{SECRET}\n")).unwrap();
    fs::write(&headers, "X-Region: eu\n").unwrap();
    let api = FakeApi::responding(201, ENDPOINT);
    let output = run(&[
        "endpoints",
        "add",
        "customer-17",
        "https://shop.example/hooks",
        "--fifo",
        "--channel",
        "room-1",
        "--secret-file",
        secret.to_str().unwrap(),
        "--header-file",
        headers.to_str().unwrap(),
        "--server",
        &api.url,
    ]);
    output.assert_stdout("ep_0000000000000012\n");
    assert!(
        output.stderr.contains("posthaste endpoints secret customer-17 ep_0000000000000012"),
        "{}",
        output.stderr
    );
    let expected = json!({
        "url": "https://shop.example/hooks", "ordering": "fifo", "channels": ["room-1"], "secret": SECRET,
        "headers": { "X-Region": "eu" },
    });
    assert_eq!(body_of(&api, "POST /api/v1/app/customer-17/endpoint"), expected);
}

#[test]
fn an_endpoint_is_changed_enabled_and_deleted_by_its_path() {
    let api = FakeApi::responding(200, ENDPOINT);
    let run_on = |arguments: &[&str]| {
        run(&[&["endpoints"], arguments, &["customer-17", "billing", "--server", &api.url]].concat())
    };
    run_on(&["update"]).assert_failure(2, &["name a field to change"]);
    assert!(api.requests().is_empty());
    let line = "PATCH /api/v1/app/customer-17/endpoint/billing";
    run_on(&["update", "--all-types", "--no-throttle", "--any-order"])
        .assert_stdout("ep_0000000000000012 is changed\n");
    assert_eq!(body_of(&api, line), json!({ "eventTypes": null, "throttleRate": null, "ordering": "any" }));
    let output = run_on(&["enable"]);
    output.assert_stdout("ep_0000000000000012 is enabled: the messages that it held are sent now\n");
    assert_eq!(api.requests()[1].body, r#"{"disabled":false}"#);
    run_on(&["delete"]).assert_failure(2, &["add --yes to delete the endpoint billing"]);
    run_on(&["delete", "--yes"]).assert_stdout("billing is deleted\n");
    assert_eq!(api.request_lines().last().unwrap(), "DELETE /api/v1/app/customer-17/endpoint/billing");
}

#[test]
fn rotate_prints_the_new_secret_and_when_the_old_one_retires() {
    let api = FakeApi::responding(200, &format!(r#"{{"key":"{SECRET}"}}"#));
    let rotate = ["endpoints", "rotate", "customer-17", "billing", "--grace", "60", "--server", &api.url];
    let output = run(&rotate);
    output.assert_stdout(&format!("{SECRET}\n"));
    assert!(output.stderr.contains("retires in 60 s"), "{}", output.stderr);
    let line = "POST /api/v1/app/customer-17/endpoint/billing/secret/rotate";
    assert_eq!(body_of(&api, line), json!({ "gracePeriodSeconds": 60 }));
    run(&["endpoints", "secret", "customer-17", "billing", "--server", &api.url])
        .assert_stdout(&format!("{SECRET}\n"));
}

#[test]
fn publish_sends_the_payload_byte_for_byte() {
    let message = r#"{"id":"msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b","eventType":"invoice.paid","payload":{},"timestamp":"2026-01-31T16:31:02Z"}"#;
    let api = FakeApi::responding(202, message);
    let publish = [
        "messages",
        "publish",
        "customer-17",
        "--type",
        "invoice.paid",
        "--file",
        "-",
        "--tag",
        "a",
        "--server",
        &api.url,
    ];
    run_with_input(&publish, "{\"amount\": 1.50}\n").assert_stdout("msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b\n");
    let body = &api.requests()[0].body;
    assert_eq!(body, r#"{"eventType":"invoice.paid","payload":{"amount": 1.50},"tags":["a"]}"#);
    run(&["messages", "publish", "customer-17", "--type", "a", "--data", "{", "--server", &api.url])
        .assert_failure(2, &["the payload is not JSON"]);
}

#[test]
fn a_message_is_shown_with_its_endpoints_and_attempts() {
    let api = FakeApi::start(|request, _| {
        let body = if request.line.contains("/attempt/msg/") {
            r#"{"data":[{"id":"atmpt_1","msgId":"msg_1","endpointId":"ep_12","url":"https://shop.example/hooks","response":"try later","responseStatusCode":503,"responseDurationMs":12,"status":2,"statusText":"fail","triggerType":0,"timestamp":"2026-01-31T16:31:02Z"}],"iterator":"atmpt_1","prevIterator":null,"done":true}"#.to_owned()
        } else if request.line.ends_with("/endpoint") {
            let sending =
                ENDPOINT.replace(r#""version":1"#, r#""status":3,"statusText":"sending","nextAttempt":null"#);
            format!(r#"{{"data":[{sending}],"iterator":null,"prevIterator":null,"done":true}}"#)
        } else {
            r#"{"id":"msg_1","eventId":"invoice-17","eventType":"invoice.paid","payload":{"a":1},"timestamp":"2026-01-31T16:31:02Z"}"#.to_owned()
        };
        (200, body)
    });
    let output = run(&["messages", "show", "customer-17", "invoice-17", "--server", &api.url]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    for text in ["invoice-17", "sending", "ep_0000000000000012", "503", "try later", "12 ms"] {
        assert!(output.stdout.contains(text), "{text}: {}", output.stdout);
    }
    let path = "GET /api/v1/app/customer-17";
    let expected = ["msg/invoice-17", "msg/invoice-17/endpoint", "attempt/msg/invoice-17"];
    assert_eq!(api.request_lines(), expected.map(|rest| format!("{path}/{rest}")));
}

#[test]
fn recover_prints_the_operation_and_how_to_follow_it() {
    let api = FakeApi::start(|request, _| {
        match request.line.starts_with("POST") {
        true => (202, r#"{"id":"qtask_1","status":"running","task":"endpoint.recover","updatedAt":"2026-01-31T16:31:02Z"}"#.to_owned()),
        false => (200, r#"{"id":"qtask_1","status":"running","task":"endpoint.recover","updatedAt":"2026-01-31T16:31:02Z","data":{"appId":"app_1","endpointId":"ep_12","since":"2026-01-31T11:00:00Z","until":"2026-01-31T12:00:00Z","examined":30,"sent":7,"ratePerSecond":100,"state":"running","createdAt":"2026-01-31T16:31:02Z"}}"#.to_owned()),
    }
    });
    let since = "2026-01-31T11:00:00Z";
    let output =
        run(&["endpoints", "recover", "customer-17", "billing", "--since", since, "--server", &api.url]);
    output.assert_stdout("qtask_1\n");
    assert!(output.stderr.contains("posthaste endpoints operation qtask_1"), "{}", output.stderr);
    assert_eq!(
        body_of(&api, "POST /api/v1/app/customer-17/endpoint/billing/recover"),
        json!({ "since": since })
    );
    let shown = run(&["endpoints", "operation", "qtask_1", "--server", &api.url]).stdout;
    for text in ["running", "ep_12", "30", "100/s at most"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn an_event_type_is_registered_with_its_schemas_and_archived() {
    let file = directory("registry").join("schemas.json");
    fs::write(&file, r#"{"1":{"type":"object"}}"#).unwrap();
    let api = FakeApi::responding(201, r#"{"name":"invoice.paid","description":"","archived":false}"#);
    let add =
        ["event-types", "add", "invoice.paid", "--schema-file", file.to_str().unwrap(), "--server", &api.url];
    run(&add).assert_stdout("invoice.paid is registered\n");
    let expected =
        json!({ "name": "invoice.paid", "description": "", "schemas": { "1": { "type": "object" } } });
    assert_eq!(body_of(&api, "POST /api/v1/event-type"), expected);
    run(&["event-types", "archive", "invoice.paid", "--server", &api.url])
        .assert_stdout("invoice.paid is archived\n");
}

/// The receiver registers itself, checks signatures with its own secret, and deletes itself when it is interrupted.
#[test]
fn listen_registers_itself_as_an_endpoint_and_deletes_itself_at_the_end() {
    let api = FakeApi::start(|request, _| match request.line.as_str() {
        "POST /api/v1/app/customer-17/endpoint" => (201, ENDPOINT.to_owned()),
        "GET /api/v1/app/customer-17/endpoint/ep_0000000000000012/secret" => {
            (200, format!(r#"{{"key":"{SECRET}"}}"#))
        }
        _ => (204, String::new()),
    });
    let listen = [
        "listen",
        "--port",
        "0",
        "--register",
        "customer-17",
        "--type",
        "invoice.paid",
        "--server",
        &api.url,
    ];
    let mut receiver = posthaste(&listen).spawn().unwrap();
    let notes = read_lines(receiver.stderr.take().unwrap());
    let first = notes.recv_timeout(TIMEOUT).unwrap();
    assert!(first.contains("as endpoint ep_0000000000000012 of customer-17"), "{first}");
    let body = body_of(&api, "POST /api/v1/app/customer-17/endpoint");
    assert_eq!(body["eventTypes"], json!(["invoice.paid"]));
    let url = body["url"].as_str().unwrap();
    assert!(first.contains(url), "{first}");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    assert!(TcpListener::bind(address).is_err(), "it listens at the URL that it registered");
    let id = receiver.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert!(wait_for_exit(&mut receiver).success());
    assert_eq!(notes.iter().last().as_deref(), Some("Deleted ep_0000000000000012."));
    let last = api.request_lines().pop().unwrap();
    assert_eq!(last, "DELETE /api/v1/app/customer-17/endpoint/ep_0000000000000012");
}

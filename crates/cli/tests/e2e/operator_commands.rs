//! Operator commands and the development receiver against a running service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::{Event, ProcessExit, Receiver, Reply, SECRET, Sandbox, Service, wait_until};

on_each_store! {
    dead_letter_is_found_and_requeued_with_commands,
    operator_sees_and_lifts_what_holds_events_back,
    development_receiver_gets_the_requests_of_a_service,
}

/// Runs a command against the API of a service.
#[track_caller]
fn run_on(sandbox: &Sandbox, service: &Service, arguments: &[&str]) -> ProcessExit {
    let server = format!("http://{}", service.address);
    let exit = sandbox.run(&[arguments, &["--server", &server]].concat());
    assert_eq!(exit.code, Some(0), "{arguments:?}: {}", exit.stderr);
    exit
}

#[track_caller]
fn run_json_on(sandbox: &Sandbox, service: &Service, arguments: &[&str]) -> Value {
    serde_json::from_str(&run_on(sandbox, service, &[arguments, &["--json"]].concat()).stdout).unwrap()
}

fn dead_letter_is_found_and_requeued_with_commands(sandbox: Sandbox) {
    let receiver = Receiver::scripted(|_, earlier| Reply::Status(if earlier < 2 { 410 } else { 200 }));
    let service = sandbox.serve();
    let send = ["send", "--url", &receiver.url(), "--type", "invoice.paid", "--data", r#"{"invoice": 1.50}"#];
    let [requeued, cancelled] = [0, 1].map(|_| {
        let event_id = run_on(&sandbox, &service, &send).stdout.trim_end().to_owned();
        service.wait_until_failed(&event_id);
        event_id
    });
    let listed = run_json_on(&sandbox, &service, &["dlq", "list"]);
    let ids: Vec<_> = listed["events"].as_array().unwrap().iter().map(|event| &event["event_id"]).collect();
    assert_eq!(ids, [&cancelled, &requeued]);
    let table = run_on(&sandbox, &service, &["dlq", "list"]).stdout;
    assert!(table.contains(&requeued) && table.contains("HTTP 410"), "{table}");

    run_on(&sandbox, &service, &["dlq", "requeue", &requeued]);
    service.wait_until_delivered(&requeued);
    run_on(&sandbox, &service, &["events", "cancel", &cancelled, "--reason", "closed account"]);
    let event = run_json_on(&sandbox, &service, &["events", "show", &cancelled]);
    assert_eq!(event["last_error"], "manual_cancelled: closed account");
    let overview = run_json_on(&sandbox, &service, &["overview"]);
    assert_eq!((&overview["delivered_count"], &overview["failed_count"]), (&json!(1), &json!(1)));

    let waited = run_on(&sandbox, &service, &[&send[..], &["--wait"]].concat());
    assert!(waited.stdout.starts_with("msg_"), "{}", waited.stdout);
    service.stop();
    assert_eq!(receiver.requests().len(), 4);
    assert_eq!(receiver.requests()[0].body, r#"{"invoice": 1.50}"#, "the payload was changed");
}

fn operator_sees_and_lifts_what_holds_events_back(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries();
    let is_up = Arc::new(AtomicBool::new(false));
    let script = Arc::clone(&is_up);
    let receiver =
        Receiver::scripted(move |_, _| Reply::Status(if script.load(Ordering::SeqCst) { 200 } else { 503 }));
    let service = sandbox.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 30]);
    let destination_id = wait_until("the open circuit is listed", || {
        let list = ["destinations", "list", "--state", "circuit_open"];
        let listed = run_json_on(&sandbox, &service, &list);
        listed["destinations"][0]["destination_id"].as_str().map(str::to_owned)
    });
    let shown = run_on(&sandbox, &service, &["destinations", "show", &destination_id]).stdout;
    assert!(shown.contains("circuit_open") && shown.contains("HTTP 503"), "{shown}");
    is_up.store(true, Ordering::SeqCst);
    run_on(&sandbox, &service, &["destinations", "resume", &destination_id]);
    event_ids.iter().for_each(|event_id| drop(service.wait_until_delivered(event_id)));

    run_on(&sandbox, &service, &["destinations", "pause", &destination_id, "--reason", "new disks"]);
    let held = service.enqueue(&Event::to(&receiver));
    run_on(&sandbox, &service, &["events", "cancel", &held]);
    let requeued = run_on(&sandbox, &service, &["dlq", "requeue", &held]);
    let advice = format!("`posthaste destinations resume {destination_id}` sends it now");
    assert!(requeued.stderr.contains(&advice), "{}", requeued.stderr);
    assert_eq!(run_json_on(&sandbox, &service, &["overview"])["held_count"], 1);
    let explanation = service.event(&held)["explanation"].as_str().unwrap().to_owned();
    assert!(explanation.contains("paused") && explanation.contains("new disks"), "{explanation}");
    run_on(&sandbox, &service, &["destinations", "resume", &destination_id]);
    service.wait_until_delivered(&held);
    service.stop();
}

fn development_receiver_gets_the_requests_of_a_service(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries();
    let listener = sandbox.start(&["listen", "--port", "0", "--fail", "1", "--json", "--secret", SECRET]);
    let url = listener.wait_for_output("its URL", |output| {
        let (_, url) = output.lines.iter().find_map(|line| line.text.split_once("http://"))?;
        Some(format!("http://{}", url.split_whitespace().next()?))
    });
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to_url(&url).with_payload(r#"{"invoice":17}"#));
    service.wait_until_delivered(&event_id);
    listener.signal("INT");
    let exit = listener.wait_for_exit();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let received: Vec<Value> = exit.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let requests: Vec<_> = received
        .iter()
        .map(|line| (&line["verified"], &line["attempt"], &line["status"], &line["event_id"]))
        .collect();
    let (id, verified) = (json!(event_id), json!(true));
    let expected = [(&verified, &json!(1), &json!(500), &id), (&verified, &json!(2), &json!(200), &id)];
    assert_eq!(requests, expected);
    service.stop();
}

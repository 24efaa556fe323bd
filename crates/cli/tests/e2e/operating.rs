//! The commands of the terminal against a service, and the page.

use serde_json::{Value, json};

use crate::stage::{Ended, Event, Home, Receiver, Reply, SECRET, Service};

on_each_store! {
    a_dead_letter_is_found_and_repaired_from_the_terminal,
    the_receiver_for_development_gets_what_the_service_sends,
}

/// A command that talks to the service.
#[track_caller]
fn ask(home: &Home, service: &Service, arguments: &[&str]) -> Ended {
    let server = format!("http://{}", service.address);
    let ended = home.run(&[arguments, &["--server", &server]].concat());
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    ended
}

#[track_caller]
fn ask_json(home: &Home, service: &Service, arguments: &[&str]) -> Value {
    serde_json::from_str(&ask(home, service, &[arguments, &["--json"]].concat()).stdout).unwrap()
}

fn a_dead_letter_is_found_and_repaired_from_the_terminal(home: Home) {
    let receiver = Receiver::scripted(|_, before| Reply::Status(if before < 2 { 410 } else { 200 }));
    let service = home.serve();
    let sending =
        ["send", "--url", &receiver.url(), "--type", "invoice.paid", "--data", r#"{"invoice": 1.50}"#];
    let [repaired, given_up] = [0, 1].map(|_| {
        let event_id = ask(&home, &service, &sending).stdout.trim_end().to_owned();
        service.failed(&event_id);
        event_id
    });
    let listed = ask_json(&home, &service, &["dlq", "list"]);
    let ids: Vec<_> = listed["events"].as_array().unwrap().iter().map(|letter| &letter["event_id"]).collect();
    assert_eq!(ids, [&given_up, &repaired]);
    let table = ask(&home, &service, &["dlq", "list"]).stdout;
    assert!(table.contains(&repaired) && table.contains("HTTP 410"), "{table}");

    ask(&home, &service, &["dlq", "requeue", &repaired]);
    service.delivered(&repaired);
    ask(&home, &service, &["events", "cancel", &given_up, "--reason", "closed account"]);
    let shown = ask_json(&home, &service, &["events", "show", &given_up]);
    assert_eq!(shown["last_error"], "manual_cancelled: closed account");
    let overview = ask_json(&home, &service, &["overview"]);
    assert_eq!((&overview["delivered_count"], &overview["failed_count"]), (&json!(1), &json!(1)));

    let waited = ask(&home, &service, &[&sending[..], &["--wait"]].concat());
    assert!(waited.stdout.starts_with("msg_"), "{}", waited.stdout);
    service.stop();
    assert_eq!(receiver.requests().len(), 4);
    assert_eq!(receiver.requests()[0].body, r#"{"invoice": 1.50}"#, "as it was spelled");
}

fn the_receiver_for_development_gets_what_the_service_sends(home: Home) {
    let home = home.with_fast_retries();
    let listening = home.start(&["listen", "--port", "0", "--fail", "1", "--json", "--secret", SECRET]);
    let url = listening.printed("where it listens", |output| {
        let (_, url) = output.lines.iter().find_map(|line| line.text.split_once("http://"))?;
        Some(format!("http://{}", url.split_whitespace().next()?))
    });
    let service = home.serve();
    let event_id = service.enqueue(&Event::to_url(&url).payload(r#"{"invoice":17}"#));
    service.delivered(&event_id);
    listening.signal("INT");
    let ended = listening.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let received: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = received
        .iter()
        .map(|one| (&one["verified"], &one["attempt"], &one["status"], &one["event_id"]))
        .collect();
    let (id, yes) = (json!(event_id), json!(true));
    assert_eq!(told, [(&yes, &json!(1), &json!(500), &id), (&yes, &json!(2), &json!(200), &id)]);
    service.stop();
}

//! README's tour and its repair by hand, run as they are written.

use crate::child::send_request;
use crate::document::{read, section};
use crate::runner::{DocumentRunner, Step, steps};

#[test]
fn the_tour_runs_as_it_is_written() {
    let tour = section(&read("README.md"), "A tour in five minutes");
    let mut runner = DocumentRunner::new();
    for step in steps(&tour) {
        runner.run_step(&step);
    }
    for url in server_links(&tour) {
        let response = get(&runner.with_real_addresses(&url));
        assert!(response.starts_with("HTTP/1.1 200 "), "{url}: {response}");
    }
}

/// An edit of README must not remove these parts of the tour.
#[test]
fn the_tour_shows_a_delivery_a_retry_a_dead_letter_and_its_repair() {
    let steps = steps(&section(&read("README.md"), "A tour in five minutes"));
    let has_output = |terminal: u8, text: &str| {
        steps.iter().any(|step| step.terminal == terminal && step.output.contains(text))
    };
    let has_command = |text: &str| steps.iter().any(|step| step.commands.contains(text));
    for command in [
        "posthaste serve",
        "posthaste listen",
        "posthaste send",
        "--fail",
        "posthaste dlq list",
        "posthaste dlq requeue",
    ] {
        assert!(has_command(command), "{command}");
    }
    for (terminal, text) in [
        (2, "verified · invoice.paid"),
        (3, "delivered after 1 attempt"),
        (2, "attempt 2 · responded 500"),
        (3, "failed after 2 attempts"),
        (3, "exhausted"),
        (2, "attempt 1 · responded 200"),
        (3, "Delivered at"),
    ] {
        assert!(has_output(terminal, text), "terminal {terminal}: {text}");
    }
}

#[test]
fn s2_fr006_ac2_readme_shows_the_manual_workflow_as_it_works() {
    let repair = section(&read("README.md"), "Repair by hand");
    let mut runner = DocumentRunner::new();
    runner.start(1, "posthaste serve --max-retry-attempts 0");
    runner.start(2, "posthaste listen --port 8700 --status 503");
    for id in ["invoice-18", "invoice-19"] {
        let send = "posthaste send --url http://127.0.0.1:8700/ --type invoice.paid --data '{}' --wait";
        let send = runner.with_real_addresses(&format!("{send} --event-id {id} || true"));
        runner.run_to_end(&send, "failed after 1 attempt");
    }
    let steps = steps(&repair);
    for step in &steps {
        runner.run_step(step);
    }
    let commands: String = steps.iter().map(|step: &Step| step.commands.as_str()).collect();
    for command in
        ["posthaste dlq list", "posthaste events show", "posthaste dlq requeue", "posthaste events cancel"]
    {
        assert!(commands.contains(command), "{command} is not in the section");
    }
    for text in [
        "webhook_outbox_event_not_requeueable",
        "webhook_outbox_event_not_cancellable",
        "`POST /v1/webhook-outbox/dlq/{event_id}/requeue`",
        "`POST /v1/webhook-outbox/events/{event_id}/cancel`",
        "manual_cancelled: refunded by hand",
        "1 to 200",
    ] {
        assert!(repair.contains(text), "{text} is not in the section");
    }
}

/// Returns the URLs of the server to which a text links.
fn server_links(text: &str) -> Vec<String> {
    let urls = text.split("<http://127.0.0.1:8600").skip(1).filter_map(|rest| rest.split('>').next());
    let urls: Vec<_> = urls.map(|path| format!("http://127.0.0.1:8600{path}")).collect();
    assert!(!urls.is_empty(), "the tour links to no page of the server");
    urls
}

fn get(url: &str) -> String {
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    send_request(address, &request)
}
